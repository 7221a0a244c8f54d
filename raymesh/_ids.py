"""Identifiers with the sizes and text forms of Ray's.

`BaseID` holds the bytes; its subclasses differ in length and in what is encoded in them. An
`ObjectRef` is not among them: it counts references and is native.
"""

from __future__ import annotations

import builtins
import os
from typing import Any, ClassVar, TypeVar

Self = TypeVar("Self", bound="BaseID")


class BaseID:
    """An immutable identifier of a fixed number of bytes."""

    __slots__ = ("_bytes",)
    _SIZE: ClassVar[int] = 0
    _bytes: bytes

    def __init__(self, id: bytes) -> None:
        if not isinstance(id, bytes):
            raise TypeError(f"Unsupported type: {type(id)}, expected bytes")
        if len(id) != self._SIZE:
            raise ValueError(f"ID string needs to have length {self._SIZE}, got {len(id)}")
        object.__setattr__(self, "_bytes", id)

    @classmethod
    def size(cls) -> int:
        """How many bytes an id of this class has."""
        return cls._SIZE

    @classmethod
    def nil(cls: type[Self]) -> Self:
        """The id that stands for none."""
        return cls(b"\xff" * cls._SIZE)

    @classmethod
    def from_binary(cls: type[Self], id_bytes: bytes) -> Self:
        """The id made of these bytes."""
        return cls(id_bytes)

    @classmethod
    def from_hex(cls: type[Self], hex_id: str | bytes) -> Self:
        """The id of this hexadecimal text."""
        text = hex_id.decode() if isinstance(hex_id, bytes) else hex_id
        try:
            return cls(bytes.fromhex(text))
        except ValueError as error:
            raise ValueError(f"{text!r} is no {cls.__name__} of {2 * cls._SIZE} digits") from error

    @classmethod
    def from_random(cls: type[Self]) -> Self:
        """A new id that no one else has."""
        return cls(os.urandom(cls._SIZE))

    def binary(self) -> bytes:
        """The bytes."""
        return self._bytes

    def hex(self) -> str:
        """The bytes as hexadecimal text."""
        return self._bytes.hex()

    def is_nil(self) -> bool:
        """Whether this stands for none."""
        return self._bytes == b"\xff" * self._SIZE

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __lt__(self: Self, other: Self) -> bool:
        return self._bytes < other._bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._bytes.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._bytes,)


class UniqueID(BaseID):
    """An id without inner structure."""

    __slots__ = ()
    _SIZE = 28


class NodeID(UniqueID):
    """A host."""

    __slots__ = ()


class WorkerID(UniqueID):
    """A process that runs tasks or an actor, or a driver."""

    __slots__ = ()


class FunctionID(UniqueID):
    """A remote function."""

    __slots__ = ()


class ActorClassID(UniqueID):
    """A remote class."""

    __slots__ = ()


class ClusterID(UniqueID):
    """A cluster."""

    __slots__ = ()


class JobID(BaseID):
    """A driver's work."""

    __slots__ = ()
    _SIZE = 4

    @classmethod
    def from_int(cls, value: builtins.int) -> JobID:
        """The job of this number."""
        return cls(value.to_bytes(cls._SIZE, "little"))

    def int(self) -> builtins.int:
        """The number of the job."""
        return builtins.int.from_bytes(self._bytes, "little")


class ActorID(BaseID):
    """An actor; ends with its job."""

    __slots__ = ()
    _SIZE = 16

    def job_id(self) -> JobID:
        """The job that created the actor."""
        return JobID(self._bytes[-JobID._SIZE :])


class TaskID(BaseID):
    """A task; ends with the actor it runs on, if any, which ends with the job."""

    __slots__ = ()
    _SIZE = 24

    @classmethod
    def for_driver_task(cls, job_id: JobID) -> TaskID:
        """The task that a driver's main program counts as."""
        return cls(b"\xff" * (cls._SIZE - JobID._SIZE) + job_id.binary())

    @classmethod
    def for_actor_creation_task(cls, actor_id: ActorID) -> TaskID:
        """The task that the constructor of an actor counts as."""
        return cls(b"\xff" * (cls._SIZE - ActorID._SIZE) + actor_id.binary())

    def actor_id(self) -> ActorID:
        """The actor part."""
        return ActorID(self._bytes[-ActorID._SIZE :])

    def job_id(self) -> JobID:
        """The job that submitted the task."""
        return JobID(self._bytes[-JobID._SIZE :])


class PlacementGroupID(BaseID):
    """A placement group; ends with its job."""

    __slots__ = ()
    _SIZE = 18

    @classmethod
    def of(cls, job_id: JobID) -> PlacementGroupID:
        """A new id for a placement group of this job."""
        return cls(os.urandom(cls._SIZE - JobID._SIZE) + job_id.binary())
