"""The compiled part: what rust/python offers to the Python faces."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import Context
from typing import Any, Generic, TypeVar, final

_T = TypeVar("_T")

__all__ = [
    "Actor",
    "AsyncCalls",
    "Completions",
    "Construction",
    "Definition",
    "Function",
    "Host",
    "Method",
    "ObjectRef",
    "PrivateView",
    "View",
    "WIRE_VERSION",
    "__version__",
    "after_fork",
    "await_group",
    "cluster_status",
    "context",
    "create_group",
    "current_actor",
    "describe_cluster",
    "environment",
    "drain_host",
    "exit_actor",
    "find_groups",
    "get",
    "get_one",
    "is_running",
    "is_worker",
    "locate",
    "next_output",
    "preload",
    "put",
    "remove_group",
    "restore_actor",
    "restore_ref",
    "run_worker",
    "serve",
    "set_environment",
    "set_hooks",
    "start_driver",
    "stop",
    "wait",
]

__version__: str
WIRE_VERSION: int

def start_driver(
    *,
    resources: dict[str, float],
    object_store_memory: int,
    namespace: str,
    labels: dict[str, str],
    host_name: str,
    preload: Sequence[str],
    early: Sequence[str],
    prestart: int,
    capture_output: bool,
    join: str | None = None,
) -> int:
    """Start controller, agent and zygote for this process as driver. Returns the session's number.

    ``resources`` are the host's (``CPU``, ``GPU``, ``memory``, custom). ``object_store_memory`` is in bytes.
    ``preload`` names modules that a warmer zygote imports ahead, ``early`` such as any zygote may import
    once its first workers are on their way. ``prestart`` workers are forked at once.
    Raises RuntimeError when already started, OSError when the system refuses shared memory or processes.
    """

def environment() -> bytes:
    """What workers of this process's job take up before its first work; empty: what they are born with."""

def set_environment(environment: bytes) -> None:
    """Of a driver: sets that for what it submits from now on."""

def stop() -> None:
    """End all processes of this driver and release everything. Does nothing when not started."""

def after_fork() -> None:
    """In the child of a fork: the parent's runtime is not this process's."""

def is_running() -> bool: ...
def is_worker() -> bool: ...

@final
class Host:
    """A host of a cluster without a driver: its head, or one that joins the head that ``join`` names.

    ``listen`` is an IP; without it a head is reached from this machine only, and others where the head sees
    them. A head keeps a journal in a folder of its port in ``journals``, and goes on from one that is there;
    others wait ``patience`` seconds for it when it is gone. Raises ConnectionError if the head cannot
    be joined, ValueError for an address or a join string that is none.
    """

    def __new__(
        cls,
        *,
        resources: dict[str, float],
        object_store_memory: int,
        labels: dict[str, str],
        host_name: str,
        listen: str | None,
        port: int,
        join: str | None,
        journals: str | None,
        patience: float,
        tls: bool,
    ) -> Host: ...
    def join_string(self) -> str: ...
    def head(self) -> str | None:
        """`IP:PORT` of the head that it has joined; None if it is the head."""

    def identity(self) -> tuple[bytes, bytes] | None:
        """Of a head: its certificate and the key to it (DER). A secret."""

    def address(self) -> str: ...
    def next_output(self, timeout: float) -> list[tuple[str, int, bool, str, str]] | None: ...
    def stop(self) -> None: ...

def preload(modules: Sequence[str], early: Sequence[str]) -> None:
    """Ask for further modules to be imported ahead, as with ``start_driver``. Returns at once."""

def next_output(session: int, timeout: float) -> list[tuple[str, int, bool, str, str]] | None:
    """Lines that workers of that session printed: ``(name, pid, is_stderr, line, ip)``; waits up to ``timeout`` seconds.

    None once that runtime has stopped and everything was handed out.
    """

