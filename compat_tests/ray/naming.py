"""Named actors: get_actor, namespaces, get_if_exists."""

from __future__ import annotations

import threading

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
class Named:
    def __init__(self, value=0):
        self.value = value

    def add(self, n=1):
        self.value += n
        return self.value

    def hold(self):
        """Ends with the actor only."""
        threading.Event().wait()


@case
def found_by_name(record: Record) -> None:
    first = Named.options(name="found").remote(1)
    again = ray.get_actor("found")
    record("same", again == first)
    record("value", ray.get(again.add.remote()))


@case
def found_from_a_task_and_an_actor(record: Record) -> None:
    keep = Named.options(name="everywhere").remote()

    @ray.remote
    def from_task():
        return ray.get(ray.get_actor("everywhere").add.remote())

    @ray.remote
    class Asker:
        def ask(self):
            return ray.get(ray.get_actor("everywhere").add.remote())

    record("task", ray.get(from_task.remote()))
    record("actor", ray.get(Asker.remote().ask.remote()))
    record("driver", ray.get(keep.add.remote()))


@case
def unknown_name(record: Record) -> None:
    with record.raises("unknown", says=["nobody"]):
        ray.get_actor("nobody")


@case
def wrong_names(record: Record) -> None:
    with record.raises("empty"):
        Named.options(name="").remote()
    with record.raises("number"):
        Named.options(name=5).remote()
    with record.raises("get empty"):
        ray.get_actor("")
    with record.raises("get none"):
        ray.get_actor(None)


@case
def name_taken(record: Record) -> None:
    first = Named.options(name="taken").remote(1)
    ray.get(first.add.remote())
    with record.raises("second", says=["taken"]):
        Named.options(name="taken").remote(2)
    record("first is untouched", ray.get(first.add.remote()))


@case
def get_if_exists_makes_one(record: Record) -> None:
    options = {"name": "one", "get_if_exists": True}
    handles = [Named.options(**options).remote(10) for _ in range(3)]
    record("one", len({handle._actor_id for handle in handles}))
    record("values", ray.get([handle.add.remote() for handle in handles]))


@case
def get_if_exists_needs_a_name(record: Record) -> None:
    with record.raises("no name", says=["name"]):
        Named.options(get_if_exists=True).remote()


@case
def name_is_free_after_kill(record: Record) -> None:
    first = Named.options(name="again").remote(1)
    ray.get(first.add.remote())
    ray.kill(first)
    with record.raises("call on the killed"):
        ray.get(first.hold.remote())
    second = Named.options(name="again").remote(5)
    record("second", ray.get(second.add.remote()))


@case
def name_in_another_namespace(record: Record) -> None:
    other = Named.options(name="spaced", namespace="elsewhere").remote(1)
    ray.get(other.add.remote())
    with record.raises("not here", says=["spaced"]):
        ray.get_actor("spaced")
    record("there", ray.get(ray.get_actor("spaced", namespace="elsewhere").add.remote()))
    mine = Named.options(name="spaced").remote(100)
    record("here", ray.get(mine.add.remote()))


@case(own_session=True)
def namespace_of_the_session(record: Record) -> None:
    ray.init(num_cpus=2, namespace="mine", include_dashboard=False, log_to_driver=False)
    keep = Named.options(name="n").remote(1)
    record("default", ray.get_runtime_context().namespace)
    record("explicit", ray.get(ray.get_actor("n", namespace="mine").add.remote()))

    @ray.remote
    def in_task():
        return ray.get_runtime_context().namespace, ray.get(ray.get_actor("n").add.remote())

    record("task", ray.get(in_task.remote()))
    with record.raises("other"):
        ray.get_actor("n", namespace="other")
    del keep
    ray.shutdown()


@case
def detached_actor_survives_its_handles(record: Record) -> None:
    Named.options(name="detached", lifetime="detached").remote(3)
    again = ray.get_actor("detached")
    record("value", ray.get(again.add.remote()))
    ray.kill(again)
    with record.raises("killed"):
        ray.get(again.hold.remote())


@case
def wrong_lifetime(record: Record) -> None:
    with record.raises("word", says=["lifetime"]):
        Named.options(lifetime="forever").remote()


@case
def listing_named_actors(record: Record) -> None:
    keep = [Named.options(name=f"listed-{n}").remote() for n in range(2)]
    ray.get([actor.add.remote() for actor in keep])
    names = ray.util.list_named_actors()
    record("names", sorted(name for name in names if name.startswith("listed-")))


main(globals())
