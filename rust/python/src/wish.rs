//! Where a task or actor is to run, from the plain values that `raymesh._placement` makes of options.
//!
//! `(strategy, selectors)`; the strategy is None, `"spread"`, `("host", node_id, soft, spill, fail)`,
//! `("labels", hard, soft)` or `("group", id, index, capture)`; a selector is a list of `(key, is, values)`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use raymesh_wire::placement::{Affinity, LabelIs, LabelRule, NODE_ID_LABEL, Selector, Strategy};
use raymesh_wire::{GroupId, HostId, InGroup, Wish};

use crate::context::node_bytes;
use crate::session::Session;

type Rules = Vec<(String, String, Vec<String>)>;

/// A wish as Python gives it: its hosts have their names in some session, and no numbers yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    strategy: Form,
    selectors: Vec<Rules>,
    /// Nothing was said, so the placement group of the call that submits it is the place.
    pub(crate) inherits: bool,
}

#[derive(Clone, Debug, Default)]
enum Form {
    #[default]
    Default,
    Spread,
    Host {
        node: Vec<u8>,
        soft: bool,
        spill: bool,
        fail: bool,
    },
    Labels {
        hard: Rules,
        soft: Rules,
    },
    Group(InGroup),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Wanted {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let (strategy, selectors): (Bound<'py, PyAny>, Vec<Rules>) = value.extract()?;
        let mut wanted = Self { strategy: Form::Default, selectors, inherits: strategy.is_none() };
        let Ok(kind) = strategy.get_item(0).and_then(|kind| kind.extract::<String>()) else {
            return Ok(wanted);
        };
        wanted.strategy = match kind.as_str() {
            "host" => {
                let (_, node, soft, spill, fail): (String, Vec<u8>, bool, bool, bool) = strategy.extract()?;
                Form::Host { node, soft, spill, fail }
            }
            "labels" => {
                let (_, hard, soft): (String, Rules, Rules) = strategy.extract()?;
                Form::Labels { hard, soft }
            }
            "group" => {
                let (_, id, index, capture): (String, Vec<u8>, Option<u32>, bool) = strategy.extract()?;
                Form::Group(InGroup { group: group_id(&id)?, index, capture })
            }
            "spread" => Form::Spread,
            _ => Form::Default,
        };
        Ok(wanted)
    }
}

impl Wanted {
    /// The wish, with the numbers that hosts have in this session.
    pub(crate) fn resolve(&self, session: &Session) -> Wish {
        let strategy = match &self.strategy {
            Form::Default => Strategy::Default,
            Form::Spread => Strategy::Spread,
            Form::Host { node, soft, spill, fail } => Strategy::Host(Affinity {
                host: host_of(node, session),
                soft: *soft,
                spill: *spill,
                fail: *fail,
            }),
            Form::Labels { hard, soft } => {
                Strategy::Labels { hard: selector(hard, session), soft: selector(soft, session) }
            }
            Form::Group(place) => Strategy::Group(*place),
        };
        Wish { strategy, selectors: self.selectors.iter().map(|it| selector(it, session)).collect() }
    }
}

/// Conditions on labels. Hosts are labelled with their numbers; users see and give their node ids.
pub(crate) fn selector(rules: &Rules, session: &Session) -> Selector {
    let rule = |(key, is, values): &(String, String, Vec<String>)| {
        let value = |value: &String| {
            let number = || host_of(&from_hex(value)?, session).map(|host| host.0.to_string());
            if key == NODE_ID_LABEL { number() } else { None }.unwrap_or_else(|| value.clone())
        };
        let values = values.iter().map(value).collect();
        let is = match is.as_str() {
            "not in" => LabelIs::NotIn(values),
            "present" => LabelIs::Present,
            "absent" => LabelIs::Absent,
            _ => LabelIs::In(values),
        };
        LabelRule { key: key.clone(), is }
    };
    Selector(rules.iter().map(rule).collect())
}

/// The host with this node id, if it is one of this session.
pub(crate) fn host_of(node: &[u8], session: &Session) -> Option<HostId> {
    let number = u32::from_be_bytes(node.get(24..28)?.try_into().ok()?);
    let host = HostId(number);
    (node == node_bytes(host, &session.name)).then_some(host)
}

/// The id of a placement group, from Ray's 18 bytes.
pub(crate) fn group_id(raw: &[u8]) -> PyResult<GroupId> {
    let raw: &[u8; 18] = raw.try_into().map_err(|_| {
        PyValueError::new_err(format!("the id of a placement group has 18 bytes, not {}", raw.len()))
    })?;
    Ok(GroupId::from_ray_bytes(raw))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digit).collect()
}
