"""Whether the rows bear a claim out: the bootstrap, the rules, and every claim both ways."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from calibrant import metrics
from calibrant_papers import claims_of_figures as of_figures
from calibrant_papers import claims_of_tables as of_tables
from calibrant_papers import inference, row_draws, verdicts
from calibrant_papers.coverage import coverage
from calibrant_papers.experiments import BIN_SWEEP, FRACTIONS, METHODS, TOP_KS, Setting, run
from calibrant_papers.inference import Difference, Sample, Samples, Variant
from calibrant_papers.logit_sets import IMAGENET, ON_CIFAR, PAPER_ROWS, STAND_INS
from calibrant_papers.per_row import packed
from calibrant_papers.summary import Cell, Results, Table, published, row_label
from calibrant_papers.verdicts import FAILS, HOLDS, NOT_RUN, PARTLY, RIVALS, SAME, UNKNOWN
from reproduction_support import tiny_set


@pytest.fixture(scope="module")
def results() -> Results:
    data = tiny_set()
    made = Results(
        run(Setting("tiny", key, seed), data) for key in ("base", "ts", "ets") for seed in range(3)
    )
    row_draws.add_excess(made)
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
    assert row_draws.chance(row) == pytest.approx(drawn.null_mean, rel=0.1)


def _softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_kde_draws_are_those_of_rows_drawn_again():
    """The deviation of the KDE-ECE over draws against that of rows drawn with replacement."""
    data = tiny_set()
    row = run(Setting("tiny", "base"), data)
    drawn = row_draws._row_draws(row, "kde_ece", 10)[: row_draws.KDE_DRAWS]
    probs, rng = _softmax(data.test_scores.astype(np.float64)), np.random.default_rng(0)
    direct = []
    for _ in range(200):
        some = rng.integers(len(probs), size=len(probs))
        direct.append(100.0 * metrics.kde_ece(probs[some], data.test_labels[some]))
    assert np.std(drawn) == pytest.approx(np.std(direct), rel=0.35)
    assert abs(drawn.mean()) < 1e-9


def test_raw_outputs_keep_the_confidence_that_kde_reads():
    probs = np.array([[0.5, 0.2, 0.1], [0.3, 0.2, 0.1]])
    texts = packed(probs, np.array([0, 1]), "raw", losses=False)
    shares = row_draws.unpacked(texts, "share", 2)
    np.testing.assert_allclose(shares, [0.625, 0.5], rtol=1e-6)
    assert "share" not in packed(probs / probs.sum(axis=1)[:, None], [0, 1], "strict", losses=False)


def test_networks_on_the_same_images_are_drawn_together():
    one = row_draws._weights("cifar100", 0, 50)
    assert one is row_draws._weights("cifar100", 0, 50)
    assert not np.array_equal(one, row_draws._weights("cifar100", 1, 50))
    assert not np.array_equal(one, row_draws._weights("cifar10", 0, 50))
    assert row_draws._images("cifar100-vgg19") == row_draws._images("cifar100-resnet50")
    assert row_draws._images("run-a") != row_draws._images("run-b")


def test_a_method_is_no_different_from_itself(results):
    found = inference.over(results, ["tiny"], [Variant("ts"), Variant("ts")])
    assert found is not None
    for difference in (*found.each(0, 1), found.mean(0, 1)):
        assert (difference.value, difference.error, difference.p) == (0.0, 0.0, 1.0)


def invented_networks(rng, networks, runs, by_runs, by_rows, shared=0.0, first_by=1.0) -> Samples:
    """Two variants without a difference, and deviations of the first with these variances.

    The runs of the first network differ ``first_by`` times as much.
    """
    found = []
    rows = np.sqrt(by_rows)
    together = rng.normal(size=(runs, 1 + inference_draws))
    for place in range(networks):
        by_runs = by_runs * (first_by if place == 0 else 1.0 / first_by if place == 1 else 1.0)
        alone = rng.normal(size=(runs, 1 + inference_draws))
        moves = rows * (np.sqrt(shared) * together + np.sqrt(1.0 - shared) * alone)
        first = moves[:, 0] + np.sqrt(by_runs) * rng.normal(size=runs)
        values = np.stack([5.0 + first, np.full(runs, 5.0)])
        found.append(Sample(values, np.stack([moves[:, 1:], np.zeros((runs, inference_draws))])))
    return Samples(found)


inference_draws = 100


@pytest.mark.parametrize(("by_runs", "by_rows"), [(0.0, 1.0), (1.0, 1.0), (9.0, 1.0), (1.0, 0.0)])
@pytest.mark.parametrize("networks", [1, 5, 9])
def test_tests_keep_their_level(networks, by_runs, by_rows):
    """Three runs and no difference: at most about 5% are sure, on one network and on the mean."""
    rng = np.random.default_rng(0)
    single, pooled = [], []
    for _ in range(600):
        samples = invented_networks(rng, networks, 3, by_runs, by_rows)
        single.append(samples.each(0, 1)[0].p < 0.05)
        pooled.append(samples.mean(0, 1).p < 0.05)
    for found in (single, pooled):
        assert np.mean(found) <= 0.085
        if networks > 1:  # of one network alone three runs say next to nothing
            assert np.mean(found) >= 0.005


def test_a_network_whose_runs_differ_by_more_has_its_own_error():
    """One network of nine with ten times the variance: far from 38% are sure, as with one for all.

    Three runs often look alike by luck, so that 5% cannot be had without the same for all networks.
    """
    rng = np.random.default_rng(0)
    found = [
        invented_networks(rng, 9, 3, 0.9, 0.1, first_by=10.0).each(0, 1)[0].p < 0.05
        for _ in range(600)
    ]
    assert np.mean(found) <= 0.15


def test_a_blank_run_says_nothing_about_other_networks():
    rng = np.random.default_rng(0)
    networks = invented_networks(rng, 9, 3, 0.01, 0.01).networks
    networks = [replace(one, runs=one.runs + np.array([[1.0], [0.0]])) for one in networks]
    blank = replace(networks[0], runs=np.where([[1, 0, 0]], np.nan, networks[0].runs))
    found = Samples([blank, *networks[1:]]).each(0, 1)
    assert found[0].p == 1.0
    assert max(one.p for one in found[1:]) < 0.01


def test_rows_that_networks_share_do_not_average_out():
    rng = np.random.default_rng(1)
    alone = invented_networks(rng, 9, 3, 0.0, 1.0).mean(0, 1).error
    together = invented_networks(rng, 9, 3, 0.0, 1.0, shared=1.0).mean(0, 1).error
    assert together > 2.0 * alone


def test_freedom_is_that_of_networks_that_are_alike():
    rng = np.random.default_rng(2)
    found = [invented_networks(rng, 9, 3, 1.0, 0.01).each(0, 1)[0].freedom for _ in range(200)]
    assert np.median(found) == pytest.approx(18.0, rel=0.1)
    one_run = invented_networks(rng, 9, 1, 1.0, 0.5)
    assert np.isinf(one_run.mean(0, 1).freedom)


def test_the_error_of_a_mean_is_that_of_its_rows_where_seeds_agree():
    """Three seeds of one distribution: the error of a mean loss is its deviation over root n."""
    rng = np.random.default_rng(1)
    seeds, rows = 3, 2000
    draws, points = [], []
    for _ in range(seeds):
        losses = rng.exponential(size=rows)
        picked = rng.poisson(1.0, size=(row_draws.DRAWS, rows))
        means = (picked * losses).sum(axis=1) / picked.sum(axis=1)
        points.append(losses.mean())
        draws.append(means - means.mean())
    still = np.zeros_like(draws)
    samples = Samples([Sample(np.array([points, np.ones(seeds)]), np.array([draws, still]))])
    expected = 1.0 / np.sqrt(seeds * rows)
    assert samples.mean(0, 1).error == pytest.approx(expected, rel=0.5)


def test_drops_are_shares_with_the_errors_of_the_delta_method():
    rng = np.random.default_rng(3)
    values = np.array([[1.0, 1.1, 0.9], [2.0, 2.1, 1.9]])
    draws = rng.normal(size=(2, 3, 4000)) * np.array([0.05, 0.1])[:, None, None]
    samples = Samples([Sample(values, draws)])
    found = samples.drop(0, 1)
    assert found.value == pytest.approx(0.5)
    moved = values.mean(axis=1)[:, None] + draws.mean(axis=1)
    rows_alone = np.std(1.0 - moved[0] / moved[1])
    assert 0.95 * rows_alone < found.error < 2.0 * rows_alone
    assert samples.drop_on(0, 0, 1).value == found.value


def test_a_blank_has_no_say_where_it_is_not_asked_for():
    values = np.array([[1.0], [2.0], [np.nan]])
    samples = Samples([Sample(values, np.zeros((3, 1, 5)))])
    assert samples.mean(0, 1).value == -1.0
    assert samples.mean(0, 2).p == 1.0


def test_variants_that_were_not_run_give_nothing(results):
    assert inference.sample(results, "tiny", [Variant("ts"), Variant("pts")]) is None
    assert inference.over(results, ["tiny", "other"], [Variant("ts")]) is None


def test_an_infinite_loss_has_no_value_and_no_draws():
    row = run(Setting("tiny", "ts"), tiny_set())
    labels = tiny_set().test_labels
    wrong = np.eye(4)[(labels + 1) % 4]
    texts = packed(wrong, labels, "strict", losses=True)
    results = Results([row | {"nll": None, "per_row": texts}])
    found = inference.sample(results, "tiny", [Variant("ts")], "nll")
    assert found is not None
    assert np.isnan(found.points[0])


def test_holm_is_stricter_than_single_tests_and_monotone():
    values = [0.04, 0.001, 0.02]
    adjusted = inference.holm(values)
    assert (adjusted >= values).all()
    np.testing.assert_allclose(adjusted, [0.04, 0.003, 0.04])
    sure = inference.signs([Difference(1.0, 0.2), Difference(-1.0, 0.2), Difference(1.0, 0.6)])
    assert sure.tolist() == [1, -1, 0]


def test_few_degrees_of_freedom_make_a_difference_less_sure():
    assert Difference(1.0, 0.4).p < 0.05 < Difference(1.0, 0.4, 2.0).p
    assert Difference(1.0, 0.4, 2.0).low < 0.0 < Difference(1.0, 0.4).low
    assert Difference(1.0, 0.4).beyond(1.0).p == 1.0


# --- the claims -------------------------------------------------------------------------------


@dataclass
class Invented:
    """A witness with these numbers: {variant: one number per set}; all errors are ``error``."""

    numbers: dict[Any, list[float]]
    error: float = 0.01
    rivals: tuple[str, ...] = RIVALS

    def samples(self, names, variants, metric="ece", bins=10):
        if metric == "excess":
            return None
        found = []
        for place in range(len(names)):
            keys = [
                one
                if one in self.numbers
                else (one.method, bins)
                if (one.method, bins) in self.numbers
                else one.method
                if one.method in self.numbers
                else f"{one.method}-raw"
                for one in variants
            ]
            if not all(key in self.numbers for key in keys):
                return None
            points = np.array([self.numbers[key][place % len(self.numbers[key])] for key in keys])
            rng = np.random.default_rng(place)
            moves = self.error * rng.standard_normal((len(keys), 1, row_draws.DRAWS))
            found.append(Sample(points[:, None], moves))
        return Samples(found)


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


def test_ties_are_not_wins():
    found = of_tables.best_everywhere(Invented(rivals(5.0) | {"pts": [5.0, 1.0]}), "ab", "ece")
    assert "best or equal by value on 2 of 2" in found.text


def test_the_rival_that_is_surely_ahead_is_named():
    numbers = rivals(5.0) | {"pts": [1.0], "diag": [0.5], "ets": [0.99]}
    found = of_tables.best_everywhere(Invented(numbers), "a", "ece")
    assert "a (DIAG 0.50 against 1.00)" in found.text


@pytest.mark.parametrize(
    ("pts", "error", "outcome"),
    [
        ([0.7, 0.7], 0.01, HOLDS),
        ([0.95, 0.1], 0.01, HOLDS),
        ([0.9, 0.9], 0.01, PARTLY),
        ([1.2, 1.2], 0.01, FAILS),
        ([1.0, 1.0], 0.01, FAILS),
        ([0.9, 0.9], 2.0, SAME),
    ],
)
def test_thirty_percent_below_ets(pts, error, outcome):
    found = of_tables.over_ets(Invented({"ets": [1.0], "pts": pts}, error), "ab")
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("pts", "error", "outcome"),
    [
        ([0.6, 0.6, 0.6], 0.01, HOLDS),
        ([0.8, 0.7, 0.2], 0.01, PARTLY),  # without the third network it is 25%
        ([0.95, 0.95, 0.1], 0.01, PARTLY),
        ([0.9, 0.9, 0.9], 0.01, FAILS),
        ([0.7, 0.7, 0.7], 2.0, SAME),
    ],
)
def test_thirty_percent_with_each_network_left_out(pts, error, outcome):
    found = of_tables.over_ets_without(Invented({"ets": [1.0], "pts": pts}, error), "abc")
    assert found.outcome == outcome
    assert " without " in found.text
    assert of_tables.over_ets_without(Invented({"ets": [1.0], "pts": pts}), "ab") == NOT_RUN


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


def test_the_papers_networks_are_in_its_own_order():
    """ImageNet's MobileNetV2 comes behind VGG19 on CIFAR-100, its stand-in does not."""
    names = [*ON_CIFAR, *STAND_INS]
    rows = [run(Setting(name, key), tiny_set(name)) for name in names for key in ("ets", "pts")]
    twins = [row | {"method": "pts-paper"} for row in rows if row["method"] == "pts"]
    results = Results([*rows, *twins])
    theirs = of_tables.complexity(verdicts.Theirs(results), names).text
    assert theirs.index("cifar100-vgg19") < theirs.index("cifar100-mobilenetv2")
    ours = of_tables.complexity(verdicts.Ours(results, "pts"), names).text
    assert ours.index("cifar100-mobilenetv2") < ours.index("cifar100-vgg19")


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
    [
        ((3.0, 2.0, 1.0), HOLDS),
        ((3.0, 2.0, 2.0), PARTLY),
        ((2.0, 2.0, 2.0), SAME),
        ((3.0, 1.0, 2.0), PARTLY),
        ((1.0, 2.0, 3.0), FAILS),
    ],
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


