"""Logits that tell methods apart, and logits that break them."""

from __future__ import annotations

from typing import Any

import numpy as np


def labelled(classes: int, rows: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose best temperature depends on the row, so that every method learns something."""
    rng = np.random.default_rng(classes)
    logits = rng.standard_normal((rows, classes)) * rng.uniform(0.5, 5.0, (rows, 1))
    temperature = 0.6 + 0.5 * np.ptp(logits, axis=1, keepdims=True) / 3.0
    noise = rng.gumbel(size=logits.shape)
    return logits.astype(np.float32), np.argmax(logits / temperature + noise, axis=1)


def adversarial(classes: int, dtype: Any = np.float32, rows: int = 1_000) -> np.ndarray:
    """Ordinary rows, and ties, near ties, masks, constants, certain, tiny and huge ones."""
    rng = np.random.default_rng(7)
    logits = rng.standard_normal((rows, classes)) * rng.uniform(0.3, 6.0, (rows, 1))
    tenth = rows // 10
    part = [slice(i * tenth, (i + 1) * tenth) for i in range(8)]
    logits[part[0]] = np.round(logits[part[0]])
    logits[part[1]] = rng.integers(-9, 9, (tenth, 1))
    logits[part[2]] *= 10.0 ** rng.uniform(1, 4 if dtype == np.float16 else 30, (tenth, 1))
    logits[part[3]] *= 1e-5
    logits[part[4]][:, 0] += rng.uniform(5.0, 40.0, tenth)
    logits[part[5]] = 1.0 + 1e-7 * logits[part[5]]
    hidden = rng.random((rows, classes)) < rng.random((rows, 1))
    hidden[:, rng.integers(classes)] = False
    logits[part[6]] = np.where(hidden[part[6]], -np.inf, logits[part[6]])
    logits[part[7], 1:] = -np.inf
    limit = float(np.finfo(dtype).max)
    return np.where(np.isneginf(logits), -np.inf, np.clip(logits, -limit, limit)).astype(dtype)
