"""Arguments that do not fit are told where the call is made, in the terms of `inspect`."""

from __future__ import annotations

import functools
import inspect
import itertools
import pickle

import pytest

from raymesh._actor_meta import HandleMeta, read_class
from raymesh._signature import ANYTHING, Signature


def nothing(): ...
def two(a, b): ...
def default(a, b=1): ...
def keyword(a, *, b, c=1): ...
def varargs(a, *rest): ...
def varkw(a, **more): ...
def positional_only(a, b=1, /, c=2): ...
def positional_only_varkw(a, /, **more): ...
def everything(a, /, b, c=1, *rest, d, e=2, **more): ...


FUNCTIONS = [
    nothing,
    two,
    default,
    keyword,
    varargs,
    varkw,
    positional_only,
    positional_only_varkw,
    everything,
    lambda *args, **kwargs: None,
]


def can_be_called(function, args, kwargs):
    try:
        function(*args, **kwargs)
    except TypeError:
        return False
    return True


def text_of_inspect(function, args, kwargs):
    with pytest.raises(TypeError) as caught:
        inspect.signature(function).bind(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_agrees_with_the_interpreter_on_every_small_call(function):
    signature = Signature.of(function)
    names = ("a", "b", "c", "d", "e", "z")
    for count in range(5):
        for size in range(4):
            for chosen in itertools.combinations(names, size):
                args, kwargs = (0,) * count, dict.fromkeys(chosen, 0)
                expected = can_be_called(function, args, kwargs)
                try:
                    signature.check(args, kwargs, "f")
                except TypeError:
                    assert not expected, (args, kwargs)
                else:
                    assert expected, (args, kwargs)
                if not kwargs:
                    least, most = signature.counts
                    assert (least <= count <= most) == expected


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"d": 1}), ((1,), {"a": 1})]
)
def test_text_is_that_of_inspect_and_shows_the_signature(args, kwargs):
    with pytest.raises(TypeError) as caught:
        Signature.of(default).check(args, kwargs, "f")
    assert str(caught.value).startswith(text_of_inspect(default, args, kwargs))
    assert "(a, b=...)" in str(caught.value)


def test_decorated_function_is_called_as_what_it_wraps():
    @functools.wraps(two)
    def wrapper(*args, **kwargs):
        return two(*args, **kwargs)

    assert Signature.of(wrapper) == Signature.of(two)


def test_signature_set_by_hand_counts():
    def function(*args):
        return args

    function.__signature__ = inspect.signature(two)
    assert Signature.of(function) == Signature.of(two)


def test_callable_without_a_signature_takes_everything():
    assert Signature.of(object()) == ANYTHING
    assert ANYTHING.accepts_anything
    assert not Signature.of(varargs).accepts_anything


class Base:
    def inherited(self, a): ...


class Example(Base):
    attribute = 3

    def __init__(self, x, y=2): ...
    def method(self, a): ...
    @staticmethod
    def static(a): ...
    @classmethod
    def of_class(cls, a): ...
    @property
    def prop(self): ...
    def generator(self):
        yield 1


def test_methods_of_a_class_are_found_without_self():
    meta = read_class(Example)
    one = Signature.of(lambda a: None)
    for name in ("inherited", "method", "static", "of_class"):
        assert meta.methods[name].signature == one, name
    assert meta.init == Signature.of(lambda x, y=2: None)
    assert meta.methods["generator"].is_generator
    assert not {"attribute", "prop", "__init__"} & set(meta.methods)
    assert {"__ray_ready__", "__ray_call__", "__ray_terminate__"} <= set(meta.methods)
    assert not meta.is_async


def test_one_coroutine_method_makes_the_actor_asynchronous():
    class Async(Example):
        async def wait(self): ...

    class Generates:
        async def items(self):
            yield 1

    assert read_class(Async).is_async
    assert read_class(Generates).is_async


def test_class_without_a_constructor_takes_nothing():
    class Empty:
        pass

    with pytest.raises(TypeError, match=r"too many positional arguments in a call of Empty\(\)"):
        read_class(Empty).init.check((1,), {}, "Empty")
    # Its constructor is written in C, or its `__new__` takes the arguments.
    read_class(type("FromDict", (dict,), {})).init.check((1,), {"a": 1}, "FromDict")
    read_class(type("New", (), {"__new__": lambda cls, a: object.__new__(cls)})).init.check(
        (1,), {}, "New"
    )


def test_handle_travels_with_what_it_knows():
    meta = HandleMeta.make("Example", read_class(Example).methods, 3)
    again = HandleMeta.from_bytes(meta.data)
    assert (again.class_name, again.methods, again.max_task_retries) == (
        "Example",
        meta.methods,
        3,
    )
    assert HandleMeta.from_bytes(meta.data) is again
    assert pickle.loads(pickle.dumps(meta.methods)) == meta.methods
