"""Options of tasks, actors and methods: a wrong one is told, as Ray tells it."""

from __future__ import annotations

import pytest

import raymesh as ray
from raymesh import _options


def function():
    return 1


class Plain:
    def method(self):
        return 1


def generator():
    yield 1


WRONG_FOR_TASKS = [
    ({"foo": 1}, ValueError, "Invalid option keyword foo for remote functions"),
    ({"max_restarts": 1}, ValueError, "Invalid option keyword max_restarts"),
    ({"lifetime": "detached"}, ValueError, "Invalid option keyword lifetime"),
    ({"num_cpus": -1}, ValueError, "cannot be negative"),
    ({"num_cpus": 0.00001}, ValueError, r"cannot go beyond 0\.0001"),
    ({"num_cpus": "1"}, TypeError, "The type of keyword 'num_cpus' must be"),
    ({"num_gpus": -0.5}, ValueError, "num_gpus cannot be negative"),
    ({"memory": -1}, ValueError, "memory cannot be negative"),
    ({"resources": {"CPU": 1}}, ValueError, "Use the 'num_cpus' and 'num_gpus' keyword"),
    ({"resources": {"a": -1}}, ValueError, "resource a cannot be negative"),
    ({"resources": {"a": "1"}}, TypeError, "must be a number"),
    ({"resources": ["a"]}, TypeError, "The type of keyword 'resources'"),
    ({"num_returns": -1}, ValueError, "non-negative integer"),
    ({"num_returns": 1.5}, TypeError, "The type of keyword 'num_returns'"),
    ({"num_returns": "streaming"}, ValueError, "generator functions"),
    ({"max_retries": -2}, ValueError, "-1 represents infinity"),
    ({"max_retries": "a"}, TypeError, "max_retries"),
    ({"max_calls": -1}, ValueError, "0 or a positive integer|not supported in"),
    ({"retry_exceptions": 1}, TypeError, "retry_exceptions"),
    ({"retry_exceptions": [1]}, ValueError, "boolean or a list of exceptions"),
    ({"name": 1}, TypeError, "The type of keyword 'name'"),
    ({"object_store_memory": 1}, ValueError, "not implemented for tasks"),
    ({"scheduling_strategy": 1}, TypeError, "scheduling_strategy"),
    ({"runtime_env": {"env_vars": {"A": 1}}}, TypeError, "Dict\\[str, str\\]"),
    ({"enable_task_events": 1}, TypeError, "enable_task_events"),
    ({"_generator_backpressure_num_objects": 0}, ValueError, "is not allowed"),
]

WRONG_FOR_ACTORS = [
    ({"foo": 1}, ValueError, "Invalid option keyword foo for actors"),
    ({"num_returns": 1}, ValueError, "Invalid option keyword num_returns for actors"),
    ({"max_retries": 1}, ValueError, "Invalid option keyword max_retries for actors"),
    ({"max_restarts": -2}, ValueError, "-1 represents infinity"),
    ({"max_restarts": "a"}, TypeError, "max_restarts"),
    ({"max_task_retries": -2}, ValueError, "-1 represents infinity"),
    ({"max_concurrency": -1}, ValueError, "0 or a positive integer"),
    ({"lifetime": "x"}, ValueError, "'detached', 'non_detached'"),
    ({"lifetime": 1}, TypeError, "lifetime"),
    ({"get_if_exists": True}, ValueError, "The actor name must be specified"),
    ({"namespace": 1}, TypeError, "namespace"),
    ({"max_pending_calls": -2}, ValueError, "-1 represents infinity"),
    ({"resources": {"GPU": 1}}, ValueError, "Use the 'num_cpus' and 'num_gpus' keyword"),
]


@pytest.mark.parametrize(("options", "error", "text"), WRONG_FOR_TASKS)
def test_wrong_option_of_a_task_is_told_at_the_decorator(options, error, text):
    with pytest.raises(error, match=text):
        ray.remote(**options)(function)


@pytest.mark.parametrize(("options", "error", "text"), WRONG_FOR_TASKS)
def test_wrong_option_of_a_task_is_told_by_options(options, error, text):
    with pytest.raises(error, match=text):
        ray.remote(function).options(**options)


@pytest.mark.parametrize(("options", "error", "text"), WRONG_FOR_ACTORS)
def test_wrong_option_of_an_actor_is_told_at_the_decorator(options, error, text):
    with pytest.raises(error, match=text):
        ray.remote(**options)(Plain)


@pytest.mark.parametrize(("options", "error", "text"), WRONG_FOR_ACTORS)
def test_wrong_option_of_an_actor_is_told_by_options(options, error, text):
    with pytest.raises(error, match=text):
        ray.remote(Plain).options(**options)