@final
class ObjectRef(Generic[_T]):
    """A reference to a value that exists, or will."""

    def __new__(cls, binary: bytes, *_args: Any, **_kwargs: Any) -> ObjectRef[_T]: ...
    def hex(self) -> str: ...
    def binary(self) -> bytes: ...
    def task_id(self) -> Any: ...
    def job_id(self) -> Any: ...
    @classmethod
    def nil(cls) -> ObjectRef[Any]:
        """Raises ValueError: there is none."""

    @classmethod
    def size(cls) -> int: ...
    def is_nil(self) -> bool: ...
    def is_ready(self) -> bool:
        """Whether the value is known here, without asking anybody."""

    def future(self) -> Future[_T]: ...
    def as_future(self, _internal: bool = False) -> Any:
        """Old for ``asyncio.wrap_future(ref.future())``."""

    def call_site(self) -> str: ...
    def tensor_transport(self) -> str | None: ...
    @classmethod
    def from_binary(cls, id_bytes: bytes) -> ObjectRef[Any]: ...
    def __await__(self) -> Iterator[Any]: ...

    # What `asyncio.wait` asks of what it is given. Ray has none of these.
    def done(self) -> bool:
        """Whether the value is known here, or never will be: the session has ended."""

    def cancelled(self) -> bool:
        """False: a task that was cancelled has an exception."""

    def result(self) -> _T:
        """The value, without waiting. Raises asyncio.InvalidStateError if it is not known here."""

    def exception(self) -> BaseException | None:
        """What ``result`` raises of an object that is ready."""

    def add_done_callback(
        self, callback: Callable[[ObjectRef[_T]], object], *, context: Context | None = None
    ) -> None:
        """Have the running event loop call ``callback(ref)`` when the value is known."""

    def remove_done_callback(self, callback: Callable[[ObjectRef[_T]], object]) -> int:
        """Forget a callback of the running loop; returns how often it was there."""
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __class_getitem__(cls, item: Any) -> Any: ...

def restore_ref(raw: bytes) -> ObjectRef[Any]:
    """Unpickle a reference."""

def get(refs: Sequence[ObjectRef[Any]], timeout: float | None) -> list[Any]:
    """Values in order. Raises the first error in order, GetTimeoutError after ``timeout`` seconds."""

def get_one(reference: ObjectRef[_T], timeout: float | None) -> _T: ...
def put(value: Any) -> ObjectRef[Any]: ...
def locate(
    refs: list[ObjectRef[Any]], limit: float | None, ask: bool
) -> list[tuple[int | None, list[bytes]]]:
    """Size and ids of the hosts that have the bytes, of each; without `ask`, as far as is known here."""

def wait(
    refs: list[ObjectRef[Any]], num_returns: int, timeout: float | None, fetch_local: bool
) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
    """``(ready, not_ready)``, each in the order of ``refs``; len(ready) <= num_returns."""

@final
class Definition:
    """A function or class of the program, made known to the cluster as long as this object, or a call, needs it."""

    def __new__(cls, pickled: bytes, name: str) -> Definition:
        """``pickled`` is the cloudpickled function or class; ``name`` its name for people."""

@final
class Function:
    """A remote function with its options, ready to be called."""

    def __new__(
        cls,
        definition: Definition,
        *,
        num_returns: int,
        resources: dict[str, float],
        wish: tuple[Any, list[list[tuple[str, str, list[str]]]]],
        max_retries: int,
        retry_exceptions: bool | tuple[type[BaseException], ...],
        task_name: str,
        env: Callable[[], bytes | None] | None = None,
    ) -> Function:
        """``task_name`` is what the user sees. ``env`` answers what workers take up in the present session."""

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit. Returns an ObjectRef, a list of them (num_returns > 1), or None (num_returns == 0)."""

@final
class Actor:
    """The native part of an actor handle: the actor's id and its reference count."""

    @staticmethod
    def create(
        definition: Definition,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        resources: dict[str, float],
        placement: dict[str, float],
        wish: tuple[Any, list[list[tuple[str, str, list[str]]]]],
        name: str,
        namespace: str,
        detached: bool,
        max_restarts: int,
        max_concurrency: int,
        handle: bytes,
        env: bytes | None = None,
    ) -> Actor:
        """Create an actor. ``handle`` is what ``find`` returns to others (opaque).

        Raises ValueError when the name is taken in the namespace.
        """

    @staticmethod
    def find(name: str, namespace: str) -> tuple[Actor, bytes]:
        """A counted handle of the live actor of that name, and its ``handle`` bytes.

        Raises ValueError naming the namespaces that have it.
        """

    @staticmethod
    def list_named(all_namespaces: bool) -> list[dict[str, str]]: ...
    def id(self) -> bytes:
        """16 bytes."""

    def method(
        self,
        name: str,
        *,
        num_returns: int,
        max_task_retries: int,
        retry_exceptions: bool | tuple[type[BaseException], ...],
        concurrency_group: str,
        task_name: str,
    ) -> Method: ...
    def kill(self, no_restart: bool) -> None: ...
    def __reduce__(self) -> Any:
        """Picklable only inside arguments, results and puts, so that references are counted."""

    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...

@final
class Method:
    """A bound remote method with its options."""

    def remote(self, /, *args: Any, **kwargs: Any) -> Any: ...

def restore_actor(raw: bytes, counted: bool) -> Actor:
    """Unpickle a handle."""

def current_actor() -> tuple[Actor, bytes] | None:
    """A handle, not counted, to the actor that runs this code, and its ``handle`` bytes."""

def exit_actor() -> None:
    """Tell the controller that this actor ends by its own will (the caller then raises to unwind)."""

