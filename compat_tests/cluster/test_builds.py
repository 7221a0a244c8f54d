"""Hosts of other versions and other builds. Their end of a connection is played here, byte for byte."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import raymesh
from compat_tests.cluster import steps
from raymesh import _native
from raymesh._launch import launch
from raymesh.cluster_utils import ClusterNode

SECRET = "A" * 43 + ".plain"


def greeting(version: int, release: str, layout: int) -> bytes:
    head = b"RMSH" + version.to_bytes(2, "little") + bytes([len(release)]) + release.encode()
    return head + layout.to_bytes(8, "little") + bytes(32)


class Peer:
    """Greets whoever comes, and keeps what they say."""

    def __init__(self, words: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard = b""
        self._thread = threading.Thread(target=self._serve, args=(words,))
        self._thread.start()

    def _serve(self, words: bytes) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection:
            connection.sendall(words)
            connection.settimeout(30)
            self.heard = connection.recv(4096)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield
    assert [path.name for path in tmp_path.glob("raymesh/*.json")] == []


def start(address: str) -> subprocess.CompletedProcess[str]:
    return steps.raymesh("start", "--address", f"{address}/{SECRET}", "--num-cpus", "1")


def test_another_version_is_refused_with_both_named() -> None:
    peer = Peer(greeting(250, "9.8.7", 0))
    try:
        refused = start(peer.address)
    finally:
        peer.close()
    assert refused.returncode != 0
    for text in ("250", "9.8.7", str(_native.WIRE_VERSION), raymesh.__version__, "hint: install"):
        assert text in refused.stderr, refused.stderr
    assert peer.heard == b"", "not even a proof goes to who cannot understand it"


def test_another_build_of_the_version_is_refused_with_both_named() -> None:
    peer = Peer(greeting(_native.WIRE_VERSION, "9.8.7", 0xABCDEF))
    try:
        refused = start(peer.address)
    finally:
        peer.close()
    assert refused.returncode != 0
    assert "another build" in refused.stderr, refused.stderr
    for text in ("0000000000abcdef", "9.8.7", raymesh.__version__, "hint: install"):
        assert text in refused.stderr, refused.stderr
    assert peer.heard == b""


def test_a_host_of_another_build_that_dials_is_turned_away_and_harms_nobody() -> None:
    head = ClusterNode(launch(join=None, tls=False, num_cpus=1), head=True)
    try:
        host, _, port = head.address.rpartition(":")
        for words in (
            greeting(250, "9.8.7", 0),
            greeting(_native.WIRE_VERSION, "9.8.7", 0xABCDEF),
        ):
            with socket.create_connection((host, int(port)), timeout=30) as stranger:
                ours = stranger.recv(4096)
                assert ours.startswith(b"RMSH")
                stranger.sendall(words + bytes(100))
                assert stranger.recv(4096) == b"", "it is still spoken to"
        raymesh.init(address=head._launched.join, log_to_driver=False)
        assert raymesh.cluster_resources()["CPU"] == 1
    finally:
        raymesh.shutdown()
        head.kill_all_processes(allow_graceful=True)
