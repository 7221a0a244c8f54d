"""The head is killed, and started again."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.apart import free_port

Start = Callable[..., Any]


class Head:
    """Options of a head that can be started again, and doing so."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.options = {
            "port": free_port(),
            "journal": str(folder / "journal"),
            "num_cpus": 1,
            **options,
        }

    def kill(self, cluster: Any) -> None:
        cluster.remove_node(cluster.head_node, allow_graceful=False)

    def again(self, cluster: Any) -> None:
        cluster.add_node(**self.options)


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path, resources={"head": 1})


def _actor(raymesh: Any) -> Any:
    @raymesh.remote
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def add(self) -> int:
            self.count += 1
            return self.count

        def pid(self) -> int:
            return os.getpid()

    return Counter


def test_what_lives_elsewhere_is_as_it_was(cluster: Start, head: Head) -> None:
    import raymesh

    made = cluster(head.options, {"num_cpus": 2, "resources": {"other": 1}})
    counter = _actor(raymesh).options(
        resources={"other": 0.1}, name="counter", namespace="here", lifetime="detached"
    )
    actor = counter.remote()
    assert raymesh.get(actor.add.remote()) == 1
    pid = raymesh.get(actor.pid.remote())
    large = raymesh.put(bytes(1_000_000))
    before = {node["NodeID"]: node["Alive"] for node in raymesh.nodes()}
    head.kill(made)
    # Calls between the living need no head.
    assert raymesh.get([actor.add.remote() for _ in range(1000)])[-1] == 1001
    head.again(made)
    found = raymesh.get_actor("counter", namespace="here")
    assert raymesh.get(found.add.remote()) == 1002
    assert raymesh.get(found.pid.remote()) == pid
    assert len(raymesh.get(large)) == 1_000_000
    with pytest.raises(ValueError, match="already"):
        counter.remote()
    after = {node["NodeID"]: node["Alive"] for node in raymesh.nodes()}
    # The head itself is another host than before.
    assert sum(after.values()) == sum(before.values())
    assert [node for node in before if not after[node]] == [
        node for node in before if node not in after or not after[node]
    ]
    assert len([node for node in before if after[node]]) == len(before) - 1


