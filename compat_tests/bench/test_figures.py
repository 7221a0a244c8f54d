"""The benchmark's arithmetic: what a ratio is, above all where there is none."""

from __future__ import annotations

import json
import math

import pytest

from compat_tests.bench.catalog import CROWD, MEMORY, ROWS, START, keys_of, limit_of, sessions
from compat_tests.bench.charts import Bar, Scale, bars
from compat_tests.bench.figures import (
    Spread,
    duration,
    number,
    quantile,
    ratios,
    short,
    times_better,
)
from compat_tests.bench.meter import Meter
from compat_tests.bench.pace import PACES, pace_of
from compat_tests.bench.page import page
from compat_tests.bench.passes import Samples
from compat_tests.bench.report import markdown, results_table
from compat_tests.bench.results import Part, as_json, machine, results_of
from compat_tests.harness.systems import System

RATE = next(row for row in ROWS if row.name == "1:1 actor calls sync")
COST = next(row for row in ROWS if row.name == "cpu of an idle session")


def part_of(ray: dict[int, list[float]], raymesh: dict[int, list[float]], row=RATE) -> Part:
    samples = {
        System.RAY: Samples(values={row.name: ray}),
        System.RAYMESH: Samples(values={row.name: raymesh}),
    }
    return Part("quiet", results_of([row], samples), samples)


@pytest.mark.parametrize(
    ("reference", "own", "higher", "ratio"),
    [
        (2.0, 8.0, True, 4.0),
        (8.0, 2.0, False, 4.0),
        (8.0, 2.0, True, 0.25),
        (0.0, 5.0, True, math.inf),
        (5.0, 0.0, False, math.inf),
        (5.0, -0.1, False, math.inf),
        (0.0, 0.0, True, 1.0),
        (0.0, 0.0, False, 1.0),
        (0.0, 5.0, False, 0.0),
        (-0.1, 5.0, False, 0.0),
    ],
)
def test_better_is_above_one_whichever_way_the_unit_points(reference, own, higher, ratio):
    assert times_better(reference, own, higher_is_better=higher) == ratio


def test_a_slow_pass_slows_both_and_leaves_the_ratio_alone():
    # The machine was half as fast in pass 1; medians over all passes would give 60 / 10, or worse.
    ray = {0: [10.0, 11.0, 12.0], 1: [5.0], 2: [10.0]}
    raymesh = {0: [110.0], 1: [50.0], 2: [100.0, 1.0, 900.0]}
    assert ratios(ray, raymesh, higher_is_better=True) == [10.0, 10.0, 10.0]


def test_a_pass_that_only_one_system_reached_has_no_ratio():
    assert ratios({0: [1.0], 1: [2.0]}, {1: [4.0], 2: [9.0]}, higher_is_better=True) == [2.0]
    assert ratios({0: []}, {0: [1.0]}, higher_is_better=True) == []


def test_a_pass_with_many_samples_counts_once():
    spread = Spread.of_passes({0: [1.0] * 50, 1: [5.0], 2: [9.0, 7.0]})
    assert spread == Spread(1.0, 5.0, 9.0)
    assert Spread.of_passes({0: []}) is None
    assert Spread.of([]) is None


def test_a_divisor_of_zero_is_said_in_words():
    part = part_of({0: [50.0]}, {0: [0.0]}, COST)
    (result,) = part.results
    assert result.ratio_text == "raymesh has 0"
    assert result.state == "ahead"
    (result,) = part_of({0: [0.0]}, {0: [7.0]}).results
    assert result.ratio_text == "Ray has 0"
    (result,) = part_of({0: [0.0]}, {0: [0.0]}).results
    assert result.ratio_text == "1x"


def test_nothing_shows_an_infinity():
    part = part_of({0: [50.0], 1: [40.0]}, {0: [0.0], 1: [20.0]}, COST)
    busy = Part("busy", part.results, part.samples)
    where = {**machine(), "when": "now"}
    html = page([part, busy], {"rows": "all"}, where)
    data = json.dumps(as_json([part, busy], {}, where), allow_nan=False)
    table = results_table(part)
    cells = [cell for column in table.columns for cell in column.cells]
    for text in (html, data, markdown(part), *map(str, cells)):
        assert "inf" not in text.replace("inference", "")
        assert "nan" not in text


