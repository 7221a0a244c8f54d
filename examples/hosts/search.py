"""A search for the best small network to read handwritten digits, over however many hosts there are.

Successive halving: all candidates are trained a little, the better third goes on from where it was, and so on.
Weights stay where they were trained, as references; the next round's tasks fetch them. Nothing here knows of
hosts, or of their deaths: a lost task runs again, lost weights are made again, and the answer is the same.

    raymesh start --head ...            # and more hosts; or none of it, for this machine alone
    RAY_ADDRESS=auto python search.py
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

import raymesh as ray

ROUNDS = ((18, 8), (6, 20), (2, 50))
"""How many candidates take part, and for how many epochs each is trained."""

Floats = npt.NDArray[np.float64]
Weights = tuple[Floats, Floats]


class Candidate(NamedTuple):
    hidden: int
    rate: float
    decay: float


class Data(NamedTuple):
    train_x: Floats
    train_y: npt.NDArray[np.int64]
    test_x: Floats
    test_y: npt.NDArray[np.int64]


def candidates() -> list[Candidate]:
    return [
        Candidate(hidden, rate, decay)
        for hidden in (32, 96, 192)
        for rate in (0.02, 0.1, 0.3)
        for decay in (0.0, 1e-3)
    ]


def load() -> Data:
    """1,797 images of 8 x 8 pixels; every fourth is kept for the test."""
    digits = load_digits()
    test = np.arange(len(digits.target)) % 4 == 0
    x = digits.data / 16.0
    return Data(x[~test], digits.target[~test], x[test], digits.target[test])


def train(
    data: Data, candidate: Candidate, weights: Weights | None, epochs: int, seed: int
) -> tuple[float, Weights]:
    """Trains on from `weights`; the share of test images that are read correctly, and the new weights."""
    random = np.random.default_rng([seed, candidate.hidden, int(candidate.rate * 1e6)])
    if weights is None:
        first = random.normal(0, 0.15, (64, candidate.hidden))
        second = random.normal(0, 0.15, (candidate.hidden, 10))
    else:
        first, second = weights[0].copy(), weights[1].copy()
    for _ in range(epochs):
        order = random.permutation(len(data.train_x))
        for batch in np.array_split(order, len(order) // 16):
            x, y = data.train_x[batch], data.train_y[batch]
            inner = np.maximum(x @ first, 0)
            scores = np.exp(inner @ second)
            errors = scores / scores.sum(axis=1, keepdims=True)
            errors[np.arange(len(y)), y] -= 1
            back = errors @ second.T * (inner > 0)
            second -= candidate.rate * (inner.T @ errors / len(y) + candidate.decay * second)
            first -= candidate.rate * (x.T @ back / len(y) + candidate.decay * first)
    guesses = (np.maximum(data.test_x @ first, 0) @ second).argmax(axis=1)
    return float((guesses == data.test_y).mean()), (first, second)


def answer(candidate: Candidate, accuracy: float, weights: Weights) -> dict[str, Any]:
    digest = hashlib.sha256(weights[0].tobytes() + weights[1].tobytes()).hexdigest()[:16]
    return {**candidate._asdict(), "accuracy": round(accuracy, 4), "weights": digest}


def alone() -> dict[str, Any]:
    """The same search in this process, one after the other."""
    data = load()
    field: list[tuple[float, Candidate, Weights | None]] = [(0.0, it, None) for it in candidates()]
    for seed, (count, epochs) in enumerate(ROUNDS):
        entered = field[:count]
        trained = [(it, *train(data, it, weights, epochs, seed)) for _, it, weights in entered]
        field = sorted(
            ((accuracy, it, weights) for it, accuracy, weights in trained),
            key=lambda entry: (-entry[0], entry[1]),
        )
    accuracy, candidate, weights = field[0]
    assert weights is not None
    return answer(candidate, accuracy, weights)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Board:
    """What is known of each candidate. Started again it begins empty: what matters is in the tasks."""

    def __init__(self) -> None:
        self.best: dict[tuple[int, Candidate], float] = {}

    def post(self, round: int, candidate: Candidate, accuracy: float) -> int:
        self.best[round, candidate] = accuracy
        return len(self.best)


@ray.remote(max_retries=-1, num_returns=2)
def train_task(
    data: Data, candidate: Candidate, weights: Weights | None, epochs: int, seed: int
) -> tuple[float, Weights]:
    return train(data, candidate, weights, epochs, seed)


def over_hosts() -> dict[str, Any]:
    data = ray.put(load())
    board = Board.options(name="board").remote()
    field: list[tuple[float, Candidate, Any]] = [(0.0, it, None) for it in candidates()]
    for seed, (count, epochs) in enumerate(ROUNDS):
        running = {}
        for _, candidate, weights in field[:count]:
            accuracy, trained = train_task.remote(data, candidate, weights, epochs, seed)
            running[accuracy] = candidate, trained
        field = []
        waiting = list(running)
        while waiting:
            (ready,), waiting = ray.wait(waiting)
            candidate, trained = running[ready]
            field.append((ray.get(ready), candidate, trained))
            posted = ray.get(board.post.remote(seed, candidate, field[-1][0]))
            print(
                f"round {seed + 1}: {len(field)} of {count} trained ({posted} on the board)",
                flush=True,
            )
        field.sort(key=lambda entry: (-entry[0], entry[1]))
    accuracy, candidate, trained = field[0]
    return answer(candidate, accuracy, ray.get(trained))


def main() -> None:
    if "--alone" in sys.argv:
        print(json.dumps(alone()))
        return
    ray.init()
    print(json.dumps(over_hosts()), flush=True)


if __name__ == "__main__":
    main()
