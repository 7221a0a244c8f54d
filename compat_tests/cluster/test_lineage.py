"""A host is lost with its memory: what tasks made there is made again, and what cannot be says why."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raymesh as ray
from raymesh.exceptions import (
    ActorUnavailableError,
    GetTimeoutError,
    NodeDiedError,
    ObjectLostError,
    ObjectReconstructionFailedError,
    OwnerDiedError,
)

Start = Callable[..., Any]

HEAD = {"num_cpus": 2, "resources": {"head": 10}}
FAR = {"num_cpus": 4, "resources": {"far": 10}}
N = 200_000

pytestmark = pytest.mark.faults


@ray.remote(num_cpus=0.1, resources={"far": 0.1})
def big(x: int, log: str = "") -> Any:
    if log:
        with open(log, "a") as lines:
            print(x, file=lines)
    return np.full(N, x)


@ray.remote(num_cpus=0.1, resources={"far": 0.1})
def plus(array: Any, k: int) -> Any:
    return array + k


@ray.remote(num_cpus=0.1)
def first(array: Any) -> int:
    return int(array[0])


@ray.remote(num_cpus=0, resources={"head": 0.1})
class Reader:
    def keep(self, box: list[Any]) -> int:
        self.box = box
        return int(ray.get(box[0])[0])

    def again(self) -> int:
        return int(ray.get(self.box[0])[0])


def swap(made: Any) -> None:
    """The far host is killed; another one takes its place."""
    made.remove_node(made.worker_nodes[0], allow_graceful=False)
    made.add_node(**FAR)


def runs(log: Path) -> list[str]:
    return log.read_text().split()


def value(ref: Any, timeout: float = 60) -> int:
    return int(ray.get(ref, timeout=timeout)[0])


def test_a_chain_is_made_again_once_for_all_its_readers(cluster: Start, tmp_path: Path) -> None:
    made = cluster(HEAD, FAR)
    log = tmp_path / "runs"
    begin = big.remote(1, str(log))
    end = plus.remote(plus.remote(begin, 1), 1)
    ray.wait([end])
    del begin
    swap(made)
    readers = [first.options(resources={where: 0.1}).remote(end) for where in ("head", "far")]
    assert ray.get([*readers, first.remote(plus.remote(end, 10))], timeout=60) == [3, 3, 13]
    assert value(end) == 3
    assert runs(log) == ["1", "1"]


def test_nobody_makes_again_what_nobody_wants(cluster: Start, tmp_path: Path) -> None:
    made = cluster(HEAD, FAR)
    log = tmp_path / "runs"
    refs = [big.remote(n, str(log)) for n in range(4)]
    ray.wait(refs, num_returns=4)
    swap(made)
    assert value(refs[2]) == 2
    assert sorted(runs(log)) == ["0", "1", "2", "2", "3"]


def test_readers_elsewhere_and_wait_get_what_was_made_again(cluster: Start) -> None:
    made = cluster(HEAD, FAR)
    reader = Reader.remote()
    read, unread = big.remote(5), big.remote(6)
    assert ray.get(reader.keep.remote([read])) == 5
    made.remove_node(made.worker_nodes[0], allow_graceful=False)
    made.wait_for_nodes()
    ready, rest = ray.wait([unread], timeout=0.5)
    assert (ready, rest) == ([], [unread])
    with pytest.raises(GetTimeoutError):
        ray.get(unread, timeout=0.2)
    # There is nowhere to make it yet.
    asked = first.remote(unread)
    made.add_node(**FAR)
    assert ray.wait([unread], timeout=60) == ([unread], [])
    assert ray.get([reader.again.remote(), asked], timeout=60) == [5, 6]
    assert value(unread) == 6


def test_what_tasks_were_given_is_there_when_they_run_again(cluster: Start) -> None:
    made = cluster(HEAD, FAR)
    put = ray.put(np.ones(N))
    refs = [plus.remote(put, 1), plus.remote(np.full(N, 7), 1), plus.remote(big.remote(3), 4)]
    ray.wait(refs, num_returns=3)
    del put
    swap(made)
    assert [value(ref) for ref in refs] == [2, 8, 7]


def test_references_inside_and_several_results(cluster: Start) -> None:
    made = cluster(HEAD, FAR)

    @ray.remote(num_cpus=0.1, resources={"far": 0.1}, num_returns=3)
    def three() -> Any:
        return np.zeros(N), time.time(), [ray.put(np.full(N, 8)), np.ones(N)]

    large, small, box = three.remote()
    ray.wait([large, small, box], num_returns=3)
    before = ray.get(small)
    swap(made)
    assert value(large) == 0
    assert ray.get(small) == before, "what was not lost stays as it was"
    inner, array = ray.get(box, timeout=60)
    assert (value(inner), array[0]) == (8, 1)


def test_what_cannot_be_made_again_says_why(cluster: Start, tmp_path: Path) -> None:
    made = cluster(HEAD, FAR)

    @ray.remote(num_cpus=0, resources={"far": 0.1})
    class Maker:
        def make(self) -> Any:
            return np.ones(N)

        def put(self) -> list[Any]:
            return [ray.put(np.ones(N))]

    maker = Maker.remote()
    again = Maker.options(max_restarts=1, max_task_retries=2).remote()
    once = big.options(max_retries=0).remote(1)
    spent = big.options(max_retries=1).remote(2)
    method, kept = maker.make.remote(), again.make.remote()
    [inner] = ray.get(maker.put.remote())
    ray.wait([once, spent, method, kept, inner], num_returns=5)
    swap(made)
    with pytest.raises(ObjectReconstructionFailedError, match="max_retries=0") as failed:
        value(once)
    assert failed.value.reason == "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED"
    with pytest.raises(ObjectReconstructionFailedError, match="max_task_retries"):
        value(method)
    with pytest.raises(OwnerDiedError):
        value(inner)
    with pytest.raises(ObjectLostError, match="not to be run again"):
        ray.get(first.remote(once))
    assert value(kept) == 1
    assert ray.wait([spent], timeout=60) == ([spent], [])
    swap(made)
    with pytest.raises(ObjectReconstructionFailedError, match="as often as it may"):
        value(spent)


def test_what_was_read_before_is_still_there(cluster: Start) -> None:
    made = cluster(HEAD, FAR)
    once = big.options(max_retries=0).remote(9)
    assert value(once) == 9
    swap(made)
    assert value(once) == 9
    assert ray.get(first.options(resources={"far": 0.1}).remote(once), timeout=60) == 9


def test_the_owner_may_be_a_task_that_waits(cluster: Start, tmp_path: Path) -> None:
    made = cluster(HEAD, FAR)
    go = tmp_path / "go"

    @ray.remote(resources={"head": 1})
    def owner(go: str) -> int:
        ref = plus.remote(big.remote(4), 1)
        ray.wait([ref])
        Path(go + ".ready").touch()
        while not os.path.exists(go):
            time.sleep(0.01)
        return int(ray.get(ref)[0])

    result = owner.remote(str(go))
    while not Path(f"{go}.ready").exists():
        time.sleep(0.01)
    swap(made)
    go.touch()
    assert ray.get(result, timeout=60) == 5


def test_tasks_and_calls_on_a_lost_host_run_again_elsewhere(cluster: Start, tmp_path: Path) -> None:
    made = cluster(HEAD, FAR)

    @ray.remote(num_cpus=0.1, resources={"far": 0.1})
    def sleep_once(flag: str) -> str:
        if not os.path.exists(flag):
            Path(flag).touch()
            time.sleep(600)
        return "done"

    @ray.remote(num_cpus=0.1, resources={"far": 0.1}, max_restarts=1)
    class Sleeper:
        def run(self, flag: str) -> str:
            if not os.path.exists(flag):
                Path(flag).touch()
                time.sleep(600)
            return "done"

    flags = [str(tmp_path / f"flag-{n}") for n in range(4)]
    sleepers = [Sleeper.remote(), Sleeper.remote()]
    retried = sleep_once.options(max_retries=-1).remote(flags[0])
    failed = sleep_once.options(max_retries=0).remote(flags[1])
    again = sleepers[0].run.options(max_task_retries=1).remote(flags[2])
    queued = sleepers[0].run.options(max_task_retries=1).remote(flags[2])
    unanswered = sleepers[1].run.remote(flags[3])
    while not all(map(os.path.exists, flags)):
        time.sleep(0.01)
    swap(made)
    with pytest.raises(NodeDiedError, match="host that was lost"):
        ray.get(failed, timeout=60)
    with pytest.raises(ActorUnavailableError, match="died"):
        ray.get(unanswered, timeout=60)
    assert ray.get([retried, again, queued], timeout=60) == ["done"] * 3
    assert ray.get(sleepers[1].run.remote(flags[3]), timeout=60) == "done"


def test_what_is_remembered_has_a_limit(cluster: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_max_lineage_bytes", "2000")
    made = cluster(HEAD, FAR)
    refs = []
    for n in range(8):
        refs.append(big.remote(n))
        ray.wait(refs[-1:])
    swap(made)
    with pytest.raises(ObjectReconstructionFailedError, match="RAY_max_lineage_bytes"):
        value(refs[0])
    assert value(refs[-1]) == 7
