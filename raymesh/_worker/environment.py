"""What a worker's environment says about the resources of its lease.

As in Ray: `OMP_NUM_THREADS` follows `num_cpus` unless the user has set it, and
`CUDA_VISIBLE_DEVICES` names the GPUs that were assigned.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from raymesh._worker import thread_pools

_user_threads = thread_pools.VARIABLE in os.environ
_user_devices = os.environ.get("CUDA_VISIBLE_DEVICES")


def user_chose(variables: Collection[str]) -> None:
    """These variables were set by the job: they are not to be touched, or are what is chosen from."""
    global _user_threads, _user_devices
    if thread_pools.VARIABLE in variables:
        _user_threads = True
    if "CUDA_VISIBLE_DEVICES" in variables:
        _user_devices = os.environ["CUDA_VISIBLE_DEVICES"]


def has_user_threads() -> bool:
    """Whether the number of threads was chosen by the user."""
    return _user_threads


def apply(num_cpus: float, gpus: Sequence[int]) -> None:
    """Set the environment for work with `num_cpus` cores and the GPUs of these numbers."""
    if not _user_threads:
        threads = max(1, int(num_cpus))
        os.environ[thread_pools.VARIABLE] = str(threads)
        thread_pools.follow(threads)
    if os.environ.get("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"):
        return
    if gpus:
        visible = _user_devices.split(",") if _user_devices else None
        names = [visible[gpu] if visible and gpu < len(visible) else str(gpu) for gpu in gpus]
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names)
    elif _user_devices is None:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = _user_devices
