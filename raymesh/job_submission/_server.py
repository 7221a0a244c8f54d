"""The job server: a process beside the head, and a driver of its cluster as soon as there is a job.

`python -m raymesh.job_submission._server` reads what it is to be from standard input (JSON) and writes one line of JSON
to standard output: where it listens, or why it does not. The head starts it again if it ends, and it ends with the head.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raymesh.job_submission._http import Answer, Refusal, Request, Server
from raymesh.job_submission._manager import Job, Manager
from raymesh.job_submission._types import JobDetails, checked_request

_VERSION = "4"
"""Of the interface: Ray's."""
_PORT = 8265
_PORTS = 50
_KEEP_S = 7 * 24 * 3600


class Service:
    """What is asked for, and what is answered."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    def serve(self, request: Request) -> Answer:
        """Answers one request."""
        methods = self._methods(request)
        if answer := methods.get(request.command):
            return answer()
        said = f"{request.command} {request.path[:200]}"
        if methods:
            raise Refusal(405, f"Method Not Allowed: {said}\nhint: use {' or '.join(methods)}.")
        raise Refusal(404, f"Not Found: {said}")

    def _methods(self, request: Request) -> dict[str, Callable[[], Answer]]:
        """What can be done there, by HTTP's names. Nothing, where nothing is."""
        match request.path_parts():
            case ["api", "version"]:
                return {"GET": lambda: Answer(_version())}
            case ["api", "jobs"]:
                return {"GET": self._list, "POST": lambda: self._submit(request)}
            case ["api", "jobs", name]:
                return {
                    "GET": lambda: Answer(_details(self._job(name))),
                    "DELETE": lambda: self._delete(name),
                }
            case ["api", "jobs", name, "stop"]:
                return {"POST": lambda: Answer({"stopped": self._manager.stop(self._job(name))})}
            case ["api", "jobs", name, "logs"]:
                return {"GET": lambda: self._log(name)}
            case ["api", "jobs", name, "logs", "tail"]:
                return {"GET": lambda: Answer(pieces=self._job(name).follow())}
            case ["api", "packages", protocol, package]:
                uri = f"{protocol}://{package}"
                return {
                    "GET": lambda: self._has_package(uri),
                    "PUT": lambda: self._take_package(request, uri),
                }
        return {}

    def _list(self) -> Answer:
        return Answer([_details(job) for job in self._manager.all()])

    def _delete(self, name: str) -> Answer:
        self._manager.delete(self._job(name))
        return Answer({"deleted": True})

    def _log(self, name: str) -> Answer:
        log = self._job(name).log
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return Answer({"logs": text})

    def _job(self, name: str) -> Job:
        job = self._manager.get(name)
        if job is None:
            raise Refusal(404, f"Job {name} does not exist")
        return job

    def _submit(self, request: Request) -> Answer:
        try:
            submission_id = self._manager.submit(checked_request(request.json()))
        except (TypeError, ValueError) as error:
            raise Refusal(400, f"{type(error).__name__}: {error}") from None
        return Answer({"job_id": submission_id, "submission_id": submission_id})

    def _has_package(self, uri: str) -> Answer:
        import raymesh
        from raymesh.runtime_env import _keeper

        _check_package(uri)
        self._manager.connect()
        if not raymesh.get(_keeper.keeper().has.remote(uri)):
            raise Refusal(404, f"Package {uri} does not exist")
        return Answer({})

    def _take_package(self, request: Request, uri: str) -> Answer:
        from raymesh.runtime_env import _keeper, _packages

        _check_package(uri)
        file = request.file(_packages.MAX_BYTES)
        try:
            self._manager.connect()
            _keeper.upload(uri, file)
        finally:
            file.unlink()
        return Answer({})


def _check_package(uri: str) -> None:
    from raymesh.runtime_env import _packages

    if _packages.name_in(uri) is None:
        raise Refusal(400, f"Bad Request: {uri[:200]!r} is no name of a package")


def _details(job: Job) -> dict[str, Any]:
    return JobDetails.of(job.id, job.info).dict()


def _version() -> dict[str, str]:
    import raymesh

    return {
        "version": _VERSION,
        "ray_version": raymesh.RAY_VERSION,
        "ray_commit": f"raymesh-{raymesh.__version__}",
        "session_name": f"raymesh_{os.getppid()}",
    }


def _folder(token: str) -> Path:
    """Where jobs and logs of this cluster are: the same for a server, and a head, that is started again."""
    root = Path(tempfile.gettempdir(), f"raymesh-jobs-{os.getuid()}")
    root.mkdir(mode=0o700, exist_ok=True)
    if root.lstat().st_uid != os.getuid() or root.lstat().st_mode & 0o077:
        raise PermissionError(f"{root} is not a folder of this user alone.\nhint: remove it.")
    for old in root.iterdir():
        if time.time() - old.stat().st_mtime > _KEEP_S:
            import shutil

            shutil.rmtree(old, ignore_errors=True)
    folder = root / hashlib.sha256(token.encode()).hexdigest()[:16]
    folder.mkdir(mode=0o700, exist_ok=True)
    os.utime(folder)
    return folder


def _listening(wanted: dict[str, Any], token: str, service: Service) -> Server:
    host, port = wanted["host"], wanted["port"]
    # Without a wish the next one that is free, as in Ray.
    ports = [port] if port is not None else [*range(_PORT, _PORT + _PORTS), 0]
    for at in ports:
        try:
            return Server((host, at), token, service.serve)
        except OSError as error:
            if at == ports[-1]:
                raise OSError(f"the job server cannot listen on {host}:{at}: {error}") from None
    raise AssertionError


def _secured(server: Server, identity: list[str]) -> None:
    """What others than this machine send and get is encrypted, with the certificate that the links have, too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.NamedTemporaryFile("w", prefix="raymesh-") as file:
        # Python reads it from files only. Nobody else can read that one, and it goes at once.
        file.write("".join(identity))
        file.flush()
        context.load_cert_chain(file.name)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )


def main() -> int:
    """The process."""
    from raymesh._worker import child

    wanted: dict[str, Any] = json.load(sys.stdin)
    if not child.die_with_parent(wanted["head"], signal.SIGKILL):
        return 1
    child.set_process_name("raymesh-jobs")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the head's terminal: the head decides
    token = wanted["join"].rpartition("/")[2].partition(".")[0]
    try:
        manager = Manager(_folder(token), wanted["join"])
        server = _listening(wanted, token, Service(manager))
        local = ipaddress.ip_address(str(server.server_address[0])).is_loopback
        if not local:
            _secured(server, wanted["identity"])
    except OSError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    host, port = server.server_address[:2]
    if ipaddress.ip_address(str(host)).is_unspecified:
        from raymesh import _machine

        host = _machine.ip_address()
    name = f"[{host!s}]" if ":" in str(host) else str(host)
    url = f"{'http' if local else 'https'}://{name}:{port}"
    print(json.dumps({"address": url, "port": port}), flush=True)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.serve_forever(poll_interval=3600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
