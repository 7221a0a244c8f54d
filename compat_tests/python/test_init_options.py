"""Keywords of `init`: every one of Ray's is known, and each kind is treated as documented."""

from __future__ import annotations

import inspect
import json

import pytest

import raymesh as ray
from raymesh import _address, _init_options, _job
from raymesh.job_config import JobConfig

RAYS = [
    "address",
    "num_cpus",
    "num_gpus",
    "resources",
    "labels",
    "object_store_memory",
    "local_mode",
    "ignore_reinit_error",
    "include_dashboard",
    "dashboard_host",
    "dashboard_port",
    "job_config",
    "configure_logging",
    "logging_level",
    "logging_format",
    "logging_config",
    "log_to_driver",
    "namespace",
    "runtime_env",
    "enable_resource_isolation",
    "cgroup_path",
    "system_reserved_cpu",
    "system_reserved_memory",
    "proxy_server_url",
]

PRIVATE = [
    "_enable_object_reconstruction",
    "_plasma_directory",
    "_object_spilling_directory",
    "_node_ip_address",
    "_driver_object_store_memory",
    "_memory",
    "_redis_username",
    "_redis_password",
    "_temp_dir",
    "_metrics_export_port",
    "_system_config",
    "_tracing_startup_hook",
    "_node_name",
    "_skip_env_hook",
    "object_spilling_directory",
]


def test_every_keyword_of_ray_is_known():
    assert [*inspect.signature(ray.init).parameters] == [*RAYS, "kwargs"]
    _init_options.split_unknown(dict.fromkeys(PRIVATE))


def test_unknown_keyword_is_told():
    with pytest.raises(RuntimeError, match=r"Unknown keyword argument\(s\): foo"):
        ray.init(foo=1)


def test_tuning_is_accepted_and_reported():
    values = {"_system_config": {"a": 1}, "dashboard_port": 8265, "dashboard_host": "127.0.0.1"}
    assert _init_options.ignored(values) == ["_system_config", "dashboard_port"]


def test_address_that_means_here_is_accepted(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert _address.join_string(None) is None
    assert _address.join_string("local") is None
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert _address.join_string(None) is None


def test_address_alone_opens_no_cluster(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(ConnectionError, match="Could not find any running"):
        _address.join_string("auto")
    with pytest.raises(ConnectionError, match="token"):
        _address.join_string("10.0.0.1:6379")
    monkeypatch.setenv("RAY_ADDRESS", "ray://x:1")
    with pytest.raises(ConnectionError, match="x:1"):
        _address.join_string(None)


def test_what_would_change_the_program_is_refused():
    _init_options.check_unavailable(local_mode=False)
    with pytest.raises(RuntimeError, match="local_mode"):
        _init_options.check_unavailable(local_mode=True)
    _job.prepared(None, None)
    _job.prepared({}, JobConfig())
    with pytest.raises(
        NotImplementedError, match=r"'pip' is not in raymesh yet\.\nhint: .*on every host"
    ):
        _job.prepared({"pip": ["x"]}, None)
    with pytest.raises(NotImplementedError, match="conda"):
        _job.prepared(None, JobConfig(runtime_env={"conda": "x"}))
    with pytest.raises(TypeError):
        _job.prepared("x", None)


def test_a_submitted_job_and_its_program_may_not_contradict_each_other(monkeypatch):
    submitted = {"runtime_env": {"env_vars": {"A": "1"}}}
    monkeypatch.setenv(_job.CONFIG_VARIABLE, json.dumps(submitted))
    assert _job._asked({"env_vars": {"B": "2"}}, None) == {"env_vars": {"A": "1", "B": "2"}}
    with pytest.raises(ValueError, match="conflict"):
        _job.prepared({"env_vars": {"A": "2"}}, None)
    monkeypatch.setenv("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    assert _job._asked({"env_vars": {"A": "2"}}, None) == {"env_vars": {"A": "2"}}


def test_namespaces(monkeypatch):
    monkeypatch.delenv("RAY_NAMESPACE", raising=False)
    assert _init_options.checked_namespace("n") == "n"
    assert _init_options.checked_namespace(None) != _init_options.checked_namespace(None)
    monkeypatch.setenv("RAY_NAMESPACE", "env")
    assert _init_options.checked_namespace(None) == "env"
    with pytest.raises(ValueError, match="not a valid namespace"):
        _init_options.checked_namespace("")
    with pytest.raises(TypeError, match="must be None or a string"):
        _init_options.checked_namespace(3)


@pytest.mark.parametrize(("value", "wanted"), [(None, True), ("0", False), ("1", True)])
def test_log_to_driver_follows_the_variable(monkeypatch, value, wanted):
    monkeypatch.delenv("RAY_LOG_TO_DRIVER", raising=False)
    if value is not None:
        monkeypatch.setenv("RAY_LOG_TO_DRIVER", value)
    assert _init_options.wants_log_to_driver(None) is wanted
    assert _init_options.wants_log_to_driver(True)
    assert not _init_options.wants_log_to_driver(False)
