"""A worker for tests: prints what it finds, then becomes the test program in its role of a worker."""

import os
import random
import sys

from raymesh._worker import output


def start(proc_id: int, segment: int, eventfd: int, driver: int) -> int:
    watched = os.environ.get("TEST_MODULES", "").split(",")
    print("imported:" + ",".join(name for name in watched if name in sys.modules))
    print("random:" + str(random.random()))
    print("fds:" + ",".join(_open_files()))
    if os.environ.get("TEST_EXIT"):
        output.set_name("tester")
        print("no newline", end="")
        return int(os.environ["TEST_EXIT"])
    for fd in (segment, eventfd, driver):
        os.set_inheritable(fd, True)
    environment = {**os.environ, "TEST_WORKER": f"{proc_id} {segment} {eventfd}"}
    program = os.environ["TEST_PROGRAM"]
    sys.stdout.flush()
    os.execve(program, [program, "role::worker", "--exact", "--nocapture"], environment)


def _open_files() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{fd}={os.readlink(f'/proc/self/fd/{fd}')}")
        except FileNotFoundError:
            pass  # the folder itself
    return found
