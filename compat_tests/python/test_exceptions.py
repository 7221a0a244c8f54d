"""Errors of user code arrive whole: class, fields, text, and where it happened."""

from __future__ import annotations

import builtins
import gc
import pickle
import sys
import threading
import weakref

import pytest

from raymesh import _errors, exceptions


def fail(error):
    raise error


def travel(error, **where):
    """What the reader of a failed task gets."""
    try:
        raise error
    except BaseException as caught:
        payload = _errors.package_error(caught, "f", pid=7, ip="10.0.0.1", **where)
    return _errors.materialize_error("Task", payload, "00")


class Plain(Exception):
    pass


class KeywordOnly(Exception):
    def __init__(self, *, code):
        super().__init__(f"code {code}")
        self.code = code


class ReadOnlyArgs(Exception):
    @property
    def args(self):
        return ("fixed",)


class Reduced(Exception):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code

    def __reduce__(self):
        return type(self), (self.args[0], self.code)


class BadReduce(Exception):
    def __init__(self, code):
        super().__init__("bad", code)
        self.code = code

    def __reduce__(self):
        return type(self), ()


class WithSlots(Exception):
    __slots__ = ("detail",)

    def __init__(self, detail):
        super().__init__("slots")
        self.detail = detail


class Frozen(Exception):
    def __init__(self, code):
        super().__init__(code)
        object.__setattr__(self, "code", code)

    def __setattr__(self, name, value):
        raise TypeError("frozen")


class Final(Exception):
    def __init_subclass__(cls):
        raise TypeError("no subclasses")


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class NeedsNew(Exception):
    def __new__(cls, message, code):
        self = super().__new__(cls, message)
        self.code = code
        return self

    def __init__(self, message, code):
        super().__init__(message)


class WithLock(Exception):
    def __init__(self, message):
        super().__init__(message)
        self.lock = threading.Lock()
        self.code = 3


@pytest.mark.parametrize("error", [ValueError("v"), KeyError("k"), Plain("p", 2), NeedsNew("n", 4)])
def test_error_is_an_instance_of_its_class_and_of_ray_task_error(error):
    got = travel(error)
    assert isinstance(got, type(error))
    assert isinstance(got, exceptions.RayTaskError)
    assert [base.__name__ for base in type(got).__mro__][:3] == [
        f"RayTaskError({type(error).__name__})",
        "RayTaskError",
        "RayError",
    ]
    assert type(got.cause) is type(error)
    assert got.cause.args == error.args
    assert got.args == (got.cause,)
    assert got.__cause__ is None


def test_class_is_made_once():
    assert type(travel(ValueError(1))) is type(travel(ValueError(2)))


def test_keyword_only_constructor_is_not_called():
    got = travel(KeywordOnly(code=5))
    assert isinstance(got, KeywordOnly)
    assert got.code == got.cause.code == 5


def test_read_only_args_do_not_hide_the_error():
    got = travel(ReadOnlyArgs("x"))
    assert isinstance(got, ReadOnlyArgs)
    assert "ReadOnlyArgs" in str(got)


@pytest.mark.parametrize(
    "error", [Reduced("m", 3), BadReduce(3), Frozen(3), WithLock("m"), NeedsNew("m", 3)]
)
def test_fields_arrive(error):
    got = travel(error)
    assert isinstance(got, type(error))
    assert got.code == got.cause.code == error.code


def _builtin_errors():
    needs = {
        UnicodeDecodeError: ("utf-8", b"x", 0, 1, "why"),
        UnicodeEncodeError: ("utf-8", "x", 0, 1, "why"),
        UnicodeTranslateError: ("x", 0, 1, "why"),
    }
    for cls in vars(builtins).values():
        if isinstance(cls, type) and issubclass(cls, BaseException) and "Group" not in cls.__name__:
            yield cls(*needs.get(cls, ("why",)))


@pytest.mark.parametrize("error", list(_builtin_errors()), ids=lambda error: type(error).__name__)
def test_every_builtin_class_arrives_as_itself(error):
    assert isinstance(travel(error), type(error))


def test_slots_arrive():
    assert travel(WithSlots("inner")).detail == "inner"


def test_member_that_cannot_be_pickled_is_replaced_by_its_text():
    got = travel(WithLock("m"))
    assert "lock" in got.cause.lock
    assert got.cause.args == ("m",)


def test_fields_of_builtin_errors_arrive():
    got = travel(FileNotFoundError(2, "no", "/x"))
    assert (got.errno, got.filename, got.cause.errno) == (2, "/x", 2)
    with pytest.raises(UnicodeDecodeError) as caught:
        b"\xff".decode()
    unicode = travel(caught.value)
    assert (unicode.start, unicode.reason) == (0, "invalid start byte")
    assert travel(SystemExit(3)).code == 3
    assert travel(StopIteration(4)).value == 4


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with 3.11")
def test_exception_group_stays_one():
    got = travel(ExceptionGroup("many", [ValueError(1), Plain(2)]))  # noqa: F821
    assert [type(e) for e in got.exceptions] == [ValueError, Plain]


def test_class_that_cannot_be_derived_from_leaves_the_plain_error():
    got = travel(Final("f"))
    assert type(got) is exceptions.RayTaskError
    assert isinstance(got.cause, Final)
    assert "Final: f" in str(got)


