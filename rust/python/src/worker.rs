//! Running calls: the loop of a worker, one call at a time.
//!
//! [`crate::construction`] makes actors, [`crate::async_calls`] feeds an event loop.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PySystemExit, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use raymesh_core::process::Incoming;
use raymesh_runtime::process::{Proc, Waited};
use raymesh_shm::{Endpoint, Segment};
use raymesh_wire::codec::MAX_PAYLOAD;
use raymesh_wire::control::{ActorSpec, ExitReason};
use raymesh_wire::{
    Call, CallTarget, ErrorKind, ErrorValue, FromController, FunctionId, LeaseId, ProcId, ReplyStatus,
    ResourceSet, Return, ToController, Value,
};

use crate::construction::{become_actor, class_name, forget_instance, instance, method, method_name};
use crate::context::{self, Running};
use crate::definition::split;
use crate::environment;
use crate::errors::os_error;
use crate::hooks::hooks;
use crate::loaded::{self, Named};
use crate::object_ref::{Held, capture};
use crate::session::{self, Session};
use crate::{call, frame};

/// Becomes the worker `proc_id`: runs calls until asked to end. Answers the exit code.
#[pyfunction]
pub(crate) fn run_worker(
    py: Python<'_>,
    proc_id: u64,
    segment_fd: i32,
    agent_eventfd: i32,
    driver_pidfd: i32,
    namespace: String,
    session_name: String,
) -> PyResult<i32> {
    let inherited =
        |fd| raymesh_sys::fd::from_inherited(fd).map_err(|e| os_error("a worker lacks a descriptor", &e));
    let segment =
        Segment::attach(inherited(segment_fd)?).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    let me = ProcId::from_u64(proc_id);
    let endpoint = Arc::new(Endpoint::new(Arc::clone(&segment), me));
    endpoint.set_agent_eventfd(inherited(agent_eventfd)?);
    raymesh_runtime::life::end_with(inherited(driver_pidfd)?)
        .map_err(|e| os_error("a worker cannot watch its driver", &e))?;
    let proc = Proc::with_endpoint(Arc::clone(&segment), endpoint, me, ProcId::CONTROLLER)
        .map_err(|e| os_error("a worker cannot start its helper thread", &e))?;
    session::install_worker(Arc::clone(&proc), namespace, session_name);
    proc.on_notice(Box::new(|text| {
        // Goes the way of everything that a worker prints.
        let _ = writeln!(std::io::stderr(), "{text}");
    }));
    proc.hello();
    let session = session::ensure(py)?;
    let code = work(py, &session);
    // At an orderly end the instance goes first, and its `__del__` runs.
    forget_instance();
    code
}

/// Runs calls, as a worker and then, if so told, as an actor. Answers the exit code.
fn work(py: Python<'_>, session: &Session) -> PyResult<i32> {
    loop {
        match run_calls(py, session)? {
            Stop::Exit(code) => return Ok(code),
            Stop::BecomeActor(spec, restarts, gpus) => {
                if !become_actor(py, session, *spec, restarts, gpus)? {
                    return Ok(0);
                }
            }
        }
    }
}

enum Stop {
    Exit(i32),
    BecomeActor(Box<ActorSpec>, u32, Vec<u32>),
}

/// Runs calls on this thread until the process is to end.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>) -> PyResult<i32> {
    let session = session::ensure(py)?;
    match run_calls(py, &session)? {
        Stop::Exit(code) => Ok(code),
        Stop::BecomeActor(..) => Err(PyRuntimeError::new_err("this process is an actor already")),
    }
}

fn run_calls(py: Python<'_>, session: &Session) -> PyResult<Stop> {
    let proc = &session.proc;
    loop {
        if let Some(incoming) = proc.next_call() {
            if let ControlFlow::Break(code) = execute(py, session, incoming) {
                return Ok(Stop::Exit(code));
            }
            continue;
        }
        if let Some(FromController::StartActor { spec, restarts, gpus }) = proc.take_actor_start() {
            return Ok(Stop::BecomeActor(spec, restarts, gpus));
        }
        if proc.exit_requested().is_some() {
            return Ok(Stop::Exit(0));
        }
        let waiting = proc.waiting(None, false);
        match py.detach(|| proc.wait_until(waiting, Proc::has_work)) {
            Waited::Done | Waited::TimedOut | Waited::Cycle => {}
            Waited::Interrupted => py.check_signals()?,
            Waited::Stopped => return Ok(Stop::Exit(0)),
        }
    }
}

