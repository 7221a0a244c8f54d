"""Jobs: what is handed in runs on the cluster, is told of truthfully, and leaves nothing running."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from compat_tests.cluster.steps import PATIENCE_S, raymesh, until
from compat_tests.harness.leaks import Belongings, leaked_since
from raymesh import _address, _launch
from raymesh.job_submission import JobStatus, JobSubmissionClient

REPOSITORY = str(Path(_launch.__file__).parents[1])
PYTHON = f"PYTHONPATH={REPOSITORY} {sys.executable}"

Head = _launch.Launched


@pytest.fixture
def heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Head]]:
    """Starts heads with job servers, or hosts that join them."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    before = Belongings.now()
    started: list[Head] = []

    def start(join: str | None = None, **options: Any) -> Head:
        wanted: dict[str, Any] = {"num_cpus": 2, "jobs_at": ("127.0.0.1", 0), **options}
        launched = _launch.launch(join=join, **{"journal": "none", **wanted})
        started.append(launched)
        return launched

    yield start
    for launched in reversed(started):
        launched.process.terminate()
        launched.process.wait(timeout=PATIENCE_S)
        launched.process.stdin and launched.process.stdin.close()
    left = leaked_since(before)
    assert not left, "left behind:\n  " + "\n  ".join(left)


@pytest.fixture
def client(heads: Callable[..., Head]) -> JobSubmissionClient:
    return JobSubmissionClient(heads().jobs)


def ended(client: JobSubmissionClient, job: str) -> Any:
    until(lambda: client.get_job_status(job).is_terminal(), f"the end of {job}")
    return client.get_job_info(job)


def running(client: JobSubmissionClient, job: str, word: str = "up") -> None:
    until(lambda: f"{word}\n" in client.get_job_logs(job).partition("\n")[2], f"{word!r} of {job}")


def lives(mark: str) -> bool:
    found = subprocess.run(["pgrep", "-f", mark], capture_output=True, check=False)
    return found.returncode == 0


PROGRAM = """
import os
import raymesh as ray
import beside

ray.init(log_to_driver=False)

@ray.remote
def look():
    import beside
    return beside.VALUE, os.environ["OF_JOB"]

print("found", ray.get(look.remote()))
print("job", ray.get_runtime_context().get_job_id(), os.getpid())
print("metadata", os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"])
"""


def test_a_program_runs_with_its_folder_and_its_environment(
    client: JobSubmissionClient, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "beside.py").write_text("VALUE = 41\n")
    job = client.submit_job(
        entrypoint=f"{PYTHON} program.py",
        runtime_env={"working_dir": str(folder), "env_vars": {"OF_JOB": "job"}},
        metadata={"who": "me"},
    )
    assert job.startswith("raysubmit_")
    info = ended(client, job)
    log = client.get_job_logs(job)
    assert info.status is JobStatus.SUCCEEDED, log
    assert (info.driver_exit_code, info.message) == (0, "Job finished successfully.")
    assert "found (41, 'job')\n" in log
    assert job in log
    assert info.metadata == {"who": "me"}
    assert info.runtime_env["working_dir"].startswith("gcs://_ray_pkg_")
    assert info.start_time <= info.end_time
    assert info.job_id is not None
    assert info.driver_info is not None
    assert f"job {info.job_id} {info.driver_info.pid}\n" in log
    assert client.get_job_info(info.job_id).submission_id == job


def test_a_job_that_fails_says_how(client: JobSubmissionClient) -> None:
    info = ended(client, client.submit_job(entrypoint="echo why; exit 3"))
    assert (info.status, info.driver_exit_code) == (JobStatus.FAILED, 3)
    assert info.message.startswith("Job entrypoint command failed with exit code 3, last available")
    assert info.message.endswith("why\n")
    assert info.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR"
    info = ended(client, client.submit_job(entrypoint="kill -9 $$"))
    assert (info.status, info.driver_exit_code) == (JobStatus.FAILED, -9)


