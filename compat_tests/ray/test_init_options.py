"""Every keyword of Ray's init is known: accepted, accepted with a line, or refused by name."""

from __future__ import annotations

import logging

import pytest

import raymesh


@pytest.fixture(autouse=True)
def _clean(nothing_left_behind: None):
    yield
    raymesh.shutdown()


@pytest.mark.parametrize(
    "options",
    [
        {"include_dashboard": False},
        {"dashboard_host": "127.0.0.1"},
        {"log_to_driver": False},
        {"logging_level": logging.WARNING},
        {"configure_logging": False},
        {"runtime_env": None},
        {"runtime_env": {}},
        {"local_mode": False},
        {"address": None},
        {"address": "local"},
        {"labels": None},
        {"job_config": None},
    ],
    ids=str,
)
def test_asks_for_nothing_that_is_missing(options: dict) -> None:
    raymesh.init(num_cpus=1, **options)
    assert raymesh.is_initialized()


def test_what_only_tunes_rays_insides_is_accepted_with_one_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    raymesh.init(num_cpus=1, _system_config={"health_check_period_ms": 1000})
    out, err = capfd.readouterr()
    assert (out + err).count("_system_config") == 1


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"runtime_env": {"pip": ["requests"]}}, "pip"),
    ],
    ids=str,
)
def test_what_would_change_the_program_is_refused_by_name(options: dict, names: str) -> None:
    with pytest.raises(NotImplementedError, match=names):
        raymesh.init(num_cpus=1, **options)
    assert not raymesh.is_initialized()


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"num_cpus": -1}, "CPU"),
        ({"num_cpus": "many"}, "CPU"),
        ({"resources": {"CPU": 1}}, "num_cpus"),
        ({"resources": ["x"]}, "resources"),
        ({"object_store_memory": -5}, "object store memory"),
        ({"object_store_memory": "1GB"}, "object_store_memory"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_name_and_leave_nothing(options: dict, names: str) -> None:
    with pytest.raises((ValueError, TypeError, AssertionError), match=names):
        raymesh.init(**options)
    assert not raymesh.is_initialized()


def test_failed_init_can_be_followed_by_a_good_one() -> None:
    with pytest.raises((ValueError, TypeError)):
        raymesh.init(num_cpus=-1)
    raymesh.init(num_cpus=1)
    assert raymesh.get(raymesh.put(1)) == 1
