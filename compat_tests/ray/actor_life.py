"""Life of actors: kill, exit_actor, crash, restart, handles out of scope."""

from __future__ import annotations

import os
import threading

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
class Patient:
    """Can be brought down in several ways."""

    def __init__(self, fail=False):
        if fail:
            raise ValueError("constructor refused")
        self.calls = 0

    def call(self):
        self.calls += 1
        return self.calls

    def pid(self):
        return os.getpid()

    def leave(self):
        ray.actor.exit_actor()

    def leave_hard(self):
        os._exit(3)

    def fail(self):
        raise KeyError("method failed")

    def hold(self):
        """Ends with the actor only: whatever comes first, its death or this call."""
        threading.Event().wait()


@case
def kill_ends_the_actor(record: Record) -> None:
    actor = Patient.remote()
    ray.get(actor.call.remote())
    record("kill returns", ray.kill(actor))
    with record.raises("call after", says=["died"]):
        ray.get(actor.hold.remote())
    with record.raises("second call"):
        ray.get(actor.call.remote())
    record("second kill", ray.kill(actor))


@case
def kill_needs_a_handle(record: Record) -> None:
    with record.raises("ref", says=["actor"]):
        ray.kill(ray.put(1))
    with record.raises("class"):
        ray.kill(Patient)
    with record.raises("none"):
        ray.kill(None)


@case
def pending_calls_of_a_killed_actor_fail(record: Record) -> None:
    @ray.remote
    class Slow:
        def wait(self, refs):
            return ray.get(refs)

        def call(self):
            return 1

    @ray.remote
    class Never:
        async def answer(self):
            import asyncio

            await asyncio.Event().wait()

    never = Never.remote()
    held = never.answer.remote()
    slow = Slow.remote()
    running = slow.wait.remote([held])
    queued = slow.call.remote()
    ray.kill(slow)
    with record.raises("running"):
        ray.get(running)
    with record.raises("queued"):
        ray.get(queued)


@case
def exit_actor_ends_it_after_the_call(record: Record) -> None:
    actor = Patient.remote()
    ray.get(actor.call.remote())
    with record.raises("the call itself"):
        ray.get(actor.leave.remote())
    with record.raises("call after"):
        ray.get(actor.call.remote())


@case
def exit_actor_outside_of_an_actor(record: Record) -> None:
    with record.raises("driver"):
        ray.actor.exit_actor()

    @ray.remote
    def leave():
        ray.actor.exit_actor()

    with record.raises("task"):
        ray.get(leave.remote())


@case
def exit_actor_in_an_async_actor(record: Record) -> None:
    @ray.remote
    class Async:
        async def ok(self):
            return "ok"

        async def leave(self):
            ray.actor.exit_actor()

    actor = Async.remote()
    record("before", ray.get(actor.ok.remote()))
    with record.raises("leave"):
        ray.get(actor.leave.remote())
    with record.raises("after"):
        ray.get(actor.ok.remote())


@case
def sys_exit_in_a_method(record: Record) -> None:
    @ray.remote
    class Exits:
        def leave(self):
            import sys

            sys.exit(0)

        def ok(self):
            return "ok"

    actor = Exits.remote()
    with record.raises("leave"):
        ray.get(actor.leave.remote())
    with record.raises("after"):
        ray.get(actor.ok.remote())


@case
def constructor_that_raises(record: Record) -> None:
    actor = Patient.remote(fail=True)
    with record.raises("first call", says=["constructor refused", "ValueError"]):
        ray.get(actor.call.remote())
    with record.raises("second call", says=["constructor refused"]):
        ray.get(actor.call.remote())
    record("others work", ray.get(Patient.remote().call.remote()))


@case
def crash_in_a_method(record: Record) -> None:
    actor = Patient.remote()
    with record.raises("the call", says=["died"]):
        ray.get(actor.leave_hard.remote())
    with record.raises("after"):
        ray.get(actor.call.remote())


@case
def crash_in_the_constructor(record: Record) -> None:
    @ray.remote
    class Stillborn:
        def __init__(self):
            os._exit(1)

        def call(self):
            return 1

    with record.raises("call"):
        ray.get(Stillborn.remote().call.remote())


