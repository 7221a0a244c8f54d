"""What a function can be called with, checked where it is called, without running `inspect`.

`Signature.of(function)` reads the code object; only a function that says it has another signature
than its code (a decorator with `functools.wraps`) is asked by way of `inspect`. A signature is
made of strings and numbers: it travels with the handle of an actor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

_VARARGS, _VARKEYWORDS = 0x04, 0x08


class Signature(NamedTuple):
    """The parameters of a function, as far as binding arguments to them goes."""

    positional: tuple[str, ...]
    """Parameters that take a positional argument, in order."""
    only: int
    """How many of these take no keyword."""
    required: int
    """How many of these have no default."""
    varargs: bool
    keyword_only: tuple[str, ...]
    keyword_required: tuple[str, ...]
    varkw: bool

    @classmethod
    def of(cls, function: Any, *, skip: int = 0) -> Signature:
        """The signature of a function without its first `skip` parameters (`self`)."""
        wrapped = getattr(function, "__wrapped__", None) is not None
        if wrapped or hasattr(function, "__signature__") or not isinstance(function, FunctionType):
            return cls._inspected(function, skip)
        code: CodeType = function.__code__
        names = code.co_varnames
        count = code.co_argcount
        keyword_only = names[count : count + code.co_kwonlyargcount]
        keyword_defaults = function.__kwdefaults__ or {}
        required = count - len(function.__defaults__ or ())
        return cls(
            positional=names[skip:count],
            only=max(code.co_posonlyargcount - skip, 0),
            required=max(required - skip, 0),
            varargs=bool(code.co_flags & _VARARGS),
            keyword_only=keyword_only,
            keyword_required=tuple(n for n in keyword_only if n not in keyword_defaults),
            varkw=bool(code.co_flags & _VARKEYWORDS),
        )

    @classmethod
    def _inspected(cls, function: Any, skip: int) -> Signature:
        import inspect

        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return ANYTHING
        kinds = inspect.Parameter
        places = [
            p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ]
        places = places[skip:]
        keywords = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]
        return cls(
            positional=tuple(p.name for p in places),
            only=sum(p.kind is kinds.POSITIONAL_ONLY for p in places),
            required=sum(p.default is kinds.empty for p in places),
            varargs=any(p.kind is kinds.VAR_POSITIONAL for p in parameters),
            keyword_only=tuple(p.name for p in keywords),
            keyword_required=tuple(p.name for p in keywords if p.default is kinds.empty),
            varkw=any(p.kind is kinds.VAR_KEYWORD for p in parameters),
        )

    @property
    def accepts_anything(self) -> bool:
        """Whether no call can fail to bind."""
        return self.varargs and self.varkw and not self.required and not self.keyword_required

    @property
    def counts(self) -> tuple[int, int]:
        """A call without keywords binds if and only if it has from so many to so many arguments.

        (1, 0) where no number of arguments will do.
        """
        if self.keyword_required:
            return 1, 0
        return self.required, 1 << 30 if self.varargs else len(self.positional)

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> None:
        """TypeError unless a call of `name` with these arguments binds."""
        given, where = len(args), f" in a call of {name}"
        if given > len(self.positional) and not self.varargs:
            raise TypeError(f"too many positional arguments{where}{self}")
        for index, name in enumerate(self.positional):
            if name in kwargs and index >= self.only:
                if index < given:
                    raise TypeError(f"multiple values for argument {name!r}{where}{self}")
            elif given <= index < self.required:
                raise TypeError(f"missing a required argument: {name!r}{where}{self}")
        for name in self.keyword_required:
            if name not in kwargs:
                raise TypeError(f"missing a required argument: {name!r}{where}{self}")
        if self.varkw:
            return
        known = {*self.positional[self.only :], *self.keyword_only}
        for name in kwargs:
            if name not in known:
                raise TypeError(f"got an unexpected keyword argument {name!r}{where}{self}")

    def __str__(self) -> str:
        parts = [
            name if index < self.required else f"{name}=..."
            for index, name in enumerate(self.positional)
        ]
        if self.only:
            parts.insert(self.only, "/")
        if self.varargs:
            parts.append("*args")
        elif self.keyword_only:
            parts.append("*")
        parts += [n if n in self.keyword_required else f"{n}=..." for n in self.keyword_only]
        if self.varkw:
            parts.append("**kwargs")
        return f"({', '.join(parts)})"


ANYTHING = Signature((), 0, 0, True, (), (), True)
"""Takes every call."""

NOTHING = Signature((), 0, 0, False, (), (), False)
"""Takes no argument."""
