"""Real logits that come with the package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LogitData:
    """A network's logits on held-out images: fit on the validation rows, judge on the test rows."""

    name: str
    val_logits: NDArray[np.float16]
    val_labels: NDArray[np.uint8]
    test_logits: NDArray[np.float16]
    test_labels: NDArray[np.uint8]
    card: dict[str, Any]


def names() -> list[str]:
    """The data sets that ``load`` knows.

    >>> names()
    ['cifar10-lenet5', 'cifar10-vgg19', 'cifar100-lenet5', 'cifar100-vgg19',
     'fashion-mnist-lenet5', 'fashion-mnist-vgg19']
    """
    entries = (entry.name for entry in (files("calibrant") / "data").iterdir())
    return sorted(name.removesuffix(".npz") for name in entries if name.endswith(".npz"))


def load(name: str) -> LogitData:
    """A data set by name.

    >>> load("fashion-mnist-lenet5").val_logits.shape
    (5000, 10)
    """
    if name not in names():
        raise ValueError(f"data set must be one of {', '.join(names())}, got {name!r}")
    folder = files("calibrant") / "data"
    card = json.loads((folder / f"{name}.json").read_text())
    with (folder / f"{name}.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return LogitData(name, **{key: arrays[key] for key in arrays.files}, card=card)