def test_class_that_cannot_be_found_leaves_type_text_and_traceback(monkeypatch):
    try:
        raise Plain("gone")
    except Plain as error:
        payload = _errors.package_error(error, "f", pid=1, ip="h")
    monkeypatch.delattr(sys.modules[__name__], "Plain")
    got = _errors.materialize_error("Task", payload, "00")
    assert isinstance(got, exceptions.RayTaskError)
    assert "Plain: gone" in str(got)
    assert "in test_class_that_cannot_be_found" in str(got)


def test_local_class_arrives_by_value():
    class Local(Exception):
        pass

    got = travel(Local("here"))
    assert type(got.cause).__name__ == "Local"


def test_text_names_function_process_and_lines():
    lines = str(travel(ValueError("v"), actor_id="ab", actor_repr="Me")).splitlines()
    assert lines[0] == "ray::f() (pid=7, ip=10.0.0.1, actor_id=ab, repr=Me)"
    assert any("in travel" in line for line in lines)
    assert lines[-1] == "ValueError: v"
    assert "Traceback" not in "".join(lines)


def test_chain_of_causes_is_shown_with_a_head_for_each():
    try:
        try:
            fail(KeyError("first"))
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        text = str(travel(error))
    assert text.count("ray::f() (pid=7") == 2
    assert "direct cause" in text
    assert text.index("KeyError: 'first'") < text.index("ValueError: second")


def test_error_of_an_inner_task_keeps_its_cause_and_shows_both():
    inner = travel(KeyError("deep"))
    outer = travel(inner)
    assert isinstance(outer, KeyError)
    assert type(outer.cause) is KeyError
    assert str(outer).count("ray::f()") == 2


def test_error_that_passes_through_many_tasks_unchanged_stays_short():
    error = travel(ValueError("root"))
    assert len(str(error).splitlines()) < 8


def test_exception_without_a_text_is_still_told():
    assert "Unprintable" in str(travel(Unprintable()))


def test_frames_are_dropped():
    class Big:
        pass

    def work():
        big = Big()
        watch.append(weakref.ref(big))
        raise ValueError("v")

    watch = []
    try:
        work()
    except ValueError as error:
        kept = error
        _errors.package_error(error, "f", pid=1, ip="h")
    gc.collect()
    assert kept.__traceback__ is None
    assert watch[0]() is None


def test_error_can_be_pickled_again():
    got = pickle.loads(pickle.dumps(travel(KeywordOnly(code=1))))
    assert isinstance(got, KeywordOnly)
    assert got.code == 1
    assert str(got).startswith("ray::f() (pid=7")


KINDS = {
    "WorkerCrashed": exceptions.WorkerCrashedError,
    "ActorDied": exceptions.ActorDiedError,
    "ActorUnavailable": exceptions.ActorUnavailableError,
    "ObjectLost": exceptions.ObjectLostError,
    "OwnerDied": exceptions.OwnerDiedError,
    "StoreFull": exceptions.ObjectStoreFullError,
    "Cancelled": exceptions.TaskCancelledError,
    "Unschedulable": exceptions.TaskUnschedulableError,
    "ActorUnschedulable": exceptions.ActorUnschedulableError,
    "PendingCallsLimit": exceptions.PendingCallsLimitExceeded,
    "GetTimeout": exceptions.GetTimeoutError,
    "System": exceptions.RaySystemError,
}


@pytest.mark.parametrize(("kind", "cls"), KINDS.items())
def test_every_kind_has_its_class_and_shows_the_text(kind, cls):
    got = _errors.materialize_error(kind, b"what happened", "00ff")
    assert type(got) is cls
    assert "what happened" in str(got).lower()
    again = pickle.loads(pickle.dumps(got))
    assert type(again) is cls
    assert str(again) == str(got)


def test_actor_that_died_is_named():
    hex_id = "0123456789abcdef" * 2
    got = _errors.materialize_error("ActorDied", f"died\n\tactor_id: {hex_id}".encode(), "00")
    assert got.actor_id == hex_id
    assert not got.actor_init_failed


def test_failed_constructor_shows_its_error():
    try:
        raise ValueError("init")
    except ValueError as error:
        payload = _errors.package_error(error, "A.__init__", pid=1, ip="h", actor_id="ab")
    got = _errors.materialize_error("ActorInit", payload, "00")
    assert type(got) is exceptions.ActorDiedError
    assert got.actor_init_failed
    assert got.actor_id == "ab"
    assert "creation task, ray::A.__init__()" in str(got)
    assert str(got).endswith("ValueError: init")
    assert str(pickle.loads(pickle.dumps(got))) == str(got)


BASES = {
    "GetTimeoutError": TimeoutError,
    "ActorDiedError": exceptions.RayActorError,
    "ActorUnavailableError": exceptions.RayActorError,
    "OwnerDiedError": exceptions.ObjectLostError,
    "ReferenceCountingAssertionError": AssertionError,
    "ActorAlreadyExistsError": ValueError,
    "ActorHandleNotFoundError": ValueError,
    "RayChannelTimeoutError": TimeoutError,
}


@pytest.mark.parametrize(("name", "base"), BASES.items())
def test_bases_are_rays(name, base):
    assert issubclass(getattr(exceptions, name), base)
    assert issubclass(getattr(exceptions, name), exceptions.RayError)


def test_error_to_bytes_and_back():
    error = exceptions.OutOfMemoryError("full")
    again = exceptions.RayError.from_bytes(error.to_bytes())
    assert type(again) is exceptions.OutOfMemoryError
    assert str(again) == "full"
