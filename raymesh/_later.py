"""Ray's names that raymesh does not have yet, and how it says so.

Only names whose absence changes what a program does raise; what merely tunes is accepted. A name
leaves this list when it becomes real.
"""

from __future__ import annotations

from typing import Any, NoReturn


def not_yet(what: str, hint: str) -> NotImplementedError:
    """The error that says that `what` is missing and what to do instead."""
    return NotImplementedError(f"{what} is not in raymesh yet.\nhint: {hint}.")


_JOIN = "use init(address=...) with the string that `raymesh start --head` prints"

_FUNCTIONS = {
    "cancel": "let the task end, or end an actor with kill()",
    "timeline": "measure with time.perf_counter() in the tasks for now",
    "client": _JOIN,
    "java_function": "only Python runs on raymesh",
    "java_actor_class": "only Python runs on raymesh",
    "cpp_function": "only Python runs on raymesh",
}
_CLASSES = {
    "ClientBuilder": _JOIN,
    "ObjectRefGenerator": "return a list, or use num_returns=n",
    "DynamicObjectRefGenerator": "return a list, or use num_returns=n",
}
UTIL_FUNCTIONS = {
    "connect": "use init()",
    "disconnect": "use shutdown()",
    "register_serializer": "define __reduce__ on the class, or use copyreg.pickle()",
    "deregister_serializer": "define __reduce__ on the class, or use copyreg.pickle()",
}


_NO_ATTRIBUTE = {
    "raymesh": (
        frozenset({"data", "train", "tune", "serve", "rllib", "dag", "workflow"}),
        "Ray's libraries do not run on raymesh yet, only Ray Core: tasks, actors and objects",
    ),
    "raymesh.util": (
        frozenset({"ActorPool", "actor_pool", "queue", "collective", "multiprocessing", "state"}),
        "it is not in raymesh yet; tasks, actors, get() and wait() are what such helpers are made of",
    ),
}
"""Names that `hasattr` must not find, with what to say about them."""


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that a module of raymesh does not have."""
    text = f"module {module!r} has no attribute {name!r}"
    names, hint = _NO_ATTRIBUTE[module]
    return AttributeError(f"{text}.\nhint: {hint}." if name in names else text, name=name)


def find(name: str) -> Any:
    """A stand-in for `raymesh.<name>` that raises when it is used; None for unknown names."""
    if name in _FUNCTIONS:
        return function(name, _FUNCTIONS[name])
    if name in _CLASSES:
        return _stand_in_class(name, _CLASSES[name])
    return None


def function(name: str, hint: str) -> Any:
    """A function that raises when it is called."""

    def missing(*args: Any, **kwargs: Any) -> NoReturn:
        raise not_yet(f"{name}()", hint)

    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = "Not in raymesh yet."
    return missing


def _stand_in_class(name: str, hint: str) -> type:
    # A class, so that isinstance() checks of programs answer False.
    def __init__(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise not_yet(name, hint)

    return type(name, (), {"__init__": __init__, "__module__": "raymesh", "__doc__": hint})
