"""Where a cluster keeps packages: an actor on its head.

A driver hands in what a job needs, and one worker of each machine fetches it, in pieces, which travel as objects do.
The first driver that has a package makes the actor; it ends with the cluster.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

from raymesh.runtime_env import _cache, _packages

NAME = "raymesh_packages"
NAMESPACE = "_raymesh"
_PIECE = 8 << 20
_KEEP_BYTES = 8 << 30
"""When there is more, what was not asked for lately goes."""


class Keeper:
    """Has the packages in a folder of its own, which goes when its cluster has ended."""

    def __init__(self) -> None:
        # The same again after a restart, with what is in it.
        self._folder = _cache.root() / f"kept-{os.environ.get('RAYMESH_SESSION', os.getpid())}"
        self._drop_left_behind()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def has(self, uri: str) -> bool:
        """Whether the package is here. It will not go soon."""
        path = self._path(uri)
        if not path.is_file():
            return False
        os.utime(path)
        return True

    def write(self, uri: str, upload: str, piece: bytes, last: bool) -> None:
        """Takes the next piece of a package. `upload` tells apart who sends the same one at once."""
        path = self._path(uri)
        partial = path.with_name(f"{path.name}.{upload}")
        with partial.open("ab") as file:
            file.write(piece)
            size = file.tell()
        if size > _packages.MAX_BYTES:
            partial.unlink()
            raise ValueError(f"{uri} has more than {_packages.MAX_BYTES} bytes")
        if last:
            partial.rename(path)
            self._drop_oldest(keep=path)

    def read(self, uri: str, at: int) -> bytes:
        """The piece that begins there; empty at the end. Raises KeyError if there is no such package."""
        try:
            with self._path(uri).open("rb") as file:
                file.seek(at)
                return file.read(_PIECE)
        except FileNotFoundError:
            raise KeyError(uri) from None

    def _path(self, uri: str) -> Path:
        name = _packages.name_in(uri)
        if name is None:
            raise ValueError(f"{uri!r} is no name of a package")
        return self._folder / name

    def _drop_oldest(self, keep: Path) -> None:
        files = [(path.stat(), path) for path in self._folder.iterdir() if path.name != "lock"]
        files.sort(key=lambda item: item[0].st_mtime, reverse=True)
        total = 0
        for status, path in files:
            total += status.st_size
            if total > _KEEP_BYTES and path != keep:
                path.unlink(missing_ok=True)

    def _drop_left_behind(self) -> None:
        for folder in self._folder.parent.glob("kept-*"):
            if folder == self._folder:
                continue
            try:
                descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                pass  # its cluster runs
            finally:
                os.close(descriptor)


def keeper() -> Any:
    """A handle of the actor, which is made if there is none."""
    import raymesh
    from raymesh.runtime_env._work import BARE

    return (
        raymesh.remote(Keeper)
        .options(
            name=NAME,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            resources={"node:__internal_head__": 0.001},
            max_restarts=-1,
            max_task_retries=3,
            runtime_env=BARE,
        )
        .remote()
    )


def upload(uri: str, file: Path) -> None:
    """Hands in a package, unless the cluster has it."""
    import uuid

    import raymesh

    kept = keeper()
    if raymesh.get(kept.has.remote(uri)):
        return
    name = uuid.uuid4().hex
    with file.open("rb") as source:
        piece = source.read(_PIECE)
        while True:
            following = source.read(_PIECE)
            raymesh.get(kept.write.remote(uri, name, piece, not following))
            if not following:
                return
            piece = following


def download(uri: str, into: Path) -> None:
    """Fetches a package from the head. Raises FileNotFoundError if the cluster does not have it."""
    import raymesh

    try:
        kept = raymesh.get_actor(NAME, namespace=NAMESPACE)
        at = 0
        with into.open("wb") as target:
            while piece := raymesh.get(kept.read.remote(uri, at)):
                target.write(piece)
                at += len(piece)
    except (KeyError, ValueError):
        raise FileNotFoundError(
            f"the cluster does not have the package {uri}.\n"
            "hint: hand it in again: with init(runtime_env=...) or a new submission of the job"
        ) from None