def test_what_a_calibrated_model_cannot_reach_is_not_missed():
    """ETS 1.0 of which chance is 0.8: no drop above 20% can be seen."""

    class WithChance(Invented):
        def samples(self, names, variants, metric="ece", bins=10):
            found = super().samples(names, variants)
            if metric != "excess":
                return found
            return Samples([Sample(one.runs - 0.8, one.row_draws) for one in found.networks])

    numbers = {"ts": [2.0], "ets": [1.0], "pts": [0.85]}
    assert of_figures.halved(Invented(numbers), ["mobilenetv2"]).outcome == PARTLY
    lost = Invented(numbers | {"ts": [1.0]})
    assert of_figures.halved(lost, ["mobilenetv2"]).outcome == FAILS
    found = of_figures.halved(WithChance(numbers), ["mobilenetv2"])
    assert found.outcome == PARTLY
    assert "a calibrated model would show 60% and 20%" in found.text
    alike = WithChance({"ts": [1.0], "ets": [1.0], "pts": [0.99]})
    assert of_figures.halved(alike, ["mobilenetv2"]).outcome == SAME


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


def test_the_papers_table_of_sizes_is_counted():
    found = of_figures.efficient(verdicts.Theirs(Results([])), "ab")
    assert found.outcome == PARTLY
    assert "ahead in 23 and behind in 0 of 25 ratios" in found.text


