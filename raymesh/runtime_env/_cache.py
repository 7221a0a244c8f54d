"""Packages that are unpacked on this machine: each once, for as long as somebody uses it.

Whoever uses a package holds a shared lock on a file beside it. The kernel lets go of it when the process ends,
however that happens, so an exclusive lock that can be had says that nobody needs the package any more. Hosts of one
user on one machine share all this.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from raymesh.runtime_env import _packages

_KEEP_S = 600.0
"""Packages that nobody uses stay for so long: the next worker may need them."""
_MAX_UNPACKED = 16 << 30
"""Bytes. A small archive can be made that unpacks to any size."""

_MAX_ENTRIES = 1 << 20
"""Nor does it take much to fill a file system with empty files."""

_held: dict[str, int] = {}
"""Descriptors with the locks of this process, by package. Never closed: the process lives in them."""


def root() -> Path:
    """Where packages are. Raises PermissionError if somebody else could change what is there."""
    path = Path(tempfile.gettempdir(), f"raymesh-packages-{os.getuid()}")
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{path} is not a folder of this user alone.\nhint: remove it; programs are run from there."
        )
    return path


def hold(uri: str, fetch: Callable[[Path], object]) -> Path:
    """The folder of a package, which stays there until this process ends or lets go.

    `fetch` writes the archive into the file that it is given, if nobody on this machine has it yet.
    """
    name = _packages.name_in(uri)
    if name is None:
        raise ValueError(
            f"{uri!r} is no package of a cluster.\n"
            "hint: give a folder of this machine to init(runtime_env=...)"
        )
    folder = root() / name.rpartition(".")[0]
    if name in _held:
        return folder
    lock = folder.with_name(f"{name}.lock")
    while True:
        descriptor = _locked(lock, fcntl.LOCK_SH)
        if folder.is_dir():
            os.utime(descriptor)
            _held[name] = descriptor
            sweep(_KEEP_S)
            return folder
        os.close(descriptor)
        descriptor = _locked(lock, fcntl.LOCK_EX)
        try:
            if not folder.is_dir():
                _unpack(folder, fetch)
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)


def release() -> None:
    """This process needs none of its packages any more: those that nobody else uses go."""
    names = list(_held)
    while _held:
        os.close(_held.popitem()[1])
    for name in names:
        _remove_unused(root() / f"{name}.lock")


def sweep(older_s: float = 0.0) -> None:
    """Removes packages that nobody uses, and that were not taken up lately."""
    before = time.time() - older_s
    for lock in root().glob("*.lock"):
        with contextlib.suppress(FileNotFoundError):
            if lock.stat().st_mtime <= before:
                _remove_unused(lock)


def _remove_unused(lock: Path) -> None:
    try:
        descriptor = _locked(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    try:
        shutil.rmtree(lock.with_name(lock.stem.rpartition(".")[0]), ignore_errors=True)
        lock.unlink()
    finally:
        os.close(descriptor)


def _locked(path: Path, how: int) -> int:
    """A descriptor that has the lock of the file that is there now, and not of one that was removed."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _too_much(folder: Path, what: str) -> ValueError:
    return ValueError(
        f"the package {folder.name} {what}\nhint: to leave files out, {_packages.LEAVE_OUT}"
    )


def _unpack(folder: Path, fetch: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(dir=root(), prefix="incoming-") as scratch:
        archive = Path(scratch, "archive")
        fetch(archive)
        whole = Path(scratch, "whole")
        whole.mkdir()
        with zipfile.ZipFile(archive) as packed:
            entries = packed.infolist()
            if sum(entry.file_size for entry in entries) > _MAX_UNPACKED:
                raise _too_much(folder, f"unpacks to more than {_MAX_UNPACKED} bytes")
            if len(entries) > _MAX_ENTRIES:
                raise _too_much(folder, f"has more than {_MAX_ENTRIES} entries")
            for entry in entries:
                # `extract` lets no entry out of the folder; links are written as files.
                written = packed.extract(entry, whole)
                if (mode := entry.external_attr >> 16 & 0o777) and not entry.is_dir():
                    os.chmod(written, mode | 0o600)
        whole.rename(folder)
