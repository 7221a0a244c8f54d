"""Folding of what workers print: equal lines only, and nothing is lost."""

from __future__ import annotations

import io
import re
import sys

import pytest

from raymesh import _output
from raymesh._output import Folder, Line, Printer, Style


def line(text, pid=1, *, err=False, times=1):
    return Line("f", pid, err, text, times=times)


def feed(folder, *lines, now=0.0):
    return [shown for item in lines for shown in folder.feed(item, now)]


def test_first_is_shown_at_once_and_repeats_of_others_once_with_a_count():
    folder = Folder(window=5)
    assert feed(folder, line("same", 1)) == [line("same", 1)]
    assert feed(folder, line("same", 2), line("same", 3), line("same", 1)) == []
    assert folder.deadline() == 5
    assert folder.due(4.9) == []
    assert folder.due(5) == [line("same", 1, times=3)]
    assert folder.deadline() is None


def test_lines_that_differ_in_a_number_are_all_shown():
    folder = Folder()
    lines = [line(f"step {n}: loss 0.{n}", pid=n) for n in range(20)]
    assert feed(folder, *lines) == lines


def test_one_process_that_repeats_itself_is_shown_each_time():
    folder = Folder()
    lines = [line("tick", 1)] * 5
    assert feed(folder, *lines) == lines


def test_blank_lines_are_kept():
    folder = Folder()
    lines = [line("", 1), line("", 2), line("   ", 3), line("   ", 4)]
    assert feed(folder, *lines) == lines


def test_stdout_and_stderr_are_not_folded_together():
    folder = Folder()
    lines = [line("x", 1), line("x", 2, err=True)]
    assert feed(folder, *lines) == lines


def test_flood_goes_on_being_folded_after_a_window():
    folder = Folder(window=5)
    feed(folder, line("x", 1), line("x", 2), line("x", 3))
    assert folder.feed(line("x", 4), 6.0) == [line("x", 3, times=2)]
    assert folder.feed(line("x", 5), 6.5) == []
    assert folder.flush() == [line("x", 5, times=2)]
    assert folder.flush() == []


def test_line_that_comes_back_later_is_shown_at_once():
    folder = Folder(window=5)
    feed(folder, line("x", 1))
    assert folder.feed(line("x", 2), 5.0) == [line("x", 2)]


def test_single_held_line_is_shown_as_it_is():
    folder = Folder(window=5)
    feed(folder, line("x", 1), line("x", 2))
    assert folder.flush() == [line("x", 2)]


def test_environment_turns_folding_off_and_selects():
    off = Folder.from_environment({"RAY_DEDUP_LOGS": "0"})
    lines = [line("x", 1), line("x", 2)]
    assert feed(off, *lines) == lines
    chosen = Folder.from_environment(
        {"RAY_DEDUP_LOGS_ALLOW_REGEX": "ABC", "RAY_DEDUP_LOGS_SKIP_REGEX": "XYZ"}
    )
    kept = [line("ABC", 1), line("ABC", 2)]
    assert feed(chosen, *kept, line("XYZ", 1), line("XYZ", 2)) == kept


def test_prefix_and_count_look_as_in_ray():
    style = Style({})
    assert style.render(line("hi", 7), on_terminal=False) == "(f pid=7) hi\n"
    assert style.render(line("hi", 7), on_terminal=True) == "\x1b[36m(f pid=7)\x1b[0m hi\n"
    first = style.render(line("hi", 7, times=3), on_terminal=False)
    assert first.startswith("(f pid=7) hi [repeated 3x across cluster] (")
    assert "RAY_DEDUP_LOGS=0" in first
    second = style.render(line("hi", 7, times=4), on_terminal=False)
    assert second == "(f pid=7) hi [repeated 4x across cluster]\n"


def test_colours_follow_the_variable():
    assert "\x1b" not in Style({"RAY_COLOR_PREFIX": "0"}).render(line("x"), on_terminal=True)
    many = Style({"RAY_COLOR_PREFIX": "1"})
    colours = {
        re.match("\x1b\\[\\d+m", many.render(line("x", pid), on_terminal=True))[0]
        for pid in range(10)
    }
    assert len(colours) == 10


@pytest.fixture
def batches(monkeypatch):
    """What the native part hands out; then it has stopped."""
    pending = []
    monkeypatch.setattr(
        _output._native, "next_output", lambda session, timeout: pending.pop(0) if pending else None
    )
    return pending


def run_printer(*, show=True):
    printer = Printer(1, show=show)
    printer.start()
    printer.join(10)


def test_streams_of_the_moment_are_used_and_the_rest_is_flushed(batches, monkeypatch):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    batches += [[("f", 1, False, "a"), ("f", 1, True, "e")], [], [("g", 2, False, "a")]]
    run_printer()
    assert out.getvalue() == "(f pid=1) a\n(g pid=2) a\n"
    assert err.getvalue() == "(f pid=1) e\n"


def test_nothing_is_shown_when_not_wanted(batches, capsys):
    batches += [[("f", 1, False, "a")]]
    run_printer(show=False)
    assert capsys.readouterr().out == ""


def test_closed_or_missing_streams_do_not_stop_the_printer(batches, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "stderr", None)
    batches += [[("f", 1, False, "a"), ("f", 1, True, "b")]]
    run_printer()
    assert not batches


def test_text_that_the_stream_cannot_encode_is_shown_escaped(batches, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    batches += [[("f", 1, False, "\u2603")]]
    run_printer()
    assert raw.getvalue() == b"(f pid=1) \\u2603\n"
