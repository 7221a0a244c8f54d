"""Sessions: init, shutdown, init again, automatic init."""

from __future__ import annotations

import logging

import ray

from compat_tests.harness.case import MB, Record, case, main, raised

QUIET = {"include_dashboard": False, "log_to_driver": False, "object_store_memory": 100 * MB}


@ray.remote
def one():
    return 1


@case(own_session=True)
def init_twice(record: Record) -> None:
    record("before", ray.is_initialized())
    context = ray.init(num_cpus=1, **QUIET)
    record("after", ray.is_initialized())
    record("context", [type(context).__name__, "node_id" in context.address_info])
    with record.raises("again", says=["twice"]):
        ray.init(num_cpus=1)
    record("ignored", type(ray.init(ignore_reinit_error=True)).__name__)
    record("still works", ray.get(one.remote()))
    record("shutdown", ray.shutdown())
    record("afterwards", ray.is_initialized())
    record("second shutdown", ray.shutdown())


@case(own_session=True)
def init_shutdown_init(record: Record) -> None:
    @ray.remote
    class Counter:
        def __init__(self):
            self.n = 0

        def next(self):
            self.n += 1
            return self.n

    for number in range(2):
        ray.init(num_cpus=1, **QUIET)
        record(f"task {number}", ray.get(one.remote()))
        counter = Counter.remote()
        record(f"actor {number}", ray.get([counter.next.remote() for _ in range(2)]))
        record(f"cpus {number}", ray.cluster_resources()["CPU"])
        ray.shutdown()


@case(own_session=True)
def things_of_an_ended_session(record: Record) -> None:
    @ray.remote
    class Actor:
        def method(self):
            return 1

    ray.init(num_cpus=1, **QUIET)
    actor = Actor.remote()
    ray.get(actor.method.remote())
    ray.shutdown()
    ray.init(num_cpus=1, **QUIET)
    old = raised(lambda: ray.get(actor.method.remote(), timeout=20))
    record("old actor is refused, not waited for", old not in (None, "GetTimeoutError"))
    record("new task", ray.get(one.remote()))
    ray.shutdown()


@case(own_session=True)
def without_init(record: Record) -> None:
    with record.raises("cluster_resources"):
        ray.cluster_resources()
    with record.raises("nodes"):
        ray.nodes()
    record("remote inits by itself", ray.get(one.remote()))
    record("now initialized", ray.is_initialized())
    ray.shutdown()


@case(own_session=True)
def options_of_init(record: Record) -> None:
    with record.raises("unknown", says=["num_cpu"]):
        ray.init(num_cpu=1)
    record("not initialized", ray.is_initialized())
    with record.raises("positional"):
        ray.init(None, 1)
    ray.init(
        num_cpus=3,
        num_gpus=0,
        resources={"special": 5},
        logging_level=logging.ERROR,
        namespace="space",
        configure_logging=False,
        **QUIET,
    )
    record("cpus", ray.cluster_resources()["CPU"])
    record("special", ray.cluster_resources()["special"])
    record("namespace", ray.get_runtime_context().namespace)
    ray.shutdown()


@case(own_session=True)
def context_manager(record: Record) -> None:
    with ray.init(num_cpus=1, **QUIET):
        record("inside", ray.get(one.remote()))
    record("outside", ray.is_initialized())


@case(own_session=True)
def gpus_that_are_only_claimed(record: Record) -> None:
    import os

    ray.init(num_cpus=2, num_gpus=2, **QUIET)

    @ray.remote(num_gpus=1)
    def look():
        return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

    ids, visible = ray.get(look.remote())
    record("one id", len(ids))
    record("visible", visible == str(ids[0]))
    record("total", ray.cluster_resources()["GPU"])
    ray.shutdown()


main(globals())
