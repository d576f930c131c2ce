"""The reproduction of the paper: experiments, cache, tables, claims, figures and page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import datasets, metrics
from calibrant_papers import experiments, figures, logit_sets, page, plan, runner, summary, verdicts
from calibrant_papers.experiments import FRACTIONS, METHODS, Setting, parameter_count, run
from calibrant_papers.logit_sets import Source, imagenet_group, of_the_paper, sources
from calibrant_papers.reproduction import Reproduction, reproduce
from calibrant_papers.summary import Cell, Results, Table, metric_table, normalised_table, published
from reproduction_support import few_steps, tiny_set, write_set
from tools_support import load_tool

TINY = plan.Scope(seeds=2)
SETS = ("cifar10-lenet5", "cifar100-mobilenetv2", "imagenet5k-mobilenetv2")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    folder = tmp_path_factory.mktemp("reproduction")
    for seed, name in enumerate(SETS):
        write_set(folder / "sets", tiny_set(name, classes=4 + 4 * seed, seed=seed))
    chosen = sources([folder / "sets"], only=SETS)
    with few_steps():
        return reproduce(chosen, folder / "out", scope=TINY, workers=1)


# --- sets of logits ---------------------------------------------------------------------------


def test_seed_0_is_the_split_as_it_is():
    data = tiny_set()
    assert data.drawn(0) is data


def test_other_seeds_split_the_same_rows_anew():
    data = tiny_set()
    drawn = data.drawn(3)
    assert drawn.val_scores.shape == data.val_scores.shape
    assert not np.array_equal(drawn.val_scores, data.val_scores)
    before = np.sort(np.concatenate([data.val_scores, data.test_scores]), axis=0)
    after = np.sort(np.concatenate([drawn.val_scores, drawn.test_scores]), axis=0)
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(drawn.val_scores, data.drawn(3).val_scores)


def test_rows_keep_their_labels_in_a_new_split():
    data = tiny_set()
    label_of = {
        row.tobytes(): label
        for scores, labels in (
            (data.val_scores, data.val_labels),
            (data.test_scores, data.test_labels),
        )
        for row, label in zip(scores, labels, strict=True)
    }
    drawn = data.drawn(1)
    for row, label in zip(drawn.test_scores, drawn.test_labels, strict=True):
        assert label_of[row.tobytes()] == label


def test_larger_parts_hold_the_smaller_ones():
    data = tiny_set()
    small, large = data.with_part(0.2, 5), data.with_part(0.6, 5)
    assert len(small.val_labels) == 12
    np.testing.assert_array_equal(large.val_scores[:12], small.val_scores)
    np.testing.assert_array_equal(small.test_scores, data.test_scores)
    assert data.with_part(1.0, 5) is data


def test_the_digest_is_of_the_content_alone():
    data = tiny_set()
    assert data.digest() == replace(data, name="other").digest()
    assert data.digest() != replace(data, kind="probs").digest()
    changed = data.test_labels.copy()
    changed[0] += 1
    assert data.digest() != replace(data, test_labels=changed).digest()


def test_later_sources_replace_earlier_ones(tmp_path):
    path = write_set(tmp_path, tiny_set("cifar10-vgg19"))
    found = {source.name: source for source in sources([tmp_path])}
    assert found["cifar10-vgg19"].file == path
    assert found["cifar100-vgg19"].file is None
    added = [("cifar10-vgg19", tmp_path / "val.npz", tmp_path / "test.npz")]
    assert {s.name: s for s in sources([tmp_path], added)}["cifar10-vgg19"].pair is not None


def test_bad_sources_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no \.npz file"):
        sources([tmp_path])
    with pytest.raises(ValueError, match="there is no set 'cifar11'; there are cifar10-lenet5"):
        sources(only=["cifar11"])
    np.savez(tmp_path / "half.npz", val_logits=np.zeros((3, 2)), val_labels=[0, 1, 0])
    with pytest.raises(ValueError, match="lacks test_logits, test_labels"):
        Source("half", file=tmp_path / "half.npz").load()


def test_pairs_of_files_must_belong_together(tmp_path):
    np.savez(tmp_path / "val.npz", logits=3.0 * np.eye(3), labels=[0, 1, 2])
    np.savez(tmp_path / "probs.npz", probs=np.eye(3), labels=[0, 1, 2])
    np.savez(tmp_path / "two.npz", logits=3.0 * np.eye(2), labels=[0, 1])
    for other, message in (("probs", "has logits, but"), ("two", "has 3 classes, but")):
        pair = (tmp_path / "val.npz", tmp_path / f"{other}.npz")
        with pytest.raises(ValueError, match=message):
            Source("mine", pair=pair).load()


def test_a_file_is_read_with_its_card(tmp_path):
    path = write_set(tmp_path, tiny_set("mine"))
    assert datasets.read(path).card == {}
    path.with_suffix(".json").write_text('{"network": "N"}')
    assert datasets.read(path).card["network"] == "N"
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        datasets.read(tmp_path / "mine.npy")


def test_bad_scores_are_told_before_any_work(tmp_path):
    data = tiny_set()
    np.savez(tmp_path / "val.npz", logits=data.val_scores, labels=data.val_labels)
    np.savez(tmp_path / "probs.npz", probs=np.full((3, 4), 0.4), labels=[0, 1, 2])
    np.savez(tmp_path / "label.npz", logits=np.zeros((2, 4)), labels=[0, 7])
    for name in ("label", "probs"):
        pair = (tmp_path / f"{name}.npz", tmp_path / f"{name}.npz")
        with pytest.raises(ValueError, match=rf"{name}\.npz: "):
            Source("mine", pair=pair).load()


ALL_FIVE = ["imagenet-resnet50", "imagenet-resnet152", "imagenet-densenet169"]
ALL_FIVE += ["imagenet-xception", "imagenet-mobilenetv2"]


def test_claims_are_judged_on_the_rows_of_table_1():
    own = ["cifar10-vgg19", "cifar100-resnet50"]
    assert of_the_paper(["mine", *own, "fashion-mnist-vgg19", "imagenet5k-mobilenetv2"]) == own
    assert of_the_paper([*own, *ALL_FIVE]) == ["cifar10-vgg19", *ALL_FIVE]
    assert of_the_paper(["mine"]) == ["mine"]


def test_only_all_five_imagenet_networks_replace_the_stand_ins():
    names = ["cifar10-vgg19", "cifar100-resnet50", "imagenet5k-mobilenetv2"]
    assert imagenet_group(names) == (["cifar100-resnet50"], False)
    assert imagenet_group([*names, *ALL_FIVE[:4]]) == (["cifar100-resnet50"], False)
    assert imagenet_group([*names, *ALL_FIVE]) == (ALL_FIVE, True)


def test_neither_lenet_nor_fashion_mnist_stands_in_for_imagenet():
    assert imagenet_group(datasets.names()) == ([], False)
    assert imagenet_group(["cifar10-lenet5", "mine"]) == (["mine"], False)


def test_a_seed_takes_a_training_of_its_own(tmp_path):
    write_set(tmp_path, tiny_set("mine"))
    for seed in (1, 2):
        write_set(tmp_path / f"seed{seed}", tiny_set("mine", seed=seed))
    [source] = sources([tmp_path], only=["mine"])
    assert [source.training(seed) for seed in range(4)] == [0, 1, 2, 0]
    digests = {source.load(training).digest() for training in range(3)}
    assert len(digests) == 3
    rows = runner.run_all(
        [Setting("mine", "base", seed) for seed in range(2)], [source], tmp_path / "rows", workers=1
    )
    expected = run(Setting("mine", "base", 1), tiny_set("mine", seed=1))
    assert rows[1]["brier"] == expected["brier"]


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_scores_of_class_1_and_one_hot_labels_are_those_of_two_classes(tmp_path, kind):
    scores, labels = np.array([-1.0, 0.5, 2.0]), np.array([0, 1, 1])
    other = np.zeros(3)
    if kind == "probs":
        scores = 1.0 / (1.0 + np.exp(-scores))
        other = 1.0 - scores
    for name in ("val.npz", "test.npz"):
        np.savez(tmp_path / name, **{kind: scores, "labels": np.eye(2)[labels]})
    (source,) = sources(
        added=[("mine", tmp_path / "val.npz", tmp_path / "test.npz")], only=["mine"]
    )
    loaded = source.load()
    np.testing.assert_array_equal(loaded.val_scores, np.stack([other, scores], axis=1))
    np.testing.assert_array_equal(loaded.test_labels, labels)
    assert (loaded.kind, loaded.test_labels.dtype) == (kind, np.int64)


def test_networks_on_cifar_are_fitted_on_as_many_rows_as_in_the_paper(tmp_path, monkeypatch):
    monkeypatch.setitem(logit_sets.FIT_ROWS, "cifar10-vgg19", 20)
    data = Source("cifar10-vgg19", file=write_set(tmp_path, tiny_set("cifar10-vgg19"))).load()
    for seed in (0, 1):
        split = data.drawn(seed)
        assert (len(split.val_labels), len(split.test_labels)) == (20, 90)
    assert len(data.drawn(0).with_part(0.5, 0).val_labels) == 10
    assert data.digest() != replace(data, fit_rows=None).digest()


# --- experiments ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:DiagonalOrderPreserving. stopped")  # on so few rows
@pytest.mark.parametrize("key", [key for key, method in METHODS.items() if not method.slow])
def test_a_row_holds_what_the_metrics_say(key):
    data = tiny_set()
    row = run(Setting("tiny", key, 2, 0.8), data)
    split = data.drawn(2).with_part(0.8, 2)
    if METHODS[key].rows == "raw":
        split = split.in_double()
    if METHODS[key].after_ts:
        split = experiments._scaled(split)
    model = METHODS[key].make(2, None, split.kind).fit(split.val_scores, split.val_labels)
    probs, labels = model.predict_proba(split.test_scores), split.test_labels
    how = METHODS[key].rows
    assert row["ece"] == metrics.ece(probs, labels, n_bins=10, row_sums=how)
    assert "ece_by_bins" not in row
    assert row["kde_ece"] == metrics.kde_ece(probs, labels, row_sums=how)
    assert row["accuracy"] == metrics.accuracy(probs, labels, row_sums=how)
    assert row["brier"] == metrics.brier(probs, labels, row_sums=how)
    assert (row["val_rows"], row["test_rows"], row["classes"]) == (48, 90, 4)
    json.dumps(row, allow_nan=False)


def test_the_sweep_of_bins_is_for_the_whole_validation_set():
    data = tiny_set()
    row = run(Setting("tiny", "ts"), data)
    probs = calibrant.TS().fit(data.val_scores, data.val_labels).predict_proba(data.test_scores)
    assert row["ece_by_bins"] == [
        metrics.ece(probs, data.test_labels, n_bins=bins) for bins in range(5, 20, 2)
    ]


def test_gains_are_against_the_same_split():
    data = tiny_set()
    results = Results(run(Setting("tiny", key, s), data) for key in ("base", "ts") for s in (0, 1))
    split = data.drawn(1)
    models = [
        cls().fit(split.val_scores, split.val_labels)
        for cls in (calibrant.Uncalibrated, calibrant.TS)
    ]
    base, probs = (model.predict_proba(split.test_scores) for model in models)
    gain = metrics.calibration_gain(base, probs, split.test_labels)
    assert results.by_seed("tiny", "ts")[1]["gain"] == pytest.approx(gain, abs=1e-7)
    assert results.values("gain", "tiny", "base") == (0.0, 0.0)


def test_the_same_experiment_gives_the_same_row():
    one, two = (run(Setting("tiny", "pts", 1), tiny_set()) for _ in range(2))
    for row in (one, two):
        del row["fit_seconds"]
    assert one == two


def test_raw_outputs_need_not_sum_to_1():
    data = tiny_set()
    raw, normalised = (run(Setting("tiny", key), data) for key in ("irova-raw", "irova"))
    assert raw["brier"] != normalised["brier"]


def test_scores_may_be_probabilities():
    data = tiny_set()
    probs = np.exp(data.val_scores - data.val_scores.max(axis=1, keepdims=True))
    given = replace(data, val_scores=probs / probs.sum(axis=1, keepdims=True), kind="probs")
    given = replace(given, test_scores=given.val_scores, test_labels=given.val_labels)
    logits = replace(data, test_scores=data.val_scores, test_labels=data.val_labels)
    one, two = (run(Setting("tiny", "ts"), some) for some in (given, logits))
    assert one["brier"] == pytest.approx(two["brier"], abs=1e-5)


def test_parameters_are_counted_as_in_the_paper():
    assert parameter_count("ts", None, 1000) == 1
    assert parameter_count("ets", None, 1000) == 4
    assert parameter_count("pts", None, 1000) == 91
    model = METHODS["pts"].make(0, 3, "logits").fit(tiny_set().val_scores, tiny_set().val_labels)
    assert parameter_count("pts", 3, 4) == sum(part[0].size for part in model.weights_)


# --- the plan ---------------------------------------------------------------------------------


def test_the_plan_names_every_experiment_once_and_the_slow_ones_first():
    settings = plan.settings(["cifar10-lenet5", "cifar100-mobilenetv2"], plan.FULL)
    assert len(set(settings)) == len(settings)
    order = [(not one.plain, not METHODS[one.method].slow) for one in settings]
    assert order == sorted(order)
    assert {one.fraction for one in settings} == set(FRACTIONS)
    assert {one.method for one in settings} == set(METHODS)


def test_everything_has_as_many_seeds():
    settings = plan.settings(["cifar100-lenet5", "cifar100-mobilenetv2"], plan.FULL)
    seeds: dict[Setting, set[int]] = {}
    for one in settings:
        seeds.setdefault(replace(one, seed=0), set()).add(one.seed)
    assert set(map(len, seeds.values())) == {3}


def test_the_quick_plan_has_one_seed():
    settings = plan.settings(["cifar10-lenet5"], plan.QUICK)
    assert {one.seed for one in settings} == {0}
    assert sum(METHODS[one.method].slow for one in settings) == 1


def test_imagenet_experiments_leave_other_sets_alone_where_real_ones_are_given():
    settings = plan.settings(["cifar10-lenet5", "cifar100-resnet50", *ALL_FIVE], plan.QUICK)
    assert {one.data for one in settings if one.width} == set(ALL_FIVE)
    assert {one.data for one in settings if one.method == "linear"} == set(ALL_FIVE)


# --- the runner -------------------------------------------------------------------------------


def test_a_finished_row_is_not_computed_again(tmp_path, monkeypatch):
    path = write_set(tmp_path, tiny_set("mine"))
    source = Source("mine", file=path)
    settings = [Setting("mine", "ts", seed) for seed in range(3)]
    rows = runner.run_all(settings, [source], tmp_path / "rows", workers=1)
    files = sorted((tmp_path / "rows").iterdir())
    assert len(files) == 3
    files[0].unlink()
    done = []
    monkeypatch.setattr(
        runner, "_work", lambda setting, source: done.append(setting) or run(setting, source.load())
    )
    again = runner.run_all(settings, [source], tmp_path / "rows", workers=1)
    assert len(done) == 1
    for row in (*rows, *again):
        del row["fit_seconds"]
    assert again == rows


@pytest.mark.parametrize(
    "damage",
    [
        lambda good: b"",
        lambda good: good[:100],
        lambda good: good + b" ",
        lambda good: good.replace(b'"seed": 0', b'"seed": 1'),
        lambda good: good.replace(b", ", b",", 1),  # reads the same, and was changed
        lambda good: b"[]",
        lambda good: b"{}",
        lambda good: b"\xff\xfe",
    ],
    ids=["empty", "cut", "longer", "another number", "same meaning", "list", "object", "bytes"],
)
def test_a_row_that_is_not_as_written_is_computed_again(tmp_path, damage):
    source = Source("mine", file=write_set(tmp_path, tiny_set("mine")))
    rows = runner.run_all([Setting("mine", "ts")], [source], tmp_path / "rows", workers=1)
    [file] = (tmp_path / "rows").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(calibrant.CalibrationWarning, match=f"{file.name} cannot be read as written"):
        again = runner.run_all([Setting("mine", "ts")], [source], tmp_path / "rows", workers=1)
    assert {**again[0], "fit_seconds": 0} == {**rows[0], "fit_seconds": 0}
    assert [file] == list((tmp_path / "rows").iterdir())


def test_a_row_of_another_setting_is_computed_again_and_all_are_told_in_one_line(tmp_path):
    source = Source("mine", file=write_set(tmp_path, tiny_set("mine")))
    settings = [Setting("mine", "ts", seed) for seed in (1, 2)]
    rows = runner.run_all(settings, [source], tmp_path / "rows", workers=1)
    one, other = (tmp_path / "rows").iterdir()
    swapped = one.read_bytes(), other.read_bytes()
    other.write_bytes(swapped[0])
    one.write_bytes(swapped[1])
    with pytest.warns(calibrant.CalibrationWarning) as said:
        again = runner.run_all(settings, [source], tmp_path / "rows", workers=1)
    assert [row["ece"] for row in again] == [row["ece"] for row in rows]
    assert len(said) == 1
    assert "and 1 more cannot be read as written: computed again" in str(said[0].message)


def test_a_row_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    source = Source("mine", file=write_set(tmp_path, tiny_set("mine")))
    runner.run_all([Setting("mine", "ts")], [source], tmp_path / "rows", workers=1)
    [file] = (tmp_path / "rows").iterdir()
    file.unlink()
    os.mkfifo(file)  # to read it would take for ever
    monkeypatch.setattr(runner, "_work", None)
    with pytest.raises(FileExistsError, match="is a FIFO, and only a file is replaced"):
        runner.run_all([Setting("mine", "ts")], [source], tmp_path / "rows", workers=1)


def test_two_runs_share_a_folder(tmp_path):
    source = Source("mine", file=write_set(tmp_path, tiny_set("mine")))
    settings = [Setting("mine", "ts", seed) for seed in range(6)]

    def go() -> list[dict[str, Any]]:
        return runner.run_all(settings, [source], tmp_path / "rows", workers=1)

    with ThreadPoolExecutor(4) as pool:
        several = [job.result() for job in [pool.submit(go) for _ in range(4)]]
    values = [[row["brier"] for row in rows] for rows in several]
    assert values == [[row["brier"] for row in go()]] * 4
    assert len(list((tmp_path / "rows").iterdir())) == 6


def test_processes_give_the_rows_of_one_process(tmp_path):
    path = write_set(tmp_path, tiny_set("mine"))
    settings = [Setting("mine", method) for method in ("ts", "pts", "irm")]
    told: list[tuple[int, int]] = []
    results = [
        runner.run_all(
            settings,
            [Source("mine", file=path)],
            tmp_path / str(workers),
            workers=workers,
            report=lambda done, total, left: told.append((done, total)),
        )
        for workers in (1, 2)
    ]
    for row in (*results[0], *results[1]):
        del row["fit_seconds"]
    assert results[0] == results[1]
    assert told == [(1, 3), (2, 3), (3, 3)] * 2


def test_a_key_is_of_everything_that_a_row_depends_on(monkeypatch):
    key = runner.row_key(Setting("a", "ts"), "digest")
    assert runner.row_key(Setting("b", "ts"), "digest") == key  # the name is not the content
    assert runner.row_key(Setting("a", "ts"), "other") != key
    assert runner.row_key(Setting("a", "ts", 1), "digest") != key
    assert runner.row_key(Setting("a", "ets"), "digest") != key
    monkeypatch.setitem(METHODS, "ts", replace(METHODS["ts"], options=(("loss", "brier"),)))
    assert runner.row_key(Setting("a", "ts"), "digest") != key


def test_the_digest_covers_what_the_experiments_import():
    """All modules of both packages that an experiment loads, but those that move no number."""
    command = (
        "import sys, calibrant_papers.experiments;"
        "found = [m.__file__ for name, m in sys.modules.items() if name.startswith('calibrant')];"
        "print(*found, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, check=True, text=True
    )
    loaded = {Path(line) for line in done.stdout.splitlines()}
    harmless = {
        "__init__.py",
        "errors.py",
        "_safetensors.py",
        "extras.py",
        "files.py",
        "progress.py",
        "types.py",
        "_types.py",
        "datasets.py",
        "plugins.py",
    }
    assert {file.name for file in loaded} >= {"binning.py", "experiments.py", "scaling.py"}
    missing = {file.name for file in loaded - set(runner.code_files())}
    assert missing <= harmless


def test_a_row_that_fails_says_which(tmp_path, monkeypatch):
    def fail(setting: Setting, logits: Any) -> None:
        raise ZeroDivisionError("zero")

    monkeypatch.setattr(runner, "run", fail)
    source = Source("mine", file=write_set(tmp_path, tiny_set("mine")))
    with pytest.raises(RuntimeError, match=r"method='ts'.*failed: ZeroDivisionError: zero"):
        runner.run_all([Setting("mine", "ts")], [source], tmp_path, workers=1)


# --- tables -----------------------------------------------------------------------------------


def test_the_published_numbers_are_complete():
    tables = published()
    assert [len(table) for table in tables.values()] == [9, 9, 9, 6, 5]
    assert tables["ece"]["CIFAR100 VGG19"]["PTS"] == 0.82
    assert tables["ece"]["ImgNet Xception"]["DIAG"] is None
    assert tables["normalised_ece"]["20"]["IROvA"] == 11.92
    means = [np.mean([row[name] for row in tables["ece"].values()]) for name in ("ETS", "PTS")]
    assert 1.0 - means[1] / means[0] == pytest.approx(0.30, abs=0.005)  # the paper's headline


def rows_with(ece: dict[tuple[str, str, int], float], **others: Any) -> Results:
    return Results(
        {
            "data": name,
            "method": method,
            "seed": seed,
            "fraction": 1.0,
            "width": None,
            "ece": value,
            "kde_ece": value,
            "brier": value,
            **others,
        }
        for (name, method, seed), value in ece.items()
    )


def test_cells_are_means_and_spreads_over_seeds():
    results = rows_with({("cifar10-lenet5", "ts", 0): 0.01, ("cifar10-lenet5", "ts", 1): 0.03})
    table = metric_table(results, "ece", ["ts"], "title")
    (cell,) = table.rows["cifar10-lenet5"]
    assert (cell.mean, cell.published) == (pytest.approx(2.0), 1.91)
    assert cell.spread == pytest.approx(np.sqrt(2.0))
    assert page.number(cell) == "2.00 ± 1.41"


def test_an_ece_of_0_divides_nothing():
    results = rows_with({("a", "ts", 0): 0.01, ("a", "pts", 0): 0.0})
    table = normalised_table(results, ["a"], "pts", ["ts"])
    assert np.isnan(table.rows["100%, stand-ins"][0].mean)


def test_normalised_ece_is_the_mean_of_ratios():
    results = rows_with(
        {("a", "ts", 0): 0.02, ("a", "pts", 0): 0.01, ("b", "ts", 0): 0.02, ("b", "pts", 0): 0.04}
    )
    table = normalised_table(results, ["a", "b"], "pts", ["ts"])
    [ours], [theirs] = (table.rows[f"100%, {whose}"] for whose in ("stand-ins", "ImageNet"))
    assert ours.mean == pytest.approx((2.0 + 0.5) / 2.0)
    assert ours.published is None  # the paper's number is of other networks
    assert (theirs.values, theirs.published) == ((), 2.28)


def test_the_papers_ratios_stand_beside_those_of_imagenet():
    name = "imagenet-resnet50"
    results = rows_with({(name, "ts", 0): 0.02, (name, "pts", 0): 0.01})
    [cell] = normalised_table(results, [name], "pts", ["ts"]).rows["100%"]
    assert (cell.mean, cell.published) == (pytest.approx(2.0), 2.28)


# --- the whole --------------------------------------------------------------------------------


def test_everything_is_written(made):
    out = made.page.parent
    for name in ("fig1a", "fig1b", "fig2", "fig3a", "fig3bc", "fig4a", "fig4b"):
        assert (out / "figures" / f"{name}.svg").stat().st_size > 1000
        assert (out / "figures" / f"{name}.png").stat().st_size > 1000
    markdown, text = ((out / f"index.{kind}").read_text() for kind in ("md", "html"))
    stand_in = "cifar100-mobilenetv2 (architecture stand-in on CIFAR-100)"
    words = ("Table 1", "Table 5", "Figure 4b", "not run", "imagenet5k-mobilenetv2", stand_in)
    for word in (*words, "an architecture stand-in on CIFAR-100 and not on ImageNet"):
        assert word in markdown
        assert word in text
    document = json.loads((out / "tables.json").read_text())
    assert document["tables"]["1"]["cifar10-lenet5"]["TS"]["published"] == 1.91
    assert document["tables"]["1"]["ImgNet ResNet50"]["TS"]["published"] == 1.85
    assert document["tables"]["1"]["ImgNet ResNet50"]["TS"]["mean"] is None
    assert len(document["claims"]) == 23
    assert document["coverage"] == {"own": 26, "stand_in": 28, "missing": 220}
    lines = (out / "rows.csv").read_text().splitlines()
    assert len(lines) == 1 + len(made.results.rows)


def test_every_cell_has_a_number(made):
    for table in made.tables.values():
        for name, cells in table.rows.items():
            if (
                "ImgNet" not in name
                and "ImageNet" not in name
                and not table.title.startswith("NLL")
            ):
                assert not any(np.isnan(cell.mean) for cell in cells), (table.title, name)


def test_every_claim_is_judged_for_both_recipes(made):
    outcomes = {verdicts.HOLDS, verdicts.PARTLY, verdicts.FAILS, verdicts.SAME}
    for verdict in made.verdicts:
        if "more complex" in verdict.claim or "left out" in verdict.claim:
            continue  # these need more networks
        assert {verdict.verdicts[key] for key in plan.RECIPES} <= outcomes, verdict.claim
        assert all(verdict.evidence[key] for key in plan.RECIPES)


def test_a_second_run_computes_nothing_and_writes_the_same_page(made, monkeypatch):
    out = made.page.parent
    before = (out / "index.html").read_bytes(), (out / "figures" / "fig2.svg").read_bytes()
    monkeypatch.setattr(runner, "_work", None)
    chosen = sources([out.parent / "sets"], only=made.results.names)
    with few_steps():
        reproduce(chosen, out, scope=TINY, workers=1)
    assert (
        (out / "index.html").read_bytes(),
        (out / "figures" / "fig2.svg").read_bytes(),
    ) == before


def test_a_preview_computes_nothing_and_says_what_is_missing(made, tmp_path, monkeypatch):
    rows = sorted((made.page.parent / "rows").iterdir())
    (tmp_path / "rows").mkdir()
    kept = [file for file in rows if '"method": "pts-paper"' not in file.read_text()]
    for file in kept:
        (tmp_path / "rows" / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(runner, "_work", None)
    chosen = sources([made.page.parent.parent / "sets"], only=made.results.names)
    with few_steps():
        shown = reproduce(chosen, tmp_path, scope=TINY, workers=1, kept_only=True)
        with pytest.raises(ValueError, match="holds no row of these experiments yet"):
            reproduce(chosen, tmp_path / "none", scope=TINY, workers=1, kept_only=True)
    assert 0 < len(shown.results.rows) < len(made.results.rows)
    assert {one.verdicts["pts-paper"] for one in shown.verdicts[:3]} == {verdicts.UNKNOWN}
    text = (tmp_path / "index.md").read_text()
    assert f"{len(shown.results.rows)} of {len(made.results.rows)} experiments so far" in text


@pytest.mark.parametrize("count", [3, 10, 40])
def test_a_preview_of_the_first_rows_of_a_run(made, tmp_path, monkeypatch, count):
    """The plan begins with the slow fits: there is little else for most of a run."""
    chosen = sources([made.page.parent.parent / "sets"], only=made.results.names)
    first = plan.settings(made.results.names, TINY)[:count]
    with few_steps():
        kept = runner.run_all(first, chosen, made.page.parent / "rows", kept_only=True)
        assert len(kept) == count
        monkeypatch.setattr(runner, "run_all", lambda *_, **__: kept)
        shown = reproduce(chosen, tmp_path, scope=TINY, workers=1, kept_only=True)
    assert len(shown.results.rows) == count
    assert (tmp_path / "index.html").is_file()


def test_infinite_values_have_no_mean():
    cell = summary._cell([0.01, None, 0.03], 4.0)
    assert np.isnan(cell.mean)
    assert (cell.infinite, cell.published) == (1, 4.0)
    assert page.number(cell) == "infinite (1)"
    assert summary._cell([0.01, 0.03]).mean == pytest.approx(2.0)


def test_figures_touch_no_setting_of_matplotlib(made, tmp_path):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    figures.draw_all(made.results, ["cifar100-mobilenetv2"], False, tmp_path)
    assert dict(mpl.rcParams) == before


def test_no_marker_of_figure_1a_is_cut(made):
    with figures._style():
        canvas = figures._grid(made.results, ["cifar100-mobilenetv2"], figures._expressive_power)
        canvas.draw_without_rendering()
    [axes] = canvas.axes
    left, _ = axes.get_xlim()
    places = [x for line in axes.lines for x in line.get_xdata()]
    whole, _ = axes.transData.transform((min(places), 1.0)) - axes.transData.transform((left, 1.0))
    assert whole > 5.0  # points: wider than half a marker


def test_results_are_published_with_their_origin(made, tmp_path, monkeypatch):
    tool = load_tool("publish_reproduction", monkeypatch)
    tool.publish(made.page.parent, tmp_path / "docs", "Made by `make reproduce` at commit abc.")
    lines = (tmp_path / "docs" / "index.md").read_text().splitlines()
    assert lines[4].startswith("# ")
    assert lines[6] == "Made by `make reproduce` at commit abc."
    document = json.loads((tmp_path / "docs" / "tables.json").read_text())
    assert document["claims"]
    tool.check_code(document)
    with pytest.raises(SystemExit, match="made by other code than this"):
        tool.check_code(document | {"code": "another"})
    with pytest.raises(SystemExit, match="made by other code than this"):
        tool.check_code({})
    assert (tmp_path / "docs" / "figures" / "fig1a.svg").is_file()


def test_the_guide_has_the_tables_that_were_made(made, tmp_path, monkeypatch):
    tool = load_tool("publish_reproduction", monkeypatch)
    guide = tmp_path / "reproduction.md"
    guide.write_text(f"before\n\n{tool.BEGIN}\nanother run\n{tool.END}\n\nbehind\n")
    document = json.loads((made.page.parent / "tables.json").read_text())
    for _ in range(2):  # a second time changes nothing
        tool.write_summary(document, guide)
        text = guide.read_text()
        assert "another run" not in text
        assert text.startswith("before\n")
        assert text.endswith("behind\n")
        assert "| cifar100-mobilenetv2 * | " in text
        assert "ImgNet" not in text
        assert text.count("| Temperatures span a wide range (figure 2) |") == 1
    (tmp_path / "bare.md").write_text(f"{tool.END} before {tool.BEGIN}")
    with pytest.raises(SystemExit, match="must have the lines"):
        tool.write_summary(document, tmp_path / "bare.md")
    cell = made.tables["1"].rows["cifar10-lenet5"][0]
    assert f"| cifar10-lenet5 | {page.number(cell)} ({cell.published:.2f}) |" in text


@pytest.mark.parametrize("name", ["index.html", "rows.csv", "figures/fig2.png"])
def test_a_page_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch, name):
    (tmp_path / "out" / name).mkdir(parents=True)
    monkeypatch.setattr(runner, "run_all", None)
    with pytest.raises(IsADirectoryError, match="is a folder, and only a file is replaced"):
        reproduce(sources(only=["cifar10-lenet5"]), tmp_path / "out", scope=TINY, workers=1)


def test_page_and_figures_appear_whole(made, tmp_path, monkeypatch):
    """Killed while any of them is written, a run leaves the last one's."""
    folder = tmp_path / "figures"
    figures.draw_all(made.results, ["cifar100-mobilenetv2"], False, folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def stopped(figure: Any, file: Any, **options: Any) -> None:
        file.write(b"half of a figure")
        raise SystemExit(143)

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", stopped)
    with pytest.raises(SystemExit):
        figures.draw_all(made.results, ["cifar100-mobilenetv2"], False, folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def boxes(axis: Any, renderer: Any) -> list[Any]:
    """The places of an axis' tick labels that are shown."""
    labels = [*axis.get_ticklabels()]
    low, high = sorted(axis.get_view_interval())
    shown = [
        label
        for tick, label in zip(axis.get_ticklocs(), labels, strict=True)
        if low <= tick <= high and label.get_text()
    ]
    return [label.get_window_extent(renderer) for label in shown]


@pytest.mark.parametrize(
    "panel",
    [
        figures._expressive_power,
        figures._temperatures,
        figures._by_size(),
        figures._accuracy_gained,
    ],
)
def test_no_panel_is_empty_and_no_labels_overlap(made, panel):
    names = ["cifar100-mobilenetv2"] * 2
    with figures._style():
        canvas = figures._grid(made.results, names, panel)
        canvas.draw_without_rendering()
    renderer = canvas.canvas.get_renderer()
    assert len(canvas.axes) == 2
    for axes in canvas.axes:
        assert axes.lines or axes.patches
        assert axes.get_title()
        for axis in (axes.xaxis, axes.yaxis):
            shown = boxes(axis, renderer)
            for one, two in pairwise(shown):
                assert not one.overlaps(two)
    titles = [axes.title.get_window_extent(renderer) for axes in canvas.axes]
    assert not titles[0].overlaps(titles[1])
    assert canvas.legends[0].get_texts()


# --- the page ---------------------------------------------------------------------------------


def test_the_page_escapes_what_it_shows():
    table = Table("t <b>", "", ("a & b",), {"<i>": [Cell((1.0,), 2.0)]})
    section = page.Section("s <s>", ("p <p>",), (table, page.Words(("x",), (("<u>|",),))))
    text = page.html("title", [section])
    for bad in ("<b>", "<i>", "<u>", "s <s>"):
        assert bad not in text
    assert "&lt;i&gt;" in text
    assert "\\|" in page.markdown("title", [section])


def test_the_best_value_of_a_row_is_marked_unless_all_are_equal():
    best = Table("t", "", ("a", "b"), {"row": [Cell((1.0,)), Cell((2.0,))]})
    assert "**1.00**" in page.markdown("x", [page.Section("s", (), (best,))])
    equal = Table("t", "", ("a", "b"), {"row": [Cell((1.0,)), Cell((1.001,))]})
    assert "**1.00**" not in page.markdown("x", [page.Section("s", (), (equal,))])


def test_nothing_is_shown_where_nothing_was_run():
    assert page.number(Cell(())) == page.NOTHING


def test_temperatures_are_kept_for_seed_0_alone():
    data = tiny_set()
    assert len(run(Setting("tiny", "pts"), data)["temperatures"]) == 90
    assert len(run(Setting("tiny", "ts"), data)["temperatures"]) == 1
    assert "temperatures" not in run(Setting("tiny", "pts", 1), data)
    assert "temperatures" not in run(Setting("tiny", "irm"), data)
    assert experiments.MOST_TEMPERATURES >= 10_000