def test_placement_groups_are_as_they_were(cluster: Start, head: Head) -> None:
    import raymesh
    from raymesh.util.placement_group import (
        get_placement_group,
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from raymesh.util.scheduling_strategies import PlacementGroupSchedulingStrategy as InGroup

    made = cluster(
        head.options,
        {"num_cpus": 2, "resources": {"other": 10}},
        {"num_cpus": 2, "resources": {"third": 10}},
    )
    apart, together = [{"other": 1}, {"third": 1}], [{"other": 1}, {"other": 1}]
    groups = {
        "PACK": placement_group(together, "PACK"),
        "STRICT_PACK": placement_group(together, "STRICT_PACK"),
        "SPREAD": placement_group(apart, "SPREAD"),
        "STRICT_SPREAD": placement_group(apart, "STRICT_SPREAD"),
        "detached": placement_group(apart, name="kept", lifetime="detached"),
    }
    dropped = placement_group(apart)
    waits = placement_group([{"fourth": 1}])
    raymesh.get([group.ready() for group in [*groups.values(), dropped]])
    places = {name: placement_group_table(group) for name, group in groups.items()}
    actor = _actor(raymesh).options(num_cpus=0, scheduling_strategy=InGroup(groups["SPREAD"], 1))
    counter = actor.remote()
    assert raymesh.get(counter.add.remote()) == 1
    pid = raymesh.get(counter.pid.remote())
    head.kill(made)
    assert raymesh.get(counter.add.remote()) == 2
    remove_placement_group(dropped)
    head.again(made)
    assert {name: placement_group_table(group) for name, group in groups.items()} == places
    assert placement_group_table(waits)["state"] == "PENDING"
    assert placement_group_table(dropped)["state"] == "REMOVED"
    assert get_placement_group("kept") == groups["detached"]
    assert raymesh.get([counter.add.remote(), counter.pid.remote()]) == [3, pid]

    @raymesh.remote(num_cpus=0)
    def here() -> str:
        return str(raymesh.get_runtime_context().get_node_id())

    for name, group in groups.items():
        strategies = [InGroup(group, bundle) for bundle in (0, 1)]
        hosts = raymesh.get([here.options(scheduling_strategy=it).remote() for it in strategies])
        assert hosts == list(places[name]["bundles_to_node_id"].values()), name
    made.add_node(num_cpus=1, resources={"fourth": 1})
    assert waits.wait(30)
    # What the removed one held is free again.
    assert placement_group([{"other": 3}]).wait(30)


def test_what_was_asked_for_meanwhile_is_done(cluster: Start, head: Head) -> None:
    import raymesh

    made = cluster(head.options, {"num_cpus": 2, "resources": {"other": 1}})

    @raymesh.remote(resources={"other": 0.1})
    def double(x: int) -> int:
        return 2 * x

    assert raymesh.get(double.remote(1)) == 2
    head.kill(made)
    time.sleep(0.1)  # leases of the first call have ended
    results = [double.remote(n) for n in range(100)]
    actor = _actor(raymesh).options(resources={"other": 0.1}).remote()
    call = actor.add.remote()
    ready, _ = raymesh.wait([call], timeout=0.2)
    assert not ready
    head.again(made)
    assert raymesh.get(results, timeout=60) == [2 * n for n in range(100)]
    assert raymesh.get(call, timeout=60) == 1
    assert raymesh.get(actor.add.remote()) == 2


def test_what_ran_on_the_head_starts_anew_as_after_any_death(cluster: Start, head: Head) -> None:
    import raymesh
    from raymesh.exceptions import ActorDiedError

    made = cluster(head.options, {"num_cpus": 1})
    there = _actor(raymesh).options(resources={"head": 0.1}, num_cpus=0)
    again = there.options(max_restarts=1, max_task_retries=1, name="again").remote()
    once = there.remote()

    @raymesh.remote(resources={"head": 0.1}, num_cpus=0)
    def slow(path: str) -> int:
        with open(path, "a") as file:
            file.write("began\n")
        if Path(path).read_text() == "began\n":
            time.sleep(600)
        return 5

    trace = str(Path(head.options["journal"]).parent / "trace")
    result = slow.remote(trace)
    assert raymesh.get([again.add.remote(), once.add.remote()]) == [1, 1]
    while not os.path.exists(trace):
        time.sleep(0.01)
    head.kill(made)
    calls = again.add.remote(), once.add.remote()
    head.again(made)
    assert raymesh.get(calls[0], timeout=60) == 1
    with pytest.raises(ActorDiedError, match="host"):
        raymesh.get(calls[1], timeout=60)
    assert raymesh.get(result, timeout=60) == 5
    assert raymesh.get(raymesh.get_actor("again").add.remote()) == 2


def test_a_kill_and_an_end_of_a_program_while_there_is_no_head_are_not_forgotten(
    cluster: Start, head: Head
) -> None:
    import raymesh
    from raymesh.exceptions import ActorDiedError

    made = cluster(head.options, {"num_cpus": 4, "resources": {"other": 1}})
    doomed = _actor(raymesh).options(resources={"other": 0.1}, name="doomed").remote()
    raymesh.get(doomed.add.remote())
    program = f"""
import sys, raymesh
raymesh.init({made.address!r}, namespace="theirs")
@raymesh.remote(resources={{"other": 0.1}})
class A:
    def f(self):
        return 1
kept = A.options(name="kept", lifetime="detached").remote()
mortal = A.options(name="mortal").remote()
raymesh.get([kept.f.remote(), mortal.f.remote()])
print("ready", flush=True)
sys.stdin.read()
"""
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    names = {found["name"] for found in raymesh.util.list_named_actors(all_namespaces=True)}
    assert names == {"doomed", "kept", "mortal"}
    head.kill(made)
    raymesh.kill(doomed)
    other.kill()
    other.communicate()
    head.again(made)
    deadline = time.monotonic() + 30
    with pytest.raises(ActorDiedError, match=r"ray\.kill"):
        while time.monotonic() < deadline:
            raymesh.get(doomed.add.remote(), timeout=60)
    while names != {"kept"} and time.monotonic() < deadline:
        names = {found["name"] for found in raymesh.util.list_named_actors(all_namespaces=True)}
    assert names == {"kept"}
    assert raymesh.get(raymesh.get_actor("kept", namespace="theirs").f.remote()) == 1


def test_a_host_that_dies_with_the_head_is_missed(cluster: Start, head: Head) -> None:
    import raymesh

    made = cluster(head.options, {"num_cpus": 1, "resources": {"other": 1}}, {"num_cpus": 1})
    actor = (
        _actor(raymesh)
        .options(resources={"other": 0.1}, num_cpus=0, max_restarts=-1, max_task_retries=-1)
        .remote()
    )
    pid = raymesh.get(actor.pid.remote())
    head.kill(made)
    made.remove_node(made.worker_nodes[0], allow_graceful=False)
    call = actor.pid.remote()
    head.again(made)
    made.add_node(num_cpus=1, resources={"other": 1})
    assert raymesh.get(call, timeout=60) != pid
    made.wait_for_nodes()


def test_a_head_may_die_again_and_again_under_load(cluster: Start, head: Head) -> None:
    import raymesh

    made = cluster(head.options, {"num_cpus": 2, "resources": {"other": 4}})
    # What the tasks of this test need is on the other host only: nothing of it may fail.
    actor = _actor(raymesh).options(resources={"other": 0.1}).remote()

    @raymesh.remote(resources={"other": 0.1}, max_retries=0)
    def double(x: int) -> int:
        return 2 * x

    ended = threading.Event()
    problems: list[BaseException] = []
    counts = {"calls": 0, "tasks": 0, "actors": 0}

    def load(kind: str, once: Callable[[], None]) -> None:
        try:
            while not ended.is_set():
                once()
                counts[kind] += 1
        except BaseException as problem:
            problems.append(problem)

    def call() -> None:
        assert raymesh.get(actor.add.remote(), timeout=60) == counts["calls"] + 1

    def tasks() -> None:
        assert raymesh.get([double.remote(n) for n in range(20)], timeout=60) == [
            2 * n for n in range(20)
        ]
        time.sleep(0.05)  # leases end meanwhile

    def actors() -> None:
        one = _actor(raymesh).options(resources={"other": 0.1}, num_cpus=0).remote()
        assert raymesh.get(one.add.remote(), timeout=60) == 1

    jobs = [("calls", call), ("tasks", tasks), ("actors", actors)]
    threads = [threading.Thread(target=load, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    deaths = 6
    for _ in range(deaths):
        time.sleep(0.3)
        head.kill(made)
        time.sleep(0.2)
        head.again(made)
    before = dict(counts)
    deadline = time.monotonic() + 60
    while (
        any(counts[kind] < before[kind] + 3 for kind in counts)
        and time.monotonic() < deadline
        and not problems
    ):
        time.sleep(0.05)
    ended.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert all(counts[kind] >= before[kind] + 3 for kind in counts), (before, counts)


def test_who_waits_in_vain_is_told(cluster: Start, head: Head) -> None:
    import raymesh
    from raymesh.exceptions import RaySystemError

    made = cluster({**head.options, "patience": 3}, {"num_cpus": 1})

    @raymesh.remote(resources={"nowhere": 1})
    def never() -> None: ...

    waits = never.remote()
    head.kill(made)
    began = time.monotonic()
    with pytest.raises(RaySystemError, match="head of the cluster is gone"):
        raymesh.get(waits)
    assert time.monotonic() - began > 2
    (node,) = made.worker_nodes
    node._launched.process.wait(timeout=30)


def test_a_stopped_head_goes_on(cluster: Start, head: Head) -> None:
    import raymesh

    made = cluster(head.options, {"num_cpus": 2, "resources": {"other": 1}})
    actor = _actor(raymesh).options(resources={"other": 0.1}).remote()
    assert raymesh.get(actor.add.remote()) == 1
    os.kill(made.head_node.pid, signal.SIGSTOP)
    try:
        time.sleep(3)
        assert raymesh.get(actor.add.remote()) == 2
    finally:
        os.kill(made.head_node.pid, signal.SIGCONT)

    @raymesh.remote(resources={"other": 0.1})
    def f() -> int:
        return 3

    assert raymesh.get(f.remote(), timeout=60) == 3
    assert [node["Alive"] for node in raymesh.nodes()].count(True) == 2


def test_a_full_disk_under_the_journal_stops_nobody(cluster: Start, head: Head) -> None:
    import raymesh

    made = cluster(head.options, {"num_cpus": 2, "resources": {"other": 1}})
    log = made.head_node._launched.log
    journal = Path(head.options["journal"], f"head-{head.options['port']}", "journal.redb")
    # Like a disk on which nothing more is free: no file of the head may grow.
    resource.prlimit(made.head_node.pid, resource.RLIMIT_FSIZE, (journal.stat().st_size, -1))

    def export(n: int) -> int:
        filler = os.urandom(1_000_000)

        @raymesh.remote(resources={"other": 0.1})
        def f() -> int:
            return len(filler) + n

        return raymesh.get(f.remote(), timeout=60)

    assert [export(n) for n in range(8)] == [1_000_000 + n for n in range(8)]
    deadline = time.monotonic() + 30
    while "cannot be written" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    text = log.read_text()
    assert "cannot be written" in text
    assert "make room there" in text
    resource.prlimit(made.head_node.pid, resource.RLIMIT_FSIZE, (-1, -1))
    while "is written again" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "is written again" in log.read_text()
    actor = _actor(raymesh).options(resources={"other": 0.1}, name="after").remote()
    assert raymesh.get(actor.add.remote()) == 1
    head.kill(made)
    head.again(made)
    assert raymesh.get(raymesh.get_actor("after").add.remote(), timeout=60) == 2


def test_a_head_with_an_older_journal_does_not_go_on_as_if_nothing_had_happened(
    cluster: Start, head: Head
) -> None:
    import raymesh
    from raymesh.exceptions import RaySystemError

    made = cluster({**head.options, "patience": 6}, {"num_cpus": 2, "resources": {"other": 1}})
    counter = _actor(raymesh).options(resources={"other": 0.1}, num_cpus=0)
    raymesh.get(counter.options(name="early").remote().add.remote())
    journal = Path(head.options["journal"], f"head-{head.options['port']}", "journal.redb")
    older = journal.read_bytes()
    late = [counter.options(name=f"late-{n}").remote() for n in range(5)]
    assert raymesh.get([actor.add.remote() for actor in late]) == [1] * 5
    head.kill(made)
    newer = journal.read_bytes()
    journal.write_bytes(older)
    made.add_node(**{**head.options, "patience": 6})
    log = made.head_node._launched.log
    assert made.head_node._launched.process.wait(30) == 1
    assert "older than what its hosts have heard" in log.read_text()
    assert "start it with the journal that was written last" in log.read_text()
    # What lives goes on, and so does the cluster with the right one.
    made.remove_node(made.head_node)
    assert raymesh.get([actor.add.remote() for actor in late]) == [2] * 5
    journal.write_bytes(newer)
    made.add_node(**{**head.options, "patience": 6})
    assert raymesh.get(raymesh.get_actor("late-4").add.remote(), timeout=30) == 3
    # Without it, who waits is told when the others have waited long enough.
    head.kill(made)
    with pytest.raises(RaySystemError, match="head of the cluster is gone"):
        raymesh.get(counter.options(name="never").remote().add.remote(), timeout=60)


def test_what_was_decided_while_the_disk_was_full_is_not_half_forgotten(
    cluster: Start, head: Head
) -> None:
    import raymesh

    made = cluster({**head.options, "patience": 6}, {"num_cpus": 2, "resources": {"other": 1}})
    log = made.head_node._launched.log
    journal = Path(head.options["journal"], f"head-{head.options['port']}", "journal.redb")
    resource.prlimit(made.head_node.pid, resource.RLIMIT_FSIZE, (journal.stat().st_size, -1))
    counter = _actor(raymesh).options(resources={"other": 0.1}, num_cpus=0)

    deadline = time.monotonic() + 30
    while "cannot be written" not in log.read_text() and time.monotonic() < deadline:
        filler = os.urandom(300_000)

        @raymesh.remote(resources={"other": 0.1})
        def grow(filler: bytes = filler) -> int:
            return len(filler)

        assert raymesh.get(grow.remote(), timeout=60) == 300_000
    assert "cannot be written" in log.read_text()
    unwritten = counter.options(name="unwritten").remote()
    assert raymesh.get(unwritten.add.remote()) == 1
    head.kill(made)
    made.add_node(**{**head.options, "patience": 6})
    assert made.head_node._launched.process.wait(30) == 1
    assert raymesh.get(unwritten.add.remote()) == 2
    made.remove_node(made.head_node)


@pytest.mark.parametrize("damage", ["flipped", "cut off", "nothing"])
def test_a_damaged_journal_is_told_with_the_way_out(
    cluster: Start, head: Head, damage: str
) -> None:
    import raymesh

    made = cluster(head.options)
    actor = _actor(raymesh).options(lifetime="detached", name="there", num_cpus=0).remote()
    assert raymesh.get(actor.add.remote()) == 1
    journal = Path(head.options["journal"], f"head-{head.options['port']}", "journal.redb")
    raymesh.shutdown()
    head.kill(made)
    whole = journal.read_bytes()
    broken = bytearray(whole)
    for at in range(5000, len(whole), 997):
        broken[at] ^= 4
    journal.write_bytes({"flipped": bytes(broken), "cut off": whole[:9000], "nothing": b""}[damage])
    with pytest.raises(RuntimeError, match="cannot be used") as caught:
        head.again(made)
    assert "remove the file to begin a new cluster" in str(caught.value)
    assert "disk may be failing" in str(caught.value)
    journal.write_bytes(whole)
    head.again(made)


def test_a_journal_that_this_user_may_not_write_is_told(cluster: Start, head: Head) -> None:
    folder = Path(head.options["journal"])
    folder.write_text("a file")
    with pytest.raises(RuntimeError, match="--journal gives another folder"):
        cluster(head.options)


def test_a_second_head_on_one_address_is_refused_and_does_no_harm(
    cluster: Start, head: Head
) -> None:
    import raymesh
    from raymesh.cluster_utils import Cluster

    made = cluster(head.options, {"num_cpus": 1, "resources": {"other": 1}})
    second = Cluster(shutdown_at_exit=False)
    with pytest.raises(ConnectionError, match="another program has this port"):
        second.add_node(**head.options)
    actor = _actor(raymesh).options(resources={"other": 0.1}, name="unharmed").remote()
    assert raymesh.get(actor.add.remote()) == 1
    head.kill(made)
    head.again(made)
    assert raymesh.get(raymesh.get_actor("unharmed").add.remote(), timeout=60) == 2


def test_a_cluster_that_has_ended_is_not_begun_again(cluster: Start, head: Head) -> None:
    import raymesh

    made = cluster(head.options)
    _actor(raymesh).options(name="gone", lifetime="detached", num_cpus=0).remote()
    raymesh.get_actor("gone")
    address = made.address
    raymesh.shutdown()
    made.remove_node(made.head_node)
    assert list(Path(head.options["journal"]).iterdir()) == []
    head.again(made)
    assert made.address != address  # another token
    raymesh.init(address=made.address, log_to_driver=False)
    with pytest.raises(ValueError, match="gone"):
        raymesh.get_actor("gone")
