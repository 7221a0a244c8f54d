"""Real, short passes on raymesh: no row may get lost without a word."""

from __future__ import annotations

import dataclasses

from compat_tests.bench.catalog import SIZES
from compat_tests.bench.pace import PACES
from compat_tests.bench.passes import Samples, run_pass
from compat_tests.harness.systems import System

PACE = PACES["quick-busy"]


def test_a_pass_out_of_time_says_which_rows_it_left_out():
    keys = [f"get {size}" for size in SIZES]
    samples = Samples()
    run_pass(System.RAYMESH, keys, samples, 0, pace=dataclasses.replace(PACE, pass_s=1.0))
    left_out = {key for key, why in samples.failures.items() if why.startswith("not begun")}
    assert left_out == samples.failures.keys()
    assert left_out
    assert left_out.isdisjoint(samples.values)
    assert left_out | samples.values.keys() == set(keys)


def test_a_pass_without_time_starts_no_program(monkeypatch):
    def must_not_start(*_args, **_options):
        raise AssertionError("a program was started")

    monkeypatch.setattr("compat_tests.bench.passes.run_program", must_not_start)
    samples = Samples()
    run_pass(System.RAYMESH, ["get 1 KB"], samples, 0, pace=dataclasses.replace(PACE, pass_s=0))
    assert samples.failures["get 1 KB"].startswith("not begun")


def test_a_body_that_fails_leaves_the_others_alone(monkeypatch):
    # An object store in which 100 MB has no room.
    monkeypatch.setattr("compat_tests.bench.passes.STORE_BYTES", 80_000_000)
    samples = Samples()
    run_pass(System.RAYMESH, ["put 1 KB", "put 100 MB", "get 1 KB"], samples, 3, pace=PACE)
    assert samples.failures.keys() == {"put 100 MB"}
    assert "store" in samples.failures["put 100 MB"].lower()
    assert samples.values.keys() == {"put 1 KB", "get 1 KB"}
    assert all(list(passes) == [3] for passes in samples.values.values())