def test_a_log_is_followed_while_it_grows(client: JobSubmissionClient, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = client.submit_job(entrypoint=f"echo first; cat {gate}; printf '\\303\\274ber'")
    heard: list[str] = []

    async def follow() -> None:
        async for piece in client.tail_job_logs(job):
            heard.append(piece)
            if "first\n" in "".join(heard) and gate.exists():
                with gate.open("w") as opened:
                    opened.write("second\n")
                gate.unlink()

    asyncio.run(asyncio.wait_for(follow(), PATIENCE_S))
    assert "".join(heard).endswith("first\nsecond\nüber")
    assert client.get_job_status(job) is JobStatus.SUCCEEDED


def test_a_log_that_is_no_text_can_be_read(client: JobSubmissionClient) -> None:
    job = client.submit_job(entrypoint="printf 'a\\377b\\000c\\n'")
    ended(client, job)
    assert client.get_job_logs(job).endswith("a\ufffdb\0c\n")


def test_a_stopped_job_ends_with_all_it_has_started(client: JobSubmissionClient) -> None:
    mark = f"31{os.getpid()}"
    stubborn = f"(trap '' TERM; while :; do sleep {mark}; done) & setsid sleep {mark} & "
    job = client.submit_job(
        entrypoint=stubborn + f"echo up; trap 'exit 7' TERM; sleep {mark} & wait"
    )
    running(client, job)
    assert lives(mark)
    assert client.stop_job(job) is True
    assert ended(client, job).status is JobStatus.STOPPED
    until(lambda: not lives(mark), "the end of what it has started")
    assert client.stop_job(job) is False


def test_what_a_stopped_job_has_started_may_end_in_order(client: JobSubmissionClient) -> None:
    mark = f"36{os.getpid()}"
    orderly = (
        f"""sh -c 'trap "sleep 0.2; echo in order; exit" TERM; echo up; sleep {mark} & wait' & """
    )
    job = client.submit_job(entrypoint=orderly + f"exec sleep {mark}")
    running(client, job)
    client.stop_job(job)
    assert ended(client, job).status is JobStatus.STOPPED
    assert "in order\n" in client.get_job_logs(job)


def test_a_job_that_will_not_stop_is_killed(
    heads: Callable[..., Head], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_JOB_STOP_WAIT_TIME_S", "0.2")
    client = JobSubmissionClient(heads().jobs)
    mark = f"32{os.getpid()}"
    job = client.submit_job(entrypoint=f"trap '' TERM; echo up; while :; do sleep {mark}; done")
    running(client, job)
    client.stop_job(job)
    info = ended(client, job)
    assert (info.status, info.driver_exit_code) == (JobStatus.STOPPED, -9)
    until(lambda: not lives(mark), "its end")


def test_a_job_that_ends_leaves_nothing_running(client: JobSubmissionClient) -> None:
    mark = f"33{os.getpid()}"
    job = client.submit_job(entrypoint=f"setsid sleep {mark} & sleep {mark} & echo up")
    assert ended(client, job).status is JobStatus.SUCCEEDED
    until(lambda: not lives(mark), "the end of what it has started")


def test_a_killed_supervisor_takes_its_job_along(client: JobSubmissionClient) -> None:
    mark = f"34{os.getpid()}"
    job = client.submit_job(entrypoint=f"echo up $PPID; sleep {mark}; true")
    until(lambda: "up " in client.get_job_logs(job).partition("\n")[2], "its output")
    supervisor = int(client.get_job_logs(job).rpartition("up ")[2])
    os.kill(supervisor, signal.SIGKILL)
    info = ended(client, job)
    assert (info.status, info.error_type) == (JobStatus.FAILED, "JOB_SUPERVISOR_ACTOR_DIED")
    until(lambda: not lives(mark), "the end of its command")


def test_a_killed_head_takes_its_jobs_along(heads: Callable[..., Head]) -> None:
    head = heads()
    client = JobSubmissionClient(head.jobs)
    mark = f"35{os.getpid()}"
    job = client.submit_job(entrypoint=f"setsid sleep {mark} & echo up; sleep {mark}")
    running(client, job)
    os.kill(head.pid, signal.SIGKILL)
    until(lambda: not lives(mark), "the end of its job")
    with pytest.raises(ConnectionError):
        until(lambda: client.get_version() is None, "the end of the job server")


def test_a_killed_job_server_comes_back_and_goes_on(
    heads: Callable[..., Head], tmp_path: Path
) -> None:
    head = heads()
    client = JobSubmissionClient(head.jobs)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    before = client.submit_job(entrypoint="echo done", submission_id="before")
    ended(client, before)
    job = client.submit_job(entrypoint=f"echo up; cat {gate}; exit 5")
    running(client, job)
    server = int(subprocess.check_output(["pgrep", "-P", str(head.pid), "-x", "raymesh-jobs"]))
    os.kill(server, signal.SIGKILL)

    def back() -> bool:
        try:
            return bool(client.get_version())
        except ConnectionError:
            return False

    until(lambda: not back() or server not in _children(head.pid), "its end")
    until(back, "another server")
    with gate.open("w") as opened:
        opened.write("after\n")
    info = ended(client, job)
    assert (info.status, info.driver_exit_code) == (JobStatus.FAILED, 5), info
    assert client.get_job_logs(job).endswith("up\nafter\n")
    assert client.get_job_logs(job).count("up\n") == 1
    assert client.get_job_status(before) is JobStatus.SUCCEEDED


def _children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def test_a_head_that_comes_back_knows_its_jobs(heads: Callable[..., Head], tmp_path: Path) -> None:
    head = heads(journal=None)
    port = int(head.address.rpartition(":")[2])
    heads(head.join, resources={"there": 1})
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    client = JobSubmissionClient(head.jobs)
    ended(client, client.submit_job(entrypoint="echo old", submission_id="old"))
    far = client.submit_job(
        entrypoint=f"echo up; cat {gate}", entrypoint_resources={"there": 1}, submission_id="far"
    )
    near = client.submit_job(
        entrypoint=f"echo up; cat {gate}.none || sleep 999", submission_id="near"
    )
    running(client, far)
    running(client, near)
    os.kill(head.pid, signal.SIGKILL)
    head.process.wait()
    again = heads(journal=None, port=port)
    assert again.join == head.join
    client = JobSubmissionClient(again.jobs)
    assert client.get_job_status("old") is JobStatus.SUCCEEDED
    assert client.get_job_logs("old").endswith("old\n")
    lost = ended(client, near)
    assert lost.status is JobStatus.FAILED
    assert client.get_job_status(far) is JobStatus.RUNNING
    with gate.open("w") as opened:
        opened.write("after\n")
    assert ended(client, far).status is JobStatus.SUCCEEDED
    assert client.get_job_logs(far).endswith("up\nafter\n")


def test_a_command_goes_where_its_resources_are(heads: Callable[..., Head]) -> None:
    head = heads(num_cpus=1)
    heads(head.join, resources={"there": 2}, num_cpus=1)
    client = JobSubmissionClient(head.jobs)
    job = client.submit_job(entrypoint="true", entrypoint_resources={"there": 1})
    far = ended(client, job)
    near = ended(client, client.submit_job(entrypoint="true"))
    assert [far.status, near.status] == [JobStatus.SUCCEEDED] * 2
    assert far.driver_node_id != near.driver_node_id


def test_a_command_goes_where_the_labels_are(heads: Callable[..., Head]) -> None:
    head = heads(num_cpus=1, labels={"zone": "a"})
    heads(head.join, labels={"zone": "b"}, num_cpus=1)
    client = JobSubmissionClient(head.jobs)
    places = {}
    for name, selector in {"a": "a", "b": "b", "not a": "!a", "one of": "in(b, c)"}.items():
        job = client.submit_job(entrypoint="true", entrypoint_label_selector={"zone": selector})
        places[name] = ended(client, job).driver_node_id
    assert places["a"] != places["b"] == places["not a"] == places["one of"]
    waits = client.submit_job(entrypoint="true", entrypoint_label_selector={"zone": "c"})
    assert client.get_job_status(waits) is JobStatus.PENDING
    # A host with that label comes later.
    heads(head.join, labels={"zone": "c"}, num_cpus=1)
    assert ended(client, waits).driver_node_id not in places.values()


def test_a_job_without_a_place_waits_and_can_be_stopped(client: JobSubmissionClient) -> None:
    job = client.submit_job(entrypoint="true", entrypoint_num_cpus=50)
    info = client.get_job_info(job)
    assert info.status is JobStatus.PENDING
    assert "waiting for resources" in info.message
    with pytest.raises(RuntimeError, match="non-terminal state PENDING"):
        client.delete_job(job)
    assert client.stop_job(job) is True
    assert ended(client, job).status is JobStatus.STOPPED
    assert client.delete_job(job) is True
    with pytest.raises(RuntimeError, match=r"404.*does not exist"):
        client.get_job_info(job)


def test_what_is_wrong_is_refused_with_words(client: JobSubmissionClient) -> None:
    client.submit_job(entrypoint="true", submission_id="mine")
    for message, options in {
        "mine already exists": {"entrypoint": "true", "submission_id": "mine"},
        "letters, digits": {"entrypoint": "true", "submission_id": "../up"},
        "must not be negative": {"entrypoint": "true", "entrypoint_num_cpus": -1},
        "Invalid label selector": {
            "entrypoint": "true",
            "entrypoint_label_selector": {"zone": "in(a"},
        },
    }.items():
        with pytest.raises(RuntimeError, match=f"400.*{message}"):
            client.submit_job(**options)
    with pytest.raises(NotImplementedError, match="pip"):
        client.submit_job(entrypoint="true", runtime_env={"pip": ["x"]})
    for call in (client.get_job_logs, client.stop_job, client.delete_job, client.get_job_info):
        with pytest.raises(RuntimeError, match=r"404.*Job nowhere does not exist"):
            call("nowhere")
    lost = client.submit_job(
        entrypoint="true", runtime_env={"working_dir": "gcs://_ray_pkg_00.zip"}
    )
    info = ended(client, lost)
    assert info.error_type == "RUNTIME_ENV_SETUP_FAILURE"
    assert "does not have the package" in info.message


def _raw(head: Head, sent: bytes) -> bytes:
    parts = urlsplit(head.jobs)
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S) as connection:
        connection.sendall(sent)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


def test_who_does_not_know_the_token_has_no_effect(heads: Callable[..., Head]) -> None:
    head = heads()
    parts = urlsplit(head.jobs)
    token = head.join.rpartition("/")[2].partition(".")[0]
    good = f"Authorization: Bearer {token}\r\n".encode()
    body = json.dumps({"entrypoint": "echo broken in"}).encode()
    length = b"Content-Length: %d\r\n" % len(body)
    post = b"POST /api/jobs/ HTTP/1.1\r\nHost: x\r\n"
    for credentials in (
        b"",
        b"Authorization: Bearer x\r\n",
        b"Authorization: Basic x\r\n",
        good[:-4] + b"\r\n",
    ):
        assert b" 401 " in _raw(head, post + credentials + length + b"\r\n" + body)
    # Nothing of these is read, or even waited for.
    assert b" 413 " in _raw(head, post + good + b"Content-Length: 99999999999\r\n\r\n")
    assert b" 411 " in _raw(head, post + good + b"Transfer-Encoding: chunked\r\n\r\n")
    assert b" 411 " in _raw(head, post + good + b"Content-Length: -1\r\n\r\n")
    close = b"Connection: close\r\n"
    assert b" 400 " in _raw(head, post + good + close + b"Content-Length: 3\r\n\r\n{{{")
    deep = b"[" * 100_000
    assert b" 400 " in _raw(head, post + good + close + b"Content-Length: 100000\r\n\r\n" + deep)
    assert b" 400 " in _raw(head, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    for name in ("../../etc/passwd", "x.tar", "_ray_pkg_1.zip%2f..%2fx"):
        target = f"PUT /api/packages/gcs/{name} HTTP/1.1\r\n".encode()
        answer = _raw(head, target + good + close + b"Content-Length: 1\r\n\r\nx")
        assert b" 400 " in answer or b" 404 " in answer, answer
    client = JobSubmissionClient(head.jobs)
    assert client.list_jobs() == []
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.request("GET", "/api/version", headers={"Authorization": f"Bearer {token}"})
    assert json.loads(connection.getresponse().read())["version"] == "4"
    connection.close()


def test_the_log_comes_through_a_websocket_as_rays_client_wants_it(
    heads: Callable[..., Head],
) -> None:
    head = heads()
    client = JobSubmissionClient(head.jobs)
    job = client.submit_job(entrypoint="for n in 1 2 3; do echo line $n; done")
    ended(client, job)
    token = head.join.rpartition("/")[2].partition(".")[0]
    key = base64.b64encode(b"0123456789abcdef").decode()
    farewell = b"\x88\x82\x00\x00\x00\x00\x03\xe8"
    answer = _raw(
        head,
        f"GET /api/jobs/{job}/logs/tail HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        + farewell,
    )
    head_part, _, frames = answer.partition(b"\r\n\r\n")
    assert b" 101 " in head_part
    # RFC 6455: of that key.
    assert b"BACScCJPNqyz+UBoqMH89VmURoA=" in head_part
    assert frames.endswith(b"line 1\nline 2\nline 3\n\x88\x02\x03\xe8")


def test_beyond_this_machine_all_is_encrypted_and_the_certificate_must_be_the_clusters(
    heads: Callable[..., Head], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = heads(jobs_at=("0.0.0.0", 0))
    assert head.jobs.startswith("https://")
    url = f"https://127.0.0.1:{urlsplit(head.jobs).port}"
    token, fingerprint = head.join.rpartition("/")[2].split(".")
    # Another user, or another machine.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nothing"))
    client = JobSubmissionClient(f"{url}/{token}.{fingerprint}")
    job = client.submit_job(entrypoint="echo safe")
    assert ended(client, job).status is JobStatus.SUCCEEDED
    assert client.get_job_logs(job).endswith("safe\n")
    other = ("A" if fingerprint[0] != "A" else "B") + fingerprint[1:]
    with pytest.raises(ConnectionError, match="not that of the cluster"):
        JobSubmissionClient(f"{url}/{token}.{other}")
    with pytest.raises(ConnectionError, match="certificate"):
        JobSubmissionClient(url, headers={"Authorization": f"Bearer {token}"})
    with pytest.raises(ConnectionError):
        JobSubmissionClient(
            url.replace("https", "http"), headers={"Authorization": f"Bearer {token}"}
        )
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)):
        # Somebody who says nothing holds up nobody.
        assert client.get_version() == "4"


def test_the_command_line(heads: Callable[..., Head], tmp_path: Path) -> None:
    head = heads()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "word.txt").write_text("from the folder\n")
    done = raymesh(
        "job", "submit", "--working-dir", str(tmp_path / "here"), "--submission-id", "mine",
        "--metadata-json", '{"a": "b"}', "--", "cat", "word.txt",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for text in ("Job 'mine' submitted successfully", "from the folder\n", "Job 'mine' succeeded"):
        assert text in done.stdout
    labelled = raymesh(
        "job", "submit", "--entrypoint-label-selector", '{"zone": "!there"}', "--", "true"
    )
    assert labelled.returncode == 0, labelled.stderr
    wrong = raymesh("job", "submit", "--entrypoint-label-selector", "zone", "--", "true")
    assert (wrong.returncode, "--entrypoint-label-selector" in wrong.stderr) == (2, True)
    failed = raymesh("job", "submit", "--address", head.jobs, "--", "sh", "-c", "exit 3")
    assert failed.returncode == 1
    assert "exit code 3" in failed.stdout
    waits = raymesh("job", "submit", "--no-wait", "--submission-id", "long", "--", "sleep", "999")
    assert waits.returncode == 0
    assert "was stopped" in raymesh("job", "stop", "long").stdout
    assert "from the folder" in raymesh("job", "logs", "mine").stdout
    assert "succeeded" in raymesh("job", "status", "mine", RAY_ADDRESS="auto").stdout
    assert "submission_id='long'" in raymesh("job", "list").stdout
    assert "deleted" in raymesh("job", "delete", "long").stdout
    unknown = raymesh("job", "status", "nowhere")
    assert (unknown.returncode, "does not exist" in unknown.stderr) == (1, True)
    stranger = raymesh(
        "job", "list", "--address", head.jobs, XDG_RUNTIME_DIR=str(tmp_path / "here")
    )
    assert "Bearer" in stranger.stderr
    assert stranger.returncode == 1


def test_without_a_cluster_the_client_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(ConnectionError, match="raymesh start --head"):
        JobSubmissionClient("auto")
    with pytest.raises(ConnectionError, match="Failed to connect"):
        JobSubmissionClient("http://127.0.0.1:9")
    with pytest.raises(TypeError):
        JobSubmissionClient(3)  # type: ignore[arg-type]
    assert _address.running() == []
