"""How long measuring takes: what a row, a pass and a creation of many actors may use."""

from __future__ import annotations

import os
from dataclasses import dataclass

VARIABLE = "BENCH_PACE"
"""Names the pace to the programs that measure."""


FULL_BATCH = 1000


@dataclass(frozen=True)
class Pace:
    """Times in seconds. What does not fit is left out, and the row says so."""

    name: str
    warm_up_s: float
    round_s: float
    rounds: int
    samples: int
    """Single calls timed for a latency distribution, if the row's time allows."""
    batch: int
    """Calls in flight in the asynchronous rows: the same for everybody who is measured."""
    row_s: float
    """No round is begun that would end later than this after the row's first call."""
    creation_s: float
    """For creating many actors; what lives by then is measured."""
    pass_s: float
    """A pass on one system does not begin another row after this."""

    @property
    def out_of_time(self) -> str:
        """Why a row was left out."""
        return f"not begun: the pass had already taken {self.pass_s:g} s"

    def part_of(self, count: int) -> int:
        """How many of what a row has `count` of: the share that the batch has of a full one."""
        return count * self.batch // FULL_BATCH


PACES = {
    pace.name: pace
    for pace in (
        Pace("full", 0.25, 0.4, 2, 10_000, FULL_BATCH, row_s=6, creation_s=90, pass_s=330),
        Pace("quick", 0.15, 0.4, 1, 2_000, FULL_BATCH, row_s=3, creation_s=30, pass_s=100),
        # On a busy machine Ray makes some 20 calls a second: with 1,000 in flight a single round of a
        # row would take a minute.
        Pace("busy", 0.2, 0.5, 1, 5_000, 200, row_s=4, creation_s=40, pass_s=300),
        Pace("quick-busy", 0.1, 0.3, 1, 500, 100, row_s=2, creation_s=15, pass_s=150),
    )
}


SETTLE_S = 2.0
"""Rest after processes were started, before anything is measured."""


def pace_of(*, quick: bool, busy: bool) -> Pace:
    """The pace for a kind of run."""
    return PACES["-".join(["quick"] * quick + ["busy"] * busy) or "full"]


def current() -> Pace:
    """The pace that this program was started with."""
    return PACES[os.environ.get(VARIABLE, "full")]
