"""Jobs that are handed to a cluster: by its client, and as HTTP."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from compat_tests.harness import apart, dashboard
from compat_tests.harness.case import SYSTEM_VARIABLE, Record, case, main, raised
from compat_tests.harness.systems import System

dashboard.use()

from ray.cluster_utils import Cluster  # noqa: E402
from ray.job_submission import JobStatus, JobSubmissionClient  # noqa: E402

NEEDS = ["opencensus"]

apart.own_folder()
# Ray's client would rather have this than the address that it is given.
os.environ.pop("RAY_ADDRESS", None)

FIELDS = [
    "type",
    "status",
    "entrypoint",
    "job_id",
    "driver_info",
    "message",
    "error_type",
    "metadata",
    "runtime_env",
    "driver_exit_code",
]


@functools.cache
def server() -> dict:
    if dashboard.SERVER_VARIABLE in os.environ:
        return json.loads(os.environ[dashboard.SERVER_VARIABLE])
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            **dashboard.HEAD,
            "dashboard_port": apart.free_port(),
            "dashboard_agent_listen_port": apart.free_port(),
        },
    )
    atexit.register(cluster.shutdown)
    return {
        "url": f"http://{cluster.webui_url}",
        "headers": _own_headers(),
        "system": os.environ.get(SYSTEM_VARIABLE, "ray"),
    }


def _own_headers() -> dict:
    if os.environ.get(SYSTEM_VARIABLE) == "raymesh":
        return {}
    from ray._private.authentication.http_token_authentication import (
        get_auth_headers_if_auth_enabled,
    )

    return get_auth_headers_if_auth_enabled({})


@functools.cache
def client() -> JobSubmissionClient:
    return JobSubmissionClient(server()["url"], headers=server()["headers"])


def program(script: str) -> str:
    """The command that runs a Ray program on the system under the server."""
    return shlex.join(System(server()["system"]).command(Path(script)))


def until(look: Callable[[], object], job: str) -> None:
    limit = time.monotonic() + 50
    while not look():
        assert time.monotonic() < limit, client().get_job_info(job)
        time.sleep(0.05)


def is_over(job: str) -> bool:
    return client().get_job_status(job).is_terminal()


def ended(job: str):
    until(lambda: is_over(job), job)
    return client().get_job_info(job)


def status_by(limit: float, job: str) -> JobStatus:
    while not is_over(job) and time.monotonic() < limit:
        time.sleep(0.05)
    return client().get_job_status(job)


def printed(job: str, log: str | None = None) -> list[str]:
    """The log without what the system itself says of the job."""
    log = client().get_job_logs(job) if log is None else log
    own = ("Running entrypoint for job", "Runtime env is setting up", "job_manager.py")
    return [line for line in log.splitlines() if not any(word in line for word in own)]


def told(info, *without: str) -> dict:
    return {name: getattr(info, name) for name in FIELDS if name not in without}


@contextlib.contextmanager
def folder(**files: str):
    path = Path(tempfile.mkdtemp())
    try:
        for name, text in files.items():
            (path / f"{name}.py").write_text(text)
        yield str(path)
    finally:
        shutil.rmtree(path)


@case(own_session=True, timeout_s=180)
def a_command_with_a_folder_and_variables(record: Record) -> None:
    source = "import os, sys, words; print(words.TEXT, os.environ['LEVEL'], sys.argv[1:])"
    with folder(script=source, words="TEXT = 'of the folder'") as path:
        job = client().submit_job(
            entrypoint=f"{sys.executable} script.py --a '1 2'",
            submission_id="with-folder",
            metadata={"who": "me"},
            runtime_env={"working_dir": path, "env_vars": {"LEVEL": "debug"}},
        )
    again = client().submit_job(entrypoint="true")
    record("id", job)
    info = ended(job)
    record("said", told(info, "entrypoint", "runtime_env"))
    record("ids", info.submission_id)
    record("entrypoint", info.entrypoint.endswith("script.py --a '1 2'"))
    record("environment", sorted(info.runtime_env))
    record("variables", info.runtime_env["env_vars"])
    record("package", info.runtime_env["working_dir"].startswith("gcs://_ray_pkg_"))
    record("times", [type(info.start_time), type(info.end_time), info.start_time <= info.end_time])
    record("host", [type(info.driver_node_id), len(info.driver_node_id)])
    record("printed", printed(job))
    record(
        "listed",
        [type(found).__name__ for found in client().list_jobs() if found.submission_id == job],
    )
    record("made up", [again.startswith("raysubmit_"), len(again)])
    ended(again)


DRIVER = """
import ray
from ray.job_config import JobConfig

