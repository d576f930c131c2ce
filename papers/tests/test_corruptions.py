"""Corrupted images, and the command that makes logits of them, at a tiny size on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibrant_papers import corrupted_logits, corruptions, training
from calibrant_papers.corruptions import CORRUPTIONS, SEVERITIES, STRENGTHS, corrupted
from calibrant_papers.images import TEST, TRAIN, VALIDATION, ImageSet
from calibrant_papers.logits import rounded
from calibrant_papers.recipes import RECIPES
from calibrant_papers.thinning import thinned


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pictures(n: int = 20) -> np.ndarray:
    """Smooth colour waves with some texture, as photographs have."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:32, :32] / 32
    places, colours = rng.uniform(0, 9, (2, n, 1, 1, 1)), rng.uniform(0, 6, (n, 1, 1, 3))
    waves = np.sin(places[0] * y[None, :, :, None] + places[1] * x[None, :, :, None] + colours)
    return (128 + 80 * waves + rng.normal(0, 15, (n, 32, 32, 3))).clip(0, 255).astype(np.uint8)


def image_set(n: int = 120, name: str = "cifar10") -> ImageSet:
    split = np.where(np.arange(n) < n // 2, TRAIN, np.where(np.arange(n) % 2, VALIDATION, TEST))
    labels = (np.arange(n) // 2 * 7) % 10
    return ImageSet(name, pictures(n), labels, split.astype(np.uint8), "generated")


def make(images: np.ndarray, corruption: str, severity: int, seed: int = 0) -> np.ndarray:
    return corrupted(images, corruption, severity, np.random.default_rng(seed))


# --- corruptions ------------------------------------------------------------------------------


@pytest.mark.parametrize("corruption", STRENGTHS)
def test_a_corruption_is_a_function_of_images_and_seed(corruption: str) -> None:
    images = pictures()
    before = images.copy()
    one, same, other = (make(images, corruption, 3, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any() == (corruption == "gaussian_noise")
    assert (one.shape, one.dtype) == (images.shape, np.uint8)
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize("corruption", STRENGTHS)
def test_a_higher_severity_is_further_from_the_clean_image(corruption: str) -> None:
    images = pictures()
    distances = [
        np.square(make(images, corruption, severity) - images.astype(float)).mean()
        for severity in (0, *SEVERITIES)
    ]
    assert distances[0] == 0.0
    assert (np.diff(distances) > 0).all()


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_severity_0_is_a_copy(corruption: str) -> None:
    images = pictures(3)
    copy = make(images, corruption, 0)
    np.testing.assert_array_equal(copy, images)
    assert not np.shares_memory(copy, images)
    np.testing.assert_array_equal(make(images, "none", 5), images)


def test_images_do_not_depend_on_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(7)
    whole = {name: make(images, name, 4) for name in STRENGTHS}
    monkeypatch.setattr(corruptions, "_SLICE", 3)
    for name, copies in whole.items():
        np.testing.assert_array_equal(make(images, name, 4), copies)
        np.testing.assert_array_equal(make(images[:2], name, 4), copies[:2])
    assert make(images[:0], "jpeg", 1).shape == (0, 32, 32, 3)


def test_the_noise_has_its_strength() -> None:
    grey = np.full((50, 32, 32, 3), 128, np.uint8)
    noise = make(grey, "gaussian_noise", 5) - 128.0
    assert noise.std() == pytest.approx(0.08 * 255, rel=0.02)
    assert abs(noise.mean()) < 0.2


def test_the_blur_is_a_gaussian() -> None:
    image = np.zeros((1, 32, 32, 3), np.uint8)
    image[0, 16, 16] = 255
    blurred = make(image, "gaussian_blur", 5)[0, :, :, 0]
    y, x = np.mgrid[-16:16, -16:16]
    expected = 255 * np.exp(-0.5 * (y**2 + x**2)) / (2 * np.pi)
    np.testing.assert_allclose(blurred, expected, atol=0.6)


def test_blur_and_contrast_leave_one_colour_alone() -> None:
    plain = np.full((2, 32, 32, 3), (0, 200, 255), np.uint8)
    for name in ("gaussian_blur", "contrast"):
        np.testing.assert_array_equal(make(plain, name, 5), plain)


def test_contrast_keeps_the_mean_of_every_channel() -> None:
    images = pictures()
    flat = make(images, "contrast", 5).astype(float)
    np.testing.assert_allclose(flat.mean(axis=(1, 2)), images.mean(axis=(1, 2)), atol=0.3)
    np.testing.assert_allclose(flat.std(axis=(1, 2)), 0.2 * images.std(axis=(1, 2)), rtol=0.02)


@pytest.mark.parametrize(
    ("images", "corruption", "severity", "message"),
    [
        (np.zeros((1, 32, 32, 3)), "jpeg", 1, "must be bytes .* got float64"),
        (np.zeros((32, 32, 3), np.uint8), "jpeg", 1, r"got uint8 of shape \(32, 32, 3\)"),
        (np.zeros((1, 32, 32, 1), np.uint8), "jpeg", 1, r"of shape \(1, 32, 32, 1\)"),
        (np.zeros((1, 32, 32, 3), np.uint8), "fog", 1, "none, gaussian_noise.* got 'fog'"),
        (np.zeros((1, 32, 32, 3), np.uint8), "jpeg", 6, "1 to 5, or 0 .* got 6"),
    ],
)
def test_bad_input_is_told(images: Any, corruption: str, severity: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(images, corruption, severity)


# --- the command ------------------------------------------------------------------------------


def command(folder: Path, more: str = "", dataset: str = "cifar10") -> list[str]:
    where = f"--dataset {dataset} --data {folder} --network lenet5 --out {folder}"
    return f"{where} --device cpu --epochs 1 --rows-fit 20 --rows-test 10 {more}".split()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Small image sets in place of the real ones; what was asked for."""
    asked: list[Any] = []

    def load(dataset: str, *arguments: Any) -> ImageSet:
        asked.append(arguments[1:])
        return image_set(name=dataset)

    monkeypatch.setattr(corrupted_logits, "load", load)
    return asked


def test_the_command_writes_every_domain(
    tmp_path: Path, tiny: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corrupted_logits.main(command(tmp_path)) == 0
    assert "cifar10-lenet5-corrupted seed 0" in capsys.readouterr().out.splitlines()[-1]
    assert tiny == [(0, 12_500)]
    names = {"cifar10-lenet5-corrupted.npz", "cifar10-lenet5-corrupted.json"}
    assert {file.name for file in tmp_path.iterdir()} == names

    with np.load(tmp_path / "cifar10-lenet5-corrupted.npz", allow_pickle=False) as file:
        found = dict(file)
    kinds = {name: array.dtype for name, array in found.items() if name != "corruptions"}
    assert kinds == {
        "logits": np.float16,
        "labels": np.uint8,
        "split": np.uint8,
        "corruption": np.uint8,
        "severity": np.uint8,
        "image": np.uint16,
    }
    assert found["corruptions"].tolist() == list(CORRUPTIONS)
    assert found["logits"].shape == (13 * 30, 10)
    assert {len(found[name]) for name in kinds} == {13 * 30}

    # The same images, in the same order, in every domain.
    for name in ("labels", "split", "image"):
        one, *others = found[name].reshape(13, 30)
        assert all((one == other).all() for other in others)
    for name in ("corruption", "severity"):
        assert (found[name].reshape(13, 30) == found[name][::30, None]).all()
    pairs = list(zip(found["corruption"][::30], found["severity"][::30], strict=True))
    assert pairs == [(0, 0), *((code, grade) for code in (1, 2, 3, 4) for grade in (1, 3, 5))]
    data, rows = image_set(), found["image"][:30]
    assert len(set(rows)) == 30
    np.testing.assert_array_equal(found["labels"][:30], data.labels[rows])
    assert (data.split[rows] == np.where(found["split"][:30], TEST, VALIDATION)).all()
    assert found["split"][:30].sum() == 10
    assert len(np.unique(found["logits"], axis=0)) > 12 * 30

    card = json.loads((tmp_path / "cifar10-lenet5-corrupted.json").read_text())
    assert card["rows"] == [20, 10]
    assert card["name"] == "cifar10-lenet5-corrupted"
    assert card["strengths"]["contrast"] == list(STRENGTHS["contrast"])
    assert card["all_held_out_rows"].keys() >= {"val_accuracy", "test_nll"}
    assert {"recipe", "seconds", "device", "licence", "split_seed"} <= card.keys()
    assert "test_accuracy" not in card
    assert "rounding" not in card
    assert str(tmp_path) not in card["command"]
    tested = found["split"] == 1
    for (code, severity), said in zip(pairs, card["domains"], strict=True):
        assert (said["corruption"], said["severity"]) == (CORRUPTIONS[code], severity)
        here = tested & (found["corruption"] == code) & (found["severity"] == severity)
        hits = found["logits"][here].argmax(axis=1) == found["labels"][here]
        assert said["test_accuracy"] == pytest.approx(hits.mean())


def test_the_clean_domain_holds_the_logits_of_the_training(
    tmp_path: Path, tiny: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[training.Trained] = []
    train = training.train
    monkeypatch.setattr(
        training, "train", lambda *given, **more: kept.append(train(*given, **more)) or kept[0]
    )
    more = "--rows-fit 30 --rows-test 30 --severities 2"
    assert corrupted_logits.main(command(tmp_path, more, "cifar100")) == 0
    with np.load(tmp_path / "cifar100-lenet5-corrupted.npz") as file:
        logits, severity = file["logits"], file["severity"]
    assert set(severity) == {0, 2}
    held_out = kept[0].held_out
    whole = np.concatenate([held_out.val_logits, held_out.test_logits])
    # Batches of another size may sum in another order, and a rounding fall the other way.
    expected = thinned(rounded(whole)).astype(float)
    np.testing.assert_allclose(logits[:60].astype(float), expected, atol=0.04)
    card = json.loads((tmp_path / "cifar100-lenet5-corrupted.json").read_text())
    assert "multiples of 1/32" in card["rounding"]


def test_the_command_stops_in_time_and_goes_on(
    tmp_path: Path, tiny: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corrupted_logits.main(command(tmp_path, "--seconds 0")) == corrupted_logits.STOPPED
    assert "stopped in epoch 1 of 1" in capsys.readouterr().out
    assert [file.suffix for file in tmp_path.iterdir()] == [".pt"]
    assert corrupted_logits.main(command(tmp_path)) == 0
    assert {file.suffix for file in tmp_path.iterdir()} == {".npz", ".json"}


def test_too_many_rows_are_told_before_the_training(
    tmp_path: Path, tiny: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert corrupted_logits.main(command(tmp_path, "--rows-test 31")) == 2
    assert "there are 1 to 30 images to test on, got 31" in capsys.readouterr().err


def test_rows_are_drawn_by_class_and_by_the_seed() -> None:
    data = image_set(1_200)
    one, same, other = (corrupted_logits.Chosen.of(data, 50, 100, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.rows, same.rows)
    assert (one.rows != other.rows).any()
    for part, each in ((0, 5), (1, 10)):
        assert np.bincount(data.labels[one.rows[one.split == part]]).tolist() == [each] * 10


def test_the_card_tells_the_command() -> None:
    whole = command(Path("x"), "--no-tuning --seconds 5 --severities 1 5")
    said = corrupted_logits.command_of(corrupted_logits.parser().parse_args(whole))
    assert "--data IMAGES --network lenet5 --out FOLDER" in said
    assert said.endswith("--severities 1 5 --device cpu --no-tuning --epochs 1 --held-out 12500")
    given = said.split()[3:]
    assert corrupted_logits.command_of(corrupted_logits.parser().parse_args(given)) == said


def test_every_choice_has_a_recipe() -> None:
    for dataset in corrupted_logits.ROWS:
        for network in corrupted_logits.NETWORKS:
            assert (dataset, network) in RECIPES