@pytest.mark.parametrize(("few", "outcome"), [(1.0, HOLDS), (1.3, FAILS), (0.5, HOLDS)])
def test_as_data_efficient_as_others(few, outcome):
    numbers = {Variant("pts", FRACTIONS[0]): [few], "pts": [1.0], "ts": [2.0], "ets": [1.5]}
    assert of_figures.as_efficient(Invented(numbers), "ab").outcome == outcome
    assert of_figures.as_efficient(Invented(numbers, error=1.0), "ab").outcome == SAME


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
    rows = [
        run(Setting("cifar10-vgg19", key, seed), data) for key in ("ts", "ets") for seed in (0, 1)
    ]
    theirs = verdicts.Theirs(Results(rows))
    pair = [Variant("ts"), Variant("ets")]
    found = theirs.samples(["cifar10-vgg19"], pair)
    assert found is not None
    assert found.means.tolist() == [1.37, 1.34]
    [ours] = inference.over(Results(rows), ["cifar10-vgg19"], pair).networks
    fewer = len(data.test_labels) / 10_000
    parts = inference._Parts([ours], np.array([1.0, -1.0]))
    expected = parts.by_runs + fewer * parts.by_rows[0]  # of a single run, on 10,000 rows
    assert found.mean(0, 1).error == pytest.approx(np.sqrt(expected))
    assert found.each(0, 1)[0].error == pytest.approx(np.sqrt(expected))
    assert theirs.samples(["cifar10-vgg19"], [Variant("ts")], bins=5) is None
    assert theirs.samples(["cifar10-vgg19"], [Variant("ts", 0.1)]) is None
    assert theirs.samples(["cifar10-vgg19"], [Variant("ts-brier")]) is None


