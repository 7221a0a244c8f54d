//! Placement groups: asked for, awaited, removed, and shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use raymesh_runtime::process::Waited;
use raymesh_wire::control::WhichGroups;
use raymesh_wire::placement::{BundleSpec, GroupRecord, GroupSpec, GroupState, GroupStrategy};
use raymesh_wire::{FromController, GroupId, ToController, Value};

use crate::actor::{ask, unexpected};
use crate::cluster::amounts;
use crate::context::node_bytes;
use crate::errors::Failure;
use crate::frame;
use crate::object_ref::ObjectRef;
use crate::session::{self, Session, resource_set};
use crate::wish::{group_id, host_of, selector};

type Rules = Vec<(String, String, Vec<String>)>;

/// Asks for a placement group; its id. With a name, waits until that is known to be free.
#[pyfunction]
#[pyo3(signature = (bundles, selectors, strategy, *, name, detached, near, same))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn create_group<'py>(
    py: Python<'py>,
    bundles: Vec<BTreeMap<String, f64>>,
    selectors: Vec<Rules>,
    strategy: &str,
    name: String,
    detached: bool,
    near: Option<Vec<u8>>,
    same: String,
) -> PyResult<Bound<'py, PyBytes>> {
    let session = session::ensure(py)?;
    let bundle = |(at, amounts)| BundleSpec {
        resources: resource_set(amounts),
        selector: selectors.get(at).map(|rules| selector(rules, &session)).unwrap_or_default(),
    };
    let bundles = bundles.into_iter().enumerate().map(bundle).collect();
    let group = session.proc.with_core(|core, _, _| core.next_group());
    let named = !name.is_empty();
    let namespace = session.namespace.read().clone();
    let spec = GroupSpec {
        group,
        job: session.job(),
        name,
        namespace,
        detached,
        strategy: match strategy {
            "SPREAD" => GroupStrategy::Spread,
            "STRICT_PACK" => GroupStrategy::StrictPack,
            "STRICT_SPREAD" => GroupStrategy::StrictSpread,
            _ => GroupStrategy::Pack,
        },
        bundles,
        near: near.and_then(|node| host_of(&node, &session)),
        same,
    };
    session.proc.with_core(|core, _, fx| core.create_group(spec, fx));
    let id = group.to_ray_bytes(session.job());
    if named {
        await_name(py, &session, group)?;
    }
    Ok(PyBytes::new(py, &id))
}

/// Waits until the controller has taken the name, or refused it.
fn await_name(py: Python<'_>, session: &Session, group: GroupId) -> PyResult<()> {
    let waiting = session.proc.waiting(None, false);
    loop {
        let refusal = Mutex::new(None);
        let waited = py.detach(|| {
            session.proc.wait_until(waiting, |proc| {
                let known = proc.read_core(|core| core.group_state(group).is_some());
                *refusal.lock() = proc.take_group_refusal(group);
                known || refusal.lock().is_some()
            })
        });
        match (waited, refusal.into_inner()) {
            (_, Some(reason)) => {
                let id = raymesh_wire::ids::hex(&group.to_ray_bytes(session.job()));
                let text = format!("Failed to create placement group '{id}' because {reason}.");
                return Err(crate::errors::exception(py, "System", text.as_bytes(), ""));
            }
            (Waited::Done, None) => return Ok(()),
            (Waited::Interrupted, None) => py.check_signals()?,
            _ => return Err(Failure::from(session.proc.stopped()).into()),
        }
    }
}

/// A reference that is `value` once the group is created.
#[pyfunction]
pub(crate) fn await_group(py: Python<'_>, id: &[u8], value: &Bound<'_, PyAny>) -> PyResult<ObjectRef> {
    let session = session::ensure(py)?;
    let group = group_id(id)?;
    let frame = frame::dump(py, &session, value, &[], "value")?;
    let Value::Inline(bytes) = frame.value else {
        return Err(PyRuntimeError::new_err(
            "a placement group is too large to be a value: give it fewer bundles",
        ));
    };
    let flag = session.proc.with_core(|core, _, fx| core.await_group(group, bytes, fx));
    Ok(ObjectRef::adopt(flag, Arc::clone(&session.proc)))
}

#[pyfunction]
pub(crate) fn remove_group(py: Python<'_>, id: &[u8]) -> PyResult<()> {
    let session = session::ensure(py)?;
    session.proc.tell_controller(ToController::RemoveGroup { group: group_id(id)? });
    Ok(())
}

/// Groups by id or by name (in this namespace), or all: what is known of each.
#[pyfunction]
#[pyo3(signature = (*, id=None, name=None))]
pub(crate) fn find_groups(
    py: Python<'_>,
    id: Option<Vec<u8>>,
    name: Option<String>,
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let session = session::ensure(py)?;
    let which = match (id, name) {
        (Some(id), _) => WhichGroups::One(group_id(&id)?),
        (None, Some(name)) => WhichGroups::Named { name, namespace: session.namespace.read().clone() },
        (None, None) => WhichGroups::All,
    };
    let answer = ask(py, &session, |request| ToController::FindGroups { request, which })?;
    let FromController::Groups { groups, .. } = answer else { return Err(unexpected()) };
    groups.iter().map(|record| shown(py, &session, record)).collect()
}

fn shown<'py>(py: Python<'py>, session: &Session, record: &GroupRecord) -> PyResult<Bound<'py, PyDict>> {
    let spec = &record.spec;
    let out = PyDict::new(py);
    out.set_item("id", PyBytes::new(py, &spec.group.to_ray_bytes(spec.job)))?;
    out.set_item("name", &spec.name)?;
    let bundles: Vec<_> =
        spec.bundles.iter().map(|bundle| amounts(py, &bundle.resources)).collect::<PyResult<_>>()?;
    out.set_item("bundles", bundles)?;
    let node = |host: &Option<raymesh_wire::HostId>| {
        host.map_or_else(Vec::new, |host| node_bytes(host, &session.name).to_vec())
    };
    let nodes: Vec<_> = record.hosts.iter().map(|host| PyBytes::new(py, &node(host))).collect();
    out.set_item("nodes", nodes)?;
    out.set_item("strategy", strategy_name(spec.strategy))?;
    out.set_item(
        "state",
        match record.state {
            GroupState::Pending => "PENDING",
            GroupState::Created => "CREATED",
            GroupState::Rescheduling => "RESCHEDULING",
            GroupState::Removed => "REMOVED",
        },
    )?;
    out.set_item("took_ms", record.took as f64 / 1e6)?;
    out.set_item("attempts", record.attempts)?;
    Ok(out)
}

/// Ray's name of it.
pub(crate) const fn strategy_name(strategy: GroupStrategy) -> &'static str {
    match strategy {
        GroupStrategy::Pack => "PACK",
        GroupStrategy::Spread => "SPREAD",
        GroupStrategy::StrictPack => "STRICT_PACK",
        GroupStrategy::StrictSpread => "STRICT_SPREAD",
    }
}
