"""Identifiers have Ray's sizes and text forms."""

from __future__ import annotations

import pickle

import pytest

import raymesh as ray

SIZES = [
    (ray.UniqueID, 28),
    (ray.NodeID, 28),
    (ray.WorkerID, 28),
    (ray.FunctionID, 28),
    (ray.ActorClassID, 28),
    (ray.ClusterID, 28),
    (ray.TaskID, 24),
    (ray.PlacementGroupID, 18),
    (ray.ActorID, 16),
    (ray.JobID, 4),
]


@pytest.mark.parametrize(("cls", "size"), SIZES)
def test_sizes_and_round_trips(cls, size):
    made = cls.from_random()
    assert cls.size() == len(made.binary()) == size
    assert cls.from_hex(made.hex()) == made == cls(made.binary()) == cls.from_binary(made.binary())
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(cls(made.binary())) == hash(made)
    assert repr(made) == f"{cls.__name__}({made.hex()})"
    assert cls.nil().is_nil()
    assert not made.is_nil()
    assert cls.nil().hex() == "ff" * size


def test_wrong_input_is_told():
    with pytest.raises(ValueError, match="needs to have length 16, got 1"):
        ray.ActorID(b"x")
    with pytest.raises(TypeError, match="expected bytes"):
        ray.ActorID("aa")
    with pytest.raises(ValueError, match="ActorID"):
        ray.ActorID.from_hex("zz")


def test_ids_of_different_kinds_differ_and_do_not_change():
    raw = b"a" * 28
    assert ray.NodeID(raw) != ray.WorkerID(raw)
    assert ray.NodeID(raw) != raw
    with pytest.raises(AttributeError):
        ray.NodeID(raw)._bytes = b""


def test_inner_ids():
    job = ray.JobID.from_int(5)
    assert (job.hex(), job.int()) == ("05000000", 5)
    task = ray.TaskID.for_driver_task(job)
    assert task.hex() == "ff" * 20 + "05000000"
    assert task.job_id() == job
    assert task.actor_id() == ray.ActorID(b"\xff" * 12 + job.binary())
    assert task.actor_id().job_id() == job
    assert ray.PlacementGroupID.of(job).binary()[-4:] == job.binary()
