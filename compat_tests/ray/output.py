"""Output: what tasks and actors print, as the driver shows it."""

from __future__ import annotations

import sys

import ray

from compat_tests.harness.case import MB, Record, case, main

LOUD = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 100 * MB}


@case(own_session=True)
def prefix_of_tasks_and_actors(record: Record) -> None:
    @ray.remote
    def speaks():
        print("from a task")

    @ray.remote
    class Speaker:
        def speak(self):
            print("from an actor")

        def speak_to_stderr(self):
            print("from stderr", file=sys.stderr)

    @ray.remote
    class Shown:
        def __repr__(self):
            return "Shown(7)"

        def speak(self):
            print("from a shown actor")

    with record.capture() as output:
        ray.init(**LOUD)
        ray.get(speaks.remote())
        speaker, shown = Speaker.remote(), Shown.remote()
        ray.get([speaker.speak.remote(), speaker.speak_to_stderr.remote(), shown.speak.remote()])
        for words in ("from a task", "from an actor", "from stderr", "from a shown actor"):
            record(f"seen: {words}", output.wait_for(words))
        ray.shutdown()
    for words in ("from a task", "from an actor", "from stderr", "from a shown actor"):
        record(words, output.lines(words))


@case(own_session=True)
def lines_of_one_worker_keep_their_order(record: Record) -> None:
    @ray.remote
    def counts():
        for n in range(20):
            print(f"line number {n:02}")

    with record.capture() as output:
        ray.init(**LOUD)
        ray.get(counts.remote())
        record("complete", output.wait_for("line number", times=20))
        ray.shutdown()
    record("lines", output.lines("line number"))


@case(own_session=True)
def repeated_lines_of_many_workers_are_folded(record: Record) -> None:
    @ray.remote(num_cpus=0)
    class Same:
        def ready(self):
            pass

        def speak(self):
            print("all say the same")

    with record.capture() as output:
        ray.init(**LOUD)
        actors = [Same.remote() for _ in range(4)]
        ray.get([actor.ready.remote() for actor in actors])
        ray.get([actor.speak.remote() for actor in actors])
        record("first", output.wait_for("all say the same"))
        ray.shutdown()
    lines = output.lines("all say the same")
    record("first", lines[0])
    record.better(
        "lines",
        len(lines),
        want=2,
        why="the summary is printed at the end of the session too, where Ray may lose it",
    )
    record.better(
        "summary", "repeated 3x across cluster" in lines[-1], want=True, why="as for the lines"
    )


@case(own_session=True)
def log_to_driver_off(record: Record) -> None:
    @ray.remote
    def speaks():
        print("must not be seen")

    with record.capture() as output:
        ray.init(log_to_driver=False, **LOUD)
        ray.get(speaks.remote())
        ray.shutdown()
    record("lines", output.lines("must not be seen"))


@case(own_session=True)
def unicode_and_long_lines(record: Record) -> None:
    @ray.remote
    def speaks():
        print("\u4e2d\u6587 \u00e9\u00e8 marker")
        print("long " + "x" * 5000 + " marker")

    with record.capture() as output:
        ray.init(**LOUD)
        ray.get(speaks.remote())
        record("complete", output.wait_for("marker", times=2))
        ray.shutdown()
    lines = output.lines("marker")
    record("unicode", lines[0])
    record("length", len(lines[1]))


main(globals())
