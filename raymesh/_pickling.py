"""Remote functions and classes to bytes, with errors that name what cannot be pickled.

`dump_definition` is run once for each function and class. `culprits` finds, inside a value that
does not pickle, the innermost parts that do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

_LARGE = 10 << 20
"""Bytes of a pickled definition above which the user is told what it drags along."""

_DEPTH, _PARTS = 6, 2000
"""How deep, and over how many parts, the search goes."""


class Part(NamedTuple):
    """A part of a value: how it is reached, and what it is."""

    path: str
    value: Any


def dump_definition(definition: Any, what: str, name: str) -> bytes:
    """The pickled definition. `what` is "function" or "actor class"."""
    from raymesh import _sources, cloudpickle

    try:
        with _sources.as_in_driver(definition.__module__):
            data: bytes = cloudpickle.dumps(definition, protocol=5)
    except TypeError as error:
        raise TypeError(
            f"Could not serialize the {what} {name}: {error}\n{explain(definition)}"
        ) from error
    except Exception as error:
        note_culprits(definition, error)
        raise
    if len(data) > _LARGE:
        _warn_large(definition, what, name, len(data))
    return data


def explain(value: Any, name: str = "value") -> str:
    """Lines that name the parts of `value` that do not pickle, and what to do."""
    found = culprits(value, name)
    lines = [
        f"  {part.path} = {_short(part.value)}  ({type(part.value).__qualname__})" for part in found
    ]
    if lines:
        lines.insert(0, "These parts of it cannot be pickled:")
    hint = "create such objects inside the function or actor that uses them, or define __reduce__"
    return "\n".join([*lines, f"hint: {hint}."])


def not_serializable(value: Any, what: str, error: BaseException) -> TypeError:
    """The error for a value that does not pickle. `what` is "value", "result", "argument 'n'"."""
    text = f"Could not serialize the {what} {_short(value)}: {error}"
    return TypeError(f"{text}\n{explain(value, what)}")


def argument_at_fault(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> tuple[Any, str]:
    """The first argument of a call that does not pickle, and what to call it."""
    named: dict[str, Any] = {f"argument {place}": arg for place, arg in enumerate(args)}
    named |= {f"argument {name!r}": arg for name, arg in (kwargs or {}).items()}
    for what, value in named.items():
        if not _pickles(value):
            return value, what
    return (args, kwargs), "arguments"


def note_culprits(value: Any, error: Exception) -> None:
    """Adds to `error`, which pickling raised, what `explain` says."""
    if hasattr(error, "add_note"):  # not in Python 3.10
        error.add_note(explain(value))


def culprits(value: Any, name: str = "value") -> list[Part]:
    """The innermost parts of `value` that do not pickle; itself if none of its parts is at fault."""
    budget = [_PARTS]

    def search(part: Part, depth: int, seen: frozenset[int]) -> list[Part]:
        if depth == 0 or budget[0] <= 0:
            return [part]
        found: list[Part] = []
        for child in _parts(part):
            budget[0] -= 1
            if id(child.value) in seen or _pickles(child.value):
                continue
            found += search(child, depth - 1, seen | {id(child.value)})
        return found or [part]

    if _pickles(value):
        return []
    start = Part(getattr(value, "__qualname__", name), value)
    unique = {id(part.value): part for part in search(start, _DEPTH, frozenset({id(value)}))}
    return list(unique.values())


def _pickles(value: Any) -> bool:
    from raymesh import cloudpickle

    try:
        cloudpickle.dumps(value, protocol=5)
    except Exception:
        return False
    return True


def _parts(part: Part) -> Iterator[Part]:
    path, value = part
    if isinstance(value, FunctionType):
        yield from _captured(path, value)
    elif isinstance(value, type):
        hidden = ("__dict__", "__weakref__")
        members = [(name, item) for name, item in vars(value).items() if name not in hidden]
        yield from (Part(f"{path}.{name}", item) for name, item in members)
    elif isinstance(value, (staticmethod, classmethod)):
        yield Part(path, value.__func__)
    elif isinstance(value, dict):
        yield from (Part(f"{path}[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from (Part(f"{path}[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from (Part(f"an item of {path}", item) for item in value)
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from (Part(f"{path}.{name}", item) for name, item in vars(value).items())


def _captured(path: str, function: FunctionType) -> Iterator[Part]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield Part(f"{name} (a variable around {path})", cell.cell_contents)
        except ValueError:
            continue
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield Part(f"{name} (a global that {path} uses)", function.__globals__[name])
    for index, default in enumerate(function.__defaults__ or ()):
        yield Part(f"default {index} of {path}", default)


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _warn_large(definition: Any, what: str, name: str, size: int) -> None:
    from raymesh import cloudpickle
    from raymesh._logging import logger

    sizes: list[tuple[int, str]] = []
    for part in _parts(Part(name, definition)):
        try:
            sizes.append((len(cloudpickle.dumps(part.value, protocol=5)), part.path))
        except Exception:
            continue
    largest, path = max(sizes, default=(0, "what it captures"))
    logger().warning(
        "The %s %s takes %.1f MiB when pickled, %.1f MiB of them for %s. "
        "Pass large objects as arguments: ref = ray.put(obj); f.remote(ref).",
        what,
        name,
        size / (1 << 20),
        largest / (1 << 20),
        path,
    )


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= 80 else text[:77] + "..."
