"""Starting and ending the runtime of this process: `init`, `shutdown`, `is_initialized`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raymesh import _job, _native, _state

if TYPE_CHECKING:
    from raymesh._init_options import Host
    from raymesh._logging_config import LoggingConfig
    from raymesh._output import Printer
    from raymesh.context import RayContext


class _Driver:
    """What belongs to the runtime that this process drives."""

    def __init__(self, printer: Printer, ip_address: str) -> None:
        self.printer = printer
        self.ip_address = ip_address
        self.pid = os.getpid()


_driver: _Driver | None = None
_at_exit = False


def init(
    address: str | None = None,
    *,
    num_cpus: int | None = None,
    num_gpus: int | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str = "127.0.0.1",
    dashboard_port: int | None = None,
    job_config: Any = None,
    configure_logging: bool = True,
    logging_level: int | str = "info",
    logging_format: str | None = None,
    logging_config: LoggingConfig | None = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    enable_resource_isolation: bool = False,
    cgroup_path: str | None = None,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    proxy_server_url: str | None = None,
    **kwargs: Any,
) -> RayContext:
    """Starts the runtime on this machine: the first thing a program does.

    Everything has a default: CPUs that the process may use, GPUs that it sees, 30% of the available
    memory for objects. Keywords are Ray's; those that only tune Ray's insides are accepted.
    Raises RuntimeError when called twice, unless `ignore_reinit_error`.
    """
    given = dict(locals())
    given.update(given.pop("kwargs"))
    _state.refuse_while_starting()
    from raymesh import _init_options

    private = _init_options.split_unknown(kwargs)
    with _state.lock, _state.starting():
        if _native.is_running():
            return _again(ignore_reinit_error)
        join = _join_string(address)
        _init_options.check_unavailable(local_mode=local_mode)
        chosen_namespace = _init_options.checked_namespace(
            namespace if namespace is not None else getattr(job_config, "ray_namespace", None)
        )
        if join is not None:
            _init_options.check_joining(num_cpus=num_cpus, num_gpus=num_gpus, resources=resources)
        host = _init_options.host(
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            resources=resources,
            object_store_memory=object_store_memory,
            memory=private.get("_memory"),
            ip_address=private.get("_node_ip_address"),
        )
        if configure_logging:
            from raymesh import _logging

            _logging.configure(logging_level, logging_format)
        if logging_config is not None:
            _apply_logging_config(logging_config)
        _warn(_init_options.ignored(given), include_dashboard)
        job = _job.prepared(runtime_env, job_config)
        try:
            _start(
                host,
                namespace=chosen_namespace,
                labels=labels or {},
                host_name=private.get("_node_name") or "",
                show_output=_init_options.wants_log_to_driver(log_to_driver),
                join=join,
            )
            try:
                job.begin(chosen_namespace, joins=join is not None)
            except BaseException:
                shutdown()
                raise
        finally:
            job.close()
        return _context()


def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """Ends the runtime and everything that it started. Does nothing when it does not run."""
    global _driver
    with _state.lock:
        driver, _driver = _driver, None
        if driver is None or driver.pid != os.getpid():
            # Never started, or in a fork of the driver, which owns nothing of it.
            return
        try:
            _native.stop()
        finally:
            if futures := sys.modules.get("raymesh._futures"):
                futures.session_ended()
            driver.printer.join(_LAST_OUTPUT)
            _job.ended()


def is_initialized() -> bool:
    """Whether the runtime runs."""
    return _native.is_running()


def auto_init() -> None:
    """Starts the runtime with defaults, for a program that calls it without `init`."""
    if os.environ.get("RAY_ENABLE_AUTO_CONNECT", "1") in ("0", ""):
        from raymesh.exceptions import RaySystemError

        raise RaySystemError("Ray has not been started yet. You can start Ray with 'ray.init()'.")
    _state.refuse_while_starting()
    with _state.lock:
        if not _native.is_running():
            init()


def _join_string(address: str | None) -> str | None:
    from raymesh import _address

    return _address.join_string(address)


_LAST_OUTPUT = 5.0
"""Seconds to wait for what workers printed last."""


def _again(ignore_reinit_error: bool) -> RayContext:
    if not ignore_reinit_error:
        raise RuntimeError(
            "Maybe you called ray.init twice by accident? This error can be suppressed by passing "
            "in 'ignore_reinit_error=True' or by calling 'ray.shutdown()' prior to 'ray.init()'."
        )
    from raymesh._logging import logger

    logger().info("init() was called again; the runtime that runs goes on as it is.")
    return _context()


def _start(
    host: Host,
    *,
    namespace: str,
    labels: dict[str, str],
    host_name: str,
    show_output: bool,
    join: str | None,
) -> None:
    from raymesh import _ahead, _labels, _machine, _preload, _sources
    from raymesh._output import Printer

    global _driver, _at_exit
    cpus = int(host.resources.get("CPU", 0))
    _sources.runtime_started()
    preload, early = _preload.first()
    # A driver that joins a cluster is a host of it that takes no work.
    session = _native.start_driver(
        resources={} if join else host.resources,
        object_store_memory=host.object_store_memory,
        namespace=namespace,
        labels=_labels.of_host(labels, host.resources),
        host_name=host_name,
        preload=preload,
        early=early,
        prestart=0 if join else min(cpus, _machine.cpu_count()),
        capture_output=True,
        join=join,
    )
    # Costs no time: the zygote takes longer to come up.
    imports = _ahead.Imports()
    printer = Printer(session, show=show_output)
    printer.start()
    _driver = _Driver(printer, host.ip_address)
    if not _at_exit:
        import atexit

        atexit.register(shutdown, _exiting_interpreter=True)
        _at_exit = True
    imports.join()


def _context() -> RayContext:
    from raymesh.context import RayContext, address_info

    return RayContext(address_info(None if _driver is None else _driver.ip_address))


def _apply_logging_config(config: LoggingConfig) -> None:
    from raymesh import _logging_config

    # Workers read it when their zygote starts.
    os.environ[_logging_config.CONFIG_VARIABLE] = config.to_json()
    _logging_config.apply(config)


def _warn(ignored: list[str], include_dashboard: bool | None) -> None:
    from raymesh._logging import logger

    if ignored:
        logger().info("init(): without effect in raymesh: %s.", ", ".join(ignored))
    if include_dashboard:
        logger().warning("init(include_dashboard=True): there is no dashboard in raymesh yet.")
