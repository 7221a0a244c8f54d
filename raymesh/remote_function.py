"""Remote functions: what `@ray.remote` makes of a function.

The decorator only looks at the function. The first call pickles it, makes the native function and
puts the native `remote` into the instance, where later calls find it with no more than a check of
the arguments in between. The native function outlives the runtime: it makes itself known to each
new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raymesh import _native, _options, _placement, _preload, _state
from raymesh._later import not_yet
from raymesh._signature import Signature

_GENERATOR, _COROUTINE = 0x20 | 0x200, 0x80
"""Of `co_flags`: the function yields (plainly or asynchronously); it is an `async def`."""

_MOST_VARIANTS = 64
"""How many results of `options` are kept for use again."""


class _Source:
    """A function as it was written, and what was found out about it: common to all its options."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.is_generator = bool(function.__code__.co_flags & _GENERATOR)
        self._definition: _native.Definition | None = None
        self._signature: Signature | None = None

    def submitter(self, options: dict[str, Any]) -> Callable[..., Any]:
        """What submits calls with these options."""
        _options.require_known(options)
        num_returns = options.get("num_returns")
        if num_returns in ("streaming", "dynamic") or (num_returns is None and self.is_generator):
            raise not_yet(
                f"calling the generator {self.name} as a task",
                "return a list, or give num_returns=n to get its n items as n references",
            )
        _state.ensure_running()
        if self._signature is None:
            self._signature = Signature.of(self.function)
        if self._definition is None:
            from raymesh._pickling import dump_definition

            pickled = dump_definition(self.function, "function", self.name)
            self._definition = _native.Definition(pickled, self.name)
        _preload.update()
        retries = options.get("max_retries")
        resources = _options.task_resources(options)
        native = _native.Function(
            self._definition,
            num_returns=1 if num_returns is None else num_returns,
            resources=resources,
            wish=_placement.of_task(options, resources, self.function.__name__),
            max_retries=_default_retries() if retries is None else retries,
            retry_exceptions=retryable(options.get("retry_exceptions", False)),
            # The usual name needs no bytes in the calls.
            task_name=options.get("name") or self.name,
            env=_options.work_environment(options),
        )
        return checked(native.remote, self._signature, self.function.__qualname__)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Source, (self.function,)


class RemoteFunction:
    """A function that `.remote(...)` runs in another process.

    Nothing that it holds refers back to it: when its last user lets go of it, it goes at once, and so
    does what it captured, here and in the cluster.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        if function.__code__.co_flags & _COROUTINE:
            raise ValueError(
                "'async def' should not be used for remote tasks. You can wrap the async function "
                "with `asyncio.run(f())`, or make it a method of an actor."
            )
        self._source = _Source(function)
        check_returns(options, self._source.is_generator)
        self._function = function
        self._default_options = options
        self._variants: dict[Any, FunctionWithOptions] = {}
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submits a call; returns an ObjectRef, a list of them (num_returns > 1), or None (0)."""
        # From the next call on this is found in the instance first.
        self.__dict__["remote"] = submit = self._source.submitter(self._default_options)
        return submit(*args, **kwargs)

    def options(self, **task_options: Any) -> FunctionWithOptions:
        """The same function with other options."""
        key = tuple(task_options.items())
        try:
            known = self._variants.get(key)
        except TypeError:
            # A value that cannot be hashed, such as `resources`.
            return self._with_options(task_options)
        if known is None:
            known = self._with_options(task_options)
            if len(self._variants) >= _MOST_VARIANTS:
                self._variants.clear()
            self._variants[key] = known
        return known

    def _with_options(self, task_options: dict[str, Any]) -> FunctionWithOptions:
        return FunctionWithOptions(self._source, self._default_options).options(**task_options)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a task graph."""
        raise not_yet("bind()", "call .remote() and pass the references on")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._source.name
        raise TypeError(
            "Remote functions cannot be called directly. "
            f"Instead of running '{name}()', try '{name}.remote()'."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFunction, (self._function, self._default_options)


class FunctionWithOptions:
    """What `RemoteFunction.options` returns; keeps its native function between calls."""

    def __init__(self, source: _Source, options: dict[str, Any]) -> None:
        self._source = source
        self._options = options

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submits a call, as `RemoteFunction.remote` does."""
        self.__dict__["remote"] = submit = self._source.submitter(self._options)
        return submit(*args, **kwargs)

    def options(self, **task_options: Any) -> FunctionWithOptions:
        """The same function with other options."""
        _options.check_task(task_options, in_options=True)
        merged = merge(self._options, task_options)
        check_returns(merged, self._source.is_generator)
        return FunctionWithOptions(self._source, merged)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a task graph."""
        raise not_yet("bind()", "call .remote() and pass the references on")

    def __reduce__(self) -> tuple[Any, ...]:
        return FunctionWithOptions, (self._source, self._options)


def checked(remote: Callable[..., Any], signature: Signature, name: str) -> Callable[..., Any]:
    """`remote` of `name` with a check that the arguments fit; itself if there is nothing to check."""
    if signature.accepts_anything:
        return remote
    least, most = signature.counts

    def checked_remote(*args: Any, **kwargs: Any) -> Any:
        if kwargs or not least <= len(args) <= most:
            signature.check(args, kwargs, name)
        return remote(*args, **kwargs)

    return checked_remote


def check_returns(options: dict[str, Any], is_generator: bool) -> None:
    """ValueError for a generator's `num_returns` where there is no generator."""
    num_returns = options.get("num_returns")
    if num_returns in ("streaming", "dynamic") and not is_generator:
        raise ValueError(
            f"num_returns={num_returns!r} can only be used with generator functions (functions "
            "that use 'yield'). The decorated function is not a generator function."
        )


def merge(defaults: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """`defaults` overridden by `options`; the environment variables of both."""
    merged = {**defaults, **options}
    mine, theirs = defaults.get("runtime_env"), options.get("runtime_env")
    if mine and theirs:
        merged["runtime_env"] = {**mine, **theirs}
        if mine.get("env_vars") or theirs.get("env_vars"):
            both = {**(mine.get("env_vars") or {}), **(theirs.get("env_vars") or {})}
            merged["runtime_env"]["env_vars"] = both
    return merged


def _default_retries() -> int:
    import os

    return int(os.environ.get("RAY_TASK_MAX_RETRIES", "3"))


def retryable(value: Any) -> bool | tuple[type[BaseException], ...]:
    """The option `retry_exceptions` as the native part takes it."""
    return value if isinstance(value, bool) else tuple(value)
