//! Ids as Ray's users see them.

use proptest::prelude::*;
use raymesh_wire::ids::hex;
use raymesh_wire::{ActorId, HostId, JobId, ObjectId, ProcId, TaskId};

#[test]
fn a_process_is_host_incarnation_and_slot() {
    let all = [(0, 0, 0), (1, 2, 3), (u32::MAX, 0x3_ffff, ProcId::MAX_SLOTS - 1)];
    for (host, incarnation, slot) in all {
        let id = ProcId::new(HostId(host), incarnation, slot);
        assert_eq!((id.host(), id.incarnation(), id.slot()), (HostId(host), incarnation, slot));
        assert_eq!(ProcId::from_u64(id.as_u64()), id);
    }
    assert_eq!(ProcId::agent(HostId(4)), ProcId::new(HostId(4), 0, ProcId::AGENT_SLOT));
    assert_eq!(format!("{:?}", ProcId::new(HostId(1), 2, 3)), "p1.3.2");
}

#[test]
fn rays_forms_have_rays_sizes_and_order() {
    let owner = ProcId::new(HostId(1), 2, 3);
    let object = ObjectId { owner, seq: 0x0102_0304_0506_0708, index: 0x0a0b_0c0d };
    let text = hex(&object.to_ray_bytes(JobId(0x1122_3344)));
    assert_eq!(text, "01020304050607080000000100008003ffffffff44332211".to_owned() + "0d0c0b0a");
    assert_eq!(text.len(), 56);
    assert!(text.starts_with(&hex(&object.task().to_ray_bytes(JobId(0x1122_3344)))));
    let actor = ActorId { creator: owner, seq: 5 };
    assert_eq!(hex(&actor.to_ray_bytes(JobId(1))), "00000005000000010000800301000000");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_object_is_found_again_from_its_bytes(owner: u64, seq: u64, index: u32, job: u32) {
        let object = ObjectId { owner: ProcId::from_u64(owner), seq, index };
        prop_assert_eq!(ObjectId::from_ray_bytes(&object.to_ray_bytes(JobId(job))), object);
    }

    #[test]
    fn any_bytes_are_some_object(raw: [u8; 28]) {
        // The job is not part of the id, nor is the padding.
        let object = ObjectId::from_ray_bytes(&raw);
        prop_assert_eq!(ObjectId::from_ray_bytes(&object.to_ray_bytes(JobId(0))), object);
    }

    #[test]
    fn different_things_have_different_bytes(a: (u64, u64), b: (u64, u64)) {
        let task = |(owner, seq)| TaskId { owner: ProcId::from_u64(owner), seq };
        let actor = |(owner, seq)| ActorId { creator: ProcId::from_u64(owner), seq: seq as u32 };
        let job = JobId(1);
        prop_assert_eq!(task(a).to_ray_bytes(job) == task(b).to_ray_bytes(job), task(a) == task(b));
        prop_assert_eq!(actor(a).to_ray_bytes(job) == actor(b).to_ray_bytes(job), actor(a) == actor(b));
    }

    #[test]
    fn a_task_and_its_results_name_each_other(owner: u64, seq: u64, index: u32) {
        let task = TaskId { owner: ProcId::from_u64(owner), seq };
        prop_assert_eq!(task.object(index).task(), task);
        prop_assert_eq!(task.object(index).index, index);
    }
}
