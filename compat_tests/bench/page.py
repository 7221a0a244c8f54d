"""The self-contained HTML page: plots with the plotting script embedded, no network needed."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from compat_tests.bench.catalog import SIZES
from compat_tests.bench.report import number
from compat_tests.bench.results import Result

COLOURS = {"ray": "#8899aa", "raymesh": "#1f77b4"}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1100px; color: #222; }
table { border-collapse: collapse; } td, th { padding: 2px 12px; text-align: right; }
td:first-child, th:first-child { text-align: left; } tr:nth-child(even) { background: #f5f7fa; }
.reached { color: #18794e; } .missed { color: #b54708; } .slower { color: #b42318; }
"""


def _ratios(results: Sequence[Result]) -> go.Figure:
    shown = [r for r in results if r.ratio is not None and r.ratio != float("inf")]
    shown.reverse()
    figure = go.Figure(
        go.Bar(
            x=[r.ratio for r in shown],
            y=[r.row.name for r in shown],
            orientation="h",
            marker_color=[COLOURS["raymesh"] if r.reached else "#e0a030" for r in shown],
            text=[f"{number(r.ratio)}x" for r in shown],
            name="ratio",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[r.row.goal for r in shown],
            y=[r.row.name for r in shown],
            mode="markers",
            marker={"symbol": "line-ns-open", "size": 12, "color": "black"},
            name="goal",
        )
    )
    figure.add_vline(x=1, line_dash="dot")
    figure.update_xaxes(type="log", title="times better than Ray")
    figure.update_layout(height=200 + 24 * len(shown), title="raymesh beside Ray")
    return figure


def _samples(results: Sequence[Result]) -> go.Figure:
    figure = go.Figure()
    for name in ("ray", "raymesh"):
        points = [(r.row.name, v) for r in reversed(results) for v in getattr(r, name)]
        figure.add_trace(
            go.Scatter(
                x=[value for _, value in points],
                y=[row for row, _ in points],
                mode="markers",
                marker={"color": COLOURS[name], "opacity": 0.6},
                name=name,
            )
        )
    figure.update_xaxes(type="log", title="all samples, in each row's unit")
    figure.update_layout(height=200 + 24 * len(results), title="Every sample")
    return figure


def _latency(curves: Mapping[str, Mapping[str, list[float]]]) -> go.Figure | None:
    figure = go.Figure()
    for name, found in curves.items():
        values = found.get("actor call")
        if values:
            shares = [index / (len(values) - 1) for index in range(len(values))]
            colour = COLOURS.get(name)
            figure.add_trace(
                go.Scatter(x=values, y=shares, name=name, mode="lines", line={"color": colour})
            )
    if not figure.data:
        return None
    figure.update_xaxes(type="log", title="microseconds")
    figure.update_yaxes(title="share of the calls")
    figure.update_layout(title="Latency of a synchronous actor call")
    return figure


def _sizes(results: Sequence[Result], group: str) -> go.Figure | None:
    shown = [r for r in results if r.row.group == group]
    if not shown:
        return None
    figure = go.Figure()
    sizes = [SIZES[r.row.name.split(" ", 1)[1]] for r in shown]
    for index, name in enumerate(("ray", "raymesh")):
        figure.add_trace(
            go.Scatter(
                x=sizes,
                y=[r.medians[index] for r in shown],
                name=name,
                mode="lines+markers",
                line={"color": COLOURS[name]},
            )
        )
    figure.update_xaxes(type="log", title="bytes")
    figure.update_yaxes(type="log", title="microseconds")
    figure.update_layout(title=f"{group.capitalize()}")
    return figure


def _row(result: Result) -> str:
    ray, raymesh = result.medians
    state = "reached" if result.reached else "missed"
    if result.ratio is not None and result.ratio < 1:
        state = "slower"
    ratio = f"{number(result.ratio)}x" if result.ratio is not None else "-"
    goal = f"{result.row.goal:g}x" if result.row.goal > 1 else ""
    cells = [number(ray), number(raymesh), result.row.unit, ratio, goal]
    rest = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f'<tr class="{state}"><td>{html.escape(result.row.name)}</td>{rest}</tr>'


def write_page(path: str, results: Sequence[Result], data: Mapping[str, Any]) -> None:
    """Write the page: machine, table, plots."""
    figures = [
        _ratios(results),
        _latency(data["curves"]),
        _sizes(results, "put by size"),
        _sizes(results, "get by size"),
        _samples(results),
    ]
    drawn = [figure for figure in figures if figure is not None]
    plots = [
        figure.to_html(full_html=False, include_plotlyjs="inline" if index == 0 else False)
        for index, figure in enumerate(drawn)
    ]
    machine = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    where = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"Linux {machine['kernel']}, Python {machine['python']}; {versions}; {machine['when']}"
    )
    heading = (
        "<tr><th>row</th><th>Ray</th><th>raymesh</th><th>unit</th><th>ratio</th><th>goal</th></tr>"
    )
    table = heading + "".join(_row(result) for result in results)
    settings = ", ".join(f"{key}: {value}" for key, value in data["settings"].items())
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>raymesh bench</title>"
        f"<style>{STYLE}</style><h1>raymesh beside Ray</h1>"
        f"<p>{html.escape(where)}<br>{html.escape(settings)}</p>"
        f"<table>{table}</table>{''.join(plots)}</html>"
    )
    with open(path, "w", encoding="utf-8") as page:
        page.write(text)
