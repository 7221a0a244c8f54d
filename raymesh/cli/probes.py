"""What `raymesh doctor` looks at. Each probe returns one finding and raises nothing."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import platform
import resource
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from raymesh import _machine


class Finding(NamedTuple):
    """What one probe found. "note": not there, and not needed."""

    verdict: Literal["ok", "note", "warn"]
    what: str
    found: str
    advice: str = ""


def all_findings() -> Iterator[Finding]:
    """The findings of all probes, in the order of the table."""
    for probe in _PROBES:
        try:
            yield probe()
        except Exception as error:
            name = probe.__name__.strip("_").replace("_", " ")
            yield Finding("warn", name, f"could not be told: {error}", "please report this")


def _raymesh() -> Finding:
    import raymesh
    from raymesh import _native

    return Finding("ok", "raymesh", f"{raymesh.__version__} (wire version {_native.WIRE_VERSION})")


def _python() -> Finding:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    return Finding("ok", "Python", found)


def _kernel() -> Finding:
    found = f"{platform.system()} {platform.release()}"
    major, minor = (int(part) for part in platform.release().split(".")[:2])
    if (major, minor) < (5, 4):
        return Finding("warn", "kernel", found, "pidfds need Linux 5.4: update the kernel")
    return Finding("ok", "kernel", found)


def _cores() -> Finding:
    online, allowed = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    quota = _machine.cpu_quota()
    found = f"{online} online, {allowed} allowed by affinity"
    if quota is not None:
        found += f", {quota:g} by cgroup"
        if quota < allowed:
            advice = f"raymesh counts {_machine.cpu_count()}: raise the CPU limit of the container"
            return Finding("warn", "cores", found, advice)
    if _machine.cpu_count() == 1:
        return Finding("warn", "cores", found, "processes take turns on one core: calls are slow")
    return Finding("ok", "cores", found)


def _memory() -> Finding:
    total, available = _machine.memory_total(), _machine.memory_available()
    found = f"{_bytes(total)}, {_bytes(available)} available"
    limits = _machine.memory_limits()
    if limits:
        found += f", cgroup limit {_bytes(min(limits))}"
    if available < 1 << 30:
        return Finding("warn", "memory", found, "less than 1 GiB is free: end other programs")
    return Finding("ok", "memory", found)


def _object_store() -> Finding:
    size = _machine.object_store_memory(_machine.memory_available())
    return Finding("ok", "object store", f"{_bytes(size)} by default")


def _shared_memory() -> Finding:
    file = os.memfd_create("raymesh-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, 1 << 20)
        os.posix_fallocate(file, 0, 1 << 20)
    except OSError as error:
        advice = "shared memory is charged to the cgroup: raise its memory limit"
        return Finding("warn", "shared memory", f"memfd: {error.strerror}", advice)
    finally:
        os.close(file)
    return Finding("ok", "shared memory", "memfd with sealing; /dev/shm is not used")


def _huge_pages() -> Finding:
    path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
    try:
        with open(path, encoding="ascii") as file:
            text = file.read()
    except OSError:
        return Finding("note", "huge pages", "not supported for shared memory by this kernel")
    mode = text.partition("[")[2].partition("]")[0]
    if mode in ("never", "deny"):
        advice = f"echo advise > {path} (as root): large puts into new memory become faster"
        return Finding("note", "huge pages", f"shared memory: {mode}", advice)
    return Finding("ok", "huge pages", f"shared memory: {mode}")


def _futex() -> Finding:
    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.c_uint32(0)
    number = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
    if number is None:
        return Finding("note", "futex", f"not probed on {platform.machine()}")
    # FUTEX_WAIT for 1 while the word holds 0: answers EAGAIN at once where futexes work.
    libc.syscall(number, ctypes.byref(word), 0, 1, None, None, 0)
    error = ctypes.get_errno()
    if error != errno.EAGAIN:
        advice = "a sandbox forbids it: allow the futex system call"
        return Finding("warn", "futex", os.strerror(error), advice)
    return Finding("ok", "futex", "works")


def _pidfd() -> Finding:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        advice = "a sandbox or an old kernel forbids it: deaths of processes are noticed later"
        return Finding("warn", "pidfd", error.strerror or str(error), advice)
    return Finding("ok", "pidfd", "works")


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{soft} (up to {hard})"
    if soft < 4096:
        return Finding("warn", "open files", found, "ulimit -n 65536 before many workers are used")
    return Finding("ok", "open files", found)


def _processes() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    found = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    if soft != resource.RLIM_INFINITY and soft < 1024:
        return Finding("warn", "processes", found, "ulimit -u 4096 before many workers are used")
    return Finding("ok", "processes", found)


def _rdma() -> Finding:
    devices = sorted(os.path.basename(path) for path in glob.glob("/sys/class/infiniband/*"))
    if not devices:
        return Finding("note", "RDMA", "no device", "not needed on one host")
    if not glob.glob("/dev/infiniband/uverbs*"):
        advice = "load ib_uverbs, or pass /dev/infiniband into the container"
        return Finding("warn", "RDMA", f"{', '.join(devices)}, without /dev/infiniband", advice)
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and soft < 1 << 30:
        advice = "ulimit -l unlimited: memory cannot be registered with the device"
        return Finding("warn", "RDMA", f"{', '.join(devices)}, {_bytes(soft)} lockable", advice)
    return Finding("ok", "RDMA", ", ".join(devices))


def _gpus() -> Finding:
    names = _machine.gpu_names()
    if names:
        return Finding("ok", "GPUs", ", ".join(names))
    if os.environ.get("CUDA_VISIBLE_DEVICES") is not None:
        value = os.environ["CUDA_VISIBLE_DEVICES"]
        return Finding("note", "GPUs", f"none visible (CUDA_VISIBLE_DEVICES={value!r})")
    return Finding("note", "GPUs", "none")


def _package(name: str, use: str) -> Callable[[], Finding]:
    def probe() -> Finding:
        from importlib import metadata

        try:
            return Finding("ok", name, metadata.version(name))
        except metadata.PackageNotFoundError:
            return Finding("note", name, "not installed", f"pip install {name} for {use}")

    probe.__name__ = name
    return probe


def _bytes(amount: int) -> str:
    value = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


_PROBES: tuple[Callable[[], Finding], ...] = (
    _raymesh,
    _python,
    _kernel,
    _cores,
    _memory,
    _object_store,
    _shared_memory,
    _huge_pages,
    _futex,
    _pidfd,
    _open_files,
    _processes,
    _rdma,
    _gpus,
    _package("numpy", "arrays that are read without a copy"),
    _package("torch", "tensors that are read without a copy"),
)
