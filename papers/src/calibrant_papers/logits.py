"""Logits as ``calibrant.datasets.load`` reads them: NAME.npz and its card, NAME.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.files import check_output, check_suffix, replacing, write_text

SUFFIXES = (".npz",)
ECE_BINS = 15
_SLICE = 4_096  # rows turned into probabilities at a time, for ImageNet's sake


@dataclass(frozen=True)
class HeldOut:
    """Logits (n, classes) and labels (n,) of the validation rows and of the test rows."""

    val_logits: NDArray[Any]
    val_labels: NDArray[np.int64]
    test_logits: NDArray[Any]
    test_labels: NDArray[np.int64]


def write_logits(path: Path, held_out: HeldOut, card: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``path`` (.npz, float16 logits) and the card beside it; return the whole card.

    Accuracies and calibration errors in the card are those of the stored, rounded logits.
    """
    check_can_write(path)
    val, test = rounded(held_out.val_logits), rounded(held_out.test_logits)
    stored = replace(held_out, val_logits=val, test_logits=test)
    label_type = np.uint8 if val.shape[1] <= 256 else np.uint16
    whole = {"name": path.stem, **card, **scores(stored)}
    with replacing(path) as file:
        np.savez_compressed(
            file,
            val_logits=val,
            val_labels=held_out.val_labels.astype(label_type),
            test_logits=test,
            test_labels=held_out.test_labels.astype(label_type),
        )
    # The card comes last: where it lies, the logits are complete.
    write_text(card_of(path), json.dumps(whole, indent=2) + "\n")
    return whole


def check_can_write(path: Path) -> None:
    """Make the folder of ``path``, and refuse what ``write_logits`` could not write."""
    check_suffix(path, SUFFIXES)
    path.parent.mkdir(parents=True, exist_ok=True)
    for file in (path, card_of(path)):
        check_output(file)


def card_of(path: Path) -> Path:
    """Where the card of a file of logits lies."""
    return path.with_suffix(".json")


def rounded(logits: NDArray[Any]) -> NDArray[np.float16]:
    """The logits as they are stored."""
    with np.errstate(over="ignore"):  # told below, with the reason
        stored = logits.astype(np.float16)
    if not np.isfinite(stored).all():
        raise OverflowError("a logit is not finite or does not fit into float16")
    return stored


def scores(held_out: HeldOut) -> dict[str, float]:
    """What a card says about the logits: accuracy, ECE and NLL of both parts, and the bins."""
    val_accuracy, val_ece = accuracy_and_ece(held_out.val_logits, held_out.val_labels)
    test_accuracy, test_ece = accuracy_and_ece(held_out.test_logits, held_out.test_labels)
    return {
        "val_accuracy": val_accuracy,
        "val_ece": val_ece,
        "val_nll": mean_nll(held_out.val_logits, held_out.val_labels),
        "test_accuracy": test_accuracy,
        "test_ece": test_ece,
        "test_nll": mean_nll(held_out.test_logits, held_out.test_labels),
        "ece_bins": ECE_BINS,
    }


def accuracy_and_ece(logits: NDArray[Any], labels: NDArray[np.int64]) -> tuple[float, float]:
    """Accuracy and top-label ECE over 15 equal-width bins, as fractions.

    ``calibrant.metrics`` would do; this needs NumPy alone, which is all a GPU machine may have.

    >>> accuracy, ece = accuracy_and_ece(np.array([[0.0, 0.0], [9.0, 0.0]]), np.array([0, 0]))
    >>> accuracy, round(ece, 3)
    (1.0, 0.25)
    """
    slices = _slices(len(labels))
    confidence = np.concatenate([_top_probability(logits[rows]) for rows in slices])
    hits = np.concatenate([logits[rows].argmax(axis=1) == labels[rows] for rows in slices])
    bins = np.clip(np.ceil(confidence * ECE_BINS).astype(np.int64) - 1, 0, ECE_BINS - 1)
    gaps = np.bincount(bins, weights=confidence - hits, minlength=ECE_BINS)
    return float(hits.mean()), float(np.abs(gaps).sum() / len(labels))


def mean_nll(logits: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """The mean negative log-likelihood per row, in nats.

    >>> round(mean_nll(np.array([[0.0, 0.0], [9.0, 0.0]]), np.array([0, 1])), 3)
    4.847
    """
    sums = [_nll(logits[rows], labels[rows]).sum() for rows in _slices(len(labels))]
    return float(sum(sums)) / len(labels)


def _slices(n: int) -> list[slice]:
    return [slice(start, start + _SLICE) for start in range(0, n, _SLICE)]


def _nll(logits: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(len(wide)), labels]


def _top_probability(logits: NDArray[Any]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    return 1 / np.exp(wide - wide.max(axis=1, keepdims=True)).sum(axis=1)
