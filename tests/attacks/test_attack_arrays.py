"""The attack by odd arrays in short, and that it finds what it should."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import attack_arrays
from array_laws import MisbehavedError, RefusedError, fits_hold, guarded, predictions_hold
from calibrant import TS
from calibrant.formulas import ConstantTemperature
from odd_scores import BAD_FORMS, GOOD_FORMS, are_valid, meaning

LOGITS = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.5], [1.0, 1.5, -1.0], [0.3, 0.1, 0.2]])
LABELS = np.array([0, 2, 1, 0])


def test_nothing_gets_through(capsys):
    code = attack_arrays.main(["--cases", "330", "--seed", "1000000"])
    text = capsys.readouterr().out
    assert code == 0, text
    total = next(line.split() for line in text.splitlines() if line.startswith("total"))
    cases, refused, served, misbehaved = map(int, total[1:])
    assert (cases, misbehaved) == (330, 0)
    assert min(refused, served) > 60


def test_a_case_is_that_of_its_number():
    one, other = attack_arrays.make(77), attack_arrays.make(77)
    assert (one.method, one.odd, one.bad) == (other.method, other.odd, other.bad)


def test_forms_hold_the_numbers_that_they_are_made_of():
    rng = np.random.default_rng(0)
    for name, form in GOOD_FORMS.items():
        numbers = meaning(form(LOGITS.copy(), rng))
        assert are_valid(numbers, "logits"), name
        assert numbers.shape[1] == 3, name


def broken(change: Any) -> TS:
    """Temperature scaling whose probabilities are changed on their way out."""
    model = TS().fit(LOGITS, LABELS)

    class Broken(ConstantTemperature):
        def probabilities(self, rows: Any, ops: Any) -> Any:
            return change(super().probabilities(rows, ops), rows.logits)

    model.formula_ = Broken(1.0)
    return model


def told(probs: np.ndarray) -> np.ndarray:
    warnings.warn("something is odd", RuntimeWarning, stacklevel=2)
    return probs


def overwrite(probs: np.ndarray, logits: np.ndarray) -> np.ndarray:
    logits[:] = 0.0
    return probs


CALLS = iter(range(10**6))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda probs, logits: probs * np.nan, "NaN among the probabilities"),
        (lambda probs, logits: probs * 0.9, "row sums"),
        (lambda probs, logits: probs[:, ::-1], "the arg max moved"),
        (lambda probs, logits: probs[:, :2], "shape"),
        (lambda probs, logits: probs.astype(np.float32), "float32 for float64"),
        (lambda probs, logits: probs * (1.0 + 1e-10 * next(CALLS)), "a second call"),
        (lambda probs, logits: probs * (1.0 + 1e-11 * len(probs)), "alone differs"),
        (overwrite, "the array given was changed"),
        (lambda probs, logits: told(probs), "RuntimeWarning"),
        (lambda probs, logits: probs["a"], "IndexError"),
    ],
)
def test_broken_laws_are_found(change, told):
    with pytest.raises(MisbehavedError, match=told):
        predictions_hold(broken(change), LOGITS.copy(), LOGITS)


def test_good_and_bad_input_are_told_apart():
    predictions_hold(TS().fit(LOGITS, LABELS), LOGITS, LOGITS)
    fits_hold(TS(), {"logits": LOGITS, "labels": LABELS}, LOGITS)
    for name, form in BAD_FORMS.items():
        scores = form(LOGITS.copy(), np.random.default_rng(0))
        with pytest.raises(RefusedError):
            guarded(lambda scores=scores: TS().fit(LOGITS, LABELS).predict_proba(scores))
        case = attack_arrays.Case("ts", (name,), lambda: None, bad=True)
        with pytest.raises(MisbehavedError, match="bad input is served"):
            case.outcome()
