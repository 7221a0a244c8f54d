"""Hosts whose clocks do not agree: one is ten years ahead, one twenty years behind, and one was started long ago."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import raymesh as ray
from raymesh._launch import launch
from raymesh.cluster_utils import ClusterNode

Start = Callable[..., Any]

YEAR = 365 * 24 * 3600
_ASK = "import time; import datetime; print(time.time(), datetime.datetime.now().timestamp(), time.monotonic())"
_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long off(void) { const char *text = getenv("CLOCK_IS_OFF_BY"); return text ? atol(text) : 0; }

int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, at);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec += off();
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[str]]:
    """What is put before a command so that it, and what it starts, sees a wall clock that is so many seconds off."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make another clock with")
    folder = tmp_path_factory.mktemp("clock")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_SHIM)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)

    def prefix(seconds: int) -> list[str]:
        return ["env", f"LD_PRELOAD={library}", f"CLOCK_IS_OFF_BY={seconds}"]

    for found in _clocks(prefix(10 * YEAR))[:2]:
        assert abs(found - time.time() - 10 * YEAR) < 60
    return prefix


def _clocks(prefix: list[str]) -> list[float]:
    command = [*prefix, sys.executable, "-c", _ASK]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def long_ago() -> list[str]:
    """A host of which the system was started three years ago."""
    prefix = ["unshare", "--time", "--monotonic", str(3 * YEAR), "--boottime", str(3 * YEAR)]
    try:
        if _clocks(prefix)[2] > 3 * YEAR:
            return prefix
    except (OSError, subprocess.CalledProcessError):
        pass
    pytest.skip("no time namespaces here")


def _work(places: list[str]) -> None:
    """A little of everything that has a time in it, at each place."""

    @ray.remote(max_restarts=1, max_task_retries=1)
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def add(self, data: bytes) -> tuple[int, float]:
            self.count += len(data)
            return self.count, time.time()

        def die(self) -> None:
            import os

            os.abort()

    @ray.remote
    def clock() -> float:
        return time.time()

    for place in places:
        here = {"num_cpus": 0, "resources": {place: 0.1}}
        actor = Counter.options(**here).remote()
        large = ray.put(bytes(3_000_000))
        assert ray.get(actor.add.remote(large), timeout=60)[0] == 3_000_000
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(actor.die.options(max_task_retries=0).remote(), timeout=60)
        assert ray.get(actor.add.remote(b"again"), timeout=60)[0] == 5
        assert len(ray.get([clock.options(**here).remote() for _ in range(50)], timeout=60)) == 50
        ready, _ = ray.wait([clock.options(**here).remote()], timeout=60)
        assert ready
        # It waits as long as it is told, by any clock.
        with pytest.raises(ray.exceptions.GetTimeoutError):
            ray.get(clock.options(resources={place: 100}).remote(), timeout=0.2)
    group = ray.util.placement_group([{place: 0.1} for place in places], strategy="SPREAD")
    assert group.wait(60)
    ray.util.remove_placement_group(group)


def _add(made: Any, place: str, within: list[str]) -> ClusterNode:
    launched = launch(
        join=made.address, within=within, num_cpus=1, resources={place: 1}, node_name=place
    )
    node = ClusterNode(launched, head=False)
    made.worker_nodes.append(node)
    return node


def test_walls_that_show_different_years_do_not_matter(
    cluster: Start, shifted: Callable[[int], list[str]]
) -> None:
    made = cluster({"num_cpus": 1, "resources": {"now": 1}})
    _add(made, "ahead", shifted(10 * YEAR))
    _add(made, "behind", shifted(-20 * YEAR))

    @ray.remote
    def clock() -> float:
        return time.time()

    def ahead_by(place: str) -> float:
        seen = ray.get(clock.options(resources={place: 0.1}).remote(), timeout=60)
        return float(seen - time.time()) / YEAR

    assert round(ahead_by("ahead")) == 10
    assert round(ahead_by("behind")) == -20
    _work(["now", "ahead", "behind"])


def test_a_head_with_a_wrong_clock_is_joined_and_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shifted: Callable[[int], list[str]]
) -> None:
    # Its certificate is ten years from here.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    head = ClusterNode(
        launch(join=None, within=shifted(10 * YEAR), num_cpus=1, resources={"head": 1}), head=True
    )
    member = None
    try:
        member = ClusterNode(
            launch(join=head._launched.join, num_cpus=1, resources={"other": 1}), head=False
        )
        ray.init(address=member._launched.join, log_to_driver=False)
        _work(["head", "other"])
    finally:
        ray.shutdown()
        if member:
            member.kill_all_processes(allow_graceful=True)
        head.kill_all_processes(allow_graceful=True)


def test_the_age_of_a_host_s_system_does_not_matter(cluster: Start) -> None:
    within = long_ago()
    made = cluster({"num_cpus": 1, "resources": {"young": 1}})
    old = _add(made, "old", within)
    _work(["young", "old"])
    # A deadline is a length of time on the head's clock, whatever the other's shows.
    before = time.monotonic()
    (node,) = [node for node in ray.nodes() if "old" in node["Resources"]]

    @ray.remote(num_cpus=0, resources={"old": 0.1}, max_restarts=0)
    class Keeps:
        def stay(self) -> None:
            pass

    keeper = Keeps.remote()
    ray.get(keeper.stay.remote(), timeout=60)
    from raymesh import _native

    assert _native.drain_host(bytes.fromhex(node["NodeID"]), "its time is up", 1.0) is None
    old._launched.process.wait(30)
    assert 0.9 < time.monotonic() - before < 20
