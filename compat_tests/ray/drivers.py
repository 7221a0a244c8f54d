"""Several programs on one cluster: detached actors, namespaces, what ends with whom."""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from ray.cluster_utils import Cluster

from compat_tests.harness import apart
from compat_tests.harness.case import MB, SYSTEM_VARIABLE, Record, case, main
from compat_tests.harness.systems import System

apart.own_folder()

DRIVER = """
import json, os, sys, time
import ray

address, namespace, config = json.loads(sys.argv[1])
from ray.job_config import JobConfig
config = JobConfig(**config) if config else None
ray.init(address=address, namespace=namespace, job_config=config, log_to_driver=False, logging_level="error")

@ray.remote
class Counter:
    def __init__(self):
        self.n = 0
    def add(self):
        self.n += 1
        return self.n
    def pid(self):
        return os.getpid()

@ray.remote
def job():
    return ray.get_runtime_context().get_job_id()

@ray.remote
class Parent:
    def make(self, name, **options):
        self.child = Counter.options(name=name, **options).remote()
        return ray.get(self.child.add.remote())
    def ask(self):
        return ray.get(self.child.add.remote())
    def put(self):
        return [ray.put(b"of the parent" * 100_000)]
    def context(self):
        context = ray.get_runtime_context()
        return context.namespace, context.get_job_id(), ray.get(job.remote())

def get(name, **options):
    return ray.get_actor(name, **options)

def add(actor):
    return ray.get(actor.add.remote(), timeout=30)

def fails(function, seconds=30):
    "The class of what it raises, sooner or later."
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            function()
        except Exception as error:
            return type(error).__name__
        time.sleep(0.05)

def reply(answer):
    print("@" + json.dumps(answer), file=sys.__stdout__, flush=True)

reply(ray.get_runtime_context().namespace)
for line in sys.stdin:
    said = json.loads(line)
    try:
        try:
            code = compile(said, "case", "eval")
        except SyntaxError:
            exec(said)
            answer = None
        else:
            answer = eval(code)
        reply(["value", answer])
    except Exception as error:
        reply(["raised", type(error).__name__])
"""


@functools.cache
def cluster() -> Cluster:
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 8, "object_store_memory": 100 * MB}
    )
    atexit.register(made.shutdown)
    return made


