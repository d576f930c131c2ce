"""Whether the rows bear a claim out: the bootstrap, the rules, and every claim both ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from calibrant import metrics
from calibrant.papers.pts import claims_of_figures as of_figures
from calibrant.papers.pts import claims_of_tables as of_tables
from calibrant.papers.pts import inference, verdicts
from calibrant.papers.pts.coverage import coverage
from calibrant.papers.pts.experiments import BIN_SWEEP, TOP_KS, Setting, run
from calibrant.papers.pts.inference import Difference, Sample, Variant
from calibrant.papers.pts.logit_sets import PAPER_ROWS, STAND_INS
from calibrant.papers.pts.summary import Results, published
from calibrant.papers.pts.verdicts import FAILS, HOLDS, PARTLY, RIVALS, SAME, UNKNOWN
from reproduction_support import tiny_set


@pytest.fixture(scope="module")
def results() -> Results:
    data = tiny_set()
    made = Results(
        run(Setting("tiny", key, seed), data) for key in ("base", "ts", "ets") for seed in range(3)
    )
    inference.add_excess(made)
    return made


# --- the bootstrap ----------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["ece", "kde_ece", "brier", "nll", "accuracy"])
def test_points_are_the_metrics_themselves(results, metric):
    found = inference.sample(results, "tiny", [Variant("base"), Variant("ts")], metric)
    assert found is not None
    for place, key in enumerate(("base", "ts")):
        rows = results.by_seed("tiny", key).values()
        expected = 100.0 * np.mean([row[metric] for row in rows])
        assert found.points[place] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("bins", BIN_SWEEP)
def test_other_numbers_of_bins_give_the_metrics_ece(results, bins):
    found = inference.sample(results, "tiny", [Variant("ts")], "ece", bins)
    place = BIN_SWEEP.index(bins)
    rows = results.by_seed("tiny", "ts").values()
    expected = 100.0 * np.mean([row["ece_by_bins"][place] for row in rows])
    assert found is not None
    assert found.points[0] == pytest.approx(expected, abs=1e-4)


def test_chance_is_that_of_drawn_labels():
    data = tiny_set()
    row = run(Setting("tiny", "base"), data)
    drawn = metrics.calibration_test(
        _softmax(data.test_scores), data.test_labels, n_bins=10, n_resamples=2000
    )
    assert inference.chance(row) == pytest.approx(drawn.null_mean, rel=0.1)


def _softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_a_method_is_no_different_from_itself(results):
    found = inference.sample(results, "tiny", [Variant("ts"), Variant("ts")])
    assert found is not None
    assert found.difference(0, 1) == Difference(0.0, 0.0)
    assert found.difference(0, 1).p == 1.0


def test_the_error_of_a_mean_is_that_of_its_rows_where_seeds_agree():
    """Three seeds of one distribution: the error of a mean loss is its deviation over root n."""
    rng = np.random.default_rng(1)
    seeds, rows = 3, 2000
    draws = []
    points = []
    for _ in range(seeds):
        losses = rng.exponential(size=rows)
        picked = rng.poisson(1.0, size=(inference.DRAWS, rows))
        means = (picked * losses).sum(axis=1) / picked.sum(axis=1)
        points.append(losses.mean())
        draws.append(means - means.mean())
    found = inference._nested(np.array([points]), np.array([draws]), "any")
    expected = 1.0 / np.sqrt(seeds * rows)
    assert expected / 1.5 < np.std(found.draws[0]) < 2.5 * expected


def test_seeds_that_differ_widen_the_error():
    still = np.zeros((1, 3, inference.DRAWS))
    found = inference._nested(np.array([[1.0, 2.0, 3.0]]), still, "any")
    assert np.std(found.draws[0]) == pytest.approx(np.std([1, 2, 3], ddof=1) / np.sqrt(3), rel=0.15)


def test_variants_that_were_not_run_give_nothing(results):
    assert inference.sample(results, "tiny", [Variant("ts"), Variant("pts")]) is None
    assert inference.over(results, ["tiny", "other"], [Variant("ts")]) is None


def test_holm_is_stricter_than_single_tests_and_monotone():
    values = [0.04, 0.001, 0.02]
    adjusted = inference.holm(values)
    assert (adjusted >= values).all()
    np.testing.assert_allclose(adjusted, [0.04, 0.003, 0.04])
    sure = inference.signs([Difference(1.0, 0.2), Difference(-1.0, 0.2), Difference(1.0, 0.6)])
    assert sure.tolist() == [1, -1, 0]


# --- the claims -------------------------------------------------------------------------------


@dataclass
class Invented:
    """A witness with these numbers: {variant: one number per set}; all errors are ``error``."""

    numbers: dict[Any, list[float]]
    error: float = 0.01
    names: str = "ab"

    def samples(self, names, variants, metric="ece", bins=10):
        found = []
        for place in range(len(names)):
            keys = [
                one
                if one in self.numbers
                else (one.method, bins)
                if (one.method, bins) in self.numbers
                else one.method
                for one in variants
            ]
            if not all(key in self.numbers for key in keys):
                return None
            points = np.array([self.numbers[key][place % len(self.numbers[key])] for key in keys])
            rng = np.random.default_rng(place)
            moves = self.error * rng.standard_normal((len(keys), inference.DRAWS))
            found.append(Sample(points, points[:, None] + moves, moves))
        return found


def rivals(*values: float) -> dict[Any, list[float]]:
    return {rival: list(values) for rival in RIVALS}


@pytest.mark.parametrize(
    ("own", "outcome"),
    [
        ([1.0, 1.0], HOLDS),
        ([1.0, 5.0], PARTLY),
        ([1.0, 9.0], PARTLY),
        ([5.0, 9.0], FAILS),
        ([5.0, 5.0], SAME),
    ],
)
def test_the_best_method_everywhere(own, outcome):
    found = of_tables.best_everywhere(Invented(rivals(5.0) | {"pts": own}), "ab", "ece")
    assert found.outcome == outcome
    assert f"surely ahead of every rival on {own.count(1.0)}" in found.text


def test_a_gain_is_good_where_it_is_large():
    witness = Invented(rivals(1.0) | {"pts": [2.0]})
    assert of_tables.best_everywhere(witness, "ab", "gain").outcome == HOLDS
    assert of_tables.best_everywhere(witness, "ab", "ece").outcome == FAILS


def test_a_blank_is_no_rival():
    numbers = rivals(5.0) | {"pts": [1.0], "diag": [np.nan]}
    assert of_tables.best_everywhere(Invented(numbers), "ab", "ece").outcome == HOLDS


@pytest.mark.parametrize(
    ("pts", "error", "outcome"),
    [
        ([0.6, 0.6], 0.01, HOLDS),
        ([0.95, 0.1], 0.01, PARTLY),  # all of it comes from one network
        ([0.9, 0.9], 0.01, PARTLY),
        ([1.2, 1.2], 0.01, FAILS),
        ([1.0, 1.0], 0.01, FAILS),
        ([0.9, 0.9], 2.0, SAME),
    ],
)
def test_thirty_percent_below_ets_with_each_network_left_out(pts, error, outcome):
    found = of_tables.over_ets(Invented({"ets": [1.0], "pts": pts}, error), "ab")
    assert found.outcome == outcome
    assert "leaving one out" in found.text


def test_even_higher_for_other_baselines():
    witness = Invented(rivals(5.0) | {"ets": [2.0], "pts": [1.0]})
    assert of_tables.even_higher(witness, "ab").outcome == HOLDS
    witness.numbers["ts"] = [1.5]
    found = of_tables.even_higher(witness, "ab")
    assert found.outcome == PARTLY
    assert "ETS 50%" in found.text
    assert "TS 33%" in found.text


def test_rankings_agree_or_not():
    numbers: dict[Any, list[float]] = {key: [k] for k, key in enumerate(("pts", *RIVALS))}
    assert of_tables.consistent(Invented(numbers), "abc").outcome == PARTLY  # gains are reversed


@pytest.mark.parametrize(("sign", "outcome"), [(1.0, HOLDS), (-1.0, FAILS)])
def test_the_more_complex_the_larger_the_gain(sign, outcome):
    names = list(of_tables.BY_COMPLEXITY[:9])
    witness = Invented({"pts": [9.0], "ets": [9.0 + sign * k for k in range(9)]})
    assert of_tables.complexity(witness, names).outcome == outcome
    assert of_tables.complexity(witness, names[:3]).outcome == UNKNOWN


@pytest.mark.parametrize(("linear", "outcome"), [(2.0, HOLDS), (1.0, SAME), (0.5, FAILS)])
def test_a_linear_model_must_be_surely_worse(linear, outcome):
    witness = Invented({"linear": [linear], "pts": [1.0]}, error=0.1)
    assert of_tables.linear(witness, "ab").outcome == outcome


@pytest.mark.parametrize(("brier", "outcome"), [(1.1, HOLDS), (1.5, SAME), (1.9, FAILS)])
def test_how_much_of_the_step_is_the_loss(brier, outcome):
    witness = Invented({"ts": [2.0], "ts-brier": [brier], "ets": [1.0], "ets-nll": [2.0]}, 0.05)
    assert of_tables.by_the_loss(witness, "ab").outcome == outcome


@pytest.mark.parametrize(
    ("family", "outcome"),
    [((3.0, 2.0, 1.0), HOLDS), ((3.0, 2.0, 2.0), SAME), ((1.0, 2.0, 3.0), FAILS)],
)
def test_more_parameters_less_error(family, outcome):
    witness = Invented({k: [v] for k, v in zip(("ts", "ets", "pts"), family, strict=True)})
    assert of_figures.expressive(witness, "ab").outcome == outcome


@pytest.mark.parametrize(
    ("family", "outcome"),
    [((4.0, 2.0, 0.9), HOLDS), ((4.0, 2.0, 1.9), PARTLY), ((2.0, 1.9, 1.8), FAILS)],
)
def test_halved_twice(family, outcome):
    witness = Invented({k: [v] for k, v in zip(("ts", "ets", "pts"), family, strict=True)})
    assert of_figures.halved(witness, ["mobilenetv2"]).outcome == outcome


@pytest.mark.parametrize(
    ("narrow", "wide", "outcome"),
    [(3.0, 1.0, HOLDS), (1.0, 1.0, SAME), (3.0, 2.0, FAILS), (0.5, 1.0, FAILS)],
)
def test_a_plateau_in_width(narrow, wide, outcome):
    numbers = {Variant("pts", width=1): [narrow], "pts": [1.0], Variant("pts", width=20): [wide]}
    assert of_figures.plateau(Invented(numbers), "ab").outcome == outcome


def test_every_number_of_bins_on_average_and_on_each():
    witness = Invented({"ts": [3.0, 1.0], "ets": [3.0, 1.0], "pts": [1.0, 1.2]})
    assert of_figures.every_bin(witness, "ab", each=False).outcome == HOLDS
    assert of_figures.every_bin(witness, "ab", each=True).outcome == PARTLY


def test_few_bins():
    low, high = BIN_SWEEP[0], BIN_SWEEP[-1]
    numbers: dict[Any, list[float]] = {}
    for method in ("ts", "ets", "pts"):
        numbers |= {(method, low): [1.0], (method, high): [2.0]}
    assert of_figures.few_bins(Invented(numbers), "ab").outcome == HOLDS


def test_data_efficiency_is_against_all_methods():
    others = {key: [2.0] for key in ("irova-raw", "irova-ts-raw", "irm-raw", "ts", "ets")}
    assert of_figures.efficient(Invented({**others, "pts": [1.0]}), "ab").outcome == HOLDS
    assert of_figures.efficient(Invented({**others, "pts": [3.0]}), "ab").outcome == FAILS
    mixed = Invented({**others, "irm-raw": [0.5], "pts": [1.0]})
    assert of_figures.efficient(mixed, "ab").outcome == PARTLY


@pytest.mark.parametrize(
    ("two", "every", "outcome"), [(1.0, 1.0, HOLDS), (1.0, 0.5, FAILS), (9.0, 1.0, HOLDS)]
)
def test_ten_logits_are_enough(two, every, outcome):
    numbers: dict[Any, list[float]] = {"pts": [1.0]}
    for top_k in TOP_KS:
        numbers[Variant("pts", top_k=top_k)] = [two if top_k == 2 else every]
    assert of_figures.enough_logits(Invented(numbers), "ab").outcome == outcome
    assert of_figures.enough_logits(Invented(numbers, error=1.0), "ab").outcome != HOLDS


def test_a_claim_without_rows_was_not_run(results):
    witness = verdicts.Ours(results, "pts-paper")
    for judge in (of_tables.over_ets, of_tables.even_higher, of_tables.linear):
        assert judge(witness, ["tiny"]).outcome == UNKNOWN
    for judge in (of_figures.expressive, of_figures.plateau, of_figures.wide, of_figures.efficient):
        assert judge(witness, ["tiny"]).outcome == UNKNOWN
    assert of_tables.best_everywhere(witness, ["tiny"], "ece").outcome == UNKNOWN


# --- the paper as a witness -------------------------------------------------------------------


def test_the_papers_own_numbers_testify_with_our_errors():
    data = tiny_set("cifar10-vgg19")
    rows = [run(Setting("cifar10-vgg19", key), data) for key in ("ts", "ets")]
    theirs = verdicts.Theirs(Results(rows))
    [found] = theirs.samples(["cifar10-vgg19"], [Variant("ts"), Variant("ets")])
    assert found.points.tolist() == [1.37, 1.34]
    ours = inference.sample(Results(rows), "cifar10-vgg19", [Variant("ts"), Variant("ets")])
    assert found.difference(0, 1).error == pytest.approx(ours.row_error(0, 1))
    assert theirs.samples(["cifar10-vgg19"], [Variant("ts")], bins=5) is None
    assert theirs.samples(["cifar10-vgg19"], [Variant("ts", 0.1)]) is None
    assert theirs.samples(["cifar10-vgg19"], [Variant("ts-brier")]) is None


def test_imagenets_more_rows_make_its_errors_smaller():
    data = tiny_set("cifar100-resnet50")
    rows = [run(Setting("cifar100-resnet50", key), data) for key in ("ts", "ets")]
    pair = [Variant("ts"), Variant("ets")]
    [found] = verdicts.Theirs(Results(rows)).samples(["cifar100-resnet50"], pair)
    ours = inference.sample(Results(rows), "cifar100-resnet50", pair)
    assert found.points.tolist() == [1.85, 1.35]
    assert ours.row_error(0, 1) / found.difference(0, 1).error == pytest.approx(np.sqrt(3.75))


# --- coverage ---------------------------------------------------------------------------------


def test_coverage_counts_every_published_number_once():
    total = sum(len(row) for table in published().values() for row in table.values())
    assert total == 274  # three of them are blank in the paper: DIAG on Xception
    for names in ([], list(PAPER_ROWS), [*PAPER_ROWS, *STAND_INS], list(STAND_INS)):
        found = coverage(names)
        assert found.own + found.stand_in + found.missing == total
    assert coverage(PAPER_ROWS).own == 274
    nine = [name for name in PAPER_ROWS if not name.startswith("imagenet-")] + list(STAND_INS)
    found = coverage(nine)
    assert (found.own, found.stand_in, found.missing) == (104, 170, 0)