/// Runs one call and replies. Break: the process is to end, with this code.
fn execute(py: Python<'_>, session: &Session, incoming: Incoming) -> ControlFlow<i32> {
    let call = &incoming.call;
    if let CallTarget::Function { lease, .. } = &call.target
        && let Some(lost) = call::find_lost(py, session, &call.deps)
    {
        session.proc.give_back_call((call.task, *lease), lost);
        return ControlFlow::Continue(());
    }
    let before = context::enter(None);
    let started = Instant::now();
    let outcome = run(py, session, call);
    let result = match outcome {
        Ok(value) => pack_results(py, session, &value, call),
        Err(failure) => Err(failure),
    };
    context::enter(before);
    let exec_us = u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX);
    match result {
        Ok(returns) => reply(session, call, ReplyStatus::Ok, exec_us, returns),
        Err(error) => {
            if let Some(code) = exit_code(py, session, &error) {
                return ControlFlow::Break(code);
            }
            reply_error(py, session, call, &error, exec_us);
        }
    }
    match session.proc.exit_requested() {
        Some(ExitReason::OutOfScope) if session.proc.is_exiting_now() => ControlFlow::Break(0),
        _ => ControlFlow::Continue(()),
    }
}

/// Calls what the call names. Everything it made is dropped on return but the result.
fn run<'py>(py: Python<'py>, session: &Session, call: &Call) -> PyResult<Bound<'py, PyAny>> {
    let (callable, name) = callable(py, session, call)?;
    context::enter(Some(running(call, name)));
    let (args, kwargs) = call::unpack(py, session, &call.args, call.args_object, &call.deps)?;
    callable.call(args, kwargs.as_ref())
}

/// What is to be known of a call while it runs. `name` is its function's, with its module.
pub(crate) fn running(call: &Call, name: Arc<str>) -> Running {
    let task_name = match (options_name(call), &call.target) {
        (Some(given), _) => Arc::from(given),
        (None, CallTarget::Function { .. }) => Arc::clone(&name),
        (None, CallTarget::Method { .. }) => Arc::from(without_module(&name)),
    };
    Running { task: Some(call.task), task_name, function_name: name }
}

/// `Class.method` of `module.Class.method`.
fn without_module(name: &str) -> &str {
    let (class, _) = name.rsplit_once('.').unwrap_or((name, ""));
    &name[class.rfind('.').map_or(0, |dot| dot + 1)..]
}

/// The function or bound method, and its name for people.
fn callable<'py>(py: Python<'py>, session: &Session, call: &Call) -> PyResult<(Bound<'py, PyAny>, Arc<str>)> {
    match &call.target {
        CallTarget::Function { function, .. } => {
            take_up_lease(py, session)?;
            let (callable, name) = load_function(py, session, *function)?;
            announce(py, options_name(call).unwrap_or(&name))?;
            Ok((callable.into_bound(py), name))
        }
        CallTarget::Method { name, .. } => Ok((method(py, name)?, method_name(name))),
    }
}

/// The environment follows the lease that this worker serves.
fn take_up_lease(py: Python<'_>, session: &Session) -> PyResult<()> {
    static LAST: Mutex<Option<LeaseId>> = Mutex::new(None);
    let lease = session.proc.read_core(|core| core.lease().map(|(lease, ..)| *lease));
    if lease.is_none() || *LAST.lock() == lease {
        return Ok(());
    }
    // What fails is tried again for the next task.
    environment::take_up(py, session)?;
    *LAST.lock() = lease;
    let (resources, gpus) = session
        .proc
        .read_core(|core| core.lease().map(|(_, resources, gpus)| (resources.clone(), gpus.clone())))
        .unwrap_or_default();
    apply_environment(py, &resources, &gpus)
}

/// Lets environment variables say what was assigned.
pub(crate) fn apply_environment(py: Python<'_>, resources: &ResourceSet, gpus: &[u32]) -> PyResult<()> {
    let apply = py.import("raymesh._worker.environment")?.getattr("apply")?;
    apply.call1((resources.get("CPU").to_f64(), gpus.to_vec()))?;
    Ok(())
}

pub(crate) fn load_function(py: Python<'_>, session: &Session, id: FunctionId) -> PyResult<Named> {
    if let Some(named) = loaded::get(py, id) {
        return Ok(named);
    }
    let answer = crate::actor::ask(py, session, |request| ToController::GetFunction { request, id })?;
    let FromController::Function { body, .. } = answer else { return Err(crate::actor::unexpected()) };
    let (name, pickled) = split(&body).ok_or_else(frame::damaged)?;
    let loads = py.import("raymesh._serialization")?.getattr("load_definition")?;
    let callable = loads.call1((PyBytes::new(py, pickled), name))?.unbind();
    let name: Arc<str> = Arc::from(name);
    loaded::insert(id, (callable.clone_ref(py), Arc::clone(&name)), body.len());
    Ok((callable, name))
}

