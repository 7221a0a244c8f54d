"""Actors: what `@ray.remote` makes of a class, and the handles to what it creates.

`ActorClass.remote` creates an actor. A handle looks up a method once: it makes an `ActorMethod`,
keeps it in its instance dictionary, and the `remote` found there is the native one (behind a check
of the arguments). No object here refers back to its handle, so that a handle goes when its last
user lets go of it, and the actor with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from raymesh import _native, _options, _placement, _preload, _state
from raymesh._actor_meta import ClassMeta, HandleMeta, MethodMeta, is_generator, read_class
from raymesh._ids import ActorID
from raymesh._later import not_yet
from raymesh.remote_function import check_returns, checked, merge, retryable


class ActorClassInheritanceException(TypeError):
    """A class was derived from an actor class."""


class ActorClass:
    """A class whose instances, made by `.remote(...)`, live in processes of their own."""

    def __init__(self, cls: type[Any], options: dict[str, Any]) -> None:
        self._class = cls
        self._default_options = options
        self._meta_of_class: ClassMeta | None = None
        self._definition: _native.Definition | None = None
        self._handle_metas: dict[int, HandleMeta] = {}
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__module__ = cls.__module__
        self.__doc__ = cls.__doc__

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        name = self._class.__name__
        raise ActorClassInheritanceException(
            f"Attempted to define a subclass of actor class {name!r}. Derive from a class without "
            "@ray.remote, and apply @ray.remote to the derived class."
        )

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle:
        """Creates an actor; the arguments go to the constructor."""
        return self._create(args, kwargs, self._default_options)

    def options(self, **actor_options: Any) -> ActorClassWithOptions:
        """The same class with other options."""
        _options.check_actor(actor_options, in_options=True)
        merged = merge(self._default_options, actor_options)
        _options.check_actor(merged)
        return ActorClassWithOptions(self, merged)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a task graph."""
        raise not_yet("bind()", "call .remote() and pass the handle on")

    @property
    def __ray_actor_class__(self) -> type[Any]:
        """The class without its decorator."""
        return self._class

    def _meta(self) -> ClassMeta:
        # Not earlier: when a class that refers to itself is unpickled, its members come last.
        if self._meta_of_class is None:
            self._meta_of_class = read_class(self._class)
        return self._meta_of_class

    def _create(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> ActorHandle:
        name, namespace = _checked_name(options)
        meta = self._meta()
        meta.init.check(args, kwargs, self._class.__qualname__)
        _options.require_known(options)
        _state.ensure_running()
        if options.get("get_if_exists"):
            return self._get_or_create(name, namespace, args, kwargs, options)
        return self._create_new(name, namespace, args, kwargs, options)

    def _get_or_create(
        self,
        name: str,
        namespace: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: dict[str, Any],
    ) -> ActorHandle:
        from raymesh.exceptions import ActorAlreadyExistsError

        while True:
            handle = _find(name, namespace)
            if handle is not None:
                return handle
            try:
                return self._create_new(name, namespace, args, kwargs, options)
            except ActorAlreadyExistsError:
                # Another one was faster.
                continue

    def _create_new(
        self,
        name: str,
        namespace: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: dict[str, Any],
    ) -> ActorHandle:
        meta = self._meta()
        if missing := getattr(self._class, "__abstractmethods__", None):
            raise TypeError(
                f"Can't instantiate abstract class {self._class.__name__} with abstract "
                f"method{'s' if len(missing) > 1 else ''} {', '.join(sorted(missing))}"
            )
        if self._definition is None:
            from raymesh._pickling import dump_definition

            full_name = f"{self._class.__module__}.{self._class.__qualname__}"
            pickled = dump_definition(self._class, "actor class", full_name)
            self._definition = _native.Definition(pickled, self._class.__name__)
        _preload.update()
        resources, placement = _options.actor_resources(options)
        wish = _placement.of_actor(options, resources, placement, self._class.__name__)
        retries = options.get("max_task_retries") or 0
        handle_meta = self._handle_metas.get(retries)
        if handle_meta is None:
            handle_meta = HandleMeta.make(self._class.__name__, meta.methods, retries)
            self._handle_metas[retries] = handle_meta
        env = _options.work_environment(options)
        try:
            native = _native.Actor.create(
                self._definition,
                args,
                kwargs,
                resources=resources,
                placement=placement,
                wish=wish,
                name=name,
                namespace=namespace,
                detached=_is_detached(options),
                max_restarts=options.get("max_restarts") or 0,
                max_concurrency=options.get("max_concurrency") or 0,
                handle=handle_meta.data,
                env=None if env is None else env(),
            )
        except ValueError as error:
            if name and _find(name, namespace) is not None:
                raise _already_exists(name, namespace) from error
            raise
        return ActorHandle(native, handle_meta)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self._class.__name__
        raise TypeError(
            f"Actors cannot be instantiated directly. Instead of '{name}()', use '{name}.remote()'."
        )

    def __getattr__(self, name: str) -> Any:
        # Class attributes and static methods are used through the decorated class, as in Ray.
        if name.startswith("__") or "_class" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._class, name)

    def __repr__(self) -> str:
        return f"ActorClass({self._class.__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorClass, (self._class, self._default_options)


