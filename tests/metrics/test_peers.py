"""Other tools: the same number where the definitions coincide, and why not where they do not.

Each peer is asked live where it is installed. Its values on the same data are also kept here, with
the code that made them, so that the law is tested without it (relplot 1.0.3, torchmetrics 1.9.0,
uncertainty-calibration 0.1.4, scikit-learn 1.9.1; NumPy 2.4.6, torch 2.13.0, November 2026).
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics
from sklearn.calibration import calibration_curve

from calibrant import metrics
from calibrant.metrics import BinStats


def peer_data():
    """Over-confident softmax rows; ``RandomState`` draws the same numbers in every NumPy."""
    rng = np.random.RandomState(7)
    logits = rng.randn(2000, 4) * 1.5
    probs, true = (np.exp(logits / temperature) for temperature in (1.0, 1.4))
    probs, true = (p / p.sum(axis=1, keepdims=True) for p in (probs, true))
    labels = (rng.rand(2000, 1) > true.cumsum(axis=1)).sum(axis=1)
    return probs, labels


PROBS, LABELS = peer_data()
CONFIDENCE = PROBS.max(axis=1)
CORRECT = (PROBS.argmax(axis=1) == LABELS).astype(float)


# --- scikit-learn, which is always there -------------------------------------------------------


def test_scikit_learn_scores():
    assert metrics.nll(PROBS, LABELS) == pytest.approx(sklearn_metrics.log_loss(LABELS, PROBS))
    truth = LABELS == 1
    two = np.stack([1.0 - PROBS[:, 1], PROBS[:, 1]], axis=1)
    # Theirs is of class 1 alone, ours the sum over both classes.
    expected = 2.0 * sklearn_metrics.brier_score_loss(truth, PROBS[:, 1])
    assert metrics.brier(two, truth.astype(int)) == pytest.approx(expected)


def test_scikit_learn_calibration_curve():
    accuracy, confidence = calibration_curve(CORRECT, CONFIDENCE, n_bins=15)
    stats = metrics.bin_stats(PROBS, LABELS, 15)
    filled = stats.weight > 0.0  # they leave empty bins out
    np.testing.assert_allclose(stats.accuracy[filled], accuracy)
    np.testing.assert_allclose(stats.confidence[filled], confidence)


# --- relplot ----------------------------------------------------------------------------------

# import relplot
# relplot.smECE(CONFIDENCE, CORRECT)
# relplot.smECE_sigma(CONFIDENCE, CORRECT, 0.1)
# relplot.smECE(np.repeat([1.0, 0.7], [900, 100]), np.repeat([1.0, 1.0, 0.0], [900, 50, 50]))
RELPLOT = {
    "smECE": 0.08549227028170638,
    "smECE_sigma": 0.08549971817784557,
    "end": 0.03521114717047271,
}
END = np.repeat([1.0, 0.7], [900, 100]), np.repeat([1.0, 1.0, 0.0], [900, 50, 50])


def test_relplot():
    assert metrics.smooth_ece(PROBS, LABELS) == pytest.approx(RELPLOT["smECE"], abs=1e-4)
    fixed = metrics.smooth_ece(PROBS, LABELS, bandwidth=0.1)
    assert fixed == pytest.approx(RELPLOT["smECE_sigma"], abs=1e-4)


def test_relplot_loses_half_of_the_rows_at_confidence_one():
    # Smoothing cannot raise the error above the mean residual of rows with equal confidence,
    # 0.1 * 0.2 here, but relplot reports 0.035: its reflection counts the end point's rows once
    # where both images fall on it, and divides by what is left.
    probs = np.stack([END[0], 1.0 - END[0], np.zeros(1000)], axis=1)
    labels = np.where(END[1] == 1.0, 0, 2)
    assert metrics.smooth_ece(probs, labels) == pytest.approx(0.02, abs=1e-9)
    assert metrics.ece(probs, labels) == pytest.approx(0.02)
    assert RELPLOT["end"] > 1.7 * 0.02


def test_relplot_live():
    relplot = pytest.importorskip("relplot")
    assert relplot.smECE(CONFIDENCE, CORRECT) == pytest.approx(RELPLOT["smECE"], abs=1e-9)
    assert relplot.smECE(*END) == pytest.approx(RELPLOT["end"], abs=1e-9)
    rng = np.random.default_rng(0)
    for power in (1.0, 1.05):
        confidence = rng.uniform(0.5, 1.0, 100_000)
        correct = rng.random(100_000) < confidence**power
        probs = np.stack([confidence, 1.0 - confidence], axis=1)
        value = metrics.smooth_ece(probs, np.where(correct, 0, 1))
        assert value == pytest.approx(relplot.smECE(confidence, correct.astype(float)), abs=1e-4)


# --- torchmetrics -----------------------------------------------------------------------------

# from torchmetrics.functional.classification import multiclass_calibration_error
# for norm in ("l1", "l2", "max"):
#     multiclass_calibration_error(torch.tensor(PROBS), torch.tensor(LABELS), 4, 15, norm)
# multiclass_calibration_error(torch.tensor(PHANTOM), torch.tensor([0, 1]), 2, 10, "l1")
TORCHMETRICS = {1: 0.08549106866121292, 2: 0.09500852227210999, "max": 0.17635691165924072}
PHANTOM = np.array([[0.95, 0.05], [1.0, 0.0]])
PHANTOM_VALUE = 0.5249999761581421


@pytest.mark.parametrize("norm", [1, 2, "max"])
def test_torchmetrics(norm):
    value = metrics.ece(PROBS, LABELS, 15, norm)
    assert value == pytest.approx(TORCHMETRICS[norm], abs=1e-6)  # theirs is float32


def test_torchmetrics_puts_confidence_one_in_a_phantom_bin():
    # Both rows lie in (0.9, 1]: mean confidence 0.975, accuracy 0.5. torchmetrics (its issue 3510)
    # gives confidence 1.0 an eleventh bin, and so an error of (0.05 + 1.0) / 2.
    assert metrics.ece(PHANTOM, [0, 1], 10) == pytest.approx(0.475)
    assert abs(PHANTOM_VALUE - 0.525) < 1e-6


def test_torchmetrics_live():
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchmetrics.functional.classification")
    error = functional.multiclass_calibration_error
    names = {1: "l1", 2: "l2", "max": "max"}
    for norm, expected in TORCHMETRICS.items():
        value = error(torch.tensor(PROBS), torch.tensor(LABELS), 4, 15, names[norm])
        assert float(value) == pytest.approx(expected, abs=1e-6)
    phantom = error(torch.tensor(PHANTOM), torch.tensor([0, 1]), 2, 10, "l1")
    assert float(phantom) == pytest.approx(PHANTOM_VALUE, abs=1e-6)


# --- probmetrics drops classes that no label has -----------------------------------------------


def test_an_absent_class_is_not_dropped(oracle, oracle_data):
    logits, labels = oracle_data("D_test")
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    present = np.unique(labels)
    assert len(present) == 11  # of 12
    assert metrics.ece(probs, labels, 10) == pytest.approx(0.245817, abs=1e-6)
    # Dropping the column and normalising the rest is a different model's error.
    rest = probs[:, present]
    dropped = metrics.ece(rest, np.searchsorted(present, labels), 10, row_sums="normalize")
    theirs = oracle("prob_metrics_D")["output"]["ece-10"]
    assert dropped == pytest.approx(theirs, abs=oracle("prob_metrics_D")["tol"])


# --- uncertainty-calibration ------------------------------------------------------------------

# import calibration
# calibration.get_ece(PROBS, LABELS, num_bins=15)
# calibration.get_ece_em(PROBS, LABELS, num_bins=15)
# calibration.get_ece(PROBS, LABELS, num_bins=15, mode="marginal")
# calibration.lower_bound_scaling_ce(
#     PROBS, LABELS, p=2, debias=True, num_bins=15, mode="top-label"
# )
UNCERTAINTY_CALIBRATION = {
    "ece": 0.08549108952989498,
    "adaptive_ece": 0.08648054749473513,
    "classwise_ece": 0.05050038475118494,
    "debiased_ece": 0.08922522508240857,
}


@pytest.mark.parametrize("name", UNCERTAINTY_CALIBRATION)
def test_uncertainty_calibration(name):
    value = getattr(metrics, name)(PROBS, LABELS, 15)
    assert value == pytest.approx(UNCERTAINTY_CALIBRATION[name], abs=1e-12)


def test_uncertainty_calibration_live():
    calibration = pytest.importorskip("calibration")
    expected = UNCERTAINTY_CALIBRATION
    assert calibration.get_ece(PROBS, LABELS, num_bins=15) == pytest.approx(expected["ece"])
    by_mass = calibration.get_ece_em(PROBS, LABELS, num_bins=15)
    assert by_mass == pytest.approx(expected["adaptive_ece"])
    marginal = calibration.get_ece(PROBS, LABELS, num_bins=15, mode="marginal")
    assert marginal == pytest.approx(expected["classwise_ece"])
    debiased = calibration.lower_bound_scaling_ce(
        PROBS, LABELS, p=2, debias=True, num_bins=15, mode="top-label"
    )
    assert debiased == pytest.approx(expected["debiased_ece"])


def test_the_same_bins_from_confidences_alone():
    assert BinStats.from_confidence(CONFIDENCE, CORRECT).error() == metrics.ece(PROBS, LABELS)
