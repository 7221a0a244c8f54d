//! What follows from the death of a worker for the tasks that were sent to it.

use std::collections::VecDeque;

use raymesh_wire::control::{Death, DeathCause, LastCall};
use raymesh_wire::{ErrorKind, ErrorValue, ProcId, TaskId, ToController, Value};

use super::{Effect, Nanos, Process};
use crate::controller::text;

const SIGKILL: i32 = 9;

impl Process {
    /// The leases on a dead worker are over. What it had begun runs again if it may, at the price of a
    /// retry; what it had not begun runs elsewhere, as if it had never been sent.
    pub(super) fn fail_leases_of(&mut self, now: Nanos, worker: ProcId, death: &Death, fx: &mut Vec<Effect>) {
        for id in self.leases.leases_on(worker) {
            let Some((shape, inflight)) = self.leases.end_lease(id) else { continue };
            self.tell_controller(ToController::ReturnLease { lease: id }, fx);
            let begun = begun(&inflight, self.me, death.last_call);
            for (at, seq) in inflight.into_iter().enumerate().rev() {
                self.keep_arguments_for(worker, seq);
                if at >= begun || self.take_retry(seq) {
                    self.leases.requeue(shape, seq);
                } else {
                    let error = self.crashed(seq, death);
                    self.fail_call(seq, error, fx);
                }
            }
            self.dispatch(now, shape, fx);
        }
    }

    fn crashed(&self, seq: u64, death: &Death) -> Value {
        let submitted = self.tasks.submitted.get(&seq);
        let name = submitted.map(|record| self.name_of_call(&record.call)).unwrap_or_default();
        let attempt = match submitted.map_or(0, |record| record.call.attempt) {
            0 => String::new(),
            retries => format!(" for the {} time", ordinal(retries + 1)),
        };
        let pid = if death.pid == 0 { String::new() } else { format!(" (pid {})", death.pid) };
        let text = format!(
            "The worker{pid} that ran task `{name}`{attempt} {}.{}\nhint: {}",
            text::death(death),
            text::last_output(&death.last_output),
            hint(&death.cause)
        );
        let kind = match death.cause {
            DeathCause::HostLost => ErrorKind::NodeDied,
            _ => ErrorKind::WorkerCrashed,
        };
        Value::Error(ErrorValue::text(kind, text))
    }
}

/// How many of the calls in flight had been begun.
fn begun(inflight: &VecDeque<u64>, me: ProcId, last: LastCall) -> usize {
    match last {
        LastCall::Unknown => inflight.len(),
        LastCall::None => 0,
        LastCall::Running(TaskId { owner, seq }) | LastCall::Finished(TaskId { owner, seq }) => {
            let at = inflight.iter().position(|other| owner == me && *other == seq);
            at.map_or(0, |at| at + 1)
        }
    }
}

fn ordinal(n: u32) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

const fn hint(cause: &DeathCause) -> &'static str {
    match cause {
        DeathCause::Signaled { signal: SIGKILL } => {
            "when memory runs out, the system kills processes so (dmesg tells); max_retries lets such tasks \
             run again"
        }
        DeathCause::Signaled { .. } => {
            "native code crashed, the task's own or a library's: run the task's function by itself with \
             `python -X faulthandler` to see where"
        }
        DeathCause::Exited { .. } => {
            "code that a task runs should return or raise, not end its process (sys.exit, os._exit)"
        }
        _ => "max_retries lets such tasks run again",
    }
}
