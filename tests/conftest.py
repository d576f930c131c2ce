"""What all tests share: the golden records and the shipped logits.

`golden/oracles.json` holds inputs and outputs of the authors' own functions; its `meta` entry names
the repositories, commits and versions, and every record its provenance and tolerance.
`golden/peers.json` holds those of other packages; its `versions` names them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import calibrant

settings.register_profile(
    "calibrant",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
settings.load_profile("calibrant")

_GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden/oracles.json").read_text())
_RECORDS = {record["id"]: record for record in _GOLDEN["oracles"]}


@pytest.fixture(scope="session")
def oracle() -> Callable[[str], dict[str, Any]]:
    """A golden record by its id."""
    return lambda name: _RECORDS[name]


@pytest.fixture(scope="session")
def oracle_data() -> Callable[[str], tuple[np.ndarray, np.ndarray]]:
    """Scores and labels of a golden data set: A_val, A_test, B_val, .., F (logits), E (probs)."""

    def get(name: str) -> tuple[np.ndarray, np.ndarray]:
        entry = _GOLDEN["datasets"][name]
        return np.array(entry.get("logits", entry.get("probs"))), np.array(entry["labels"])

    return get


@pytest.fixture(scope="session")
def peers() -> dict[str, Any]:
    """What other packages computed (``tools/make_peer_goldens.py``), as lists."""
    document = json.loads((Path(__file__).parent / "golden/peers.json").read_text())
    for name in ("ties", "many", "three"):
        for key in ("probs", "test"):
            document[name][key] = np.array(document[name][key])
    return document


@pytest.fixture(scope="session")
def fashion() -> calibrant.datasets.LogitData:
    """The embedded Fashion-MNIST logits."""
    return calibrant.datasets.load("fashion-mnist-lenet5")
