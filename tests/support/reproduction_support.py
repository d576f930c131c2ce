"""Small sets of logits for the tests of the reproduction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrant_papers.experiments import METHODS
from calibrant_papers.logit_sets import LogitSet


def tiny_set(name: str = "tiny", classes: int = 4, seed: int = 0) -> LogitSet:
    """Over-confident logits, labels following softmax(z / 2)."""
    rng = np.random.default_rng(seed)
    logits = (3.0 * rng.standard_normal((150, classes))).astype(np.float32)
    labels = np.argmax(logits / 2.0 + rng.gumbel(size=logits.shape), axis=1)
    return LogitSet(name, logits[:60], labels[:60], logits[60:], labels[60:])


def write_set(folder: Path, data: LogitSet) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{data.name}.npz"
    np.savez(
        path,
        val_logits=data.val_scores,
        val_labels=data.val_labels,
        test_logits=data.test_scores,
        test_labels=data.test_labels,
    )
    return path


@contextmanager
def few_steps() -> Iterator[None]:
    """The published recipe at a length that a test can wait for."""
    with pytest.MonkeyPatch.context() as patch:
        for key in ("pts-paper", "linear-paper"):
            short = (("recipe", "paper"), ("steps", 30), ("learning_rate", 0.01))
            patch.setitem(METHODS, key, replace(METHODS[key], options=short))
        yield
