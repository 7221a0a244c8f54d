"""Options of remote functions, classes and methods: which exist, what they may be.

`check_task` and `check_actor` raise as Ray does for wrong keys, types and values, and
NotImplementedError for an option that raymesh does not have yet and whose absence would change
what the program does. `resources.py`-like sums lie at the end: `task_resources`,
`actor_resources`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from raymesh import _labels
from raymesh._later import not_yet

Options = Mapping[str, Any]


class _Option(NamedTuple):
    types: tuple[type, ...]
    check: Callable[[str, Any], str | None] = lambda name, value: None
    """What is wrong with a value of the right type, or None."""


def _quantity(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if math.isnan(value):
        return f"The quantity of resource {name} must be a number, not nan"
    if math.isinf(value):
        raise OverflowError(f"The quantity of resource {name} must be finite, not {value}")
    if value < 0:
        return f"The quantity of resource {name} cannot be negative"
    if isinstance(value, float) and value != 0 and value < 1e-4:
        return (
            f"The precision of the fractional quantity of resource {name} cannot go beyond 0.0001"
        )
    return None


def _resources(name: str, value: Any) -> str | None:
    for key, amount in (value or {}).items():
        if key in ("CPU", "GPU"):
            return (
                "Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU' in "
                "'resources' keyword"
            )
        if not isinstance(amount, (int, float)):
            raise TypeError(f"The quantity of resource {key} must be a number, not {amount!r}")
        problem = _quantity(str(key), amount)
        if problem:
            return problem
    return None


def _count(name: str, value: Any) -> str | None:
    if value is None or value >= 0:
        return None
    return f"The keyword {name!r} only accepts None, 0 or a positive integer."


def _count_or_infinite(name: str, value: Any) -> str | None:
    if value is None or value >= -1:
        return None
    return (
        f"The keyword {name!r} only accepts None, 0, -1 or a positive integer, "
        "where -1 represents infinity."
    )


def _returns(name: str, value: Any) -> str | None:
    if value is None or value in ("streaming", "dynamic"):
        return None
    if isinstance(value, int) and value >= 0:
        return None
    return (
        "The keyword 'num_returns' only accepts None, a non-negative integer, "
        f"'streaming' (for generators), or 'dynamic', not {value!r}."
    )


def _exception_classes(name: str, value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if all(isinstance(item, type) and issubclass(item, BaseException) for item in value):
        return None
    return "retry_exceptions must be either a boolean or a list of exceptions"


def _lifetime(name: str, value: Any) -> str | None:
    if value in (None, "detached", "non_detached"):
        return None
    return "actor `lifetime` argument must be one of 'detached', 'non_detached' and 'None'."


def _for_tasks_only_none(name: str, value: Any) -> str | None:
    return None if value is None else f"Setting {name!r} is not implemented for tasks"


def _backpressure(name: str, value: Any) -> str | None:
    return f"{name}=0 is not allowed. Use a value > 0, or -1 to disable it." if value == 0 else None


def _per_yield(name: str, value: Any) -> str | None:
    return None if value > 0 else f"{name} must be set to a positive integer."


_NONE = type(None)
_NUMBER = _Option((float, int, _NONE), _quantity)
_TEXT = _Option((str, _NONE))
_ANY = _Option((object,))

_COMMON: dict[str, _Option] = {
    "label_selector": _Option((dict, _NONE), lambda name, value: _labels.check_selector(value)),
    "fallback_strategy": _Option((list, _NONE), lambda name, value: _labels.check_fallback(value)),
    "accelerator_type": _TEXT,
    "memory": _NUMBER,
    "name": _TEXT,
    "num_cpus": _NUMBER,
    "num_gpus": _NUMBER,
    "object_store_memory": _Option((int, _NONE), _count),
    "placement_group": _ANY,
    "placement_group_bundle_index": _Option((int,)),
    "placement_group_capture_child_tasks": _Option((bool, _NONE)),
    "resources": _Option((dict, _NONE), _resources),
    "runtime_env": _Option((dict, _NONE)),
    "scheduling_strategy": _ANY,
    "enable_task_events": _Option((bool,)),
    "_labels": _Option((dict, _NONE)),
}

TASK: dict[str, _Option] = {
    **_COMMON,
    "object_store_memory": _Option((int, _NONE), _for_tasks_only_none),
    "max_calls": _Option((int, _NONE), _count),
    "max_retries": _Option((int, _NONE), _count_or_infinite),
    "num_returns": _Option((int, str, _NONE), _returns),
    "retry_exceptions": _Option((bool, list, tuple), _exception_classes),
    "_generator_backpressure_num_objects": _Option((int, _NONE), _backpressure),
    "_num_objects_per_yield": _Option((int,), _per_yield),
}

ACTOR: dict[str, _Option] = {
    **_COMMON,
    "concurrency_groups": _Option((list, dict, _NONE)),
    "enable_tensor_transport": _Option((bool, _NONE)),
    "lifetime": _Option((str, _NONE), _lifetime),
    "max_concurrency": _Option((int, _NONE), _count),
    "max_restarts": _Option((int, _NONE), _count_or_infinite),
    "max_task_retries": _Option((int, _NONE), _count_or_infinite),
    "max_pending_calls": _Option((int, _NONE), _count_or_infinite),
    "namespace": _TEXT,
    "get_if_exists": _Option((bool,)),
    "allow_out_of_order_execution": _Option((bool, _NONE)),
    "_actor_generator_backpressure_num_objects": _Option((int, _NONE)),
}

_METHOD_ONLY = {"concurrency_group": _TEXT, "tensor_transport": _TEXT}

METHOD = (
    "num_returns",
    "concurrency_group",
    "max_task_retries",
    "retry_exceptions",
    "_generator_backpressure_num_objects",
    "_num_objects_per_yield",
    "enable_task_events",
    "tensor_transport",
)
"""What `ray.method` takes."""

METHOD_CALL = (*(key for key in METHOD if key != "_num_objects_per_yield"), "name", "_labels")
"""What `ActorMethod.options` takes."""

ALL = tuple(dict.fromkeys([*TASK, *ACTOR]))


def check_task(options: Options, *, in_options: bool = False) -> None:
    """Raises for what a remote function cannot be given. `in_options`: by `.options()`."""
    if in_options and options.get("max_calls") is not None:
        raise ValueError("Setting 'max_calls' is not supported in '.options()'.")
    _check(options, TASK, "remote functions")


def check_actor(options: Options, *, in_options: bool = False) -> None:
    """Raises for what a remote class cannot be given. `in_options`: by `.options()`."""
    _check(options, ACTOR, "actors")
    if in_options and options.get("concurrency_groups") is not None:
        raise ValueError("Setting 'concurrency_groups' is not supported in '.options()'.")
    if options.get("get_if_exists") and not options.get("name"):
        raise ValueError("The actor name must be specified to use `get_if_exists`.")


def check_method(options: Options, known: tuple[str, ...], where: str) -> None:
    """Raises for what a method cannot be given."""
    for key, value in options.items():
        if key not in known:
            raise TypeError(
                f"{where} got an unexpected keyword argument {key!r}. "
                f"The supported keyword arguments are {list(known)}"
            )
        if value is None:
            continue
        if key == "num_returns" and isinstance(value, int) and value < 0:
            raise ValueError(f"num_returns must be >= 0, but got {value}.")
        rule = TASK.get(key) or ACTOR.get(key) or _METHOD_ONLY.get(key)
        if rule is not None and key != "name":
            _check_value(key, value, rule)


def _check(options: Options, known: dict[str, _Option], what: str) -> None:
    for key, value in options.items():
        rule = known.get(key)
        if rule is None:
            raise ValueError(
                f"Invalid option keyword {key} for {what}. Valid ones are {list(known)}."
            )
        _check_value(key, value, rule)
    _check_group(options.get("placement_group"))
    _check_strategy(options)
    _check_env_vars(options.get("runtime_env"))


def _check_value(key: str, value: Any, rule: _Option) -> None:
    if not isinstance(value, rule.types):
        expected = rule.types if len(rule.types) > 1 else rule.types[0]
        raise TypeError(
            f"The type of keyword {key!r} must be {expected}, but received type {type(value)}"
        )
    problem = rule.check(key, value)
    if problem:
        raise ValueError(problem)


def _check_group(group: Any) -> None:
    if group is None or isinstance(group, str) or type(group).__name__ == "PlacementGroup":
        return
    raise TypeError(
        "The type of keyword 'placement_group' must be None, 'default' or a placement group, "
        f"but received type {type(group)}"
    )


def _check_strategy(options: Options) -> None:
    strategy = options.get("scheduling_strategy")
    if strategy is None:
        return
    if options.get("placement_group", "default") not in ("default", None):
        raise ValueError(
            "Placement groups should be specified via the scheduling_strategy option. "
            "The placement_group option is deprecated."
        )
    if isinstance(strategy, str):
        return
    if not type(strategy).__name__.endswith("SchedulingStrategy"):
        raise TypeError(
            "The type of keyword 'scheduling_strategy' must be None, 'DEFAULT', 'SPREAD' or a "
            f"strategy object, but received type {type(strategy)}"
        )


def _check_env_vars(runtime_env: Options | None) -> None:
    env_vars = (runtime_env or {}).get("env_vars")
    if env_vars is None:
        return
    if not isinstance(env_vars, dict):
        raise TypeError("runtime_env['env_vars'] must be of type Dict[str, str]")
    for key, value in env_vars.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                "runtime_env['env_vars'] must be of type Dict[str, str], "
                f"but {key!r}: {value!r} is not"
            )


def require_known(options: Options) -> None:
    """NotImplementedError for options that matter and do not exist yet; checked at the first call."""
    strategy = options.get("scheduling_strategy")
    if isinstance(strategy, str) and strategy not in ("DEFAULT", "SPREAD"):
        raise ValueError(
            f"Invalid scheduling_strategy value {strategy}. Valid values are "
            '["DEFAULT" | "SPREAD" | PlacementGroupSchedulingStrategy | '
            "NodeAffinitySchedulingStrategy]"
        )
    if options.get("concurrency_groups"):
        raise not_yet("concurrency_groups", "use max_concurrency for the whole actor")
    if options.get("max_calls"):
        raise not_yet("max_calls", "leave it out: the worker is kept for the next task")
    if options.get("enable_tensor_transport"):
        raise not_yet("enable_tensor_transport", "leave it out: tensors go through shared memory")
    if (options.get("max_pending_calls") or -1) > 0:
        raise not_yet("max_pending_calls", "leave it out and bound the calls in flight with wait()")


def work_environment(options: Options) -> Callable[[], bytes | None] | None:
    """Answers what a worker takes up for such work, in the present session; None: the same as for what
    this process does. Raises for what cannot be had.
    """
    runtime_env = options.get("runtime_env")
    if runtime_env is None:
        return None
    from raymesh.runtime_env import _work

    _work.for_options(runtime_env)
    return functools.partial(_work.for_options, runtime_env)


def task_resources(options: Options) -> dict[str, float]:
    """What a task holds while it runs."""
    num_cpus = options.get("num_cpus")
    return _sum(options, 1 if num_cpus is None else num_cpus)


def actor_resources(options: Options) -> tuple[dict[str, float], dict[str, float]]:
    """What an actor holds while it lives, and what must be free where it is placed.

    An actor that names no resource takes a CPU to be placed and none to live.
    """
    num_cpus = options.get("num_cpus")
    if num_cpus is None:
        named = ("num_gpus", "resources", "accelerator_type")
        if all(options.get(key) is None for key in named):
            return _sum(options, 0), _sum(options, 1)
        num_cpus = 1
    held = _sum(options, num_cpus)
    return held, held


def _sum(options: Options, num_cpus: float) -> dict[str, float]:
    amounts: dict[str, float] = {"CPU": num_cpus}
    amounts["GPU"] = options.get("num_gpus") or 0
    if amounts["GPU"] > 1 and not float(amounts["GPU"]).is_integer():
        raise ValueError(
            f"num_gpus={amounts['GPU']}: more than one GPU must be a whole number of them. Only a "
            "part of a single one can be asked for."
        )
    amounts["memory"] = options.get("memory") or 0
    amounts.update(options.get("resources") or {})
    if options.get("accelerator_type"):
        # As in Ray: enough to be told apart, too little to be counted.
        amounts[f"accelerator_type:{options['accelerator_type']}"] = 0.001
    return {name: float(amount) for name, amount in amounts.items() if amount}