@pytest.mark.parametrize("name", ["cifar100-resnet50", "imagenet-resnet50"])
def test_imagenets_rows_are_those_of_the_paper(name):
    data = tiny_set(name)
    rows = [run(Setting(name, key), data) for key in ("ts", "ets")]
    found = verdicts.Theirs(Results(rows)).samples([name], [Variant("ts"), Variant("ets")])
    assert found is not None
    assert found.means.tolist() == [1.85, 1.35]
    assert found.networks[0].row_factor == pytest.approx(np.sqrt(len(data.test_labels) / 37_500))


# --- coverage ---------------------------------------------------------------------------------


def tables_of(rows: list[str], sizes: list[str]) -> dict[str, Table]:
    """Every table with a number in each of its cells."""
    cell = Cell((1.0,))
    labels = tuple(method.label for method in METHODS.values() if method.published)
    whole = Table("", "", labels, {row: [cell] * len(labels) for row in rows})
    by_size = Table("", "", labels, {size: [cell] * len(labels) for size in sizes})
    linear = {row: [cell] * len(labels) for row in rows if row not in ON_CIFAR}
    return {
        **dict.fromkeys(("1", "2", "3"), whole),
        "4": by_size,
        "5": Table("", "", labels, linear),
    }


SIZES = [f"{100 * fraction:.0f}%" for fraction in FRACTIONS]


def test_coverage_counts_every_published_number_once():
    total = sum(len(row) for table in published().values() for row in table.values())
    assert total == 274  # three of them are blank in the paper: DIAG on Xception
    everything = coverage(tables_of(list(PAPER_ROWS), SIZES), IMAGENET)
    assert (everything.own, everything.stand_in, everything.missing) == (274, 0, 0)
    nine = [*ON_CIFAR, *(row_label(name) for name in STAND_INS)]
    tables = tables_of(nine, [f"{size}, stand-ins" for size in SIZES])
    found = coverage(tables, list(STAND_INS))
    assert (found.own, found.stand_in, found.missing) == (104, 170, 0)
    assert coverage({}, []).missing == total
    assert coverage(tables, list(STAND_INS)[:4]).missing == 30  # Table 4: a mean over all five


def test_coverage_counts_what_was_run():
    tables = tables_of([*ON_CIFAR, *IMAGENET[:1]], [])
    empty = {row: [Cell(())] * len(cells) for row, cells in tables["2"].rows.items()}
    tables["2"] = Table("", "", tables["2"].columns, empty)
    found = coverage(tables, IMAGENET[:1])
    assert found.stand_in == 0
    assert found.own < 104
