"""Packages: equal folders make equal packages, patterns leave out what git leaves out, and nothing escapes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from raymesh.runtime_env import _cache, _ignore, _packages


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages of this test alone."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "path", "out"),
    [
        ("*.log", "a.log", True),
        ("*.log", "deep/down/a.log", True),
        ("*.log", "a.log.txt", False),
        ("/a", "a", True),
        ("/a", "b/a", False),
        ("a/b", "a/b/c", True),
        ("a/b", "x/a/b", False),
        ("build/", "build/x", True),
        ("build/", "build", False),
        ("build/", "sub/build/x", True),
        ("**/x", "a/b/x", True),
        ("a/**/x", "a/x", True),
        ("a/**", "a/b/c", True),
        ("?.txt", "a.txt", True),
        ("?.txt", "ab.txt", False),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("# *.txt", "a.txt", False),
        ("\\#x", "#x", True),
        ("a.txt  ", "a.txt", True),
        ("(a|b)+", "aaa", False),
        ("", "a", False),
        ("/", "a", False),
    ],
)
def test_patterns_mean_what_they_mean_to_git(pattern: str, path: str, out: bool) -> None:
    assert _ignore.from_patterns([pattern])(path) is out


def test_the_last_pattern_decides() -> None:
    excluded = _ignore.from_patterns(["*.log", "!keep.log"])
    assert [excluded(name) for name in ("a.log", "keep.log")] == [True, False]


def filled(root: Path) -> Path:
    (root / "sub" / "empty").mkdir(parents=True)
    (root / "a.py").write_text("A = 1\n")
    (root / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (root / "sub" / "run.sh").chmod(0o755)
    return root


def made(
    root: Path, *, as_module: bool = False, excludes: tuple[str, ...] = ()
) -> tuple[str, list[str]]:
    package = _packages.make(str(root), excludes=excludes, as_module=as_module)
    with zipfile.ZipFile(package.file) as archive:
        names = archive.namelist()
    package.file.unlink()
    return package.uri, names


def test_equal_folders_make_equal_packages(own_folder: Path) -> None:
    one, two = filled(own_folder / "one"), filled(own_folder / "two")
    os.utime(two / "a.py", (1, 1))
    first = _packages.make(str(one), excludes=[], as_module=False)
    second = _packages.make(str(two), excludes=[], as_module=False)
    assert first.uri == second.uri
    assert first.file.read_bytes() == second.file.read_bytes()
    for change in (
        lambda: (two / "a.py").write_text("A = 2\n"),
        lambda: (two / "a.py").rename(two / "b.py"),
        lambda: (two / "sub" / "run.sh").chmod(0o644),
        lambda: (two / "sub" / "empty").rmdir(),
    ):
        before, _ = made(two)
        change()
        assert made(two)[0] != before


def test_what_is_left_out_stays_behind(own_folder: Path) -> None:
    root = filled(own_folder / "project")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("x")
    (root / ".gitignore").write_text("*.tmp\n")
    (root / "x.tmp").write_text("x")
    (root / "loop").symlink_to(root)
    _, names = made(root, excludes=("sub/run.sh",))
    assert names == [".gitignore", "a.py", "sub/", "sub/empty/"]
    _, names = made(root, as_module=True, excludes=("sub",))
    assert names == ["project/.gitignore", "project/a.py"]


def test_what_cannot_be_packed_is_said(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="must be an existing directory"):
        made(own_folder / "nowhere")
    root = filled(own_folder / "large")
    (root / "noise").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr(_packages, "MAX_BYTES", 1 << 19)
    with pytest.raises(ValueError, match=r"exceeds the maximum size.*excludes"):
        made(root)
    assert list((own_folder / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    "uri",
    [
        "gcs://../x.zip",
        "gcs://a/b.zip",
        "gcs://.zip",
        "gcs://x.tar",
        "s3://x.zip",
        "gcs://a..b.zip",
        "gcs://x.zip\n",
    ],
)
def test_names_lead_nowhere_else(uri: str) -> None:
    assert _packages.name_in(uri) is None
    with pytest.raises(ValueError, match="no package"):
        _cache.hold(uri, lambda into: None)


def evil(into: Path) -> None:
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("../../outside.txt", "x")
        archive.writestr("/absolute.txt", "x")
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc")


def test_an_archive_cannot_write_beside_its_folder(own_folder: Path) -> None:
    folder = _cache.hold("gcs://evil.zip", evil)
    assert not next(iter(own_folder.rglob("outside.txt"))).is_symlink()
    assert all(path.is_relative_to(folder) for path in own_folder.rglob("outside.txt"))
    assert not Path("/absolute.txt").exists()
    assert not (folder / "link").is_symlink()
    _cache.release()
    assert not folder.exists()


def test_a_package_stays_while_another_process_holds_it_and_goes_with_it(own_folder: Path) -> None:
    fetched: list[Path] = []

    def fetch(into: Path) -> None:
        fetched.append(into)
        with zipfile.ZipFile(into, "w") as archive:
            archive.writestr("a.txt", "x")

    folder = _cache.hold("gcs://shared.zip", fetch)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
                "from raymesh.runtime_env import _cache\n"
                "print(_cache.hold('gcs://shared.zip', None), flush=True); sys.stdin.read()"
            ),
            str(own_folder / "scratch"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(_cache.__file__).parents[2])},
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline().strip() == str(folder)
    _cache.release()
    assert (folder / "a.txt").exists()
    _cache.sweep()
    assert (folder / "a.txt").exists()
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    _cache.sweep()
    assert not folder.exists()
    assert len(fetched) == 1


def test_what_cannot_be_fetched_leaves_nothing(own_folder: Path) -> None:
    def fail(into: Path) -> None:
        into.write_bytes(b"no archive")

    with pytest.raises(zipfile.BadZipFile):
        _cache.hold("gcs://broken.zip", fail)
    assert list(_cache.root().iterdir()) == []
