"""The command line: `raymesh run`, `doctor`, `start`, `status`, `stop`, `job`.

`run` is handled before click is imported, so that a program starts as fast as with `python`, and
so that all words behind the script are the script's.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the `raymesh` command."""
    words = sys.argv[1:]
    if words[:1] == ["run"] and len(words) > 1 and words[1] not in ("-h", "--help"):
        from raymesh.cli.run import run

        run(words[1:])
        return
    from raymesh.cli.commands import group

    group(prog_name="raymesh")