def test_nothing_measured_is_no_ratio_and_says_so():
    samples = {system: Samples(failures={RATE.key: "boom"}) for system in System}
    (result,) = results_of([RATE], samples)
    assert (result.ratio, result.ratio_text, result.state) == (None, "-", "failed")


@pytest.mark.parametrize(
    ("raymesh", "state"), [(600.0, "reached"), (599.0, "below"), (10.0, "below"), (9.0, "slower")]
)
def test_the_goal_decides_what_is_said(raymesh, state):
    assert RATE.goal == 60
    assert part_of({0: [10.0]}, {0: [raymesh]}).results[0].state == state


def test_quantiles_are_samples_that_were_taken():
    values = [float(n) for n in range(1000)]
    assert [quantile(values, q) for q in (0, 0.5, 0.99, 0.999, 1)] == [0, 500, 990, 999, 999]
    assert quantile([3.0], 0.999) == 3.0


def test_a_curve_ends_where_it_would_stand_for_less_than_one_call():
    meter = Meter(PACES["quick-busy"])
    times = meter.distribution("call", lambda: None)
    tail, value = meter.curves["call"][-1]
    assert len(times) == 500
    assert 10**tail <= len(times) < 10 ** (tail + 0.05)
    assert value in times[-2:]


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_row_whose_single_call_takes_all_its_time_is_measured_once_and_says_so(
    rounds, monkeypatch
):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def slow() -> None:
        now[0] += 50.0

    pace = PACES["full" if rounds == 2 else "busy"]
    meter = Meter(pace)
    meter.rate("row", slow, 100)
    assert meter.values == {"row": [2.0]}
    assert "single call" in meter.notes["row"]


def test_numbers_keep_three_digits():
    assert [number(v) for v in (None, 0.0, 0.00004, 1.2345, 99.5, 1234567.0)] == [
        "-",
        "0",
        "4e-05",
        "1.23",
        "99.5",
        "1,234,567",
    ]
    assert [short(v) for v in (0.5, 999.0, 999.9, 1000.0, 120508.0, 4e9)] == [
        "0.5",
        "999",
        "1k",
        "1k",
        "121k",
        "4G",
    ]


def test_times_have_the_unit_that_suits_them():
    shown = [duration(us) for us in (0.5, 999.0, 1e3, 999_999.0, 2.5e6)]
    assert shown == ["0.5 us", "999 us", "1 ms", "1 s", "2.5 s"]


def test_every_row_is_measured_in_exactly_one_session():
    keys = keys_of(ROWS, 0)
    parts = sessions(keys)
    found = [key for part in parts for key in part]
    assert sorted(found) == sorted(key for key in keys if key != START)
    assert [CROWD] in parts
    weighed = {row.key for row in ROWS if row.group == MEMORY and row.key != CROWD}
    assert any(set(part) == weighed for part in parts)


def test_names_of_rows_are_unique():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def test_only_every_other_pass_is_heavy():
    assert CROWD in keys_of(ROWS, 0)
    assert CROWD not in keys_of(ROWS, 1)
    assert RATE.key in keys_of(ROWS, 1)


def test_actors_may_take_their_time_to_come_into_being():
    for quick in (False, True):
        for busy in (False, True):
            assert limit_of(CROWD) > 2 * pace_of(quick=quick, busy=busy).creation_s


def test_a_scale_holds_all_it_shows():
    scale = Scale.around([0.0, 0.5, 20.0, math.inf], 100, 500)
    assert 100 < scale.at(0.5) < scale.at(1) < scale.at(20.0) < 500
    assert scale.at(0) == 100
    assert scale.at(math.inf) == 500
    assert len(scale.ticks) >= 2


def test_a_bar_without_bound_is_drawn_to_the_edge():
    drawn = bars("t", [("", [Bar("idle", math.inf, "raymesh has 0", "ahead")])])
    assert "raymesh has 0" in drawn
    assert "inf" not in drawn
    assert "nan" not in drawn