def test_options_of_the_decorator_alone_are_refused_by_options():
    with pytest.raises(ValueError, match=r"not supported in '\.options\(\)'"):
        ray.remote(function).options(max_calls=1)
    with pytest.raises(ValueError, match=r"not supported in '\.options\(\)'"):
        ray.remote(Plain).options(concurrency_groups={"io": 1})


@pytest.mark.parametrize(
    "options",
    [
        {"num_cpus": None},
        {"num_cpus": 1.5},
        {"num_returns": 0},
        {"max_retries": None},
        {"max_retries": -1},
        {"retry_exceptions": [ValueError]},
        {"placement_group": None},
        {"scheduling_strategy": "SPREAD"},
        {"runtime_env": {}},
        {"_labels": {"a": "b"}},
    ],
)
def test_what_ray_accepts_is_accepted(options):
    ray.remote(**options)(function)
    ray.remote(function).options(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency_groups": {"io": 1}},
        {"max_pending_calls": 3},
    ],
)
def test_option_that_is_missing_is_named_when_it_is_used(options):
    with pytest.raises(NotImplementedError, match=r"not in raymesh yet\.\nhint: "):
        _options.require_known(options)


def test_environment_that_cannot_be_had_is_named_when_it_is_used():
    with pytest.raises(NotImplementedError, match=r"pip.*not in raymesh yet\.\nhint: "):
        _options.work_environment({"runtime_env": {"pip": ["x"]}})
    assert _options.work_environment({}) is None


def test_option_that_asks_for_nothing_missing_is_accepted():
    _options.require_known(
        {
            "runtime_env": {"config": {"setup_timeout_seconds": 1}},
            "placement_group": "default",
            "scheduling_strategy": "DEFAULT",
            "max_pending_calls": -1,
        }
    )


def test_unknown_scheduling_strategy_is_told_at_the_call():
    with pytest.raises(ValueError, match="Invalid scheduling_strategy value X"):
        _options.require_known({"scheduling_strategy": "X"})


def test_task_takes_one_cpu_unless_told_otherwise():
    assert _options.task_resources({}) == {"CPU": 1.0}
    assert _options.task_resources({"num_cpus": 0}) == {}
    assert _options.task_resources({"num_gpus": 0.5, "resources": {"a": 2}}) == {
        "CPU": 1.0,
        "GPU": 0.5,
        "a": 2.0,
    }


@pytest.mark.parametrize(
    ("options", "held", "placement"),
    [
        ({}, {}, {"CPU": 1.0}),
        ({"num_cpus": 0}, {}, {}),
        ({"num_cpus": 2}, {"CPU": 2.0}, {"CPU": 2.0}),
        ({"num_gpus": 1}, {"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0, "GPU": 1.0}),
        ({"resources": {"a": 1}}, {"CPU": 1.0, "a": 1.0}, {"CPU": 1.0, "a": 1.0}),
        ({"memory": 1000}, {"memory": 1000.0}, {"CPU": 1.0, "memory": 1000.0}),
    ],
)
def test_actor_takes_a_cpu_to_be_placed_and_holds_what_it_names(options, held, placement):
    assert _options.actor_resources(options) == (held, placement)


def test_decorator_misuse_is_told():
    with pytest.raises(AssertionError, match="must be applied either with no arguments"):
        ray.remote()
    with pytest.raises(AssertionError, match="must be applied either with no arguments"):
        ray.remote(function, num_cpus=1)
    for wrong in (len, ray.remote(function), ray.remote(Plain)):
        with pytest.raises(TypeError, match="either a function or a class"):
            ray.remote(wrong)


def test_async_function_is_refused_as_a_task():
    async def coroutine():
        return 1

    with pytest.raises(ValueError, match="'async def' should not be used for remote tasks"):
        ray.remote(coroutine)


def test_calling_directly_says_what_to_call():
    with pytest.raises(TypeError, match=r"try '.*function\.remote\(\)'"):
        ray.remote(function)()
    with pytest.raises(TypeError, match=r"use 'Plain\.remote\(\)'"):
        ray.remote(Plain)()


def test_subclass_of_an_actor_class_is_refused():
    actor_class = ray.remote(Plain)
    with pytest.raises(TypeError, match="Attempted to define a subclass of actor class 'Plain'"):

        class Derived(actor_class):
            pass


def test_method_options_are_checked():
    with pytest.raises(AssertionError, match="unexpected keyword argument 'foo'"):
        ray.method(foo=1)
    with pytest.raises(ValueError, match="num_returns must be >= 0, but got -1"):
        ray.method(num_returns=-1)
    with pytest.raises(TypeError, match="max_task_retries"):
        ray.method(max_task_retries="a")
    assert ray.method(function) is function


def test_handles_and_classes_can_be_subscripted_in_annotations():
    from raymesh.actor import ActorClass, ActorHandle

    assert ActorHandle[Plain] is ActorHandle
    assert ActorClass[Plain] is ActorClass
