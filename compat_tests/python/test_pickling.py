"""What cannot be pickled is named, with how it is reached."""

from __future__ import annotations

import threading

import pytest

from raymesh import _pickling, _serialization

LOCK = threading.Lock()


def uses_a_global():
    return LOCK


class UsesInMethod:
    def method(self):
        return LOCK


def test_global_is_named():
    # By value, as in the main program.
    text = _pickling.explain({"inner": [1, LOCK]})
    assert "value['inner'][1]" in text
    assert "hint: " in text


def test_closure_is_named():
    lock = threading.Lock()

    def captures():
        return lock

    with pytest.raises(TypeError) as caught:
        _pickling.dump_definition(captures, "function", "m.captures")
    text = str(caught.value)
    assert text.startswith("Could not serialize the function m.captures: ")
    assert "lock (a variable around" in text
    assert isinstance(caught.value.__cause__, TypeError)


def test_method_of_a_class_is_named():
    lock = threading.Lock()

    class Holder:
        def method(self):
            return lock

    with pytest.raises(TypeError, match=r"lock \(a variable around .*Holder.*method"):
        _pickling.dump_definition(Holder, "actor class", "m.Holder")


def test_attribute_of_an_object_is_named():
    class Thing:
        def __init__(self):
            self.good, self.bad = 1, threading.Lock()

    (part,) = _pickling.culprits(Thing(), "thing")
    assert part.path == "thing.bad"


def test_object_that_refers_to_itself_ends():
    loop: list = [threading.Lock()]
    loop.append(loop)
    assert [part.path for part in _pickling.culprits(loop, "loop")] == ["loop[0]"]


def test_value_that_pickles_has_no_culprits():
    assert _pickling.culprits([1, {"a": object}]) == []


def test_large_capture_is_named(caplog):
    blob = bytes(11 << 20)

    def captures():
        return len(blob)

    import logging

    logger = logging.getLogger("raymesh")
    logger.addHandler(caplog.handler)
    try:
        _pickling.dump_definition(captures, "function", "m.captures")
    finally:
        logger.removeHandler(caplog.handler)
    assert "blob (a variable around" in caplog.text
    assert "ray.put" in caplog.text


def test_function_by_value_keeps_its_file_for_tracebacks():
    from raymesh import cloudpickle

    def outer():
        def inner():
            pass

        return inner

    again = cloudpickle.loads(cloudpickle.dumps(outer))
    assert again.__code__.co_filename == __file__
    assert again().__code__.co_filename == __file__


def test_value_that_does_not_pickle_is_explained():
    error = _pickling.not_serializable([threading.Lock()], "argument", TypeError("cannot pickle"))
    assert str(error).startswith("Could not serialize the argument [<unlocked")
    assert "argument[0] = <unlocked" in str(error)


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [
        ((1, [threading.Lock()]), None, "argument 1"),
        ((1,), {"x": 2, "lock": [threading.Lock()]}, "argument 'lock'"),
    ],
)
def test_error_says_which_argument_does_not_pickle(args, kwargs, what):
    with pytest.raises(TypeError, match=f"Could not serialize the {what} \\[<unlocked") as caught:
        _serialization.serialize((args, kwargs), "arguments")
    assert f"{what}[0] = <unlocked" in str(caught.value)
