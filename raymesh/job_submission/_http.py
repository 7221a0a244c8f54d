"""HTTP for the job server: who may ask, how much, and how answers and streams are sent.

Nothing is looked at before the token: neither what is asked, nor the body. A request that is too
large, or that takes too long to arrive (`_reading`), is answered and its connection closed. Connections that
have not shown the token yet make way for newer ones.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import resource
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from raymesh.job_submission import _reading, _websocket

JSON_LIMIT = 8 << 20
_PATIENCE_S = 30.0
_AT_ONCE = 64
"""Requests of those who know the token; others wait. Streams do not count."""
_STRANGERS = 128
"""Connections without the token so far. Beyond that the oldest one is closed: who asks at once is served."""
_CONNECTIONS = 1000
_CHUNK = 1 << 20
_FAREWELL = 8
"""Bytes with which a WebSocket's client closes: a masked frame with a code."""


class Refusal(Exception):
    """An answer that is no good one."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Answer:
    """What is sent back: JSON, or pieces of text as they come."""

    def __init__(self, value: Any = None, *, pieces: Iterator[bytes] | None = None) -> None:
        self.value, self.pieces = value, pieces


Serve = Callable[["Request"], Answer]


class Server(ThreadingHTTPServer):
    """Serves those who know the token."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], token: str, serve: Serve) -> None:
        self.token, self.serve_request = token, serve
        self.slots = threading.BoundedSemaphore(_AT_ONCE)
        self._strangers: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # What this process needs as a driver must be left.
        self._connections = min(_CONNECTIONS, max(_STRANGERS, files // 2))
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """As the base class; but who only holds connections open gets no threads without end."""
        if threading.active_count() > self._connections:
            self.shutdown_request(request)
            return
        with self._lock:
            oldest = next(iter(self._strangers)) if len(self._strangers) >= _STRANGERS else None
            self._strangers[request] = None
        if oldest is not None:
            self.known(oldest)
            with contextlib.suppress(OSError):
                # Its thread reads the end of it.
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def known(self, request: socket.socket) -> None:
        """This one has shown the token, or is over."""
        with self._lock:
            self._strangers.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        """As the base class."""
        self.known(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no fault of ours."""

    def server_bind(self) -> None:
        """As the base class, but without asking the name service for the name of this host."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]


class Request(BaseHTTPRequestHandler):
    """One connection, and the request that it is at."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "raymesh", ""
    timeout = _PATIENCE_S
    server: Server

    def setup(self) -> None:
        """The handshake of TLS, if there is one: here it holds up nobody else."""
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(_PATIENCE_S)
            self.request.do_handshake()
        super().setup()
        self.rfile.close()
        self._incoming = _reading.Incoming(self.connection)
        self.rfile = _reading.buffered(self._incoming)

    def handle_one_request(self) -> None:
        """As the base class; the head is read within the limits."""
        self._incoming.begin_head(_PATIENCE_S)
        self._unread = False
        try:
            super().handle_one_request()
        except (http.client.LineTooLong, TimeoutError):
            # There is no request that could be answered.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        """All methods come to the same."""
        try:
            if not self._is_known():
                raise Refusal(
                    401,
                    "Unauthorized: the token of the cluster is needed, as the header 'Authorization: Bearer TOKEN'."
                    "\nhint: `raymesh start --head` prints it.",
                )
            self.server.known(self.request)
            if self.headers.get("Transfer-Encoding"):
                raise Refusal(411, "Length Required: the body must come with a Content-Length")
            # Of a body that nobody asks for, the next request would be read.
            self._unread = self.headers.get("Content-Length", "0") != "0"
            with self.server.slots:
                answer = self.server.serve_request(self)
            self.close_connection = self.close_connection or self._unread
        except Refusal as refusal:
            # What is left of the body is not read.
            self.close_connection = True
            self._send(refusal.status, str(refusal).encode(), "text/plain; charset=utf-8")
        except OSError:
            self.close_connection = True
        except Exception as error:
            self.close_connection = True
            text = f"{type(error).__name__}: {error}"
            self._send(500, text.encode(), "text/plain; charset=utf-8")
        else:
            self._answer(answer)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_GET

    def path_parts(self) -> list[str]:
        """What is asked for, without what comes after `?`."""
        return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]

    def json(self) -> Any:
        """The body. Refusal if it is none, or too large."""
        length = self._length(JSON_LIMIT)
        body = self.rfile.read(length)
        if len(body) < length:
            raise Refusal(400, "Bad Request: the body ends early")
        self._unread = False
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"Bad Request: the body is no JSON: {error}") from None

    def file(self, limit: int) -> Path:
        """The body, in a temporary file that the caller removes."""
        left = self._length(limit)
        with tempfile.NamedTemporaryFile(prefix="raymesh-upload-", delete=False) as file:
            try:
                while left:
                    piece = self.rfile.read(min(left, _CHUNK))
                    if not piece:
                        raise Refusal(400, "Bad Request: the body ends early")
                    left -= len(piece)
                    file.write(piece)
            except BaseException:
                Path(file.name).unlink()
                raise
        self._unread = False
        return Path(file.name)

    def _length(self, limit: int) -> int:
        text = self.headers.get("Content-Length", "")
        if not (text.isascii() and text.isdigit()):
            raise Refusal(411, "Length Required: the body must come with a Content-Length")
        if len(text) > 18 or int(text) > limit:
            raise Refusal(413, f"Content Too Large: at most {limit} bytes")
        self._incoming.begin_body(_PATIENCE_S, int(text))
        return int(text)

    def _is_known(self) -> bool:
        given = self.headers.get("Authorization", "")
        scheme, _, token = given.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            token.strip().encode("utf-8", "surrogateescape"), self.server.token.encode()
        )

    def _answer(self, answer: Answer) -> None:
        if answer.pieces is None:
            self._send(200, json.dumps(answer.value).encode(), "application/json")
            return
        self.close_connection = True
        try:
            if "websocket" in self.headers.get("Upgrade", "").lower():
                _websocket.serve(self, answer.pieces)
                # Its own farewell, so that the connection does not look broken to it.
                self._incoming.begin_body(_PATIENCE_S, _FAREWELL)
                self.rfile.read(_FAREWELL)
            else:
                self._stream(answer.pieces)
        except OSError:
            return  # it has gone away

    def _stream(self, pieces: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True