@case
def failing_method_leaves_the_actor_alive(record: Record) -> None:
    actor = Patient.remote()
    with record.raises("method", says=["method failed"]):
        ray.get(actor.fail.remote())
    record("next", ray.get(actor.call.remote()))


@case
def restart_gives_a_fresh_state_and_process(record: Record) -> None:
    actor = Patient.options(max_restarts=1).remote()
    before = ray.get(actor.pid.remote())
    ray.get([actor.call.remote() for _ in range(3)])
    with record.raises("crash"):
        ray.get(actor.leave_hard.remote())
    retried = actor.call.options(max_task_retries=5)
    record("fresh state", ray.get(retried.remote()))
    record("other process", ray.get(actor.pid.remote()) != before)


@case
def restarts_run_out(record: Record) -> None:
    actor = Patient.options(max_restarts=1).remote()
    ray.get(actor.call.remote())
    for number in range(2):
        with record.raises(f"crash {number}"):
            ray.get(actor.leave_hard.remote())
    with record.raises("gone"):
        ray.get(actor.call.remote())


@case
def call_is_retried_over_a_restart(record: Record) -> None:
    @ray.remote
    class Flaky:
        def __init__(self, log):
            self.log = log

        def work(self):
            count = ray.get(self.log.call.remote())
            if count == 1:
                os._exit(1)
            return count

    log = Patient.remote()
    actor = Flaky.options(max_restarts=-1, max_task_retries=2).remote(log)
    record("second attempt", ray.get(actor.work.remote()))


@case
def call_without_retries_fails_though_the_actor_restarts(record: Record) -> None:
    actor = Patient.options(max_restarts=-1).remote()
    ray.get(actor.call.remote())
    with record.raises("lost call"):
        ray.get(actor.leave_hard.remote())


@case
def kill_without_restart_overrides_max_restarts(record: Record) -> None:
    actor = Patient.options(max_restarts=-1).remote()
    ray.get(actor.call.remote())
    ray.kill(actor)
    with record.raises("gone"):
        ray.get(actor.hold.remote())


@ray.remote
def alive(pid):
    """Waits until a process is gone; False when it is. The deadline is a watchdog."""
    import psutil

    try:
        psutil.Process(pid).wait(timeout=30)
    except psutil.NoSuchProcess:
        return False
    except psutil.TimeoutExpired:
        return True
    return False


@case
def last_handle_out_of_scope_ends_the_actor(record: Record) -> None:
    actor = Patient.remote()
    pid = ray.get(actor.pid.remote())
    del actor
    record("alive", ray.get(alive.remote(pid)))


@case
def calls_made_before_the_handle_went_are_answered(record: Record) -> None:
    refs = [Patient.remote().call.remote() for _ in range(2)]
    record("answers", ray.get(refs))


@case
def handle_in_another_process_keeps_the_actor(record: Record) -> None:
    @ray.remote
    class Holder:
        def __init__(self, held):
            self.held = held

        def call(self):
            return ray.get(self.held.call.remote())

    holder = Holder.remote(Patient.remote())
    record("first", ray.get(holder.call.remote()))
    record("second", ray.get(holder.call.remote()))


@case
def terminate_after_queued_calls(record: Record) -> None:
    actor = Patient.remote()
    refs = [actor.call.remote() for _ in range(3)]
    actor.__ray_terminate__.remote()
    record("queued calls", ray.get(refs))
    with record.raises("after"):
        ray.get(actor.hold.remote())


@case
def fields_of_the_error(record: Record) -> None:
    actor = Patient.remote()
    ray.get(actor.call.remote())
    ray.kill(actor)
    try:
        ray.get(actor.hold.remote())
    except ray.exceptions.ActorDiedError as error:
        record("is an actor error", isinstance(error, ray.exceptions.RayActorError))
        record("actor id", error.actor_id == actor._actor_id.hex())
        record("preempted", error.preempted)
        record("in the constructor", error.actor_init_failed)


main(globals())
