"""Methods that every actor has, named as in Ray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def __ray_ready__(self: Any) -> bool:
    """Answers once the constructor has run."""
    return True


def __ray_call__(self: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function`` with the actor's instance as its first argument."""
    return function(self, *args, **kwargs)


def __ray_terminate__(self: Any) -> None:
    """End the actor after the calls before this one."""
    from raymesh.actor import exit_actor

    exit_actor()
