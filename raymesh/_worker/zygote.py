"""The warm process that workers are forked from.

The agent starts it with a sequenced-packet socket as standard input and speaks a small protocol
with it, little-endian, one message a packet (rust/runtime/src/agent/zygote.rs is the other end):

====  =========================================  ==============================================
to the zygote
----  ----------------------------------------------------------------------------------------
S     limit of open files (u64)                  with fds: shared memory, eventfd of the agent
L     names of modules, separated by NUL         import these when there is nothing else to do
P     names of modules, separated by NUL         import these ahead
F     process id in raymesh (u64)                with fds: pipes for stdout and stderr, or none
Q                                                end everything
to the agent
----  ----------------------------------------------------------------------------------------
R                                                ready to fork
M     a module's name                            is about to be imported
B     name, NUL, reason                          could not be imported; goes on with the others
U     name or nothing, NUL, reason               forks would not be sound; kill this zygote
C     process id (u64), pid (u32)                forked; with fd: its pidfd
E     process id (u64), errno (u32)              could not fork
X     pid (u32), wait status (u32)               a worker has ended
====  =========================================  ==============================================

It has one thread. It ends, with everything below it, as soon as the agent does: told by the end of
the socket, by the pidfd of the agent's process, or, in the middle of an import, by a signal.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import NoReturn

from raymesh._worker import child, kin, preload

_PACKET = 1 << 18
_IDLE_MS = 50
_LATEST_S = 1.0
"""A program that starts workers without a pause holds up what is to be imported for no longer."""
_LATER = ("asyncio", "concurrent.futures.thread", "raymesh._worker.actors", "raymesh._worker.later")
"""What most workers need sooner or later."""


class Zygote:
    def __init__(self, control: socket.socket, driver: int) -> None:
        self.control = control
        self.driver = driver
        self.given: child.Inheritance | None = None
        self.workers: set[int] = set()
        self.wakeup, self.wakeup_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.importing = False
        self.later = list(_LATER)
        self.idle_ms: int | None = _IDLE_MS
        """When to import them; None: there are none."""
        self.latest = time.monotonic() + _LATEST_S

    def serve(self) -> NoReturn:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the agent's thread blocks them all
        signal.set_wakeup_fd(self.wakeup_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self.end())
        signal.signal(signal.SIGCHLD, lambda *_: self.reap() if self.importing else None)
        if not child.die_with_parent(self.driver, signal.SIGTERM):
            self.end()
        pidfd = os.pidfd_open(self.driver)
        poll = select.poll()
        for fd in (self.control.fileno(), self.wakeup, pidfd):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self.idle_ms)}
            if not ready or (self.later and time.monotonic() > self.latest):
                self.import_more()
            if self.wakeup in ready:
                os.read(self.wakeup, 4096)
                self.reap()
            if pidfd in ready:
                self.end()
            if self.control.fileno() in ready:
                self.receive(pidfd)

    def import_more(self) -> None:
        """What workers will need, once the first ones are on their way."""
        self.importing = True
        for module in self.later:
            with contextlib.suppress(Exception):  # the worker that needs it will say so
                importlib.import_module(module)
        self.later.clear()
        self.idle_ms = None
        self.importing = False
        self.reap()
        _settle_memory()

    def receive(self, pidfd: int) -> None:
        fds = array.array("i")
        try:
            packet, ancillary, _, _ = self.control.recvmsg(
                _PACKET, socket.CMSG_SPACE(4 * fds.itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            self.end()
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data)
        request, body = packet[:1], packet[1:]
        if request == b"S":
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            (open_files,) = struct.unpack("<Q", body)
            self.given = child.Inheritance(fds[0], fds[1], pidfd, open_files, null)
        elif request == b"F":
            self.fork(body, list(fds))
        elif request == b"K":
            (pid,) = struct.unpack("<I", body)
            if pid in self.workers:
                os.kill(pid, signal.SIGKILL)
        elif request == b"L":
            if not self.later:
                self.latest = time.monotonic() + _LATEST_S
            self.later += filter(None, body.decode().split("\0"))
            self.idle_ms = _IDLE_MS
        elif request == b"P":
            self.importing = True
            preload.run(body.decode().split("\0"), self.send)
            self.import_more()
        else:  # Q, or nothing: the agent is gone
            self.end()
        if request in (b"S", b"P"):
            _settle_memory()
            self.send(b"R")

    def fork(self, proc: bytes, streams: list[int]) -> None:
        assert self.given is not None
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.send(b"E" + proc + struct.pack("<I", error.errno or 0))
            return
        if pid == 0:
            close = [self.control.fileno(), self.wakeup, self.wakeup_in]
            child.become_worker(int.from_bytes(proc, "little"), self.given, streams, zygote, close)
        self.workers.add(pid)
        for fd in streams:
            os.close(fd)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            os.kill(pid, signal.SIGKILL)
            self.send(b"E" + proc + struct.pack("<I", error.errno or 0))
            return
        self.send(b"C" + proc + struct.pack("<I", pid), pidfd)
        os.close(pidfd)

    def reap(self) -> None:
        """Report workers that have ended, and end what they leave behind."""
        ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended = True
            if pid in self.workers:
                self.workers.discard(pid)
                self.send(b"X" + struct.pack("<II", pid, status))
        if ended:
            adopted = set(kin.children(os.getpid())) - self.workers
            kin.kill(kin.left_behind(adopted, self.workers))

    def send(self, packet: bytes, fd: int | None = None) -> None:
        rights = array.array("i", [] if fd is None else [fd])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else []
        try:
            self.control.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)
        except ConnectionError:
            self.end()

    def end(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kin.kill_all_below(os.getpid())
        os._exit(0)


def _settle_memory() -> None:
    """Objects that exist now are never looked at again by the collector: their pages stay shared."""
    gc.collect()
    gc.freeze()


def main() -> NoReturn:
    """Entry point: ``sys.argv[1]`` is the pid of the agent's process, fd 0 the control socket.

    The agent's first packet, ``sys.path``, was read before this module could be found.
    """
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2:  # the user's program lets everything that it starts inherit it
            with contextlib.suppress(OSError):  # the listing's own
                os.close(fd)
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    child.prctl(child.PR_SET_CHILD_SUBREAPER, 1)
    child.set_process_name("raymesh-zygote")
    zygote = Zygote(control, int(sys.argv[1]))
    sys.argv = [""]
    gc.disable()
    importlib.import_module("cloudpickle")
    importlib.import_module("raymesh._worker.main")
    zygote.serve()
