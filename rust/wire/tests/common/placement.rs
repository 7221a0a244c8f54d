//! Wishes and placement groups, random and written down.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use raymesh_wire::control::*;
use raymesh_wire::placement::{
    Affinity, BundleSpec, GroupStrategy, InGroup, LabelIs, LabelRule, Selector, Strategy as Where,
};
use raymesh_wire::status::{DriverInfo, Status, Waiting, WaitingGroups};
use raymesh_wire::*;

use super::any::{error, job, proc, request, resources, text};

const FEW: std::ops::Range<usize> = 0..4;

fn group_id() -> impl Strategy<Value = GroupId> {
    (proc(), any::<u32>()).prop_map(|(creator, seq)| GroupId { creator, seq })
}

fn host_id() -> impl Strategy<Value = HostId> {
    any::<u32>().prop_map(HostId)
}

pub fn in_group() -> impl Strategy<Value = InGroup> {
    (group_id(), option::of(any::<u32>()), any::<bool>()).prop_map(|(group, index, capture)| InGroup {
        group,
        index,
        capture,
    })
}

fn selector() -> impl Strategy<Value = Selector> {
    let is = prop_oneof![
        vec(text(), FEW).prop_map(LabelIs::In),
        vec(text(), FEW).prop_map(LabelIs::NotIn),
        Just(LabelIs::Present),
        Just(LabelIs::Absent),
    ];
    vec((text(), is).prop_map(|(key, is)| LabelRule { key, is }), FEW).prop_map(Selector)
}

pub fn wish() -> impl Strategy<Value = Wish> {
    let affinity = (option::of(host_id()), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(host, soft, spill, fail)| Affinity { host, soft, spill, fail });
    let strategy = prop_oneof![
        Just(Where::Default),
        Just(Where::Spread),
        affinity.prop_map(Where::Host),
        (selector(), selector()).prop_map(|(hard, soft)| Where::Labels { hard, soft }),
        in_group().prop_map(Where::Group),
    ];
    (strategy, vec(selector(), FEW)).prop_map(|(strategy, selectors)| Wish { strategy, selectors })
}

fn spec() -> impl Strategy<Value = GroupSpec> {
    let strategy = prop_oneof![
        Just(GroupStrategy::Pack),
        Just(GroupStrategy::Spread),
        Just(GroupStrategy::StrictPack),
        Just(GroupStrategy::StrictSpread),
    ];
    let bundle =
        (resources(), selector()).prop_map(|(resources, selector)| BundleSpec { resources, selector });
    let names = (text(), text(), text(), any::<bool>());
    (group_id(), job(), names, strategy, vec(bundle, FEW), option::of(host_id())).prop_map(
        |(group, job, (name, namespace, same, detached), strategy, bundles, near)| GroupSpec {
            group,
            job,
            name,
            namespace,
            detached,
            strategy,
            bundles,
            near,
            same,
        },
    )
}

fn state() -> impl Strategy<Value = GroupState> {
    prop_oneof![
        Just(GroupState::Pending),
        Just(GroupState::Created),
        Just(GroupState::Rescheduling),
        Just(GroupState::Removed),
    ]
}

fn record() -> impl Strategy<Value = GroupRecord> {
    let keeper = option::of((proc(), any::<u32>()).prop_map(|(creator, seq)| ActorId { creator, seq }));
    (spec(), state(), vec(option::of(host_id()), FEW), keeper, any::<u64>(), any::<u32>()).prop_map(
        |(spec, state, hosts, keeper, took, attempts)| GroupRecord {
            spec,
            state,
            hosts,
            keeper,
            took,
            attempts,
        },
    )
}

pub fn to_controller() -> impl Strategy<Value = ToController> {
    let which = prop_oneof![
        Just(WhichGroups::All),
        group_id().prop_map(WhichGroups::One),
        (text(), text()).prop_map(|(name, namespace)| WhichGroups::Named { name, namespace }),
    ];
    prop_oneof![
        spec().prop_map(|spec| ToController::CreateGroup { spec: Box::new(spec) }),
        group_id().prop_map(|group| ToController::RemoveGroup { group }),
        group_id().prop_map(|group| ToController::WatchGroup { group }),
        group_id().prop_map(|group| ToController::UnwatchGroup { group }),
        (request(), which).prop_map(|(request, which)| ToController::FindGroups { request, which }),
        (request(), host_id(), text(), option::of(any::<u64>())).prop_map(
            |(request, host, reason, within)| ToController::DrainHost { request, host, reason, within }
        ),
        request().prop_map(|request| ToController::AskStatus { request }),
    ]
}

fn waiting() -> impl Strategy<Value = Waiting> {
    (resources(), any::<u32>(), any::<u32>(), any::<bool>(), text())
        .prop_map(|(resources, tasks, actors, never, why)| Waiting { resources, tasks, actors, never, why })
}

