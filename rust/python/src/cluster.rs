//! `describe_cluster`: hosts, resources, what waits.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use raymesh_wire::status::{HostEnd, HostEnded};
use raymesh_wire::{FromController, ResourceSet, ToController};

use crate::actor::{ask, unexpected};
use crate::context::node_bytes;
use crate::group::strategy_name;
use crate::session;
use crate::wish::host_of;

#[pyfunction]
pub(crate) fn describe_cluster(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let session = session::ensure(py)?;
    let answer = ask(py, &session, |request| ToController::DescribeCluster { request })?;
    let FromController::Cluster { hosts, .. } = answer else { return Err(unexpected()) };
    hosts
        .into_iter()
        .map(|host| {
            let out = PyDict::new(py);
            out.set_item("node_id", PyBytes::new(py, &node_bytes(host.host, &session.name)))?;
            out.set_item("alive", host.alive)?;
            out.set_item("host_name", host.name)?;
            out.set_item("total", amounts(py, &host.total)?)?;
            out.set_item("available", amounts(py, &host.available)?)?;
            out.set_item("labels", host.labels.into_iter().collect::<std::collections::BTreeMap<_, _>>())?;
            out.set_item("store_capacity", host.store_capacity)?;
            out.set_item("store_used", host.store_used)?;
            out.set_item("workers", host.workers)?;
            let pending = host
                .pending
                .iter()
                .map(|(shape, count)| Ok((amounts(py, shape)?, *count)))
                .collect::<PyResult<Vec<_>>>()?;
            out.set_item("pending", pending)?;
            let bundles = host
                .bundles
                .iter()
                .map(|it| {
                    let id = PyBytes::new(py, &it.group.to_ray_bytes(it.job));
                    Ok((id, it.index, amounts(py, &it.total)?, amounts(py, &it.available)?, it.users))
                })
                .collect::<PyResult<Vec<_>>>()?;
            out.set_item("bundles", bundles)?;
            out.set_item(
                "draining",
                host.draining.map(|(why, left)| (why, left.map(|left| left as f64 / 1e9))),
            )?;
            let end = host.end.map(|HostEnd { how, why }| {
                let how = match how {
                    HostEnded::Expected => 1,
                    HostEnded::Unexpected => 2,
                    HostEnded::Preempted => 3,
                    HostEnded::Idle => 4,
                };
                (how, why)
            });
            out.set_item("end", end)?;
            Ok(out)
        })
        .collect()
}

/// What waits, and whose programs there are.
#[pyfunction]
pub(crate) fn cluster_status(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let session = session::ensure(py)?;
    let answer = ask(py, &session, |request| ToController::AskStatus { request })?;
    let FromController::Status { status, .. } = answer else { return Err(unexpected()) };
    let waiting = status.waiting.iter().map(|it| {
        let out = PyDict::new(py);
        out.set_item("resources", amounts(py, &it.resources)?)?;
        out.set_item("tasks", it.tasks)?;
        out.set_item("actors", it.actors)?;
        out.set_item("never", it.never)?;
        out.set_item("why", &it.why)?;
        Ok(out)
    });
    let groups = status.groups.iter().map(|it| {
        let out = PyDict::new(py);
        let bundles: Vec<_> = it.bundles.iter().map(|set| amounts(py, set)).collect::<PyResult<_>>()?;
        out.set_item("strategy", strategy_name(it.strategy))?;
        out.set_item("bundles", bundles)?;
        out.set_item("count", it.count)?;
        out.set_item("never", it.never)?;
        out.set_item("why", &it.why)?;
        Ok(out)
    });
    let drivers = status.drivers.iter().map(|it| {
        let out = PyDict::new(py);
        out.set_item("job_id", PyBytes::new(py, &it.job.0.to_le_bytes()))?;
        out.set_item("node_id", PyBytes::new(py, &node_bytes(it.host, &session.name)))?;
        out.set_item("host_name", &it.host_name)?;
        out.set_item("pid", it.pid)?;
        Ok(out)
    });
    let out = PyDict::new(py);
    out.set_item("waiting", waiting.collect::<PyResult<Vec<_>>>()?)?;
    out.set_item("groups", groups.collect::<PyResult<Vec<_>>>()?)?;
    out.set_item("drivers", drivers.collect::<PyResult<Vec<_>>>()?)?;
    Ok(out)
}

/// Asks a host to leave. Why not, if it does not.
#[pyfunction]
pub(crate) fn drain_host(
    py: Python<'_>,
    node: &[u8],
    reason: String,
    seconds: Option<f64>,
) -> PyResult<Option<String>> {
    let session = session::ensure(py)?;
    let Some(host) = host_of(node, &session) else {
        return Ok(Some("the cluster has no such host".to_owned()));
    };
    let within = seconds.map(|seconds| (seconds.max(0.0) * 1e9) as u64);
    let question = |request| ToController::DrainHost { request, host, reason, within };
    let FromController::Draining { refused, .. } = ask(py, &session, question)? else {
        return Err(unexpected());
    };
    Ok(refused)
}

pub(crate) fn amounts<'py>(py: Python<'py>, set: &ResourceSet) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, amount) in set.iter() {
        out.set_item(name, amount.to_f64())?;
    }
    Ok(out)
}
