"""Where tasks and actors are to run: Ray's strategy classes, values of `scheduling_strategy=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raymesh._ids import NodeID

if TYPE_CHECKING:
    from raymesh.util.placement_group import PlacementGroup


class PlacementGroupSchedulingStrategy:
    """In a bundle of a placement group."""

    def __init__(
        self,
        placement_group: PlacementGroup | None,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        """-1: in any."""
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks
        """What runs there submits its own tasks and actors to the group, too."""


class NodeAffinitySchedulingStrategy:
    """On one host. With `soft`, on another if that is gone or could never hold it."""

    def __init__(
        self,
        node_id: Any,
        soft: bool,
        _spill_on_unavailable: bool = False,
        _fail_on_unavailable: bool = False,
    ) -> None:
        self.node_id: str = node_id if isinstance(node_id, str) else node_id.hex()
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable
        self._check()

    def _check(self) -> None:
        invalid = ValueError(
            f"Invalid node_id '{self.node_id}'. Node ID must be a valid hex string. To get a list "
            "of all nodes and their IDs in your cluster, use ray.nodes()."
        )
        try:
            node_id = NodeID.from_hex(self.node_id)
        except Exception as error:
            raise invalid from error
        if node_id.is_nil():
            raise invalid
        if self._spill_on_unavailable and not self.soft:
            raise ValueError(
                "_spill_on_unavailable cannot be set when soft is "
                "False. Please set soft to True to use _spill_on_unavailable."
            )
        if self._fail_on_unavailable and self.soft:
            raise ValueError(
                "_fail_on_unavailable cannot be set when soft is "
                "True. Please set soft to False to use _fail_on_unavailable."
            )


def _check_values(values: tuple[Any, ...], operator: str) -> list[str]:
    if not values:
        raise ValueError(
            f"The variadic parameter of the {operator} operator"
            f' must be a non-empty tuple: e.g. {operator}("value1", "value2").'
        )
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise ValueError(
                f"Type of value in position {index} for the {operator} operator "
                f'must be str (e.g. {operator}("value1", "value2")) '
                f"but got {value!s} of type {type(value)}."
            )
    return list(values)


class In:
    """The label has one of these values."""

    def __init__(self, *values: str) -> None:
        self.values = _check_values(values, "In")


class NotIn:
    """The label has none of these values, or is not there."""

    def __init__(self, *values: str) -> None:
        self.values = _check_values(values, "NotIn")


class Exists:
    """The label is there."""


class DoesNotExist:
    """The label is not there."""


LabelMatchExpressionsT = dict[str, In | NotIn | Exists | DoesNotExist]


class _LabelMatchExpression:
    def __init__(self, key: str, operator: In | NotIn | Exists | DoesNotExist) -> None:
        self.key = key
        self.operator = operator


class NodeLabelSchedulingStrategy:
    """On a host whose labels fit `hard`; of those rather on one whose labels fit `soft`."""

    def __init__(
        self, hard: LabelMatchExpressionsT | None, *, soft: LabelMatchExpressionsT | None = None
    ) -> None:
        self.hard = _expressions(hard, "hard")
        self.soft = _expressions(soft, "soft")
        if not (self.hard or self.soft):
            raise ValueError(
                "The `hard` and `soft` parameter "
                "of NodeLabelSchedulingStrategy cannot both be empty."
            )


def _expressions(given: Any, param: str) -> list[_LabelMatchExpression]:
    if given is None:
        return []
    if not isinstance(given, dict):
        raise ValueError(
            f'The {param} parameter must be a map (e.g. {{"key1": In("value1")}}) '
            f"but got type {type(given)}."
        )
    for key, value in given.items():
        if not isinstance(key, str):
            raise ValueError(
                f"The map key of the {param} parameter must "
                f'be of type str (e.g. {{"key1": In("value1")}}) '
                f"but got {key!s} of type {type(key)}."
            )
        if not isinstance(value, (In, NotIn, Exists, DoesNotExist)):
            raise ValueError(
                f"The map value for key {key} of the {param} parameter "
                f"must be one of the `In`, `NotIn`, `Exists` or `DoesNotExist` "
                f'operator (e.g. {{"key1": In("value1")}}) '
                f"but got {value!s} of type {type(value)}."
            )
    return [_LabelMatchExpression(key, value) for key, value in given.items()]


SchedulingStrategyT = (
    None
    | str
    | PlacementGroupSchedulingStrategy
    | NodeAffinitySchedulingStrategy
    | NodeLabelSchedulingStrategy
)
"""None, "DEFAULT", "SPREAD" or one of the classes."""
