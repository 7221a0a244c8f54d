"""What this host has: processors, memory, GPUs, address. Reads the kernel's files; imports little."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator

_CGROUP = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60
"""Cgroups of version 1 write "no limit" as a number of about this size."""

_MAX_STORE = 200 * 10**9
_STORE_PART = 0.3


def cpu_count() -> int:
    """Processors that this process may use: affinity and cgroup quota, rounded down, at least 1."""
    count = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return count if quota is None else max(1, min(count, int(quota)))


def cpu_quota() -> float | None:
    """Processors that the cgroups allow, if they limit it."""
    quotas = []
    for folder in _cgroup_folders():
        words = (_read(f"{folder}/cpu.max") or "").split()
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
    quota, period = (_number(f"{_CGROUP}/cpu/cpu.cfs_{what}_us") for what in ("quota", "period"))
    if quota and period and quota > 0:
        quotas.append(quota / period)
    return min(quotas, default=None)


def memory_total() -> int:
    """Bytes of memory that this process and its children may use."""
    return min([_meminfo("MemTotal"), *memory_limits()])


def memory_available() -> int:
    """Bytes of memory that can still be used."""
    total = memory_total()
    free = _meminfo("MemAvailable")
    for limit, used in _cgroup_memory():
        free = min(free, max(limit - used, 0))
    return min(free, total)


def memory_limits() -> list[int]:
    """Limits, in bytes, that cgroups set."""
    return [limit for limit, _ in _cgroup_memory()]


def object_store_memory(available: int) -> int:
    """Bytes of a store of the default size: 30% of what is available, 200 GB at most."""
    part = float(os.environ.get("RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION", _STORE_PART))
    most = int(os.environ.get("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", _MAX_STORE))
    return max(min(int(available * part), most), 1)


def gpu_names() -> list[str]:
    """Names of the GPUs that this process may use."""
    names = []
    for file in sorted(glob.glob("/proc/driver/nvidia/gpus/*/information")):
        found = re.search(r"^Model:\s*(.+)$", _read(file) or "", re.MULTILINE)
        names.append(found[1].strip() if found else "NVIDIA GPU")
    devices = glob.glob("/dev/nvidia[0-9]*")
    # A container may see all GPUs in /proc and only its own in /dev.
    names = names[: len(devices)] if len(devices) < len(names) else names
    names += ["NVIDIA GPU"] * (len(devices) - len(names))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return names
    wanted = [item for item in visible.split(",") if item.strip() not in ("", "-1", "NoDevFiles")]
    return names[: len(wanted)]


def accelerator_type(name: str) -> str:
    """Ray's short name of a GPU: "A100" for "NVIDIA A100-SXM4-40GB"."""
    words = [word for word in name.split() if word not in ("NVIDIA", "Tesla")]
    return words[0].partition("-")[0] if words else "GPU"


def host_name() -> str:
    """The name of this host."""
    return os.uname().nodename


def ip_address() -> str:
    """The address by which other hosts would reach this one; loopback where there is no network."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: it only asks the kernel which interface it would take.
            probe.connect(("198.51.100.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _cgroup_folders() -> Iterator[str]:
    """The folders of this process's cgroup (version 2) and of those around it."""
    for line in (_read("/proc/self/cgroup") or "").splitlines():
        if not line.startswith("0::"):
            continue
        path = line[3:].strip("/")
        while path:
            yield f"{_CGROUP}/{path}"
            path = path.rpartition("/")[0]
    yield _CGROUP


def _cgroup_memory() -> list[tuple[int, int]]:
    """Limit and use, in bytes, of each cgroup that limits memory."""
    found = []
    for folder in _cgroup_folders():
        limit = _number(f"{folder}/memory.max")
        if limit is not None:
            used = _number(f"{folder}/memory.current") or 0
            found.append((limit, used - _reclaimable(f"{folder}/memory.stat")))
    limit = _number(f"{_CGROUP}/memory/memory.limit_in_bytes")
    if limit is not None and limit < _NO_LIMIT:
        used = _number(f"{_CGROUP}/memory/memory.usage_in_bytes") or 0
        found.append((limit, used - _reclaimable(f"{_CGROUP}/memory/memory.stat")))
    return found


def _reclaimable(stat_file: str) -> int:
    """Bytes of the file cache that the kernel gives back when memory is short."""
    found = re.search(r"^(?:total_)?inactive_file (\d+)$", _read(stat_file) or "", re.MULTILINE)
    return int(found[1]) if found else 0


def _meminfo(field: str) -> int:
    found = re.search(rf"^{field}:\s*(\d+) kB", _read("/proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else 1 << 30


def _number(path: str) -> int | None:
    text = (_read(path) or "").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
