"""Whatever is sent to the job server: nothing happens in the cluster, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import random
import socket
import struct
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from compat_tests.cluster.steps import PATIENCE_S, until
from compat_tests.harness.leaks import Belongings, leaked_since
from raymesh.cluster_utils import Cluster
from raymesh.job_submission import JobDetails, JobStatus, JobSubmissionClient, _reading


class Target:
    """A job server, and what is needed to talk to it."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.head_node is not None
        self.client = JobSubmissionClient(f"http://{cluster.webui_url}")
        self.head = cluster.head_node.pid
        parts = urlsplit(self.client.get_address())
        self.at = (str(parts.hostname), int(parts.port or 0))
        token = cluster.address.rpartition("/")[2].partition(".")[0]
        self.headers = {"Authorization": f"Bearer {token}"}
        self.good = f"Host: x\r\nAuthorization: Bearer {token}\r\n".encode()

    def open(self) -> socket.socket:
        return socket.create_connection(self.at, timeout=PATIENCE_S)

    def send(self, *pieces: bytes) -> bytes:
        """What comes back until the server closes, having heard all of it and the end."""
        with self.open() as connection:
            answer = b""
            try:
                for piece in pieces:
                    connection.sendall(piece)
                with contextlib.suppress(OSError):  # it has closed already
                    connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 16):
                    answer += piece
            except ConnectionError:
                pass  # it does not read on
            return answer

    def put(self, uri: str, content: bytes) -> int:
        connection = http.client.HTTPConnection(*self.at, timeout=PATIENCE_S)
        connection.request("PUT", "/api/packages/" + uri.replace("://", "/"), content, self.headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def run(self, **options: Any) -> JobDetails:
        """A job, as it has ended."""
        job = self.client.submit_job(**options)
        until(lambda: self.client.get_job_status(job).is_terminal(), f"the end of {job}")
        return self.client.get_job_info(job)

    def server(self) -> int:
        return int(subprocess.check_output(["pgrep", "-P", str(self.head), "-x", "raymesh-jobs"]))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("attacked"))
        for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
            patch.setenv(name, folder)
        patch.setattr(tempfile, "tempdir", folder)
        for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
            patch.delenv(name, raising=False)
        before = Belongings.now()
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": True}
        )
        made = Target(cluster)
        server = made.server()
        yield made
        # It is the same process, and it works.
        assert made.server() == server
        assert made.run(entrypoint="true").status is JobStatus.SUCCEEDED
        cluster.shutdown()
        left = leaked_since(before)
    assert not left, "left behind:\n  " + "\n  ".join(left)


def test_garbage_has_no_effect(target: Target) -> None:
    jobs = len(target.client.list_jobs())
    body = json.dumps({"entrypoint": "true"}).encode()
    whole = b"POST /api/jobs/ HTTP/1.1\r\n" + target.good
    whole += b"Content-Length: %d\r\n\r\n" % len(body) + body
    dice = random.Random(7)
    rubbish = [dice.randbytes(dice.randrange(1, 5000)) for _ in range(30)]
    rubbish += [whole[:at] for at in range(0, len(whole) - 1, 9)]
    rubbish += [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"GET " + b"/" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(100_000)) + b"\r\n",
        b"GET / HTTP/1.1\r\n" + target.good + (b"X: " + b"x" * 60_000 + b"\r\n") * 90 + b"\r\n",
        b"\r\n" * 100_000,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9.9\r\n\r\n",
        b"POST /api/jobs/ HTTP/1.1\r\n" + target.good + b"Content-Length: \xb2\r\n\r\n",
        b"POST /api/jobs/ HTTP/1.1\r\n" + target.good + b"Content-Length: 1 1\r\n\r\n{}",
        b"POST /api/jobs/ HTTP/1.1\r\n" + target.good + b"Content-Length: 0x5\r\n\r\n",
    ]
    for sent in rubbish:
        answer = target.send(sent)
        assert b"200 OK" not in answer, (sent[:200], answer)
        assert b" 500 " not in answer, (sent[:200], answer)
    assert len(target.client.list_jobs()) == jobs


def test_what_comes_after_a_request_is_no_request(target: Target) -> None:
    """A body that nobody reads must not be taken for the next request."""
    hidden = b"POST /api/jobs/ HTTP/1.1\r\n" + target.good
    hidden += b'Content-Length: 22\r\n\r\n{"entrypoint": "true"}'
    jobs = len(target.client.list_jobs())
    for method in (b"GET", b"DELETE"):
        head = method + b" /api/version HTTP/1.1\r\n" + target.good
        head += b"Content-Length: %d\r\n\r\n" % len(hidden)
        assert target.send(head + hidden).count(b"HTTP/1.1 ") == 1
    assert len(target.client.list_jobs()) == jobs


def test_who_says_nothing_or_little_holds_nobody_up(target: Target) -> None:
    silent = [target.open() for _ in range(300)]
    slow = [target.open() for _ in range(20)]
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.05):
            for connection in slow:
                try:
                    connection.send(b"G")
                except OSError:
                    continue

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        # With the token, and as slow: a body that does not come.
        head = b"POST /api/jobs/ HTTP/1.1\r\n" + target.good + b"Content-Length: 1000000\r\n\r\n"
        for _ in range(20):
            slow.append(target.open())
            slow[-1].sendall(head)
        assert target.client.get_version() == "4"
        done = target.run(entrypoint="true")
        assert done.status is JobStatus.SUCCEEDED
        threads = len(list(Path(f"/proc/{target.server()}/task").iterdir()))
        assert threads < 250, "connections get threads without end"
        # The oldest of those that say nothing had to make way.
        assert silent[0].recv(1) == b""
    finally:
        stop.set()
        thread.join()
        for connection in silent + slow:
            connection.close()


