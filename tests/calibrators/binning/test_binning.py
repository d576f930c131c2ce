"""PBMC, histogram binning and BBQ.

Golden records, ``normalize=False`` where probabilities are compared:

| id | tolerance | achieved |
|---|---|---|
| ver_pbmc_A_10, ver_pbmc_A_15, v009_pbmc_A_10 | 1e-3 | 5e-5 |
| ver_pbmc_D_10, ver_pbmc_D_15, v009_pbmc_D_10 (the authors' lbfgs stops early) | 1e-3 | 7e-4 |
| ver_pb_top_A, ver_pb_top_D and v009_ (PBMC of the two classes right, wrong) | 1e-4 | 6e-5 |
| ver_hist_top_A, ver_hist_top_D and v009_ | 1e-7 | 4e-13 |
| ver_pbmc_absent_4, _2 and v009_ (the authors raise; here a warning) | - | - |
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import betaln

from calibrant.calibrators import BayesianBinning, HistogramBinning, PlattBinner
from calibrant.calibrators._logistic import fit_logistic
from calibrant.calibrators.binning._bins import SortedScores, equal_mass_cuts
from calibrant.common.errors import CalibrationWarning
from calibrant.data.rows import Rows
from row_functions import softmax

METHODS = {
    "pbmc": PlattBinner,
    "histogram": HistogramBinning,
    "histogram-width": lambda **options: HistogramBinning(binning="equal-width", **options),
    "histogram-top": lambda **options: HistogramBinning(mode="top-label", **options),
    "bbq": BayesianBinning,
}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
quiet = pytest.mark.filterwarnings("ignore::calibrant.common.errors.CalibrationWarning")


def _some_logits(rows, classes, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), labels] += 1.0
    return scale * logits, labels


# --- golden records ---


@pytest.mark.parametrize(
    "name",
    [f"ver_pbmc_{data}_{bins}" for data in "AD" for bins in (10, 15)]
    + [f"v009_pbmc_{data}_10" for data in "AD"],
)
def test_pbmc_is_the_authors(oracle, oracle_data, name):
    record = oracle(name)
    output, data, bins = record["output"], name.split("_")[2], record["params"]["num_bins"]
    logits, labels = oracle_data(f"{data}_test")
    pbmc = PlattBinner(n_bins=bins, normalize=False).fit(*oracle_data(f"{data}_val"))
    values = pbmc.predict_proba(logits)
    assert np.abs(values[:5] - output["p_test_first5"]).max() < record["tol"]
    assert (values.argmax(axis=1) == labels).mean() == pytest.approx(output["acc"])
    assert [len(np.unique(v)) for v in values.T] == output["distinct_values_per_class"]
    if "platt_coef" in output:
        slopes, edges = pbmc.formula_.sigmoids.slope, pbmc.formula_.curves.step(0)[0]
        assert np.abs(slopes - output["platt_coef"]).max() < record["tol"]
        assert np.abs(edges - output["class0_bin_edges"][:-1]).max() < record["tol"]


@pytest.mark.parametrize("name", ["ver_pb_top_A", "ver_pb_top_D", "v009_pb_top_A", "v009_pb_top_D"])
def test_pbmc_of_right_and_wrong_is_the_authors_top_binner(oracle, oracle_data, name):
    record, data = oracle(name), name[-1]

    def top(part):
        logits, labels = oracle_data(f"{data}_{part}")
        confidence = softmax(logits).max(axis=1)
        return np.column_stack([1.0 - confidence, confidence]), logits.argmax(axis=1) == labels

    pbmc = PlattBinner(normalize=False, input="probs").fit(*top("val"))
    confidence = pbmc.predict_proba(top("test")[0])[:10, 1]
    assert np.abs(confidence - record["output"]["conf_test_first10"]).max() < record["tol"]


@pytest.mark.parametrize("name", ["ver_hist_top_A", "ver_hist_top_D"])
@pytest.mark.parametrize("version", ["ver", "v009"])
def test_top_label_histogram_is_the_authors(oracle, oracle_data, name, version):
    record, data = oracle(name.replace("ver", version)), name[-1]
    histogram = HistogramBinning(mode="top-label").fit(*oracle_data(f"{data}_val"))
    confidence = histogram.predict_proba(oracle_data(f"{data}_test")[0]).max(axis=1)[:10]
    assert np.abs(confidence - record["output"]["conf_test_first10"]).max() < record["tol"]


@pytest.mark.parametrize("absent", [2, 4])
def test_pbmc_keeps_the_probabilities_of_an_absent_class(oracle, oracle_data, absent):
    assert "Error" in oracle(f"ver_pbmc_absent_{absent}")["output"]["result"]
    logits, labels = oracle_data("A_val")
    seen = labels != absent
    data = Rows(logits[seen], labels[seen], np.ones(seen.sum()))
    with pytest.warns(CalibrationWarning, match="1 of 5 classes have no label") as caught:
        formula, info = PlattBinner(normalize=False)._fit_logits(data)  # not the rule of ``fit``
    assert len(caught) == 1
    assert np.array_equal(formula(logits)[:, absent], softmax(logits)[:, absent])
    assert info.details["absent_classes"] == info.details["kept_classes"] == 1


# --- the parts ---


def test_bins_of_whole_weights_are_those_of_array_split():
    for rows, bins in [(12, 5), (200, 15), (7, 7), (3, 10)]:
        parts = np.array_split(np.arange(rows), min(bins, rows))
        cuts = equal_mass_cuts(np.ones(rows), bins)
        assert cuts.tolist() == np.cumsum([len(part) for part in parts])[:-1].tolist()


@given(arrays(np.float64, st.integers(1, 30), elements=st.sampled_from(np.linspace(0, 1, 7))))
def test_edges_of_weights_are_those_of_repeated_rows(score):
    weight = 1.0 + np.arange(len(score)) % 3
    cuts = equal_mass_cuts(weight, 4)
    repeated = np.repeat(score, weight.astype(int))
    once = SortedScores.of(score, weight).edges(cuts)
    again = SortedScores.of(repeated, np.ones(len(repeated))).edges(cuts)
    assert np.allclose(once, again, atol=1e-15)


@pytest.mark.parametrize("rows", [1, 5, 30])
def test_no_edge_lies_at_a_score(rows):
    """Else the last digit decides about the bin, which differs between NumPy, PyTorch and ONNX."""
    tied = np.repeat(np.linspace(0.1, 0.9, 3), rows)
    edges = SortedScores.of(tied, np.ones(len(tied))).edges(equal_mass_cuts(np.ones(len(tied)), 10))
    assert np.abs(edges[:, None] / tied - 1.0).min(initial=1.0) > 1e-13


def test_logistic_fit_has_no_gradient():
    rng = np.random.default_rng(0)
    x = 5.0 * rng.normal(size=(3, 4000))
    target = (rng.random((3, 4000)) < 1 / (1 + np.exp(-(0.3 * x - 1.0)))).astype(float)
    weight = rng.random(4000)
    fits = fit_logistic([x], target, weight)
    slope, intercept = fits.coefficients.T[:, :, None]
    residual = weight * (1 / (1 + np.exp(-(slope * x + intercept))) - target)
    assert fits.converged.all()
    assert np.abs(residual.sum(axis=1)).max() < 1e-3
    assert np.abs((residual * x).sum(axis=1)).max() < 1e-3


def test_logistic_fit_of_separable_targets_is_finite():
    x = np.linspace(-1.0, 1.0, 50)[None, :]
    fits = fit_logistic([x], (x > 0.0).astype(float), np.ones(50))
    assert np.isfinite(fits.coefficients).all()
    assert fits.loss[0] < 1e-3


def test_bbq_averages_all_models_of_the_paper():
    logits, labels = _some_logits(150, 2)
    bbq = BayesianBinning(normalize=False).fit(logits, labels)
    grid = np.linspace(0.001, 0.999, 300)
    values = bbq.predict_proba(np.column_stack([np.zeros(300), np.log(grid / (1.0 - grid))]))
    expected = _slow_bbq(softmax(logits)[:, 1], labels == 1, grid)
    # negligible models are left out, and steps closer than 1e-3 in square root are joined
    assert np.abs(np.sqrt(values[:, 1]) - np.sqrt(expected)).max() < 2e-3


def _slow_bbq(score, hit, grid):
    """Naeini et al. 2015, one model and one bin at a time."""
    order = np.argsort(score)
    score, hit = score[order], hit[order]
    root = len(score) ** (1.0 / 3.0)
    evidence, rates = [], []
    for bins in range(max(1, int(root / 10)), int(np.ceil(10 * root)) + 1):
        ends = np.cumsum([len(part) for part in np.array_split(score, bins)])
        inner = (score[ends[:-1] - 1] + score[ends[:-1]]) / 2.0
        edges = np.concatenate([[0.0], inner, [1.0]])
        middle = (edges[:-1] + edges[1:]) / 2.0
        alpha, beta = 2.0 / bins * middle, 2.0 / bins * (1.0 - middle)
        hits = np.array([part.sum() for part in np.split(hit, ends[:-1])])
        misses = np.array([len(part) for part in np.split(hit, ends[:-1])]) - hits
        evidence.append((betaln(hits + alpha, misses + beta) - betaln(alpha, beta)).sum())
        rate = (hits + alpha) / (hits + misses + alpha + beta)
        rates.append(rate[np.searchsorted(inner, grid)])
    return np.average(rates, axis=0, weights=np.exp(np.array(evidence) - max(evidence)))


# --- laws ---


@each_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_output_is_a_distribution(method, dtype):
    logits, labels = _some_logits(300, 6)
    logits = logits.astype(dtype)
    probs = method().fit(logits, labels).predict_proba(logits)
    wide = method().fit(logits.astype(np.float64), labels).predict_proba(logits.astype(np.float64))
    assert probs.dtype == dtype
    assert probs.min() >= 0.0
    assert np.allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    assert np.allclose(probs, wide, atol=2e-7)


def test_histogram_of_its_own_rows_is_calibrated():
    logits, labels = _some_logits(500, 3)
    values = HistogramBinning(normalize=False).fit(logits, labels).predict_proba(logits)
    assert np.allclose(values.mean(axis=0), np.bincount(labels) / 500)
    for c in range(3):
        for value in np.unique(values[:, c]):
            assert (labels[values[:, c] == value] == c).mean() == pytest.approx(value)


@quiet
@each_method
def test_weight_two_is_a_row_twice(method):
    logits, labels = _some_logits(80, 3)
    weight = np.ones(80)
    weight[::3] = 2.0
    weight[1::7] = 0.0
    again = np.repeat(np.arange(80), weight.astype(int))
    weighted = method().fit(logits, labels, sample_weight=weight).predict_proba(logits)
    repeated = method().fit(logits[again], labels[again]).predict_proba(logits)
    assert np.allclose(weighted, repeated, atol=1e-6)


@each_method
def test_the_unit_of_weights_does_not_matter(method):
    logits, labels = _some_logits(80, 3)
    weight = np.random.default_rng(1).random(80)
    one = method().fit(logits, labels, sample_weight=weight).predict_proba(logits)
    other = method().fit(logits, labels, sample_weight=weight / 1000).predict_proba(logits)
    assert np.allclose(one, other, atol=1e-6)


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 12), st.just(4)),
        elements=st.one_of(
            st.sampled_from([np.float32(v) for v in (0.0, 1e-20, 1.0, 1.0000001, 40.0, -1e4)]),
            st.floats(-100, 100, width=32),
            st.just(np.float32(-np.inf)),
        ),
    ),
    st.integers(0, 3),
)
def test_top_label_histogram_keeps_the_arg_max(logits, seed):
    logits[np.isneginf(logits).all(axis=1)] = 0.0
    val, labels = _some_logits(30, 4, seed, scale=0.5 + 3.0 * seed)
    labels[: 10 * seed] = 0  # even where it is hardly ever right
    top = HistogramBinning(mode="top-label").fit(val, labels)
    probs = top.predict_proba(logits)
    assert np.array_equal(probs.argmax(axis=1), logits.argmax(axis=1))
    assert np.array_equal(top.predict(logits), logits.argmax(axis=1))
    assert np.allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    assert np.all(probs[np.isneginf(logits)] == 0.0)


# --- edges ---


@quiet
@each_method
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_rows_many_classes(method, rows):
    logits, labels = _some_logits(rows, 8)
    probs = method().fit(logits, labels).predict_proba(_some_logits(20, 8, 1)[0])
    assert np.isfinite(probs).all()
    assert np.allclose(probs.sum(axis=1), 1.0)


@quiet
@each_method
@pytest.mark.parametrize("labels", [[0] * 6, [0, 1, 2, 0, 1, 2]])
def test_constant_and_duplicate_rows(method, labels):
    same = np.tile([1.0, 2.0, 3.0], (6, 1))
    probs = method().fit(same, labels).predict_proba([[1.0, 2.0, 3.0], [9.0, 0.0, 0.0]])
    assert np.isfinite(probs).all()
    assert np.allclose(probs.sum(axis=1), 1.0)


@quiet
@each_method
def test_masked_classes_have_probability_zero(method):
    logits, labels = _some_logits(60, 4)
    masked = logits.copy()
    masked[:, 1] = np.where(labels == 1, masked[:, 1], -np.inf)
    masked[:, 3] = -np.inf
    labels[labels == 3] = 0
    probs = method().fit(masked, labels).predict_proba(masked)
    assert np.all(probs[np.isneginf(masked)] == 0.0)
    assert np.allclose(probs.sum(axis=1), 1.0)


@quiet
@each_method
def test_log_probabilities_stay_finite(method):
    logits, labels = _some_logits(60, 4)
    far = np.array([[0.0, -5000.0, 1.0, 2.0]])
    logs = method().fit(logits, labels).predict_log_proba(far)
    assert np.isfinite(logs).all()
    assert np.allclose(np.exp(logs).sum(), 1.0)


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        (
            HistogramBinning(mode="best"),
            "mode must be one of 'one-vs-all', 'top-label', got 'best'",
        ),
        (
            HistogramBinning(binning="odd"),
            "binning must be one of 'equal-mass', 'equal-width', got",
        ),
        (HistogramBinning(n_bins=0), "n_bins must be a whole number of at least 1, got 0"),
        (PlattBinner(n_bins=0), "n_bins must be a whole number of at least 1, got 0"),
        (BayesianBinning(prior_strength=0.0), "prior_strength must be a positive number, got 0.0"),
    ],
)
def test_bad_parameters_are_refused(calibrator, message):
    with pytest.raises(ValueError, match=message):
        calibrator.fit(*_some_logits(20, 3))
