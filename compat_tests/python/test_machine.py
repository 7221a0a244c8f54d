"""What a host has: containers limit what the kernel shows."""

from __future__ import annotations

import os

import pytest

from raymesh import _init_options, _machine


@pytest.fixture
def files(monkeypatch):
    """The kernel's files, as far as a test sets them."""
    known: dict[str, str] = {"/proc/meminfo": "MemTotal: 8000 kB\nMemAvailable: 4000 kB\n"}
    monkeypatch.setattr(_machine, "_read", known.get)
    monkeypatch.setattr(_machine.glob, "glob", lambda pattern: [])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return known


def test_cpus_are_those_of_the_affinity(files):
    assert _machine.cpu_count() == 8


def test_cgroup_quota_limits_cpus_also_from_above(files):
    files["/proc/self/cgroup"] = "0::/pod/container\n"
    files["/sys/fs/cgroup/pod/container/cpu.max"] = "max 100000"
    files["/sys/fs/cgroup/pod/cpu.max"] = "250000 100000"
    assert _machine.cpu_quota() == 2.5
    assert _machine.cpu_count() == 2


def test_less_than_a_cpu_is_one(files):
    files["/sys/fs/cgroup/cpu.max"] = "50000 100000"
    assert _machine.cpu_count() == 1


def test_old_cgroups_limit_too(files):
    files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "300000"
    files["/sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000"
    files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "2048000"
    files["/sys/fs/cgroup/memory/memory.usage_in_bytes"] = "1024000"
    assert _machine.cpu_count() == 3
    assert _machine.memory_total() == 2048000
    assert _machine.memory_available() == 1024000


def test_file_cache_of_a_cgroup_counts_as_available(files):
    files["/sys/fs/cgroup/memory.max"] = "2048000"
    files["/sys/fs/cgroup/memory.current"] = "2000000"
    files["/sys/fs/cgroup/memory.stat"] = "anon 1\ninactive_file 1000000\n"
    assert _machine.memory_available() == 1048000


def test_no_limit_is_no_limit(files):
    files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712"
    files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "-1"
    files["/sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000"
    assert _machine.memory_total() == 8000 * 1024
    assert _machine.cpu_quota() is None


@pytest.mark.parametrize(
    ("visible", "count"), [(None, 2), ("", 0), ("-1", 0), ("1", 1), ("0,1", 2), ("NoDevFiles", 0)]
)
def test_gpus_are_those_that_are_visible(files, monkeypatch, visible, count):
    found = {
        "/proc/driver/nvidia/gpus/*/information": ["/proc/a", "/proc/b"],
        "/dev/nvidia[0-9]*": ["/dev/nvidia0", "/dev/nvidia1"],
    }
    monkeypatch.setattr(_machine.glob, "glob", lambda pattern: found.get(pattern, []))
    files["/proc/a"] = files["/proc/b"] = "Model: \t NVIDIA A100-SXM4-40GB\nIRQ: 1\n"
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    names = _machine.gpu_names()
    assert names == ["NVIDIA A100-SXM4-40GB"] * count


def test_container_has_the_gpus_whose_devices_it_has(files, monkeypatch):
    found = {
        "/proc/driver/nvidia/gpus/*/information": ["/proc/a", "/proc/b"],
        "/dev/nvidia[0-9]*": ["/dev/nvidia1"],
    }
    monkeypatch.setattr(_machine.glob, "glob", lambda pattern: found.get(pattern, []))
    assert len(_machine.gpu_names()) == 1


@pytest.mark.parametrize(
    ("name", "short"),
    [("NVIDIA A100-SXM4-40GB", "A100"), ("Tesla V100-SXM2-16GB", "V100"), ("NVIDIA H200", "H200")],
)
def test_accelerator_types_are_rays(name, short):
    assert _machine.accelerator_type(name) == short


def host(**wishes):
    known = dict.fromkeys(
        ("num_cpus", "num_gpus", "resources", "object_store_memory", "memory", "ip_address")
    )
    return _init_options.host(**{**known, **wishes})


def test_host_offers_what_it_has(files, monkeypatch):
    files["/proc/meminfo"] = "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n"
    made = host(ip_address="10.0.0.1", resources={"a": 2})
    available = 4000000 * 1024
    assert made.object_store_memory == int(available * 0.3)
    assert made.resources == {
        "CPU": 8.0,
        "memory": float(available - made.object_store_memory),
        "node:10.0.0.1": 1.0,
        "node:__internal_head__": 1.0,
        "a": 2.0,
    }


def test_wishes_count(files):
    made = host(num_cpus=3, num_gpus=2, object_store_memory=100 << 20, memory=5, ip_address="h")
    assert made.resources["CPU"] == 3.0
    assert made.resources["GPU"] == 2.0
    assert made.resources["memory"] == 5.0
    assert made.object_store_memory == 100 << 20


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"num_cpus": -1}, ValueError),
        ({"num_cpus": "a"}, AssertionError),
        ({"resources": {"CPU": 1}}, AssertionError),
        ({"resources": {"a": -1}}, ValueError),
        ({"object_store_memory": 10}, ValueError),
    ],
)
def test_wrong_wishes_are_told(files, wishes, error):
    with pytest.raises(error):
        host(**wishes)
