"""The HTML page: one file without a script, nothing is loaded from anywhere."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from compat_tests.bench.catalog import FAN_OUT, SIZES, fan_out
from compat_tests.bench.charts import Bar, Dots, Line, bars, dots, lines
from compat_tests.bench.figures import duration, number, times_better
from compat_tests.bench.others import BY
from compat_tests.bench.report import spread_text
from compat_tests.bench.results import SHOWN, STATES, Part, Result

STYLE = Path(__file__).with_name("page.css")
TILES = (
    "1:1 actor calls sync",
    "single client tasks async",
    "actor call p99",
    "put of 100 MB",
    "memory per idle worker",
)
TAILS = [
    (0.0, "0%"),
    (math.log10(2), "50%"),
    *((n, f"{100 - 100 / 10**n:g}%") for n in (1, 2, 3, 4)),
]
SYSTEM_KEY = (("raymesh", "raymesh"), ("ray", "Ray"))


def page(parts: Sequence[Part], settings: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """The whole page."""
    first = parts[0]
    sections = [
        _opening(first, settings, machine),
        _ratios(first),
        _latency(parts),
        _sizes(parts),
        _load(parts),
        _orientation(parts),
        *(_table(part, folded=part is not first) for part in parts),
        _method(),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>raymesh beside Ray</title><style>{STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body>{''.join(sections)}</body></html>\n"
    )


def _key(*entries: tuple[str, str]) -> str:
    spans = "".join(f'<span class="{look}">{escape(text)}</span>' for look, text in entries)
    return f'<div class="key">{spans}</div>'


def _figure(caption: str, drawing: str, *key: tuple[str, str]) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{_key(*key)}{drawing}</figure>"


def _opening(part: Part, settings: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    compared = [result for result in part.results if result.ratio is not None]
    ahead = sum(result.state != "slower" for result in compared)
    goals = [result for result in compared if result.row.goal > 1]
    reached = sum(result.state == "reached" for result in goals)
    versions = machine["versions"]
    where = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"Linux {machine['kernel']}, Python {machine['python']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
    )
    how = "; ".join(f"{name}: {text}" for name, text in settings.items())
    when = machine["when"].replace("T", " ").replace("+00:00", " UTC")
    load = "with 8 busy processes beside" if part.load == "busy" else "on the quiet machine"
    count = (
        f"{ahead} of {len(compared)} rows at least as good as Ray {load}, "
        f"{reached} of {len(goals)} goals reached."
    )
    tiles = "".join(_tile(result) for result in compared if result.row.name in TILES)
    return (
        f"<header><h1>raymesh beside Ray {escape(versions['ray'])}</h1><p>{escape(count)}</p>"
        f'<p class="soft">{escape(where)}. {escape(when)}. Measured: {escape(how)}; load average '
        f"before: {machine['load_before']}.</p></header>"
        f'<div class="tiles">{tiles}</div>'
    )


def _tile(result: Result) -> str:
    figures = []
    for system, name in SHOWN.items():
        spread = result.spread(system)
        figures.append(f"{name} {number(spread.median if spread else None)}")
    detail = f"{', '.join(figures)} {result.row.unit}"
    return (
        f'<div class="tile"><b>{escape(result.ratio_text)}</b>{escape(result.row.name)}'
        f"<span>{escape(detail)}</span></div>"
    )


def _groups(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    for name, group in itertools.groupby(results, key=lambda result: result.row.group):
        yield name, list(group)


def _ratios(part: Part) -> str:
    groups = []
    for name, group in _groups(part.results):
        shown = [
            Bar(
                result.row.name,
                result.ratio.median,
                result.ratio_text,
                result.state,
                result.row.goal,
                result.ratio.low,
                result.ratio.high,
            )
            for result in group
            if result.ratio is not None
        ]
        if shown:
            groups.append((name, shown))
    if not groups:
        return ""
    caption = (
        "How many times better raymesh is: the median of the passes' ratios, the thin line from the "
        "lowest to the highest of them."
    )
    key = (
        ("raymesh", "ahead, and its goal reached"),
        ("below", "below its goal"),
        ("slower", "slower than Ray"),
        ("goal", "goal"),
    )
    return f"<h2>Ratios</h2>{_figure(caption, bars('Ratios', groups), *key)}"


def _looks(load: str) -> str:
    return " busy" if load == "busy" else ""


def _load_key(parts: Sequence[Part]) -> tuple[tuple[str, str], ...]:
    dashed = [("busy", "with 8 busy processes")] if any(p.load == "busy" for p in parts) else []
    return (*SYSTEM_KEY, *dashed)


def _latency(parts: Sequence[Part]) -> str:
    curves = []
    for part in parts:
        for system, found in part.samples.items():
            points = found.curves.get("actor call")
            if points:
                look = system.value + _looks(part.load)
                curves.append(Line(look, points, SHOWN[system]))
    if not curves:
        return ""
    drawing = lines(
        "Latency of a synchronous actor call",
        curves,
        say=duration,
        ticks=TAILS,
        width=960,
        height=360,
    )
    caption = (
        "How long a synchronous actor call takes: to the right the share of calls that are faster. "
        "A curve ends where it would stand for less than one call."
    )
    return f"<h2>Latency</h2>{_figure(caption, drawing, *_load_key(parts))}"


def _by(
    parts: Sequence[Part], names: Mapping[str, float], of: Callable[[float, float], float]
) -> list[Line]:
    """Curves over rows whose names stand for numbers; `of` makes a point's height from number and figure."""
    curves = []
    for part in parts:
        known = {result.row.name: result for result in part.results}
        for system in SHOWN:
            points = []
            for name, value in names.items():
                spread = known[name].spread(system) if name in known else None
                if spread and spread.median > 0:
                    points.append((math.log10(value), of(value, spread.median)))
            if points:
                curves.append(Line(system.value + _looks(part.load), points, SHOWN[system]))
    return curves


