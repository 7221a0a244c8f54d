"""The server's end of a WebSocket (RFC 6455) on which only the server has something to say."""

from __future__ import annotations

import base64
import codecs
import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE, _PING = 0x1, 0x8, 0x9
_NORMAL = b"\x03\xe8"


def serve(request: BaseHTTPRequestHandler, pieces: Iterator[bytes]) -> None:
    """Sends the pieces as text, and closes. While none come, pings find out whether anybody is there."""
    key = request.headers.get("Sec-WebSocket-Key", "")
    accept = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()
    request.send_response(101)
    request.send_header("Upgrade", "websocket")
    request.send_header("Connection", "Upgrade")
    request.send_header("Sec-WebSocket-Accept", accept)
    request.end_headers()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for piece in pieces:
        if not piece:
            _send(request, _PING, b"")
        elif text := decoder.decode(piece):
            _send(request, _TEXT, text.encode())
    if rest := decoder.decode(b"", final=True):
        _send(request, _TEXT, rest.encode())
    _send(request, _CLOSE, _NORMAL)


def _send(request: BaseHTTPRequestHandler, kind: int, body: bytes) -> None:
    head = bytes([0x80 | kind])
    if len(body) < 126:
        head += bytes([len(body)])
    elif len(body) < 1 << 16:
        head += b"\x7e" + len(body).to_bytes(2, "big")
    else:
        head += b"\x7f" + len(body).to_bytes(8, "big")
    request.wfile.write(head + body)
