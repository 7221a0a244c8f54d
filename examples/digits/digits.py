"""Learns to read 1,797 scanned digits: a parameter server with training actors, then a search over hyper-parameters.

An ordinary Ray program. Everything is seeded and single-threaded, so that it gives the same answer wherever it runs; it ends
by printing one line of JSON.
"""

import time

BEGIN = time.perf_counter()

import itertools  # noqa: E402
import json  # noqa: E402

import numpy as np  # noqa: E402
import ray  # noqa: E402
import torch  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402

TRAINERS = 3
ROUNDS = 150
HIDDEN = 48
SEARCH = {"hidden": (16, 32, 64), "rate": (0.01, 0.1), "epochs": (6, 12)}


def network(hidden: int, seed: int) -> torch.nn.Module:
    """A small classifier, always with the same first weights."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10)
    )


def accuracy(model: torch.nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    """Share of the images that are read correctly."""
    with torch.no_grad():
        guesses = model(torch.tensor(images)).argmax(dim=1)
    return float((guesses == torch.tensor(labels)).double().mean())


@ray.remote
class ParameterServer:
    """Holds the weights and applies the trainers' gradients."""

    def __init__(self, hidden: int, rate: float) -> None:
        self.model = network(hidden, seed=0)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=0.9)

    def weights(self) -> dict:
        """The current weights as arrays."""
        return {name: value.numpy() for name, value in self.model.state_dict().items()}

    def apply(self, *gradients: list) -> dict:
        """Take one step along the mean of the gradients."""
        self.optimizer.zero_grad()
        for index, parameter in enumerate(self.model.parameters()):
            mean = np.mean([found[index] for found in gradients], axis=0)
            parameter.grad = torch.tensor(mean)
        self.optimizer.step()
        return self.weights()

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """How well the current weights read."""
        return accuracy(self.model, images, labels)


@ray.remote
class Trainer:
    """Computes gradients on its share of the images."""

    def __init__(self, number: int, images: np.ndarray, labels: np.ndarray) -> None:
        self.model = network(HIDDEN, seed=0)
        self.images = torch.tensor(images[number::TRAINERS])
        self.labels = torch.tensor(labels[number::TRAINERS])
        self.order = torch.Generator().manual_seed(number)

    def gradient(self, weights: dict) -> list:
        """The gradient of one random batch at the given weights."""
        self.model.load_state_dict({k: torch.tensor(v) for k, v in weights.items()})
        batch = torch.randint(len(self.images), (64,), generator=self.order)
        self.model.zero_grad()
        guesses = self.model(self.images[batch])
        torch.nn.functional.cross_entropy(guesses, self.labels[batch]).backward()
        return [parameter.grad.numpy() for parameter in self.model.parameters()]


@ray.remote
def try_out(config: dict, data: tuple) -> float:
    """Train alone with one set of hyper-parameters; returns the accuracy."""
    images, labels, test_images, test_labels = data
    model = network(config["hidden"], seed=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["rate"])
    inputs, targets = torch.tensor(images), torch.tensor(labels)
    order = torch.Generator().manual_seed(2)
    for _ in range(config["epochs"]):
        for batch in torch.randperm(len(inputs), generator=order).split(128):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
            optimizer.step()
    return accuracy(model, test_images, test_labels)


@ray.remote
def first() -> int:
    """The first task, for the start-up time."""
    return 1


def load() -> list[np.ndarray]:
    """Training images, training labels, test images, test labels."""
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    parts = train_test_split(images, digits.target, test_size=0.25, random_state=0)
    return [parts[0], parts[2], parts[1], parts[3]]


def train_together(images, labels, test_images, test_labels) -> dict:
    """Synchronous training by a parameter server and several trainers."""
    server = ParameterServer.remote(HIDDEN, rate=0.1)
    shared_images, shared_labels = ray.put(images), ray.put(labels)
    trainers = [Trainer.remote(n, shared_images, shared_labels) for n in range(TRAINERS)]
    weights = server.weights.remote()
    curve = []
    for number in range(ROUNDS):
        gradients = [trainer.gradient.remote(weights) for trainer in trainers]
        weights = server.apply.remote(*gradients)
        if number % 50 == 49:
            curve.append(server.accuracy.remote(test_images, test_labels))
    checksum = float(sum(np.abs(value).sum() for value in ray.get(weights).values()))
    return {"accuracy": ray.get(curve), "checksum": round(checksum, 4)}


def search(*data: np.ndarray) -> dict:
    """All combinations in parallel, as tasks."""
    shared = ray.put(tuple(data))
    configs = [
        dict(zip(SEARCH, values, strict=True)) for values in itertools.product(*SEARCH.values())
    ]
    scores = ray.get([try_out.remote(config, shared) for config in configs])
    best = max(range(len(configs)), key=scores.__getitem__)
    return {"tried": len(configs), "best": configs[best], "accuracy": scores[best], "all": scores}


def main() -> None:
    """Do all of it and print the outcome."""
    before_init = time.perf_counter()
    ray.init()
    ray.get(first.remote())
    started = time.perf_counter()
    data = load()
    together = train_together(*data)
    trained = time.perf_counter()
    found = search(*data)
    done = time.perf_counter()
    seconds = {
        "start": started - before_init,
        "training": trained - started,
        "search": done - trained,
        "program": done - BEGIN,
    }
    print(json.dumps({"result": {"training": together, "search": found}, "seconds": seconds}))
    ray.shutdown()


if __name__ == "__main__":
    main()