class Driver:
    """A program of its own, which does what it is told."""

    def __init__(self, namespace: str | None, **config: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, "driver.py")
        path.write_text(DRIVER)
        system = System(os.environ.get(SYSTEM_VARIABLE, "ray"))
        said = json.dumps([cluster().address, namespace, config])
        self.process = subprocess.Popen(
            system.command(path, [said]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @functools.cached_property
    def namespace(self) -> str:
        """Of the program. Waits until it has joined."""
        return self._heard()

    def _heard(self):
        for line in self.process.stdout:
            if line.startswith("@"):
                return json.loads(line[1:])
        raise RuntimeError("the driver has ended")

    def do(self, code: str):
        """What that is in the program, or which error it raises."""
        assert self.namespace
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        kind, answer = self._heard()
        return answer if kind == "value" else f"raised {answer}"

    def end(self) -> int:
        self.process.stdin.close()
        return self._over()

    def kill(self) -> int:
        self.process.send_signal(signal.SIGKILL)
        code = self._over()
        self.process.stdin.close()
        return code

    def _over(self) -> int:
        code = self.process.wait(60)
        self.process.stdout.close()
        self._folder.cleanup()
        return code


@case(own_session=True, timeout_s=180)
def detached_actors_are_found_by_later_drivers(record: Record) -> None:
    first = Driver("x")
    record("namespace", first.namespace)
    first.do("kept = Counter.options(name='kept', lifetime='detached').remote()")
    first.do("mine = Counter.options(name='mine').remote()")
    first.do("Counter.options(lifetime='detached').remote()")
    record("made", first.do("[add(kept), add(mine)]"))
    same, other = Driver("x"), Driver("y")
    record("while it lives", same.do("add(get('mine'))"))
    record("ended", first.end())
    record("same namespace", same.do("add(get('kept'))"))
    record("not detached", same.do("fails(lambda: get('mine'))"))
    record("other namespace", other.do("get('kept')"))
    record("named namespace", other.do("add(get('kept', namespace='x'))"))
    record(
        "by task", other.do("ray.get(ray.remote(lambda: add(get('kept', namespace='x'))).remote())")
    )
    record(
        "listed",
        [same.do("ray.util.list_named_actors()"), other.do("ray.util.list_named_actors()")],
    )
    everywhere = "sorted((a['namespace'], a['name']) for a in ray.util.list_named_actors(all_namespaces=True))"
    record("listed everywhere", other.do(everywhere))
    options = "name='kept', namespace='x'"
    record("taken", other.do(f"Counter.options({options}).remote()"))
    record("if exists", other.do(f"add(Counter.options({options}, get_if_exists=True).remote())"))
    record(
        "same name elsewhere",
        other.do("add(Counter.options(name='kept', lifetime='detached').remote())"),
    )
    same.do("held = get('kept')")
    record("kill", other.do("ray.kill(get('kept', namespace='x'))"))
    record("held", same.do("fails(lambda: add(held))"))
    record("gone", same.do("fails(lambda: get('kept'))"))
    record("still elsewhere", other.do("add(get('kept'))"))
    record(
        "its name again", same.do("add(Counter.options(name='kept', lifetime='detached').remote())")
    )
    record("by the other", other.do("add(get('kept', namespace='x'))"))
    other.do("ray.kill(get('kept', namespace='x'))")
    other.do("ray.kill(get('kept'))")
    record("in the end", other.do("fails(lambda: get('kept')), " + everywhere))
    record("codes", [same.end(), other.end()])


@case(own_session=True, timeout_s=180)
def anonymous_namespaces(record: Record) -> None:
    one, two = Driver(None), Driver(None)
    record("differ", one.namespace != two.namespace)
    record("length", len(one.namespace))
    record("made", one.do("add(actor := Counter.options(name='anonymous').remote())"))
    record("in a task", one.do("ray.get(ray.remote(lambda: add(get('anonymous'))).remote())"))
    record("elsewhere", two.do("get('anonymous')"))
    two.do(f"found = get('anonymous', namespace={one.namespace!r})")
    record("by its namespace", two.do("add(found)"))
    record("empty", two.do("get('anonymous', namespace='')"))
    record(
        "listed", [one.do("ray.util.list_named_actors()"), two.do("ray.util.list_named_actors()")]
    )
    record("its driver is killed", one.kill())
    record("found", two.do("fails(lambda: add(found))"))
    record("looked up", two.do(f"fails(lambda: get('anonymous', namespace={one.namespace!r}))"))
    record("ended", two.end())


@case(own_session=True, timeout_s=180)
def children_of_a_detached_actor(record: Record) -> None:
    first = Driver("family")
    first.do("parent = Parent.options(name='parent', lifetime='detached').remote()")
    record("child", first.do("ray.get(parent.make.remote('child'))"))
    record("free", first.do("ray.get(parent.make.remote('free', lifetime='detached'))"))
    record("child again", first.do("ray.get(parent.make.remote('second'))"))
    mine = first.do("ray.get_runtime_context().get_job_id()")
    second = Driver("family")
    record("before", second.do("sorted(ray.util.list_named_actors())"))
    record("ended", first.kill())
    record("goes on", second.do("ray.get(get('parent').ask.remote())"))
    record("its child", second.do("add(get('second'))"))
    # The handle that the first child was held by is gone.
    record("dropped child", second.do("fails(lambda: get('child'))"))
    namespace, job, task = second.do("ray.get(get('parent').context.remote())")
    record("context", [namespace, job == mine, task == mine])
    record("its object", second.do("len(ray.get(ray.get(get('parent').put.remote())[0]))"))
    record("a new child", second.do("ray.get(get('parent').make.remote('third'))"))
    record(
        "listed", second.do("fails(lambda: get('second')), sorted(ray.util.list_named_actors())")
    )
    second.do("ray.kill(get('parent'))")
    record("with its parent", second.do("fails(lambda: get('third'))"))
    record("detached child", second.do("add(get('free'))"))
    second.do("ray.kill(get('free'))")
    record("all gone", second.do("fails(lambda: get('free')), ray.util.list_named_actors()"))
    record("over", second.end())


@case(own_session=True, timeout_s=180)
def restarts_without_the_driver(record: Record) -> None:
    first = Driver("restarts")
    first.do(
        "kept = Counter.options(name='kept', lifetime='detached', max_restarts=1, max_task_retries=1).remote()"
    )
    record("made", first.do("[add(kept), add(kept)]"))
    pid = first.do("ray.get(kept.pid.remote())")
    record("ended", first.end())
    os.kill(pid, signal.SIGKILL)
    second = Driver("restarts")
    record("anew", second.do("add(get('kept'))"))
    second.do("kept = get('kept')")
    record("kill", second.do("ray.kill(kept, no_restart=False)"))
    record("no more", second.do("fails(lambda: add(kept))"))
    record("gone", second.do("fails(lambda: get('kept'))"))
    record("over", second.end())


@case(own_session=True, timeout_s=180)
def detached_by_default(record: Record) -> None:
    first = Driver("defaults", default_actor_lifetime="detached")
    first.do("one = Counter.options(name='one').remote()")
    first.do("Counter.options(name='not', lifetime='non_detached').remote()")
    first.do("parent = Parent.remote()")
    record("made", first.do("[add(one), ray.get(parent.make.remote('child'))]"))
    first.do("del one, parent")
    second = Driver("defaults")
    record("ended", first.end())
    record("not", second.do("fails(lambda: get('not'))"))
    record("lives", second.do("[add(get('one')), add(get('child'))]"))
    record("listed", second.do("sorted(ray.util.list_named_actors())"))
    second.do("[ray.kill(get(name)) for name in ('one', 'child')]")
    record("over", second.end())


main(globals())
