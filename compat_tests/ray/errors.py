"""Errors of user code: class, cause, fields and remote traceback."""

from __future__ import annotations

import builtins

import ray

from compat_tests.harness.case import Record, case, main
from compat_tests.harness.describe import normalize


class PlainError(Exception):
    pass


class WithFields(Exception):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code

    def __reduce__(self):
        return type(self), (self.args[0], self.code)


class KeywordOnly(Exception):
    def __init__(self, *, code):
        super().__init__(f"code {code}")
        self.code = code


@ray.remote
def fail(error):
    raise error


def caught(ref):
    try:
        ray.get(ref)
    except Exception as error:
        return error
    return None


@case
def error_is_an_instance_of_its_cause(record: Record) -> None:
    for error in (ValueError("v"), KeyError("k"), ZeroDivisionError("z"), PlainError("p")):
        with record.raises(type(error).__name__, says=[error.args[0]]):
            ray.get(fail.remote(error))


@case
def builtin_errors_raised_by_the_interpreter(record: Record) -> None:
    @ray.remote
    def divide():
        return 1 / 0

    @ray.remote
    def index():
        return [][1]

    @ray.remote
    def unicode():
        return b"\xff".decode()

    for function in (divide, index, unicode):
        with record.raises(function._function.__name__):
            ray.get(function.remote())


@case
def cause_is_reachable(record: Record) -> None:
    error = caught(fail.remote(ValueError("original", 7)))
    record("cause", type(error.cause).__name__)
    record("cause args", error.cause.args)
    record("as instance", isinstance(error, ray.exceptions.RayTaskError))
    record("dunder cause", type(error.__cause__).__name__)


@case
def fields_of_the_users_class(record: Record) -> None:
    error = caught(fail.remote(WithFields("message", 42)))
    record("class", isinstance(error, WithFields))
    record("code", error.cause.code)
    record("code through the dual class", getattr(error, "code", "missing"))


@case
def class_with_keyword_only_constructor(record: Record) -> None:
    @ray.remote
    def raise_it():
        raise KeywordOnly(code=3)

    error = caught(raise_it.remote())
    record.better(
        "class",
        isinstance(error, KeywordOnly),
        want=True,
        why="the user's class arrives though it cannot be rebuilt from its args",
    )
    record("a Ray error", isinstance(error, ray.exceptions.RayError))


@case
def text_names_function_and_lines(record: Record) -> None:
    @ray.remote
    def innermost():
        raise RuntimeError("at the bottom")

    text = normalize(str(caught(innermost.remote())))
    lines = text.splitlines()
    record("first line", lines[0])
    record("frame", [line.strip() for line in lines if "errors.py" in line])
    record("last line", lines[-1])


@case
def text_of_an_actor_error(record: Record) -> None:
    @ray.remote
    class Failing:
        def method(self):
            self.helper()

        def helper(self):
            raise RuntimeError("in a helper")

    text = normalize(str(caught(Failing.remote().method.remote())))
    lines = text.splitlines()
    record("starts with", lines[0].split("(pid")[0])
    record("frames", [line.strip() for line in lines if "errors.py" in line])
    record("last line", lines[-1])


@case
def repr_of_an_actor_in_the_text(record: Record) -> None:
    @ray.remote
    class Shown:
        def __repr__(self):
            return "Shown(custom)"

        def method(self):
            raise RuntimeError("shown")

    record("in the text", "Shown(custom)" in str(caught(Shown.remote().method.remote())))


@case
def chained_exceptions(record: Record) -> None:
    @ray.remote
    def chain():
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    error = caught(chain.remote())
    text = str(error)
    record("class", type(error).__name__)
    record("both in the text", ["first" in text, "second" in text, "direct cause" in text])


@case
def error_through_nested_tasks(record: Record) -> None:
    @ray.remote
    def outer():
        return ray.get(fail.remote(ValueError("deep")))

    with record.raises("outer", says=["deep", "outer", "fail"]):
        ray.get(outer.remote())


