"""Values of options."""

from __future__ import annotations

import json
from typing import Any

import click


def json_object(option: str, text: str) -> dict[str, Any]:
    """What an option that takes a JSON object was given. Raises click.BadParameter if it is none."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"is no JSON: {error}", param_hint=option) from None
    if not isinstance(value, dict):
        raise click.BadParameter("must be a JSON object", param_hint=option)
    return value
