"""`JobSubmissionClient`: handing programs to a cluster, over HTTP."""

from __future__ import annotations

import asyncio
import base64
import codecs
import hashlib
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from raymesh.job_submission import _address
from raymesh.job_submission._types import JobDetails, JobStatus, check_types

_PATIENCE_S = 60.0


class JobSubmissionClient:
    """Talks to a job server: `JobSubmissionClient("http://127.0.0.1:8265")`.

    As its user on the head's machine nothing else is needed; elsewhere give the token of the cluster, as
    `headers={"Authorization": "Bearer TOKEN"}`. Raises ConnectionError if no server can be reached.
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        verify: str | bool = True,
        **kwargs: Any,
    ) -> None:
        for name, value, kind in (
            ("address", address, str),
            ("cookies", cookies, dict),
            ("metadata", metadata, dict),
            ("headers", headers, dict),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, got {type(value)}")
        if isinstance(verify, str) and not Path(verify).exists():
            raise FileNotFoundError(f"Path to CA certificates: '{verify}', does not exist.")
        target = _address.find(address)
        self._address, self._verify = target.url, verify
        self._fingerprint = target.fingerprint
        self._default_metadata = metadata or {}
        self._headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
        self._headers.update(headers or {})
        if cookies:
            self._headers["Cookie"] = "; ".join(
                f"{name}={value}" for name, value in cookies.items()
            )
        self.get_version()

    def get_address(self) -> str:
        """The URL of the server."""
        return self._address

    def get_version(self) -> str:
        """The version of its interface."""
        return str(self._ask("GET", "/api/version")["version"])

    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        metadata: dict[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: float | None = None,
        entrypoint_num_gpus: float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: dict[str, float] | None = None,
        entrypoint_label_selector: dict[str, str] | None = None,
    ) -> str:
        """Hands in a job, and answers its id. Folders in `runtime_env` are packed and sent.

        Raises TypeError for what cannot be one, and RuntimeError if the server refuses it, as when the id is taken.
        """
        request: dict[str, Any] = {
            "entrypoint": entrypoint,
            "submission_id": submission_id or job_id,
            "metadata": metadata,
            "entrypoint_num_cpus": entrypoint_num_cpus,
            "entrypoint_num_gpus": entrypoint_num_gpus,
            "entrypoint_memory": entrypoint_memory,
            "entrypoint_resources": entrypoint_resources,
            "entrypoint_label_selector": entrypoint_label_selector,
        }
        check_types(request)
        request["metadata"] = {**(metadata or {}), **self._default_metadata}
        request["runtime_env"] = self._sent(runtime_env)
        said = {key: value for key, value in request.items() if value is not None}
        return str(self._ask("POST", "/api/jobs/", json.dumps(said).encode())["submission_id"])

    def stop_job(self, job_id: str) -> bool:
        """Has a job stopped. False: it had ended already."""
        return bool(self._ask("POST", f"{_path(job_id)}/stop")["stopped"])

    def delete_job(self, job_id: str) -> bool:
        """Has a job forgotten that has ended. Its log stays on the disk."""
        return bool(self._ask("DELETE", _path(job_id))["deleted"])

    def get_job_info(self, job_id: str) -> JobDetails:
        """What is known of a job."""
        return JobDetails.from_json(self._ask("GET", _path(job_id)))

    def list_jobs(self) -> list[JobDetails]:
        """All jobs that were submitted."""
        return [JobDetails.from_json(said) for said in self._ask("GET", "/api/jobs/")]

    def get_job_status(self, job_id: str) -> JobStatus:
        """Where a job stands."""
        return self.get_job_info(job_id).status

    def get_job_logs(self, job_id: str) -> str:
        """What a job has printed so far."""
        return str(self._ask("GET", f"{_path(job_id)}/logs")["logs"])

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """What a job prints, as it comes, until it has ended."""
        pieces = self._tail(job_id)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece

    def _tail(self, job_id: str) -> Iterator[str]:
        connection = self._connect(timeout=None)
        try:
            response = self._send(connection, "GET", f"{_path(job_id)}/logs/tail", None)
            if response.status != 200:
                raise _refused(response.status, response.read())
            decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
            while piece := response.read1(1 << 16):
                yield decoder.decode(piece)
        except http.client.HTTPException as error:
            raise RuntimeError(
                f"The connection to the job server broke while the log of {job_id} was followed: {error!r}"
            ) from None
        finally:
            connection.close()

    def _sent(self, runtime_env: Mapping[str, Any] | None) -> dict[str, Any]:
        from raymesh.runtime_env import RuntimeEnv, _work

        hook = (runtime_env or {}).get("worker_process_setup_hook")
        if hook is not None and not isinstance(hook, str):
            raise ValueError(
                f"Invalid type {type(hook)} for `worker_process_setup_hook`. When a job submission API is "
                "used, it only allows a string type (module name)."
            )
        asked = _work.checked(RuntimeEnv(**(runtime_env or {})))
        packed: list[tuple[str, Path]] = []
        try:
            env = _work.with_packages(asked, packed)
            for uri, file in packed:
                self._hand_in(uri, file)
        finally:
            for _, file in packed:
                file.unlink(missing_ok=True)
        return env

    def _hand_in(self, uri: str, file: Path) -> None:
        path = "/api/packages/" + uri.replace("://", "/")
        if self._status("GET", path, None)[0] == 200:
            return
        status, body = self._status("PUT", path, file)
        if status != 200:
            raise _refused(status, body)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        status, answer = self._status(method, path, body)
        if status != 200:
            raise _refused(status, answer)
        return json.loads(answer)

    def _status(self, method: str, path: str, body: bytes | Path | None) -> tuple[int, bytes]:
        connection = self._connect(timeout=_PATIENCE_S)
        try:
            response = self._send(connection, method, path, body)
            return response.status, response.read()
        finally:
            connection.close()

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        parts = urlsplit(self._address)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        if self._fingerprint:
            return _Pinned(parts.hostname, parts.port, self._fingerprint, timeout)
        trusted = self._verify if isinstance(self._verify, str) else None
        folder = trusted if trusted and Path(trusted).is_dir() else None
        context = ssl.create_default_context(cafile=None if folder else trusted, capath=folder)
        if self._verify is False:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout, context=context
        )

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | Path | None,
    ) -> http.client.HTTPResponse:
        headers = {**self._headers, "Content-Type": "application/json"}
        try:
            if isinstance(body, Path):
                with body.open("rb") as file:
                    headers["Content-Length"] = str(body.stat().st_size)
                    connection.request(method, urlsplit(self._address).path + path, file, headers)
            else:
                connection.request(method, urlsplit(self._address).path + path, body, headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(
                f"Failed to connect to Ray at address: {self._address}. ({error})\n"
                "hint: `raymesh start --head` prints where the job server is."
            ) from None


class _Pinned(http.client.HTTPSConnection):
    """Talks to who has the one certificate, and says nothing to others."""

    def __init__(
        self, host: str, port: int | None, fingerprint: str, timeout: float | None
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        super().__init__(host, port, timeout=timeout, context=context)
        self._fingerprint = fingerprint

    def connect(self) -> None:
        """Raises ConnectionError if it is somebody else."""
        super().connect()
        certificate = self.sock.getpeercert(binary_form=True)
        digest = hashlib.sha256(certificate or b"").digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != self._fingerprint:
            self.close()
            raise ConnectionError("the certificate is not that of the cluster")


def _path(job_id: str) -> str:
    return f"/api/jobs/{quote(job_id, safe='')}"


def _refused(status: int, body: bytes) -> RuntimeError:
    return RuntimeError(
        f"Request failed with status code {status}: {body.decode(errors='replace')}."
    )