def test_a_request_has_its_time_and_no_more() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_S)
        incoming = _reading.Incoming(ours)
        reader = _reading.buffered(incoming)
        incoming.begin_head(0.3)
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.02):
                theirs.send(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(TimeoutError):
                reader.readline()
        finally:
            stop.set()
            thread.join()
        incoming.begin_head(PATIENCE_S)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                theirs.send(bytes(4096))
        with pytest.raises(http.client.LineTooLong):
            reader.read(1 << 20)


def test_half_an_upload_leaves_nothing(target: Target) -> None:
    head = b"PUT /api/packages/gcs/_ray_pkg_half.zip HTTP/1.1\r\n" + target.good
    answer = target.send(head + b"Content-Length: 100000\r\n\r\n" + bytes(50_000))
    assert b" 400 " in answer
    # One that goes away without a word.
    connection = target.open()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(head + b"Content-Length: 100000\r\n\r\n" + bytes(50_000))
    connection.close()
    folder = Path(tempfile.gettempdir())
    until(lambda: not list(folder.glob("raymesh-upload-*")), "the end of what was uploaded in part")
    answer = target.send(
        b"GET /api/packages/gcs/_ray_pkg_half.zip HTTP/1.1\r\n" + target.good + b"\r\n"
    )
    assert b" 404 " in answer


def _zip(**files: bytes) -> tuple[io.BytesIO, zipfile.ZipFile]:
    content = io.BytesIO()
    archive = zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED)
    for name, data in files.items():
        archive.writestr(name, data)
    return content, archive


def _run_in(target: Target, name: str, content: bytes, entrypoint: str) -> JobDetails:
    uri = f"gcs://_ray_pkg_{name}.zip"
    assert target.put(uri, content) == 200
    return target.run(entrypoint=entrypoint, runtime_env={"working_dir": uri})


def test_nothing_gets_out_of_a_package(target: Target) -> None:
    outside = Path(tempfile.gettempdir(), "outside")
    content, archive = _zip(**{
        "../../outside": b"1",
        str(outside): b"2",
        "a/../../../outside": b"3",
        "plain": b"4",
    })  # fmt: skip
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    archive.writestr(link, str(outside))
    special = zipfile.ZipInfo("special")
    special.external_attr = 0o106777 << 16  # setuid
    archive.writestr(special, b"6")
    archive.close()
    info = _run_in(
        target, "out", content.getvalue(), "cat plain; test ! -h link && test ! -u special"
    )
    assert info.status is JobStatus.SUCCEEDED, info
    assert not outside.exists()
    found = [
        path
        for path in Path(tempfile.gettempdir()).rglob("outside")
        if "raymesh-packages" not in str(path)
    ]
    assert not found


def test_a_package_that_is_none_or_too_much_fails_its_job_alone(target: Target) -> None:
    bomb, archive = _zip(large=b"x")
    archive.filelist[0].file_size = 17 << 30
    archive.close()
    liar, archive = _zip(small=bytes(1 << 20))
    archive.filelist[0].file_size = 10
    archive.close()
    folder, archive = _zip(**{"a": b"1", "a/b": b"2"})
    archive.close()
    for name, content in {
        "bomb": bomb.getvalue(),
        "liar": liar.getvalue(),
        "clash": folder.getvalue(),
        "cut": bomb.getvalue()[:-30],
        "text": b"no archive at all",
        "empty": b"",
    }.items():
        info = _run_in(target, name, content, "true")
        assert info.status is JobStatus.FAILED, (name, info)
        assert info.error_type == "RUNTIME_ENV_SETUP_FAILURE", (name, info)
        assert ("hint: to leave files out" in str(info.message)) == (name == "bomb"), (name, info)
    good, archive = _zip(plain=b"1")
    archive.close()
    info = _run_in(target, "good", good.getvalue(), "cat plain")
    assert info.status is JobStatus.SUCCEEDED, info


def _fate(target: Target, options: dict[str, Any]) -> object:
    try:
        return target.run(**options).status
    except RuntimeError as refused:
        return "refused" if "status code 400" in str(refused) else str(refused)


def test_strange_words_end_a_job_and_no_more(target: Target) -> None:
    for options in (
        {"entrypoint": "echo a\0b"},
        {"entrypoint": "echo \ud800"},
        {"entrypoint": "true", "runtime_env": {"env_vars": {"A=B": "c"}}},
        {"entrypoint": "true", "runtime_env": {"env_vars": {"A": "b\0c"}}},
        {"entrypoint": "true", "runtime_env": {"env_vars": {"": "c"}}},
    ):
        assert _fate(target, options) in (JobStatus.FAILED, "refused"), options
    long = target.run(entrypoint="true", metadata={"k" * 1000: "v" * 100_000})
    assert long.status is JobStatus.SUCCEEDED, long