/// Output from now on is `name`'s, without its module.
pub(crate) fn announce(py: Python<'_>, name: &str) -> PyResult<()> {
    announce_whole(py, name.rsplit('.').next().unwrap_or(name))
}

/// Output from now on is `name`'s.
pub(crate) fn announce_whole(py: Python<'_>, name: &str) -> PyResult<()> {
    static LAST: Mutex<String> = Mutex::new(String::new());
    {
        let mut last = LAST.lock();
        if *last == name {
            return Ok(());
        }
        name.clone_into(&mut last);
    }
    if let Some(session) = session::current() {
        // For what does not go through Python's streams.
        session.proc.note_name(name);
    }
    py.import("raymesh._worker.output")?.getattr("set_name")?.call1((name,))?;
    Ok(())
}

/// What a call sends back, and the references inside, held until the caller is registered.
#[derive(Debug, Default)]
pub(crate) struct Results {
    returns: Vec<Return>,
    held: Vec<Held>,
}

impl Results {
    fn add(&mut self, value: Value, held: Held) {
        self.returns.push(Return { value, refs: held.ids().to_vec() });
        self.held.push(held);
    }

    /// Adds what a generator yields, up to `declared` items. The error is that of the next one.
    fn fill(
        &mut self,
        py: Python<'_>,
        session: &Session,
        generator: &Bound<'_, PyAny>,
        declared: usize,
    ) -> PyResult<()> {
        let mut items = generator.try_iter()?;
        while self.returns.len() < declared {
            let Some(item) = items.next() else {
                return Err(wrong_count(self.returns.len(), declared));
            };
            let frame = frame::dump(py, session, &item?, &[], "result")?;
            self.add(frame.value, frame.refs);
        }
        // Nobody can be told by an error any more.
        let late = match items.next() {
            None => return Ok(()),
            Some(Ok(_)) => wrong_count(declared + 1, declared),
            Some(Err(error)) => error,
        };
        let _ = writeln!(std::io::stderr(), "{late} (after all {declared} results of a generator)");
        Ok(())
    }

    /// The error takes the place of all results.
    fn abandon(self, session: &Session, error: PyErr) -> PyErr {
        for packed in self.returns {
            if let Value::Stored(block) = packed.value {
                session.proc.abandon(block);
            }
        }
        error
    }
}

/// Serializes what a call returned.
pub(crate) fn pack_results(
    py: Python<'_>,
    session: &Session,
    value: &Bound<'_, PyAny>,
    call: &Call,
) -> PyResult<Results> {
    let mut results = Results::default();
    match call.num_returns {
        0 => {}
        1 => {
            let frame = frame::dump(py, session, value, &[], "result")?;
            results.add(frame.value, frame.refs);
        }
        declared if is_generator(value)? => {
            let ended = results.fill(py, session, value, declared as usize);
            if let Err(error) = ended {
                if is_retryable(py, call, &error) || error.is_instance_of::<PySystemExit>(py) {
                    return Err(results.abandon(session, error));
                }
                // What was yielded before is there; only what is missing has failed.
                let (error, held) = error_value(py, session, &call_name(call), &error);
                let item = Return { value: Value::Error(error), refs: held.ids().to_vec() };
                results.returns.resize(declared as usize, item);
                results.held.push(held);
            }
        }
        declared => {
            for item in items_of(value, declared as usize)? {
                match frame::dump(py, session, &item, &[], "result") {
                    Ok(frame) => results.add(frame.value, frame.refs),
                    Err(error) => return Err(results.abandon(session, error)),
                }
            }
        }
    }
    Ok(results)
}

fn is_generator(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.is_instance(&value.py().import("types")?.getattr("GeneratorType")?)
}

/// The `declared` results of a call that has several.
fn items_of<'py>(value: &Bound<'py, PyAny>, declared: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let Ok(items) = value.try_iter() else {
        return Err(PyTypeError::new_err(format!(
            "num_returns={declared} was declared, but the result, a {}, has no items: return a \
             tuple or list of {declared}",
            value.get_type().qualname()?
        )));
    };
    let items = items.collect::<PyResult<Vec<_>>>()?;
    if items.len() != declared {
        return Err(wrong_count(items.len(), declared));
    }
    Ok(items)
}

fn wrong_count(items: usize, declared: usize) -> PyErr {
    PyValueError::new_err(format!("Task returned {items} objects, but num_returns={declared}."))
}

pub(crate) fn reply(session: &Session, call: &Call, status: ReplyStatus, exec_us: u32, results: Results) {
    session.proc.finish(call.task, status, exec_us, results.returns);
}