def _sizes(parts: Sequence[Part]) -> str:
    sizes = [(math.log10(count), name) for name, count in SIZES.items()]
    counts = [(math.log10(count), str(count)) for count in FAN_OUT]
    puts = {f"put {name}": float(count) for name, count in SIZES.items()}
    gets = {f"get {name}": float(count) for name, count in SIZES.items()}
    fans = {fan_out(count): float(count) for count in FAN_OUT}
    wanted = (
        ("Time of a put, by size", puts, _time, duration, sizes),
        ("Bytes put per second, by size", puts, _throughput, _bytes_per_second, sizes),
        ("Time of a get of what is in the store, by size", gets, _time, duration, sizes),
        (
            "One call to each of 1, 10, 100 actors, until all have answered",
            fans,
            _time,
            duration,
            counts,
        ),
    )
    drawn = []
    for title, names, of, say, ticks in wanted:
        curves = _by(parts, names, of)
        if curves:
            drawing = lines(title, curves, say=say, ticks=ticks)
            drawn.append(_figure(title, drawing, *_load_key(parts)))
    return f'<h2>Size and number</h2><div class="pair">{"".join(drawn)}</div>' if drawn else ""


def _time(_: float, microseconds: float) -> float:
    return microseconds


def _throughput(size: float, microseconds: float) -> float:
    return size / microseconds * 1e6


def _bytes_per_second(value: float) -> str:
    for bound, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if value >= bound * 0.9995:
            return f"{value / bound:.3g} {unit}/s"
    return f"{number(value)} B/s"


def _load(parts: Sequence[Part]) -> str:
    loads = {part.load: {result.row.name: result for result in part.results} for part in parts}
    if not {"quiet", "busy"} <= loads.keys():
        return ""
    slowed, ratios = [], []
    for name, quiet in loads["quiet"].items():
        busy = loads["busy"].get(name)
        if busy is None or quiet.row.group == "memory":
            continue
        values = []
        for system, shown in SHOWN.items():
            before, under = quiet.spread(system), busy.spread(system)
            if before and under and before.median > 0 and under.median > 0:
                factor = 1 / times_better(
                    before.median, under.median, higher_is_better=quiet.row.higher_is_better
                )
                values.append((factor, system.value, f"{shown} {number(factor)}x"))
        if values:
            slowed.append(Dots(name, values))
        both = [
            (result.ratio.median, look, f"{load} {result.ratio_text}")
            for result, look, load in ((quiet, "raymesh", "quiet"), (busy, "raymesh busy", "busy"))
            if result.ratio and math.isfinite(result.ratio.median)
        ]
        if len(both) == 2:
            ratios.append(Dots(name, both))
    ratio_figure = _figure(
        "How many times better raymesh is than Ray: filled on the quiet machine, hollow with 8 busy "
        "processes.",
        dots("Ratios quiet and busy", ratios, "x") if ratios else "",
        ("filled", "quiet"),
        ("hollow", "busy"),
    )
    slow_figure = _figure(
        "How many times worse each system gets when 8 processes compute beside it. To the left is better.",
        dots("Slow-down under load", slowed, "x"),
        *SYSTEM_KEY,
    )
    return f"<h2>Busy and quiet</h2>{ratio_figure if ratios else ''}{slow_figure if slowed else ''}"


