"""What a client sends, within limits of size and time: who sends a byte a second holds nobody up for long."""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

_HEAD_LIMIT = 64 << 10
_SLOWEST = 64 << 10
"""Bytes of a body in a second, on the whole. Slower than any link that a package would be sent over."""


class Incoming(io.RawIOBase):
    """The bytes of a connection. Raises TimeoutError and `http.client.LineTooLong` beyond what was granted."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = 0.0
        self._left = 0

    def begin_head(self, seconds: float) -> None:
        """The next request may come now, and be so long under way."""
        self._deadline = time.monotonic() + seconds
        self._left = _HEAD_LIMIT

    def begin_body(self, seconds: float, length: int) -> None:
        """A body follows, of which a part may have been read."""
        self._deadline = time.monotonic() + seconds + length / _SLOWEST
        self._left = length

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As a socket's file, as long as there is time and room."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request takes too long")
        if self._left <= 0:
            raise http.client.LineTooLong("head")
        patience = self._connection.gettimeout()
        self._connection.settimeout(left)
        try:
            read = self._connection.recv_into(buffer, min(len(buffer), self._left))
        finally:
            self._connection.settimeout(patience)
        self._left -= read
        return read


def buffered(incoming: Incoming) -> io.BufferedReader:
    """For who reads lines."""
    return io.BufferedReader(incoming, 16 << 10)