def context() -> dict[str, Any]:
    """Where this code runs: ``job_id`` ``node_id`` ``worker_id`` ``task_id`` ``actor_id`` (bytes or None),

    ``task_name``, ``function_name``, ``actor_name``, ``namespace``, ``resources`` (dict), ``gpu_ids`` (list of int),
    ``restarts``, ``is_driver``, ``session_name``.
    """

def describe_cluster() -> list[dict[str, Any]]:
    """One dict a host: ``node_id`` (28 bytes) ``alive`` ``host_name`` ``total`` ``available`` (dict of float) ``labels``

    ``store_capacity`` ``store_used`` (bytes) ``workers`` ``pending`` (list of (resources, count)) ``bundles`` (list of
    (group id, index, total, available, users)) ``draining`` (None, or reason and seconds left or None)
    ``end`` (None; of a dead one: Ray's number of how it ended, and why).
    """

def cluster_status() -> dict[str, list[dict[str, Any]]]:
    """``waiting``: one for each kind of demand: ``resources`` ``tasks`` ``actors`` (how many) ``never`` ``why``

    ``groups``: of each kind of placement groups that wait: ``strategy`` ``bundles`` ``count`` ``never`` ``why``;
    ``drivers``: ``job_id`` ``node_id`` (bytes) ``host_name`` ``pid``.
    """

def drain_host(node: bytes, reason: str, seconds: float | None) -> str | None:
    """Ask a host to leave, within some seconds or when nothing keeps it. Why not, if it does not."""

def create_group(
    bundles: list[dict[str, float]],
    selectors: list[list[tuple[str, str, list[str]]]],
    strategy: str,
    *,
    name: str,
    detached: bool,
    near: bytes | None,
    same: str,
) -> bytes:
    """Ask for a placement group; its 18 bytes. Waits only if it has a name, until that is taken."""

def await_group(id: bytes, value: Any) -> ObjectRef[Any]:
    """A reference that is ``value`` once the group is created."""

def remove_group(id: bytes) -> None:
    """Remove a placement group."""

def find_groups(*, id: bytes | None = None, name: str | None = None) -> list[dict[str, Any]]:
    """What is known of one group, of that of a name, or of all: ``id`` ``name`` ``bundles`` ``nodes`` ``strategy``

    ``state`` ``took_ms`` ``attempts``.
    """

@final
class Completions:
    """A queue of objects that have become ready, with a file descriptor."""

    def fileno(self) -> int:
        """Readable while there are tokens."""

    def watch(self, reference: ObjectRef[Any], token: int) -> None:
        """Put ``token`` into the queue when the object is ready."""

    def take(self) -> list[int]: ...

@final
class View:
    """Shared memory as a read-only buffer; holds the object."""

    def __len__(self) -> int: ...
    def private(self) -> PrivateView:
        """The same bytes, writable: nobody else sees what is written."""

@final
class PrivateView:
    """Shared memory as a writable buffer: pages are copied when they are written."""

    def __len__(self) -> int: ...

@final
class Construction:
    """An actor that is about to be made in this worker."""

    def load_class(self) -> type | None:
        """The actor's class. None: it cannot be loaded, and the controller has been told."""

    def construct(self) -> bool:
        """Run the constructor and tell the controller how it went. True: the actor lives."""

@final
class AsyncCalls:
    """Calls for an event loop: a queue with a file descriptor."""

    def fileno(self) -> int:
        """Readable when calls have arrived."""

    def spin(self) -> bool:
        """Wait a moment for mail. False: none came; sleep on the descriptor, then call ``back``."""

    def back(self) -> None:
        """The caller is awake again."""

    def take(self) -> list[tuple[int, str, tuple[Any, ...], dict[str, Any] | None]]:
        """Calls that have arrived: ``(token, method, args, kwargs)``; finish each by its token."""

    def done(self, token: int, value: Any) -> None: ...
    def failed(self, token: int, error: BaseException) -> None: ...
    def exiting(self) -> bool:
        """The process is to end once its calls have."""

    def method(self, name: str) -> Callable[..., Any]: ...

def run_worker(
    proc_id: int,
    segment_fd: int,
    agent_eventfd: int,
    driver_pidfd: int,
    namespace: str,
    session_name: str,
) -> int:
    """Be the worker ``proc_id`` until asked to end; the exit code."""

def serve() -> int:
    """Run calls on this thread until the process is to end."""

def set_hooks(
    *,
    serialize: Callable[[Any, str], Any],
    deserialize: Callable[..., Any],
    materialize_error: Callable[[str, bytes, str], BaseException],
    package_error: Callable[..., bytes],
    auto_init: Callable[[], None],
) -> None:
    """Install the Python functions that the native part calls (see raymesh/_hooks.py)."""
