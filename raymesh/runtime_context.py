"""Where the code runs: `get_runtime_context()` and its ids."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from raymesh import _native, _state
from raymesh._ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from raymesh._later import not_yet

_FAMILIES = ("GPU", "TPU", "NPU", "HPU", "neuron_cores", "RBLN", "FURIOSA", "MBLT", "TTNPU")


class RuntimeContext:
    """What is known about the job, the process, the task and the actor that run this code."""

    def get(self) -> dict[str, Any]:
        """Deprecated: the ids as objects."""
        _deprecated("get", "the get_..._id() methods")
        context: dict[str, Any] = {
            "job_id": JobID(self._of("job_id")),
            "node_id": NodeID(self._of("node_id")),
            "namespace": self.namespace,
        }
        if not self._of("is_driver"):
            context["task_id"] = TaskID(self._of("task_id") or TaskID.nil().binary())
            if self._of("actor_id") is not None:
                context["actor_id"] = ActorID(self._of("actor_id"))
        return context

    def get_job_id(self) -> str:
        """The job, as hexadecimal text."""
        return str(self._of("job_id").hex())

    def get_node_id(self) -> str:
        """The host, as hexadecimal text."""
        return str(self._of("node_id").hex())

    def get_worker_id(self) -> str:
        """This process, as hexadecimal text."""
        return str(self._of("worker_id").hex())

    def get_task_id(self) -> str | None:
        """The task, as hexadecimal text; None in a driver."""
        task_id = self._in_task("task_id", hexadecimal=True)
        actor_id = self._of("actor_id")
        if task_id is None and actor_id is not None:
            # In the constructor.
            return TaskID.for_actor_creation_task(ActorID(actor_id)).hex()
        return task_id

    def get_task_name(self) -> str | None:
        """The name of the task, as set by its option `name`; None in a driver."""
        name = self._in_task("task_name")
        if name is None or name != self.get_task_function_name():
            return name
        # Of a function without its module and what it is defined in; `Counter.add` of a method.
        return name.rpartition(".")[2] if self._of("actor_id") is None else name

    def get_task_function_name(self) -> str | None:
        """The function or method of the task; None in a driver."""
        return self._in_task("function_name")

    def get_actor_id(self) -> str | None:
        """The actor, as hexadecimal text; None outside of actors."""
        return self._in_task("actor_id", hexadecimal=True)

    def get_actor_name(self) -> str | None:
        """The name of the actor, "" without one; None outside of actors."""
        return None if self._of("actor_id") is None else self._of("actor_name") or ""

    def get_placement_group_id(self) -> str | None:
        """The placement group that the calling task or actor runs in, in hexadecimal digits."""
        group = self._of("group")
        return group[0].hex() if group else None

    def get_session_name(self) -> str:
        """The name of this run of the runtime."""
        return str(self._of("session_name"))

    def get_temp_dir(self) -> str:
        """Where programs may write what they need for a while."""
        import tempfile

        return tempfile.gettempdir()

    def get_node_labels(self) -> dict[str, str]:
        """The labels of this host."""
        from raymesh._cluster import nodes

        mine = self.get_node_id()
        return next((dict(node["Labels"]) for node in nodes() if node["NodeID"] == mine), {})

    def get_assigned_resources(self) -> dict[str, float]:
        """The resources that the task or the actor holds."""
        if self._of("is_driver"):
            raise AssertionError("get_assigned_resources() is available in tasks and actors only.")
        return dict(self._of("resources"))

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The devices that the task or the actor may use, by family."""
        ids: dict[str, list[str]] = {family: [] for family in _FAMILIES}
        ids["GPU"] = [str(index) for index in self._of("gpu_ids")]
        return ids

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Deprecated: `get_accelerator_ids`."""
        _deprecated("get_resource_ids", "get_accelerator_ids()")
        return self.get_accelerator_ids()

    def get_runtime_env_string(self) -> str:
        """The runtime environment as JSON."""
        return str(self.runtime_env.serialize())

    def is_canceled(self) -> bool:
        """Whether the task was cancelled: tasks cannot be cancelled yet."""
        if self._of("is_driver"):
            raise RuntimeError("is_canceled() is available in tasks and actors only.")
        return False

    @property
    def namespace(self) -> str:
        """The namespace in which names of actors are looked up."""
        return str(self._of("namespace"))

    @property
    def current_actor(self) -> Any:
        """A handle to the actor that runs this code. It does not keep the actor alive."""
        _state.ensure_running()
        found = _native.current_actor()
        if found is None:
            raise RuntimeError("This method is only available in an actor.")
        from raymesh.actor import rebuild_handle

        return rebuild_handle(*found)

    @property
    def gcs_address(self) -> str:
        """The address of the controller; "local" where it is part of the driver."""
        return "local"

    @property
    def runtime_env(self) -> Any:
        """The runtime environment of the job, the task or the actor."""
        from raymesh.runtime_env import RuntimeEnv, _work

        _state.ensure_running()
        return RuntimeEnv(_validate=False, **_work.current_env())

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether the actor was started again after it had died."""
        if self._of("is_driver"):
            raise AssertionError("This is available in actors only.")
        return bool(self._of("actor_id") is not None and self._of("restarts"))

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether tasks and actors submitted here go to the same placement group."""
        group = self._of("group")
        return bool(group and group[1])

    @property
    def job_id(self) -> JobID:
        """Deprecated: `get_job_id`."""
        _deprecated("job_id", "get_job_id()")
        return JobID(self._of("job_id"))

    @property
    def node_id(self) -> NodeID:
        """Deprecated: `get_node_id`."""
        _deprecated("node_id", "get_node_id()")
        return NodeID(self._of("node_id"))

    @property
    def worker_id(self) -> WorkerID:
        """Deprecated: `get_worker_id`."""
        _deprecated("worker_id", "get_worker_id()")
        return WorkerID(self._of("worker_id"))

    @property
    def task_id(self) -> TaskID:
        """Deprecated: `get_task_id`."""
        _deprecated("task_id", "get_task_id()")
        if self._of("is_driver"):
            raise AssertionError("This is available in tasks and actors only.")
        return TaskID(self._of("task_id") or TaskID.nil().binary())

    @property
    def actor_id(self) -> ActorID | None:
        """Deprecated: `get_actor_id`."""
        _deprecated("actor_id", "get_actor_id()")
        if self._of("is_driver"):
            raise AssertionError("This is available in tasks and actors only.")
        actor_id = self._of("actor_id")
        return None if actor_id is None else ActorID(actor_id)

    @property
    def current_placement_group_id(self) -> PlacementGroupID:
        """Deprecated: `get_placement_group_id`."""
        group = self._of("group")
        return PlacementGroupID(group[0]) if group else PlacementGroupID.nil()

    @property
    def worker(self) -> Any:
        """Ray's inner worker object: not to be had."""
        raise not_yet("RuntimeContext.worker", "use the methods of the runtime context")

    def _of(self, key: str) -> Any:
        _state.ensure_running()
        return _native.context()[key]

    def _in_task(self, key: str, *, hexadecimal: bool = False) -> str | None:
        if self._of("is_driver"):
            return None
        value = self._of(key)
        if value is None:
            return None
        return str(value.hex()) if hexadecimal else str(value)


@functools.cache
def get_runtime_context() -> RuntimeContext:
    """What is known about where this code runs."""
    return RuntimeContext()


def _deprecated(name: str, instead: str) -> None:
    text = f"RuntimeContext.{name} is deprecated, use {instead} instead"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
