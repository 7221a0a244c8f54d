"""One array in shared memory: every task reads it in place, nobody copies it."""

import numpy as np
import ray


@ray.remote
def row_sum(matrix: np.ndarray, row: int) -> float:
    """Reads one row of the shared matrix."""
    return float(matrix[row].sum())


if __name__ == "__main__":
    ray.init()
    matrix = ray.put(np.ones((64, 200_000)))
    sums = ray.get([row_sum.remote(matrix, row) for row in range(64)])
    print("total:", sum(sums))
    print("read-only for everybody:", not ray.get(matrix).flags.writeable)
