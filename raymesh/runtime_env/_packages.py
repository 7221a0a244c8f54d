"""Folders as packages: zip files that are equal when what is in them is, named by it.

A name says what is inside, so a package is carried and unpacked once, whoever has made it again.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from raymesh.runtime_env import _ignore

MAX_BYTES = 512 << 20
"""Of a package. As in Ray."""
LEAVE_OUT = "add them to '.gitignore' or '.rayignore' files, or use the 'excludes' option in the runtime_env."
"""How a package gets smaller."""
_DEFAULT_EXCLUDES = ".git,.venv,venv,__pycache__"
_URI = re.compile(r"gcs://([A-Za-z0-9_][A-Za-z0-9_.-]{0,150}\.(?:zip|whl))\Z")
_CHUNK = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Package(NamedTuple):
    """A package that lies in a temporary file, which whoever made it removes."""

    uri: str
    file: Path


def name_in(uri: str) -> str | None:
    """The file name of a package; None if that is no name of one."""
    found = _URI.match(uri)
    return None if found is None or ".." in uri else found[1]


def make(path: str, *, excludes: Iterable[str], as_module: bool) -> Package:
    """Packs a folder, or takes an archive as it is.

    `as_module`: what imports it is to find the folder itself, not what is in it. Raises ValueError if
    there is nothing to be packed, or too much.
    """
    root = Path(path).expanduser().absolute()
    if root.is_file() and root.suffix in ((".zip", ".whl") if as_module else (".zip",)):
        return _archive(root)
    if root.is_file() and as_module and root.suffix == ".py":
        return _zipped([(root, root.name)])
    if not root.is_dir():
        raise ValueError(
            f"directory {path} must be an existing directory or a supported archive "
            f"({'.zip, .whl or .py' if as_module else '.zip'})"
        )
    default = os.environ.get("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", _DEFAULT_EXCLUDES)
    patterns = [word.strip() for word in default.split(",") if word.strip()]
    gitignore = os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "0") != "1"
    rules = [
        _ignore.from_patterns([*patterns, *excludes]),
        *_ignore.from_files(root, gitignore=gitignore),
    ]
    prefix = f"{root.name}/" if as_module else ""
    return _zipped((file, prefix + name) for file, name in _files(root, rules))


def _files(root: Path, rules: list[_ignore.Excluded]) -> Iterator[tuple[Path, str]]:
    """Files and folders below `root`, in an order that is always the same; folders end with a slash."""
    seen = {os.path.realpath(root)}
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        below = []
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            name = path.relative_to(root).as_posix()
            if entry.is_dir():
                # A link to a folder above leads nowhere new.
                real = os.path.realpath(path)
                if real not in seen and not any(rule(f"{name}/") for rule in rules):
                    seen.add(real)
                    below.append(path)
                    yield path, f"{name}/"
            elif entry.is_file() and not any(rule(name) for rule in rules):
                yield path, name
        waiting += reversed(below)


def _zipped(files: Iterable[tuple[Path, str]]) -> Package:
    digest = hashlib.sha256()
    descriptor, name = tempfile.mkstemp(prefix="raymesh-package-", suffix=".zip")
    target = Path(name)
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            for path, inside in files:
                _add(archive, digest, path, inside)
                if file.tell() >= MAX_BYTES:
                    raise _too_large(file.tell())
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return Package(f"gcs://_ray_pkg_{digest.hexdigest()[:32]}.zip", target)


def _add(archive: zipfile.ZipFile, digest: hashlib._Hash, path: Path, inside: str) -> None:
    mode = 0o755 if inside.endswith("/") or os.access(path, os.X_OK) else 0o644
    entry = zipfile.ZipInfo(inside, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = mode << 16
    digest.update(f"{len(inside.encode())}:{inside}:{mode}:".encode())
    if inside.endswith("/"):
        archive.writestr(entry, b"")
        return
    size = 0
    with path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as target:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            digest.update(chunk)
            target.write(chunk)
    digest.update(f":{size}".encode())


def _archive(path: Path) -> Package:
    if (size := path.stat().st_size) >= MAX_BYTES:
        raise _too_large(size)
    digest = hashlib.sha256()
    descriptor, name = tempfile.mkstemp(prefix="raymesh-package-", suffix=path.suffix)
    with path.open("rb") as source, os.fdopen(descriptor, "wb") as target:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            target.write(chunk)
    if path.suffix == ".whl":
        return Package(f"gcs://{path.name}", Path(name))
    return Package(f"gcs://_ray_pkg_{digest.hexdigest()[:32]}.zip", Path(name))


def _too_large(size: int) -> ValueError:
    return ValueError(
        f"Package size ({size / (1 << 20):.2f}MiB) exceeds the maximum size of "
        f"{MAX_BYTES / (1 << 20):.2f}MiB. To exclude large files, {LEAVE_OUT}"
    )