ray.init(log_to_driver=False, job_config=JobConfig(default_actor_lifetime="detached", ray_namespace="of-jobs"))

@ray.remote
class Keeper:
    def add(self):
        child = Keeper.options(name="child").remote()
        return ray.get(child.ready.remote())
    def ready(self):
        return "ready"

keeper = Keeper.options(name="kept").remote()
print(ray.get(keeper.add.remote()))
Keeper.options(name="lost", lifetime="non_detached").remote()
print("job", ray.get_runtime_context().get_job_id())
"""
LATER = """
import ray

ray.init(log_to_driver=False, namespace="of-jobs")
print(sorted(ray.util.list_named_actors()))
for name in ray.util.list_named_actors():
    ray.kill(ray.get_actor(name))
ray.shutdown()
try:
    ray.init(runtime_env={"env_vars": {"A": "2"}})
except ValueError as error:
    print("conflict" if "Failed to merge" in str(error) else error)
"""


@case(own_session=True, timeout_s=180)
def a_program_that_joins(record: Record) -> None:
    with folder(driver=DRIVER, later=LATER) as path:
        job = client().submit_job(
            entrypoint=program("driver.py"),
            runtime_env={"working_dir": path},
            metadata={"who": "me"},
        )
        info = ended(job)
        log = printed(job)
        record("ended", told(info, "entrypoint", "runtime_env", "driver_info", "job_id"))
        record("child", "ready" in log)
        record("job", f"job {info.job_id}" in log)
        record("driver", sorted(vars(info.driver_info)))
        record("its id", info.driver_info.id == info.job_id)
        record("types", [type(value) for _, value in sorted(vars(info.driver_info).items())])
        record("by job id", client().get_job_info(info.job_id).submission_id == job)
        record("log by job id", printed(info.job_id) == log)
        after = client().submit_job(
            entrypoint=program("later.py"),
            runtime_env={"working_dir": path, "env_vars": {"A": "1"}},
        )
        record("later", ended(after).status)
    record("found", [line for line in printed(after) if line.startswith(("[", "conflict"))])


@case(own_session=True, timeout_s=180)
def commands_that_fail(record: Record) -> None:
    commands = {
        "code": "echo why; exit 3",
        "signal": "kill -9 $$",
        "unknown": "no-such-command-anywhere",
        "silent": "exit 4",
    }
    jobs = {name: client().submit_job(entrypoint=command) for name, command in commands.items()}
    missing = client().submit_job(
        entrypoint="true", runtime_env={"working_dir": "gcs://_ray_pkg_0.zip"}
    )
    for name, job in jobs.items():
        info = ended(job)
        record(f"{name} ended", told(info, "message"))
        head, _, tail = info.message.partition("\n")
        record(f"{name} says", head)
        record(f"{name} shows", printed(job, tail)[-1:] if name == "code" else None)
    info = ended(missing)
    record("no package", told(info, "message"))
    record(
        "no package says", ["runtime_env" in info.message, "setup failed" in info.message.lower()]
    )


@case(own_session=True, timeout_s=180)
def logs_are_followed(record: Record) -> None:
    async def follow(job: str) -> str:
        return "".join([piece async for piece in client().tail_job_logs(job)])

    async def both(job: str) -> list[str]:
        return list(await asyncio.gather(follow(job), follow(job)))

    line = "for n in 1 2 3 4; do echo line $n; sleep 0.2; done; printf 'without end'"
    job = client().submit_job(entrypoint=line)
    text = "printf 'a\\tb \\303\\274\\r!\\n'; echo; echo; echo last"
    strange = client().submit_job(entrypoint=text)
    record("live", [printed(job, log)[-5:] for log in asyncio.run(both(job))])
    record("ended by then", ended(job).status)
    record("afterwards", printed(job, asyncio.run(follow(job)))[-5:])
    record("whole", printed(job))
    ended(strange)
    record("strange", [ascii(line) for line in printed(strange)])


@case(own_session=True, timeout_s=180)
def stopping_and_deleting(record: Record) -> None:
    # Without a child that survives it: Ray leaves the child of a shell to itself.
    job = client().submit_job(entrypoint="echo up; exec sleep 321", submission_id="stopped")
    until(lambda: "up" in printed(job), job)
    record("running", told(client().get_job_info(job), "driver_exit_code"))
    with record.raises("delete running", says=["500", "non-terminal state", "RUNNING"]):
        client().delete_job(job)
    record("stop", client().stop_job(job))
    info = ended(job)
    record("stopped", told(info, "driver_exit_code"))
    record("stop again", client().stop_job(job))
    record("delete", client().delete_job(job))
    with record.raises("deleted", says=["404", "does not exist"]):
        client().get_job_info(job)
    with record.raises("delete again", says=["404", "does not exist"]):
        client().delete_job(job)
    record(
        "listed",
        [found.submission_id for found in client().list_jobs() if found.submission_id == job],
    )
    with record.raises("its name is free"):
        ended(client().submit_job(entrypoint="true", submission_id="stopped"))
    done = client().submit_job(entrypoint="true")
    ended(done)
    record("stop of an ended one", client().stop_job(done))


@case(own_session=True, timeout_s=180)
def where_commands_go(record: Record) -> None:
    here = client().submit_job(
        entrypoint="true", entrypoint_label_selector={"zone": "in(here, there)"}
    )
    record("label", ended(here).status)
    amounts = client().submit_job(
        entrypoint="true", entrypoint_num_cpus=1, entrypoint_memory=1000, entrypoint_resources={}
    )
    record("amounts", ended(amounts).status)
    waiting = []
    for label, options in {
        "many": {"entrypoint_num_cpus": 50},
        "elsewhere": {"entrypoint_label_selector": {"zone": "there"}},
        "not here": {"entrypoint_label_selector": {"zone": "!here"}},
        "environment": {
            "entrypoint_resources": {"none": 1},
            "runtime_env": {"env_vars": {"A": "1"}},
        },
    }.items():
        job = client().submit_job(entrypoint="true", **options)
        info = client().get_job_info(job)
        record(label, told(info))
        record(f"{label}: stop", client().stop_job(job))
        waiting.append(job)
    # For all of them together: on Ray it is waited for in vain.
    limit = time.monotonic() + 8
    for job in waiting:
        record.better(
            "stopped",
            status_by(limit, job),
            want=JobStatus.STOPPED,
            why="in Ray a job that waits for its place cannot be stopped: its supervisor would have to run for that",
        )
    for label, selector in {
        "value": {"zone": "in(here"},
        "key": {"-zone": "here"},
        "number": {"zone": 1},
        "list": ["zone"],
    }.items():
        with record.raises(
            f"selector {label}", says=["label_selector", "label selector", "label key"]
        ):
            client().submit_job(entrypoint="true", entrypoint_label_selector=selector)


@case(own_session=True, timeout_s=180)
def what_is_wrong(record: Record) -> None:
    ended(client().submit_job(entrypoint="true", submission_id="mine"))
    with record.raises("twice", says=["mine already exists", "different submission_id"]):
        client().submit_job(entrypoint="true", submission_id="mine")
    wrong = {
        "entrypoint": {"entrypoint": 3},
        "no entrypoint": {"entrypoint": None},
        "submission_id": {"submission_id": 3},
        "metadata value": {"metadata": {"a": 1}},
        "metadata key": {"metadata": {1: "a"}},
        "cpus": {"entrypoint_num_cpus": "many"},
        "gpus": {"entrypoint_num_gpus": "many"},
        "memory": {"entrypoint_memory": 1.5},
        "resources": {"entrypoint_resources": ["a"]},
        "resource": {"entrypoint_resources": {"a": "b"}},
        "resource name": {"entrypoint_resources": {1: 1}},
        "folder": {"runtime_env": {"working_dir": "/nowhere/at/all"}},
        "variable": {"runtime_env": {"env_vars": {"A": 1}}},
        "hook": {"runtime_env": {"worker_process_setup_hook": print}},
        "unknown": {"unknown": 1},
    }
    for label, options in wrong.items():
        with record.raises(label, says=["must be", "got", "not a valid", "unexpected keyword"]):
            client().submit_job(**{"entrypoint": "true", **options})
    record.better(
        "negative",
        raised(lambda: client().submit_job(entrypoint="true", entrypoint_num_cpus=-1)),
        want="RuntimeError",
        why="refused; in Ray the job fails later",
    )
    with record.raises("by position"):
        client().submit_job("true")
    calls = ["get_job_info", "get_job_status", "get_job_logs", "stop_job", "delete_job"]
    for name in calls:
        with record.raises(name, says=["404", "does not exist", "nowhere"]):
            getattr(client(), name)("nowhere")

    async def tail() -> None:
        async for _ in client().tail_job_logs("nowhere"):
            pass

    # In Ray an error of its HTTP library.
    try:
        asyncio.run(tail())
    except Exception as error:
        record("tail", "404" in str(error))
    with record.raises("strange name", says=["404"]):
        client().get_job_info("no where/../%2f?x")
    record("still there", client().get_job_status("mine"))


@case(own_session=True, timeout_s=180)
def clients(record: Record) -> None:
    url, headers = server()["url"], server()["headers"]
    record("address", client().get_address() == url)
    record("version", client().get_version())
    record("slash", JobSubmissionClient(url + "/", headers=headers).get_address() == url)
    with record.raises("nobody listens", says=["Failed to connect to Ray at address"]):
        JobSubmissionClient("http://127.0.0.1:9")
    with record.raises("another scheme"):
        JobSubmissionClient("gopher://127.0.0.1:9")
    for name in ("address", "cookies", "metadata", "headers"):
        with record.raises(name, says=["must be a"]):
            JobSubmissionClient(**{"address": url, name: 3})
    with record.raises("no such certificate"):
        JobSubmissionClient(url, headers=headers, verify="/nowhere/at/all.pem")
    mine = JobSubmissionClient(url, headers=headers, metadata={"from": "client", "who": "all"})
    job = mine.submit_job(entrypoint="true", metadata={"who": "me"})
    record("metadata", sorted(mine.get_job_info(job).metadata.items()))
    record("status", type(mine.get_job_status(job)) is JobStatus)
    ended(job)


def asked(method: str, path: str, body: bytes | None = None) -> tuple[int, object]:
    headers = {"Content-Type": "application/json", **server()["headers"], **_token()}
    request = urllib.request.Request(server()["url"] + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        error.read()
        return error.code, None


def _token() -> dict:
    if server()["system"] != "raymesh" or server()["headers"]:
        return {}
    return {"Authorization": f"Bearer {client()._headers['Authorization'].split()[1]}"}


@case(own_session=True, timeout_s=180)
def plain_http(record: Record) -> None:
    said = {"entrypoint": "true", "submission_id": "plain", "entrypoint_num_cpus": None}
    record("submit", asked("POST", "/api/jobs/", json.dumps(said).encode()))
    ended("plain")
    status, details = asked("GET", "/api/jobs/plain")
    hidden = ["driver_agent_http_address", "driver_node_id", "start_time", "end_time"]
    record("details", [status, sorted(details)])
    record("said", sorted((k, v) for k, v in details.items() if k not in hidden))
    status, jobs = asked("GET", "/api/jobs/")
    record(
        "list",
        [status, type(jobs), [job["status"] for job in jobs if job["submission_id"] == "plain"]],
    )
    status, logs = asked("GET", "/api/jobs/plain/logs")
    record("logs", [status, list(logs), printed("plain", logs["logs"])])
    record("stop", asked("POST", "/api/jobs/plain/stop"))
    record("delete", asked("DELETE", "/api/jobs/plain"))
    record("version", [asked("GET", "/api/version")[0], sorted(asked("GET", "/api/version")[1])])
    for label, (method, path, body) in {
        "no entrypoint": ("POST", "/api/jobs/", b"{}"),
        "number": ("POST", "/api/jobs/", b'{"entrypoint": 3}'),
        "unknown key": ("POST", "/api/jobs/", b'{"entrypoint": "true", "unknown": 1}'),
        "unknown job": ("GET", "/api/jobs/nowhere", None),
        "unknown path": ("GET", "/api/jobs/nowhere/what", None),
        "unknown package": ("GET", "/api/packages/gcs/_ray_pkg_0.zip", None),
        "other method": ("PATCH", "/api/jobs/nowhere", None),
    }.items():
        record(label, asked(method, path, body))
    for body in (b"{{{", b"[]", b""):
        status, _ = asked("POST", "/api/jobs/", body)
        record.better(
            "no job", status, want=400, why="what the caller does wrong is no fault of the server"
        )


main(globals())
