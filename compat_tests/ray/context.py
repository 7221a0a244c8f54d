"""Runtime context and nodes: ids, names, formats."""

from __future__ import annotations

import os

import ray

from compat_tests.harness.case import Record, case, main


def lengths(context):
    return {
        "job": len(context.get_job_id()),
        "node": len(context.get_node_id()),
        "worker": len(context.get_worker_id()),
    }


@case
def ids_in_the_driver(record: Record) -> None:
    context = ray.get_runtime_context()
    record("lengths", lengths(context))
    record("job", context.get_job_id())
    record("actor", context.get_actor_id())
    record("actor name", context.get_actor_name())
    record("types", [type(context.get_node_id()).__name__, type(context.namespace).__name__])


@case
def ids_in_a_task(record: Record) -> None:
    @ray.remote
    def look():
        context = ray.get_runtime_context()
        return {
            **lengths(context),
            "task": len(context.get_task_id()),
            "actor": context.get_actor_id(),
            "job id": context.get_job_id(),
            "node id": context.get_node_id(),
            "worker id": context.get_worker_id(),
        }

    seen = ray.get(look.remote())
    driver = ray.get_runtime_context()
    record("same job", seen.pop("job id") == driver.get_job_id())
    record("same node", seen.pop("node id") == driver.get_node_id())
    record("same worker", seen.pop("worker id") == driver.get_worker_id())
    record("rest", seen)


@case
def ids_in_an_actor(record: Record) -> None:
    @ray.remote
    class Looks:
        def __init__(self):
            self.at_start = ray.get_runtime_context().get_actor_id()

        def look(self):
            context = ray.get_runtime_context()
            same = self.at_start == context.get_actor_id()
            return context.get_actor_id(), same, context.get_actor_name(), context.get_task_id()

    actor = Looks.options(name="looking").remote()
    actor_id, same, name, task_id = ray.get(actor.look.remote())
    record("id of the handle", actor_id == actor._actor_id.hex())
    record("in the constructor", same)
    record("name", name)
    record("task id", len(task_id))


@case
def current_actor_is_a_handle_to_oneself(record: Record) -> None:
    @ray.remote
    class Self:
        def __init__(self):
            self.value = 5

        def me(self):
            return ray.get_runtime_context().current_actor

        def read(self):
            return self.value

    actor = Self.remote()
    me = ray.get(actor.me.remote())
    record("same", me == actor)
    record("answers", ray.get(me.read.remote()))


@case
def wrong_place(record: Record) -> None:
    context = ray.get_runtime_context()
    with record.raises("current actor in the driver"):
        context.current_actor
    record("task id in the driver", context.get_task_id())
    with record.raises("assigned resources in the driver"):
        context.get_assigned_resources()


@case
def task_id_belongs_to_the_reference(record: Record) -> None:
    @ray.remote
    def my_id():
        return ray.get_runtime_context().get_task_id()

    ref = my_id.remote()
    record("same", ray.get(ref) == ref.task_id().hex())


@case
def nodes_of_the_cluster(record: Record) -> None:
    nodes = ray.nodes()
    record("count", len(nodes))
    node = nodes[0]
    for key in ("NodeID", "Alive", "NodeManagerAddress", "NodeManagerHostname", "Resources"):
        record(key, type(node.get(key)).__name__)
    record("alive", node["Alive"])
    record("cpus", node["Resources"]["CPU"])
    record("id", node["NodeID"] == ray.get_runtime_context().get_node_id())
    record("labels", type(node.get("Labels")).__name__)


@case
def restart_is_visible(record: Record) -> None:
    @ray.remote(max_restarts=1, max_task_retries=1)
    class Restarted:
        def crash_unless_restarted(self):
            again = ray.get_runtime_context().was_current_actor_reconstructed
            if not again:
                os._exit(1)
            return again

    record("after", ray.get(Restarted.remote().crash_unless_restarted.remote()))


@case
def environment_of_a_worker(record: Record) -> None:
    @ray.remote
    def look():
        return os.environ.get("OMP_NUM_THREADS"), os.getcwd()

    threads, folder = ray.get(look.remote())
    record("threads", threads)
    record("same folder", folder == os.getcwd())
    record("with two cpus", ray.get(look.options(num_cpus=2).remote())[0])


@case
def driver_environment_reaches_workers(record: Record) -> None:
    @ray.remote
    def look(name):
        return os.environ.get(name)

    record("set before init", ray.get(look.remote("PYTHONUNBUFFERED")))


main(globals())
