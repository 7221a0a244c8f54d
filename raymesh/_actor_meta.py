"""What a handle knows about its actor: the methods, how they are called, their defaults.

Read off the class once (`ClassMeta`), pickled once into the bytes that travel with every handle,
and read back once a process (`HandleMeta.from_bytes`).
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any, NamedTuple

from raymesh._signature import ANYTHING, NOTHING, Signature

_GENERATOR = 0x20 | 0x200
"""Of `co_flags`: a function that yields, plainly or asynchronously."""

_ASYNC = 0x80 | 0x200
"""Of `co_flags`: a coroutine function or an asynchronous generator."""


_MADE_BY_FUNCTOOLS = (functools.partialmethod, functools.singledispatchmethod)
"""Members of a class that are no functions, but give one when they are looked up."""


class MethodMeta(NamedTuple):
    """How a method is called, and what `ray.method` said about it."""

    signature: Signature
    is_generator: bool = False
    num_returns: Any = None
    max_task_retries: int | None = None
    retry_exceptions: Any = None
    concurrency_group: str | None = None
    name: str | None = None
    """Of the task, as given to `options` by the caller."""


BUILTIN_METHODS: dict[str, MethodMeta] = {
    "__ray_ready__": MethodMeta(NOTHING),
    "__ray_terminate__": MethodMeta(NOTHING),
    "__ray_call__": MethodMeta(Signature(("fn",), 1, 1, True, (), (), True)),
}
"""Methods that every actor has, as in Ray."""


class HandleMeta:
    """What a handle knows. `data` are the bytes that it is pickled as."""

    def __init__(
        self, class_name: str, methods: dict[str, MethodMeta], max_task_retries: int, data: bytes
    ) -> None:
        self.class_name = class_name
        self.methods = methods
        self.max_task_retries = max_task_retries
        self.data = data

    @classmethod
    def from_bytes(cls, data: bytes) -> HandleMeta:
        """What `to_bytes` wrote; the same object for the same bytes."""
        known = _KNOWN.get(data)
        if known is None:
            import pickle

            class_name, methods, retries = pickle.loads(data)
            known = cls(class_name, methods, retries, data)
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[data] = known
        return known

    @classmethod
    def make(cls, class_name: str, methods: dict[str, MethodMeta], retries: int) -> HandleMeta:
        """The description of a new actor."""
        import pickle

        content = (class_name, methods, retries)
        try:
            data = pickle.dumps(content, protocol=5)
        except Exception:
            # Exception classes in `retry_exceptions` that are defined in the main program.
            from raymesh import cloudpickle

            data = cloudpickle.dumps(content, protocol=5)
        return cls(class_name, methods, retries, data)


_KNOWN: dict[bytes, HandleMeta] = {}
_MOST_KNOWN = 1000


class ClassMeta(NamedTuple):
    """What the class of an actor says."""

    methods: dict[str, MethodMeta]
    is_async: bool
    init: Signature


def read_class(cls: type[Any]) -> ClassMeta:
    """The methods of a class that is to be an actor."""
    methods = dict(BUILTIN_METHODS)
    is_async = False
    for name, member in _members(cls).items():
        function, skip = _callable(member, cls)
        if function is None:
            continue
        flags = _flags(member.func if isinstance(member, _MADE_BY_FUNCTOOLS) else function)
        is_async = is_async or bool(flags & _ASYNC)
        methods[name] = MethodMeta(
            signature=_signature(function, skip),
            is_generator=bool(flags & _GENERATOR),
            num_returns=getattr(function, "__ray_num_returns__", None),
            max_task_retries=getattr(function, "__ray_max_task_retries__", None),
            retry_exceptions=getattr(function, "__ray_retry_exceptions__", None),
            concurrency_group=getattr(function, "__ray_concurrency_group__", None),
        )
    init = methods.pop("__init__", None)
    if init is not None:
        return ClassMeta(methods, is_async, init.signature)
    # `object.__init__` takes nothing; one written in C says itself what it does not take.
    members = _members(cls)
    plain = all(members[name] is vars(object)[name] for name in ("__init__", "__new__"))
    return ClassMeta(methods, is_async, NOTHING if plain else ANYTHING)


def is_generator(function: Any) -> bool:
    """Whether a function yields, plainly or asynchronously."""
    return bool(_flags(function) & _GENERATOR)


def _members(cls: type[Any]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        members.update(vars(base))
    return members


def _callable(member: Any, cls: type[Any]) -> tuple[Any, int]:
    """The function behind a member of a class, and how many of its parameters are bound."""
    if isinstance(member, FunctionType):
        return member, 1
    if isinstance(member, staticmethod):
        return member.__func__, 0
    if isinstance(member, classmethod):
        return member.__func__, 1
    if type(member).__name__ == "cython_function_or_method":
        return member, 1
    if isinstance(member, _MADE_BY_FUNCTOOLS):
        return member.__get__(None, cls), 1
    return None, 0


def _flags(function: Any) -> int:
    while not hasattr(function, "__code__"):
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is None:
            return 0
        function = wrapped
    return int(function.__code__.co_flags)


def _signature(function: Any, skip: int) -> Signature:
    signature = Signature.of(function, skip=skip)
    if skip and signature.varargs and not isinstance(function, FunctionType):
        return ANYTHING
    return signature
