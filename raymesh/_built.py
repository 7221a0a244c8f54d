"""Says what to do where the extension is not there. Imported before all that needs it."""

from __future__ import annotations

try:
    from raymesh import _native as _native
except ImportError:
    import importlib.util
    import os
    import platform

    if importlib.util.find_spec("raymesh._native") is not None:
        raise  # it is there, and says itself why it does not load
    raise ImportError(
        f"{os.path.dirname(__file__)} has no extension for Python {platform.python_version()}.\n"
        "hint: to use the raymesh that is installed, start Python in another folder than the source "
        "tree; to use the source tree, run `make build`, and start .venv/bin/python.",
        name="raymesh._native",
    ) from None