@case
def error_caught_in_a_task(record: Record) -> None:
    @ray.remote
    def careful():
        try:
            ray.get(fail.remote(ValueError("handled")))
        except ValueError as error:
            return type(error).__name__, "handled" in str(error)

    record("caught", ray.get(careful.remote()))


@case
def failed_input_fails_its_consumer(record: Record) -> None:
    @ray.remote
    def consume(value):
        return value

    bad = fail.remote(ValueError("bad input"))
    with record.raises("one hop", says=["bad input"]):
        ray.get(consume.remote(bad))
    with record.raises("three hops", says=["bad input"]):
        ray.get(consume.remote(consume.remote(consume.remote(bad))))

    @ray.remote
    class Consumer:
        def consume(self, value):
            return value

    consumer = Consumer.remote()
    with record.raises("method", says=["bad input"]):
        ray.get(consumer.consume.remote(bad))
    record("actor goes on", ray.get(consumer.consume.remote(1)))


@case
def get_of_a_list_raises_the_first_error(record: Record) -> None:
    good = ray.put(1)
    refs = [good, fail.remote(ValueError("one")), fail.remote(KeyError("two"))]
    ray.wait(refs, num_returns=3)
    with record.raises("first"):
        ray.get(refs)


@case
def error_as_a_value(record: Record) -> None:
    @ray.remote
    def give():
        return ValueError("not raised")

    record("value", ray.get(give.remote()))
    record("put", ray.get(ray.put(KeyError("stored"))))


@case
def getting_twice_raises_twice(record: Record) -> None:
    ref = fail.remote(ValueError("again"))
    record("first", caught(ref))
    record("second", caught(ref))


@case
def every_return_of_a_failed_task_raises(record: Record) -> None:
    @ray.remote(num_returns=2)
    def pair():
        raise ValueError("no pair")

    for number, ref in enumerate(pair.remote()):
        record(f"return {number}", caught(ref))


@case
def system_exit_and_keyboard_interrupt_in_a_task(record: Record) -> None:
    @ray.remote(max_retries=0)
    def leave(code):
        import sys

        sys.exit(code)

    with record.raises("exit 0"):
        ray.get(leave.remote(0))
    with record.raises("exit 1"):
        ray.get(leave.remote(1))


@case
def error_of_a_class_that_cannot_be_subclassed(record: Record) -> None:
    @ray.remote
    def stop():
        raise StopIteration("stopped")

    with record.raises("stop iteration"):
        ray.get(stop.remote())


@case(since=(3, 11))
def exception_group(record: Record) -> None:
    @ray.remote
    def group():
        raise builtins.ExceptionGroup("several", [ValueError("a"), KeyError("b")])

    with record.raises("group", says=["several"]):
        ray.get(group.remote())


@case
def error_classes_and_their_bases(record: Record) -> None:
    names = [
        "RayError",
        "RayTaskError",
        "RayActorError",
        "ActorDiedError",
        "ActorUnavailableError",
        "WorkerCrashedError",
        "GetTimeoutError",
        "ObjectStoreFullError",
        "ObjectLostError",
        "OwnerDiedError",
        "ObjectFreedError",
        "ObjectReconstructionFailedError",
        "RaySystemError",
        "RuntimeEnvSetupError",
        "TaskCancelledError",
        "OutOfMemoryError",
        "NodeDiedError",
        "TaskUnschedulableError",
        "ActorUnschedulableError",
        "PendingCallsLimitExceeded",
        "LocalRayletDiedError",
    ]
    for name in names:
        cls = getattr(ray.exceptions, name, None)
        record(name, [base.__name__ for base in cls.__mro__] if cls else None)


@case
def error_can_be_pickled(record: Record) -> None:
    import ray.cloudpickle as pickle

    error = caught(fail.remote(ValueError("travels")))
    copy = pickle.loads(pickle.dumps(error))
    record("copy", isinstance(copy, ValueError))

    @ray.remote
    def hand_over(errors):
        return type(errors[0]).__name__, "travels" in str(errors[0])

    record("in an argument", ray.get(hand_over.remote([error])))


main(globals())