pub fn from_controller() -> impl Strategy<Value = FromController> {
    prop_oneof![
        (any::<u32>(), error()).prop_map(|(key, error)| FromController::Unschedulable { key, error }),
        (group_id(), state(), text()).prop_map(|(group, state, why)| FromController::GroupState {
            group,
            state,
            why
        }),
        (group_id(), text()).prop_map(|(group, reason)| FromController::GroupRefused { group, reason }),
        (request(), vec(record(), FEW))
            .prop_map(|(request, groups)| FromController::Groups { request, groups }),
        (request(), option::of(text()))
            .prop_map(|(request, refused)| FromController::Draining { request, refused }),
        (request(), vec(waiting(), FEW)).prop_map(|(request, waiting)| {
            let status = Status { waiting, ..Status::default() };
            FromController::Status { request, status: Box::new(status) }
        }),
    ]
}

pub mod samples {
    //! One of each.

    use super::*;

    const GROUP: GroupId = GroupId { creator: ProcId::new(HostId(1), 2, 3), seq: 4 };

    pub const IN_GROUP: InGroup = InGroup { group: GROUP, index: Some(1), capture: true };

    fn selector() -> Selector {
        let rule = |key: &str, is| LabelRule { key: key.to_owned(), is };
        let values = || vec!["a".to_owned(), "b".to_owned()];
        Selector(vec![
            rule("zone", LabelIs::In(values())),
            rule("kind", LabelIs::NotIn(values())),
            rule("spot", LabelIs::Absent),
            rule("gpu", LabelIs::Present),
        ])
    }

    fn wishes() -> Vec<Where> {
        let affinity = Affinity { host: Some(HostId(7)), soft: true, spill: true, fail: false };
        vec![
            Where::Spread,
            Where::Host(affinity),
            Where::Labels { hard: selector(), soft: Selector::default() },
            Where::Group(IN_GROUP),
        ]
    }

    fn resources(n: u64) -> ResourceSet {
        [("CPU", Quantity(n))].into_iter().collect()
    }

    fn spec() -> GroupSpec {
        let bundle = |n| BundleSpec { resources: resources(n), selector: selector() };
        GroupSpec {
            group: GROUP,
            job: JobId(2),
            name: "name".to_owned(),
            namespace: "namespace".to_owned(),
            detached: true,
            strategy: GroupStrategy::StrictPack,
            bundles: vec![bundle(10_000), bundle(5_000)],
            near: Some(HostId(3)),
            same: "domain".to_owned(),
        }
    }

    pub fn to_controller() -> Vec<ToController> {
        let request = RequestId(300);
        let find = |which| ToController::FindGroups { request, which };
        let demand = |strategy| {
            let wish = Wish { strategy, selectors: vec![selector()] };
            ToController::Demand {
                key: 1,
                job: JobId(2),
                resources: resources(1),
                backlog: 3,
                env: Environment::default(),
                wish,
                near: None,
            }
        };
        let mut all: Vec<_> = wishes().into_iter().map(demand).collect();
        all.extend([
            ToController::CreateGroup { spec: Box::new(spec()) },
            ToController::RemoveGroup { group: GROUP },
            ToController::WatchGroup { group: GROUP },
            ToController::UnwatchGroup { group: GROUP },
            find(WhichGroups::All),
            find(WhichGroups::One(GROUP)),
            find(WhichGroups::Named { name: "n".to_owned(), namespace: "s".to_owned() }),
            ToController::DrainHost {
                request,
                host: HostId(4),
                reason: "preemption".to_owned(),
                within: Some(1 << 34),
            },
            ToController::AskStatus { request },
        ]);
        all
    }

    pub fn from_controller() -> Vec<FromController> {
        let request = RequestId(300);
        let record = GroupRecord {
            spec: spec(),
            state: GroupState::Rescheduling,
            hosts: vec![Some(HostId(1)), None],
            keeper: Some(ActorId { creator: GROUP.creator, seq: 9 }),
            took: 1 << 20,
            attempts: 2,
        };
        let error = ErrorValue::text(ErrorKind::GroupRemoved, "removed");
        vec![
            FromController::Unschedulable { key: 1, error },
            FromController::GroupState { group: GROUP, state: GroupState::Pending, why: "full".to_owned() },
            FromController::GroupRefused { group: GROUP, reason: "taken".to_owned() },
            FromController::Groups { request, groups: vec![record] },
            FromController::Draining { request, refused: Some("no such host".to_owned()) },
            FromController::Status { request, status: Box::new(status()) },
        ]
    }

    fn status() -> Status {
        let why = "busy".to_owned();
        let waiting =
            Waiting { resources: resources(10_000), tasks: 1000, actors: 1, never: false, why: why.clone() };
        let groups = WaitingGroups {
            strategy: GroupStrategy::StrictSpread,
            bundles: vec![resources(1), resources(2)],
            count: 3,
            never: true,
            why,
        };
        let (job, host, host_name) = (JobId(2), HostId(2), "host".to_owned());
        let driver = DriverInfo { job, host, host_name, pid: 4321 };
        Status { waiting: vec![waiting], groups: vec![groups], drivers: vec![driver] }
    }

    pub fn bundle() -> BundleInfo {
        let (total, available) = (resources(10_000), resources(1));
        BundleInfo { group: GROUP, job: JobId(2), index: 1, total, available, users: 3 }
    }
}