def _is_detached(options: dict[str, Any]) -> bool:
    lifetime = options.get("lifetime")
    if lifetime is None and (work := _native.environment()):
        from raymesh.runtime_env import _work

        lifetime = _work.actor_lifetime(work)
    return bool(lifetime == "detached")


class ActorClassWithOptions:
    """What `ActorClass.options` returns."""

    def __init__(self, actor_class: ActorClass, options: dict[str, Any]) -> None:
        self._actor_class = actor_class
        self._options = options

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle:
        """Creates an actor; the arguments go to the constructor."""
        return self._actor_class._create(args, kwargs, self._options)

    def options(self, **actor_options: Any) -> ActorClassWithOptions:
        """The same class with other options."""
        _options.check_actor(actor_options, in_options=True)
        return ActorClassWithOptions(self._actor_class, merge(self._options, actor_options))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a task graph."""
        return self._actor_class.bind(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self._actor_class)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorClassWithOptions, (self._actor_class, self._options)


class ActorHandle:
    """A reference to an actor; `handle.method.remote(...)` calls it."""

    def __init__(self, native: _native.Actor, meta: HandleMeta) -> None:
        self._ray_native = native
        self._ray_meta = meta

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __getattr__(self, name: str) -> ActorMethod:
        # Only reached for methods that were not used yet: they then stay in `__dict__`.
        meta = self.__dict__.get("_ray_meta")
        method = meta.methods.get(name) if meta is not None else None
        if meta is None or method is None:
            known = "" if meta is None else f". Methods of {meta.class_name}: {_listed(meta)}"
            raise AttributeError(f"'ActorHandle' object has no attribute {name!r}{known}")
        bound = ActorMethod(self._ray_native, meta, name, method)
        # As a plain attribute from now on.
        self.__dict__[name] = bound
        return bound

    @property
    def _actor_id(self) -> ActorID:
        return ActorID(self._ray_native.id())

    @property
    def _ray_actor_id(self) -> ActorID:
        return self._actor_id

    def __dir__(self) -> list[str]:
        return [*self._ray_meta.methods, "__init__"]

    def __repr__(self) -> str:
        return f"Actor({self._ray_meta.class_name}, {self._ray_native.id().hex()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._ray_native == other._ray_native

    def __hash__(self) -> int:
        return hash(self._ray_native)

    def __copy__(self) -> ActorHandle:
        return ActorHandle(self._ray_native, self._ray_meta)

    def __deepcopy__(self, memo: Any) -> ActorHandle:
        return ActorHandle(self._ray_native, self._ray_meta)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_handle, (self._ray_native, self._ray_meta.data)


def rebuild_handle(native: _native.Actor, data: bytes) -> ActorHandle:
    """A handle from its pickled parts."""
    return ActorHandle(native, HandleMeta.from_bytes(data))


class ActorMethod:
    """A method of an actor, ready to be called with `.remote(...)`."""

    remote: Callable[..., Any]

    def __init__(
        self, native: _native.Actor, meta: HandleMeta, name: str, method: MethodMeta
    ) -> None:
        self._ray_native = native
        self._ray_meta = meta
        self._method_name = name
        self._method = method
        self.remote = _submitter(native, meta, name, method)

    def options(self, **options: Any) -> ActorMethod:
        """The same method with other options."""
        _options.check_method(options, _options.METHOD_CALL, "ActorMethod.options()")
        check_returns(options, self._method.is_generator)
        known = {key: options[key] for key in MethodMeta._fields if options.get(key) is not None}
        method = self._method._replace(**known)
        return ActorMethod(self._ray_native, self._ray_meta, self._method_name, method)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a task graph."""
        raise not_yet("bind()", "call .remote() and pass the references on")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self._method_name
        raise TypeError(
            "Actor methods cannot be called directly. "
            f"Instead of running 'object.{name}()', try 'object.{name}.remote()'."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        method = (self._ray_native, self._ray_meta, self._method_name, self._method)
        return ActorMethod, method

    def __repr__(self) -> str:
        return f"ActorMethod({self._ray_meta.class_name}.{self._method_name})"


def _submitter(
    native: _native.Actor, meta: HandleMeta, name: str, method: MethodMeta
) -> Callable[..., Any]:
    num_returns = method.num_returns
    if num_returns in ("streaming", "dynamic") or (num_returns is None and method.is_generator):

        def missing(*args: Any, **kwargs: Any) -> NoReturn:
            raise not_yet(
                f"calling the generator method {meta.class_name}.{name}",
                "return a list, or give num_returns=n to get its n items as n references",
            )

        return missing
    retries = method.max_task_retries
    retry_exceptions = method.retry_exceptions
    bound = native.method(
        name,
        num_returns=1 if num_returns is None else num_returns,
        max_task_retries=meta.max_task_retries if retries is None else retries,
        retry_exceptions=False if retry_exceptions is None else retryable(retry_exceptions),
        concurrency_group=method.concurrency_group or "",
        # "": as it is called.
        task_name=method.name or "",
    )
    return checked(bound.remote, method.signature, f"{meta.class_name}.{name}")


def method(*args: Any, **kwargs: Any) -> Any:
    """Sets options of a method of an actor class: `@ray.method(num_returns=2)`."""
    if len(args) == 1 and not kwargs and callable(args[0]):
        return args[0]
    if args:
        raise AssertionError("@ray.method takes keyword arguments only: @ray.method(num_returns=2)")
    try:
        _options.check_method(kwargs, _options.METHOD, "@ray.method")
    except TypeError as error:
        if any(key not in _options.METHOD for key in kwargs):
            raise AssertionError(str(error)) from None
        raise

    def annotate(function: Any) -> Any:
        check_returns(kwargs, is_generator(function))
        for key, value in kwargs.items():
            setattr(function, f"__ray_{key.lstrip('_')}__", value)
        return function

    return annotate


def exit_actor() -> NoReturn:
    """Ends the actor that runs this code, by its own will: it is not restarted."""
    if not _native.is_worker() or _native.current_actor() is None:
        raise TypeError(
            "exit_actor() was called outside of an actor. Call it in an actor's method."
        )
    _native.exit_actor()
    # Not an Exception, so that user code does not catch it by accident; it ends an event loop too.
    raise SystemExit(0)


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """The handle of a named actor."""
    if not name:
        raise ValueError("Please supply a non-empty value to get_actor")
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {type(name).__name__}")
    _check_namespace(namespace)
    _state.ensure_running()
    native, data = _native.Actor.find(name, namespace or _current_namespace())
    return rebuild_handle(native, data)


def _find(name: str, namespace: str) -> ActorHandle | None:
    try:
        native, data = _native.Actor.find(name, namespace)
    except ValueError:
        return None
    return rebuild_handle(native, data)


def _checked_name(options: dict[str, Any]) -> tuple[str, str]:
    name = options.get("name")
    namespace = options.get("namespace")
    if name == "":
        raise ValueError("Actor name cannot be an empty string.")
    _check_namespace(namespace)
    if not name:
        return "", ""
    _state.ensure_running()
    return name, namespace or _current_namespace()


def _check_namespace(namespace: Any) -> None:
    if namespace is None:
        return
    if not isinstance(namespace, str):
        raise TypeError("namespace must be None or a string.")
    if namespace == "":
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')


def _current_namespace() -> str:
    return str(_native.context()["namespace"])


def _already_exists(name: str, namespace: str) -> Exception:
    from raymesh.exceptions import ActorAlreadyExistsError

    return ActorAlreadyExistsError(
        f"The name {name} (namespace={namespace}) is already taken. Please use a different name "
        f"or get the existing actor using ray.get_actor({name!r}, namespace={namespace!r})"
    )


def _listed(meta: HandleMeta) -> str:
    names = sorted(name for name in meta.methods if not name.startswith("_"))
    return ", ".join(names) or "none"


__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "exit_actor",
    "get_actor",
    "method",
]
