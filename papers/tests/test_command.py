"""``calibrant reproduce`` and ``calibrant reproduce logits`` as a user meets them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import datasets
from calibrant_papers import make_logits
from cli_support import refuse, run, succeed
from image_files import write_cifar10
from reproduction_support import few_steps, tiny_set, write_set

OPTIONS = ("--quick", "--workers", "1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with logits in val.npz and test.npz."""
    monkeypatch.chdir(tmp_path)
    data = tiny_set()
    np.savez("val.npz", logits=data.val_scores, labels=data.val_labels)
    np.savez("test.npz", logits=data.test_scores, labels=data.test_labels)
    return tmp_path


def reproduce(*words: Any) -> str:
    """What is printed; on standard error there may be progress, and nothing else."""
    result = run("reproduce", *words)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"(\d+/\d+ experiments, about \d+ min left\s*)*", result.stderr)
    return result.stdout


def test_own_logits_are_added_beside_others(folder):
    write_set(folder / "sets", tiny_set("third", seed=3))
    pairs = ("--add", "one", "val.npz", "test.npz", "--add", "two", "val.npz", "test.npz")
    sets = ("--logits", "sets", "--sets", "one,two,third")
    with few_steps():
        said = reproduce(*pairs, *sets, "--out", "page", *OPTIONS)
    assert said.startswith(
        "Of the paper's 274 cells (3 of them blank there), 0 were run on their own network"
    )
    assert "wrote page/index.html" in said
    text = (folder / "page" / "index.md").read_text()
    assert all(f"| {name} |" in text for name in ("one", "two", "third"))


def test_names_and_kind_of_added_scores_can_be_said(folder):
    data = tiny_set()
    for name, scores, labels in (
        ("a", data.val_scores, data.val_labels),
        ("b", data.test_scores, data.test_labels),
    ):
        np.savez(f"{name}.npz", z=scores, y=labels)
    options = ("--input", "logits", "--scores-key", "z", "--labels-key", "y", "--sets", "mine")
    with few_steps():
        reproduce("--add", "mine", "a.npz", "b.npz", *options, *OPTIONS)
    assert "| mine |" in (folder / "reproduction" / "index.md").read_text()


def test_add_takes_three_words(folder):
    for words in (("mine",), ("mine", "val.npz"), ("mine", "val.npz", "--quick")):
        assert "--add takes three words: NAME VAL TEST" in refuse("reproduce", "--add", *words)


def test_files_that_are_not_there(folder):
    said = refuse("reproduce", "--add", "mine", "val.npz", "none.npz", "--sets", "mine")
    assert "none.npz does not exist" in said
    assert "nowhere" in refuse("reproduce", "--logits", "nowhere")


def bad_files(folder: Path) -> None:
    nan = np.zeros((4, 3))
    nan[2, 1] = np.nan
    labels = [0, 1, 2, 0]
    np.savez(folder / "nan.npz", logits=nan, labels=labels)
    np.savez(folder / "empty.npz", logits=np.zeros((0, 3)), labels=np.zeros(0, int))
    np.savez(folder / "one.npz", logits=np.zeros((4, 1)), labels=np.zeros(4, int))
    np.savez(folder / "label.npz", logits=np.zeros((4, 3)), labels=[0, 1, 2, 3])
    np.savez(folder / "short.npz", logits=np.zeros((4, 3)), labels=[0, 1])
    (folder / "cut.npz").write_bytes((folder / "val.npz").read_bytes()[:200])
    np.savez(folder / "nameless.npz", scores=np.zeros((4, 3)), labels=labels)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nan", "at row 2"),
        ("empty", "row"),
        ("one", "at least two classes"),
        ("label", "labels must lie in 0..2, got 3 at row 3"),
        ("short", "labels"),
        ("cut", "cut.npz"),
        ("nameless", "--scores-key"),
    ],
)
def test_bad_scores_are_refused_in_one_line(folder, name, message):
    bad_files(folder)
    for pair in ((f"{name}.npz", "test.npz"), ("val.npz", f"{name}.npz")):
        said = refuse("reproduce", "--add", "mine", *pair, "--sets", "mine", *OPTIONS)
        assert message in said
        assert f"{name}.npz" in said
    assert not (folder / "reproduction" / "index.html").exists()


def test_unknown_sets_are_refused(folder):
    assert "there is no set 'cifar11'; there are cifar10-lenet5" in refuse(
        "reproduce", "--sets", "cifar11"
    )


def test_matplotlib_is_missed_before_the_work(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = refuse("reproduce", "--sets", "cifar10-lenet5", *OPTIONS)
    assert "this needs matplotlib: pip install ./papers at the root of a clone" in said
    assert not (folder / "reproduction").exists()


def logits_of(*words: Any) -> tuple[Any, ...]:
    return ("reproduce", "logits", "--device", "cpu", *words)


def test_a_network_is_trained_from_the_standard_files(folder):
    write_cifar10(folder / "images" / "cifar-10-batches-py", 4)
    words = ("--dataset", "cifar10", "--data", "images", "--network", "lenet5", "--out", "made")
    result = run(*logits_of(*words, "--epochs", 1, "--batch", 8))
    assert result.exit_code == 0, result.output
    assert "next: calibrant reproduce --logits made" in result.stdout
    assert "epoch" in result.stderr
    made = datasets.read(folder / "made" / "cifar10-lenet5.npz")
    assert made.card["epochs"] == 1
    assert made.val_logits.shape[1] == 10


def test_unknown_networks_and_folders_are_refused(folder):
    (folder / "images").mkdir()
    words = ("--dataset", "cifar10", "--data", "images", "--network")
    assert "got cifar10 with resnet18" in refuse(*logits_of(*words, "resnet18"))
    assert "--data" in refuse(*logits_of("--dataset", "cifar10", "--data", "x", "--network", "n"))
    words = ("--dataset", "imagenet", "--data", "images", "--network")
    assert "error: " in refuse(*logits_of(*words, "resnet50"))


def test_imagenet_goes_to_its_own_maker(folder, monkeypatch):
    (folder / "images").mkdir()
    seen: dict[str, Any] = {}

    def maker(data: Path, network: str, out: Path, **options: Any) -> dict[str, Any]:
        seen.update(options, network=network)
        return {
            "name": "imagenet-resnet50",
            "seed": 0,
            "seconds": 1.0,
            **{f"{part}_{what}": 0.5 for part in ("val", "test") for what in ("accuracy", "ece")},
        }

    monkeypatch.setattr(make_logits, "imagenet_to_file", maker)
    words = ("--dataset", "imagenet", "--data", "images", "--network", "resnet50", "--batch", 7)
    said = succeed(*logits_of(*words, "--split-seed", 3, "--truth", "labels.txt"))
    assert "imagenet-resnet50" in said
    assert (seen["network"], seen["batch"], seen["split_seed"]) == ("resnet50", 7, 3)
    assert seen["truth"] == Path("labels.txt")