def _orientation(parts: Sequence[Part]) -> str:
    groups = []
    for part in parts:
        shown = []
        for name, shape, theirs, own, _ in part.others_rows(BY):
            if theirs and own:
                ratio = own / theirs
                text = f"{number(ratio)}x ({number(theirs)}/s)"
                label = f"{name}: {shape.removeprefix('single client ')}"
                shown.append(Bar(label, ratio, text, "reached" if ratio >= 1 else "slower"))
        if shown:
            groups.append((part.load, shown))
    failed = [
        f"{name} ({part.load}): {failure}"
        for part in parts
        for name, _, _, _, failure in part.others_rows(BY)
        if failure
    ]
    if not groups and not failed:
        return ""
    drawing = bars("Other systems", groups) if groups else ""
    missing = f'<p class="soft">Not measured: {escape("; ".join(failed))}</p>' if failed else ""
    caption = (
        "By how much raymesh is ahead of what one would otherwise pick, and their calls per second."
    )
    key = (("raymesh", "raymesh is ahead"), ("slower", "raymesh is slower"))
    return f"<h2>For orientation</h2>{_figure(caption, drawing, *key)}{missing}"


def _table(part: Part, *, folded: bool) -> str:
    head = "".join(
        f"<th>{text}</th>"
        for text in (
            "",
            "Ray",
            "min .. max",
            "raymesh",
            "min .. max",
            "unit",
            "ratio",
            "min .. max",
            "goal",
            "",
        )
    )
    body = []
    for name, group in _groups(part.results):
        body.append(f'<tr class="head"><td colspan="10">{escape(name)}</td></tr>')
        body += [_row(result) for result in group]
    table = f'<div class="scroll"><table><tr>{head}</tr>{"".join(body)}</table></div>'
    title = "All figures, with 8 busy processes" if part.load == "busy" else "All figures"
    if folded:
        return f"<details><summary>{title}</summary>{table}</details>"
    return f"<h2>{title}</h2>{table}"


def _row(result: Result) -> str:
    remarks = "".join(f"<small>{escape(text)}</small>" for text in result.remarks)
    for system, text in result.failures.items():
        last = text.strip().splitlines()[-1] if text.strip() else "no output"
        remarks += f"<small>{SHOWN[system]} failed: {escape(last[:200])}</small>"
    cells = [f"<td>{escape(result.row.name)}{remarks}</td>"]
    for system in SHOWN:
        spread = result.spread(system)
        cells.append(f"<td>{number(spread.median if spread else None)}</td>")
        cells.append(f'<td class="range">{spread_text(spread)}</td>')
    goal = f"{result.row.goal:g}x" if result.row.goal > 1 else ""
    said = "" if result.state == "ahead" else STATES[result.state]
    cells += [
        f"<td>{escape(result.row.unit)}</td>",
        f'<td class="{result.state}">{escape(result.ratio_text)}</td>',
        f'<td class="range">{spread_text(result.ratio)}</td>',
        f"<td>{goal}</td>",
        f'<td class="{result.state}">{said}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _method() -> str:
    return (
        "<h2>How</h2><p>Each pass starts both systems anew, one after the other, taking turns in being "
        "first, and measures every row; those that take long, in every other pass. Names and loops are "
        "those of <code>ray microbenchmark</code> where it has the row, with 1,000 calls in flight; with "
        "busy processes beside, with a fifth of that. The ratio is the median of the passes' ratios, so "
        "what drifts between passes drifts for both. Ranges are over all samples. Ray and raymesh run "
        "the same program with the same size of object store. Memory is the proportional set size, in "
        "which a page that several processes share counts in parts. Where a system could not do what a "
        "row says in the time there is, the row says what was measured instead.</p>"
    )