pub(crate) fn reply_error(py: Python<'_>, session: &Session, call: &Call, error: &PyErr, exec_us: u32) {
    let status =
        if is_retryable(py, call, error) { ReplyStatus::RaisedRetryable } else { ReplyStatus::Raised };
    let (error, held) = error_value(py, session, &call_name(call), error);
    let item = Return { value: Value::Error(error), refs: held.ids().to_vec() };
    let results = Results { returns: vec![item; call.num_returns as usize], held: vec![held] };
    reply(session, call, status, exec_us, results);
}

/// What user code raised, as a value.
pub(crate) fn error_value(
    py: Python<'_>,
    session: &Session,
    name: &str,
    error: &PyErr,
) -> (ErrorValue, Held) {
    let packed = capture(&session.proc, || {
        let actor = context::actor();
        let hex = actor.map(|(id, _)| raymesh_wire::ids::hex(&id.to_ray_bytes(session::job())));
        let kwargs = PyDict::new(py);
        kwargs.set_item("pid", std::process::id())?;
        kwargs.set_item("actor_id", &hex)?;
        if let (Some(_), Ok((instance, _))) = (&hex, instance(py)) {
            kwargs.set_item("actor_repr", instance.bind(py).repr().ok())?;
        }
        let packed = hooks(py)?
            .package_error
            .bind(py)
            .call((error.clone_ref(py).into_value(py), name), Some(&kwargs))?;
        packed.extract::<Vec<u8>>()
    });
    match packed {
        Ok((payload, _)) if payload.len() > MAX_PAYLOAD => {
            let class =
                error.get_type(py).name().map_or_else(|_| "exception".to_owned(), |name| name.to_string());
            let text = format!(
                "{name} raised a {class} of {} bytes, too much to be sent (limit: {MAX_PAYLOAD})\n\
                 hint: put what it holds into the object store, and raise it with the reference",
                payload.len()
            );
            (ErrorValue::text(ErrorKind::System, text), Held::none(Arc::clone(&session.proc)))
        }
        Ok((payload, held)) => (ErrorValue { kind: ErrorKind::Task, payload: payload.into() }, held),
        Err(failure) => {
            let text = format!("{error}\n(the exception could not be sent: {failure})");
            (ErrorValue::text(ErrorKind::System, text), Held::none(Arc::clone(&session.proc)))
        }
    }
}

pub(crate) fn call_name(call: &Call) -> String {
    match &call.target {
        CallTarget::Function { function, .. } => match loaded::name_of(*function) {
            Some(name) => name.rsplit('.').next().unwrap_or(&name).to_owned(),
            None => "function".to_owned(),
        },
        CallTarget::Method { name, .. } => match class_name() {
            Some(class) => format!("{}.{name}", class.rsplit('.').next().unwrap_or(&class)),
            None => name.clone(),
        },
    }
}

pub(crate) fn options_name(call: &Call) -> Option<&str> {
    let (_, rest) = call.options.split_first()?;
    let (len, rest) = rest.split_at_checked(4)?;
    let name = rest.get(..u32::from_le_bytes(len.try_into().ok()?) as usize)?;
    std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
}

/// Whether the caller's `retry_exceptions` covers the error.
fn is_retryable(py: Python<'_>, call: &Call, error: &PyErr) -> bool {
    match call.options.first() {
        Some(1) => error.is_instance_of::<pyo3::exceptions::PyException>(py),
        Some(2) => {
            let covered = || -> PyResult<bool> {
                let name_len = options_name(call).map_or(0, str::len);
                let pickled = call.options.get(5 + name_len..).unwrap_or_default();
                let classes = py.import("cloudpickle")?.getattr("loads")?.call1((pickled,))?;
                Ok(error
                    .matches(py, PyTuple::new(py, classes.try_iter()?.collect::<PyResult<Vec<_>>>()?)?)?)
            };
            covered().unwrap_or(false)
        }
        _ => false,
    }
}

/// The exit code, if user code asked this process to end.
fn exit_code(py: Python<'_>, session: &Session, error: &PyErr) -> Option<i32> {
    if !error.is_instance_of::<PySystemExit>(py) {
        return None;
    }
    if session.proc.is_exiting_now() {
        return Some(0);
    }
    let code = error.value(py).getattr("code").ok()?;
    if code.is_none() {
        return Some(0);
    }
    let code = code.extract().unwrap_or(1);
    if code == 0 {
        // As in Ray, `sys.exit(0)` is `exit_actor()`; other codes are crashes.
        crate::actor::leave(session);
    }
    Some(code)
}
