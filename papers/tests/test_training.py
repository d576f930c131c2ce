"""Training of the paper's networks and the logits that come out, at a tiny size on the CPU."""

from __future__ import annotations

import itertools
import json
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import calibrant
from calibrant import datasets
from calibrant_papers import imagenet, imagenet_logits, make_logits, networks, resident, training
from calibrant_papers.images import TEST, TRAIN, VALIDATION, ImageSet
from calibrant_papers.logits import HeldOut, mean_nll, scores, write_logits
from calibrant_papers.networks.layers import convolution
from calibrant_papers.recipes import RECIPES, STAND_INS, Recipe
from tools_support import load_tool

RECIPE = Recipe(epochs=3, batch=16, rate=0.05, weight_decay=5e-4, crop=2, flip=True)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def striped_images(n: int = 96, name: str = "cifar10", channels: int = 3) -> ImageSet:
    """A class is the place of a bright stripe, so that a network can learn it at once."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 10
    images = rng.integers(0, 50, (n, 32, 32, channels), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 3 * label + 1 : 3 * label + 4] += 200
    split = np.where(np.arange(n) < n // 2, TRAIN, np.where(np.arange(n) % 2, VALIDATION, TEST))
    return ImageSet(name, images, labels, split.astype(np.uint8), "generated")


def train(data: ImageSet, recipe: Recipe = RECIPE, **options: Any) -> training.Trained:
    return training.train(data, "lenet5", recipe, **{"seed": 0, **options})


# --- networks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("network", "channels"), [("lenet5", 1), ("lenet5", 3), ("vgg19", 1)])
def test_networks_give_logits(network: str, channels: int) -> None:
    module = networks.build(network, 100, channels, seed=0)
    assert module(torch.zeros(2, channels, 32, 32)).shape == (2, 100)


def test_parameters_of_lenet5() -> None:
    count = sum(p.numel() for p in networks.build("lenet5", 10, 1, seed=0).parameters())
    assert count == 61_706  # the count of the classic description


# Published counts of the ImageNet forms (1000 classes), less 900 of the classes and less what a
# stem of 7x7 in place of 3x3 takes. For Xception without the statistics of its batch norms.
@pytest.mark.parametrize(
    ("network", "published", "width", "wide_stem"),
    [
        ("resnet50", 25_557_032, 2048, True),
        ("resnet152", 60_192_808, 2048, True),
        ("densenet169", 14_149_480, 1664, True),
        ("xception", 22_855_952, 2048, False),
        ("mobilenetv2", 3_504_872, 1280, False),
    ],
)
def test_stand_ins_have_the_published_size(
    network: str, published: int, width: int, wide_stem: bool
) -> None:
    module = networks.build(network, 100, 3, seed=0)
    stem = 3 * 64 * (7 * 7 - 3 * 3) if wide_stem else 0
    expected = published - 900 * (width + 1) - stem
    assert sum(p.numel() for p in module.parameters()) == expected
    assert "CIFAR form" in module.summary


@pytest.mark.parametrize("network", STAND_INS)
def test_stand_ins_end_on_a_map_of_4_by_4(network: str) -> None:
    module = networks.build(network, 7, 3, seed=0).eval()
    features: list[torch.Size] = []
    module.layers[-1].register_forward_hook(
        lambda head, inputs, output: features.append(inputs[0].shape)
    )
    with torch.no_grad():
        logits = module(torch.zeros(2, 3, 32, 32))
    assert logits.shape == (2, 7)
    assert features[0][2:] == (4, 4)


@pytest.mark.parametrize("network", STAND_INS)
def test_stand_ins_train_one_step(network: str) -> None:
    recipe = replace(RECIPES["cifar100", network], epochs=1, batch=4, rate=0.01)
    data = striped_images(8, "cifar100")
    before = networks.build(network, 100, 3, seed=0)
    moved = training._Run.start(data, network, recipe, 0, torch.device("cpu"), compiled=False)
    assert np.isfinite(moved.train_epoch())
    still = [
        name
        for (name, old), new in zip(
            before.named_parameters(), moved.network.parameters(), strict=True
        )
        if torch.equal(old, new)
    ]
    # A residual block starts as the identity: only its last scale learns at first.
    assert not still or network.startswith("resnet")
    assert not any(name.startswith(f"layers.{len(before.layers) - 1}.") for name in still)


def test_a_depthwise_layer_starts_as_its_few_inputs_ask() -> None:
    weight = convolution(2000, 2000, 3, groups=2000).weight
    assert weight.std().item() == pytest.approx(np.sqrt(2 / 9), rel=0.05)


def test_weights_come_from_the_seed_alone() -> None:
    before = torch.get_rng_state()
    one, same = (networks.build("lenet5", 10, 3, seed=1) for _ in range(2))
    other = networks.build("lenet5", 10, 3, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))
    assert torch.equal(before, torch.get_rng_state())


# --- augmentation -----------------------------------------------------------------------------


def test_every_crop_is_a_window_of_its_image() -> None:
    images = torch.randint(1, 256, (40, 32, 32, 3), dtype=torch.uint8)
    crops, order = resident.shuffled_crops(images, RECIPE, torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) == list(range(40))
    padded = nn.functional.pad(images, (0, 0, 2, 2, 2, 2))
    seen = set()
    for crop, row in zip(crops, order, strict=True):
        windows = {
            (y, x, flipped): padded[row, y : y + 32, x : x + 32].flip(1 if flipped else [])
            for y in range(5)
            for x in range(5)
            for flipped in (False, True)
        }
        found = [place for place, window in windows.items() if torch.equal(window, crop)]
        assert len(found) == 1
        seen.add(found[0])
    assert {flipped for _, _, flipped in seen} == {False, True}
    assert len(seen) > 20


def test_no_augmentation_only_shuffles() -> None:
    images = torch.randint(0, 256, (10, 32, 32, 1), dtype=torch.uint8)
    recipe = replace(RECIPE, crop=0, flip=False)
    crops, order = resident.shuffled_crops(images, recipe, torch.Generator().manual_seed(0))
    assert torch.equal(crops, images[order])


def test_pixel_scale() -> None:
    images = striped_images().images
    mean, std = resident.pixel_scale(images, torch.device("cpu"))
    np.testing.assert_allclose(mean.numpy(), images.mean(axis=(0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(std.numpy(), images.std(axis=(0, 1, 2)), rtol=1e-5)


# --- training ---------------------------------------------------------------------------------


def test_the_loss_falls_and_the_card_tells() -> None:
    losses: list[float] = []
    recipe = replace(RECIPE, epochs=6, batch=5, rate=0.01, crop=0, flip=False)
    trained = train(striped_images(200), recipe, report=lambda epoch: losses.append(epoch.loss))
    assert losses[-1] < 0.5 * losses[0]
    assert trained.held_out.val_logits.dtype == np.float32
    assert trained.held_out.test_logits.shape == (50, 10)
    assert trained.card["test_accuracy"] > 0.5  # chance: 0.1
    assert trained.card["parameters"] == 62_006
    assert {"network", "recipe", "seed", "seconds", "val_ece", "ece_bins"} <= trained.card.keys()


def test_vgg19_trains_on_grey_images() -> None:
    data = striped_images(24, "fashion-mnist", channels=1)
    recipe = replace(RECIPE, epochs=1, batch=6)
    trained = training.train(data, "vgg19", recipe, seed=0)
    assert np.isfinite(trained.held_out.test_logits).all()


def test_held_out_rows_do_not_matter_to_the_weights() -> None:
    data = striped_images()
    images = data.images.copy()
    images[data.rows(VALIDATION)] = 255 - images[data.rows(VALIDATION)]
    one, other = train(data), train(replace(data, images=images))
    np.testing.assert_array_equal(one.held_out.test_logits, other.held_out.test_logits)
    assert (one.held_out.val_logits != other.held_out.val_logits).any()


def test_the_seed_decides() -> None:
    one, same, other = (train(striped_images(), seed=seed).held_out for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.test_logits, same.test_logits)
    assert (one.test_logits != other.test_logits).any()


def test_an_interrupted_training_goes_on(tmp_path: Path) -> None:
    data, file = striped_images(), tmp_path / "run.pt"
    whole = train(data)

    def stop(epoch: training.Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(data, checkpoint=file, save_every=0, report=stop)
    epochs: list[int] = []
    resumed = train(data, checkpoint=file, report=lambda epoch: epochs.append(epoch.number))

    assert epochs == [2, 3]
    np.testing.assert_array_equal(resumed.held_out.val_logits, whole.held_out.val_logits)
    np.testing.assert_array_equal(resumed.held_out.test_logits, whole.held_out.test_logits)


@pytest.mark.parametrize("network", ["lenet5", "mobilenetv2"])
def test_time_that_is_up_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: str
) -> None:
    # Every look at the clock takes a second, and a sitting four: it ends in the middle of an epoch.
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks))
    data, recipe, file = striped_images(40), replace(RECIPE, epochs=2, batch=4), tmp_path / "run.pt"
    losses: dict[str, list[float]] = {"whole": [], "parts": []}

    def take(name: str, **options: Any) -> training.Trained:
        return training.train(
            data,
            network,
            recipe,
            seed=0,
            report=lambda epoch: losses[name].append(epoch.loss),
            **options,
        )

    whole = take("whole")
    monkeypatch.setattr(training, "time", clock)
    stops, parts = 0, None
    while parts is None:
        try:
            parts = take("parts", checkpoint=file, until=next(ticks) + 4)
        except training.OutOfTime:
            stops += 1

    assert stops > 2
    assert losses["parts"] == losses["whole"]
    np.testing.assert_array_equal(parts.held_out.val_logits, whole.held_out.val_logits)
    np.testing.assert_array_equal(parts.held_out.test_logits, whole.held_out.test_logits)


def test_the_last_epoch_is_reported_however_rare_reports_are() -> None:
    epochs: list[int] = []
    train(striped_images(), report_every=1e9, report=lambda epoch: epochs.append(epoch.number))
    assert epochs == [3]


def test_a_checkpoint_of_another_split_is_refused(tmp_path: Path) -> None:
    data, file = striped_images(), tmp_path / "run.pt"
    train(data, checkpoint=file)
    with pytest.raises(calibrant.FileError, match="other split"):
        train(replace(data, origin="another seed"), checkpoint=file)


def test_foreign_and_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    data, file = striped_images(), tmp_path / "run.pt"
    train(data, replace(RECIPE, epochs=1), checkpoint=file)
    with pytest.raises(calibrant.FileError, match="other epochs, seed"):
        train(data, checkpoint=file, seed=5)
    file.write_bytes(b"nothing")
    with pytest.raises(calibrant.FileError, match="not a checkpoint"):
        train(data, checkpoint=file)


def test_a_diverging_training_stops() -> None:
    with pytest.raises(ArithmeticError, match="lower the rate"):
        train(striped_images(), replace(RECIPE, rate=1e20))


def test_the_rate_climbs_and_falls() -> None:
    recipe = replace(RECIPE, warm_up=0.2)
    rates = [training.rate_at(step, 100, recipe) for step in range(100)]
    assert np.argmax(rates) in (19, 20)
    assert max(rates) == pytest.approx(recipe.rate)
    assert np.all(np.diff(rates[20:]) < 0)
    assert 0 < rates[-1] < 1e-3 * recipe.rate + 1e-4


# --- files ------------------------------------------------------------------------------------


def test_write_logits_as_datasets_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(0, 3, (30, 300)).astype(np.float32), rng.integers(0, 300, 30)
    held_out = HeldOut(logits[:10], labels[:10], logits[10:], labels[10:])
    card = write_logits(tmp_path / "embedded" / "a-b.npz", held_out, {"network": "none"})
    monkeypatch.setattr("calibrant.data.datasets.files", lambda package: tmp_path)

    data = datasets.load("a-b")

    assert data.val_logits.dtype == np.float16
    assert data.test_labels.dtype == np.uint16
    np.testing.assert_array_equal(data.test_labels, labels[10:])
    np.testing.assert_array_equal(data.val_logits, logits[:10].astype(np.float16))
    assert data.card == card
    assert data.card["name"] == "a-b"


def test_logits_beyond_float16_are_refused(tmp_path: Path) -> None:
    big = np.full((2, 3), 1e6, np.float32)
    labels = np.zeros(2, np.int64)
    with pytest.raises(OverflowError, match="float16"):
        write_logits(tmp_path / "x.npz", HeldOut(big, labels, big, labels), {})


def test_the_card_agrees_with_the_metrics(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (500, 5))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    card = write_logits(tmp_path / "x.npz", HeldOut(logits, labels, logits, labels), {})
    probs = calibrant.Uncalibrated().fit(logits, labels).predict_proba(logits.astype(np.float16))
    assert card["test_ece"] == pytest.approx(
        calibrant.metrics.ece(probs, labels, n_bins=15), abs=1e-3
    )
    assert card["val_nll"] == pytest.approx(calibrant.metrics.nll(probs, labels))


def test_command_trains_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("calibrant_papers.images.load", lambda *arguments: striped_images())
    words = f"--dataset cifar10 --data {tmp_path} --network lenet5 --out {tmp_path}".split()
    assert make_logits.main([*words, "--epochs", "2", "--batch", "8", "--device", "cpu"]) == 0
    assert "epoch 2/2" in (said := capsys.readouterr().out)
    assert "cifar10-lenet5" in said.splitlines()[-1]
    card = json.loads((tmp_path / "cifar10-lenet5.json").read_text())
    assert card["epochs"] == 2
    assert "batch 8" in card["recipe"]
    assert {file.suffix for file in tmp_path.iterdir()} == {".npz", ".json"}
    assert "--data IMAGES --network lenet5 --out FOLDER" in card["command"]
    assert str(tmp_path) not in card["command"]
    assert "note" not in card


def test_command_stops_in_time_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def load(*arguments: Any) -> ImageSet:
        asked.append(arguments[-1])
        return striped_images(20, "cifar100")

    monkeypatch.setattr("calibrant_papers.images.load", load)
    words = f"--dataset cifar100 --data {tmp_path} --network mobilenetv2 --out {tmp_path}".split()
    words += ["--epochs", "1", "--batch", "5", "--rate", "0.01", "--device", "cpu"]
    assert make_logits.main([*words, "--seconds", "0"]) == make_logits.STOPPED
    assert "stopped in epoch 1 of 1" in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["cifar100-mobilenetv2.checkpoint.pt"]
    assert make_logits.main(words) == 0
    assert asked == [12_500, 12_500]
    card = json.loads((tmp_path / "cifar100-mobilenetv2.json").read_text())
    assert card["note"].startswith("Architecture stand-in on CIFAR-100")
    assert {"test_nll", "val_nll"} <= card.keys()


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ("--flip 0", "--flip 0"),
        ("--flip 1 --rate 0.5", "--rate 0.5 --flip 1"),
        ("--held-out 9 --seconds 5 --no-tuning", "--no-tuning --held-out 9"),
    ],
)
def test_the_card_tells_the_command(words: str, end: str) -> None:
    whole = f"--dataset cifar10 --data a --network lenet5 --out b {words}".split()
    said = make_logits.command_of(make_logits.parser().parse_args(whole))
    assert said.endswith(f"--split-seed 0 {end}")
    given = said.split()[3:]
    assert make_logits.command_of(make_logits.parser().parse_args(given)) == said


def test_command_tells_errors_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"--dataset cifar10 --data {tmp_path} --network resnet50 --out {tmp_path}".split()
    assert make_logits.main(words) == 2
    assert "got cifar10 with resnet50" in capsys.readouterr().err


def test_every_recipe_builds() -> None:
    for dataset, network in RECIPES:
        assert make_logits.recipe_for(dataset, network, {}).describe()


# --- all of them ------------------------------------------------------------------------------


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool that trains all networks."""
    return load_tool("train_all_logits", monkeypatch)


def test_slow_networks_come_first(trainer: Any) -> None:
    options = trainer.parse_arguments(["--data", "d", "--out", "o", "--seeds", "3", "4"])
    jobs = trainer.jobs_of(options)
    assert len(jobs) == 2 * len(RECIPES)
    assert [job.network for job in jobs[:2]] == ["densenet169", "resnet152"]
    assert {job.seed for job in jobs[: len(RECIPES)]} == {3}


def test_all_networks_stop_in_time_and_go_on(
    trainer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cifar100").mkdir()
    rng = np.random.default_rng(0)
    for name, n in (("train", 60), ("test", 20)):
        pixels = rng.integers(0, 256, (n, 3072), dtype=np.uint8)
        content = {"data": pixels, "fine_labels": (np.arange(n) % 100).tolist()}
        (tmp_path / "cifar100" / name).write_bytes(pickle.dumps(content, protocol=2))
    words = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--device", "cpu"]
    words += ["--only", "cifar100-lenet5", "--held-out", "20", "--epochs", "2"]
    words += ["--pack", str(tmp_path / "packed")]
    assert trainer.main([*words, "--seconds", "1"]) == 1
    assert "lenet5 seed 0 not started" in capsys.readouterr().out
    trainer.SHORTEST = -1.0
    assert trainer.main([*words, "--seconds", "0"]) == 1
    assert "lenet5 seed 0 stopped:\nstopped in epoch 1 of 2" in capsys.readouterr().out
    assert trainer.main(words) == 0
    assert "1 of 1 networks finished" in capsys.readouterr().out
    with tarfile.open(tmp_path / "packed" / "cifar100-lenet5-seed0.tar") as archive:
        names = archive.getnames()
    assert names == [f"seed0/cifar100-lenet5.{ending}" for ending in ("npz", "json", "log")]
    card = json.loads((tmp_path / "out" / "seed0" / "cifar100-lenet5.json").read_text())
    assert "40 images to train, 20 to validate" in card["dataset"]


# --- the trained stand-ins --------------------------------------------------------------------

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.skipif(not DATA.exists(), reason="the stand-ins are in a clone only")
@pytest.mark.parametrize("network", STAND_INS)
def test_cards_of_the_stand_ins_tell_the_truth(network: str) -> None:
    recipe = RECIPES["cifar100", network]
    files = sorted(DATA.glob(f"**/cifar100-{network}.npz"))
    assert DATA / f"cifar100-{network}.npz" in files
    for file in files:
        card = json.loads(file.with_suffix(".json").read_text())
        with np.load(file) as arrays:
            held_out = HeldOut(**arrays)
        found = scores(held_out)
        assert held_out.val_logits.shape == (12_500, 100)
        assert held_out.test_logits.shape == (10_000, 100)
        assert np.unique(np.bincount(held_out.val_labels)).tolist() == [125]
        assert found == pytest.approx({name: card[name] for name in found})
        assert (card["recipe"], card["epochs"]) == (recipe.describe(), recipe.epochs)
        assert card["network"] == networks.build(network, 100, 3, seed=0).summary
        assert "not the official split" in card["dataset"]


# --- ImageNet ---------------------------------------------------------------------------------


class Stub(nn.Module):
    """Three logits from the mean colour; stops after a number of batches."""

    def __init__(self, batches: int = 1000) -> None:
        super().__init__()
        self.layer, self.batches = nn.Linear(3, 3), batches
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.batches == 0:
            raise KeyboardInterrupt
        self.batches -= 1
        return self.layer(inputs.mean(dim=(2, 3)))


def to_tensor(picture: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(picture), dtype=torch.float32).permute(2, 0, 1) / 255


def stub(batches: int = 1000) -> imagenet_logits.Classifier:
    torch.manual_seed(0)
    return imagenet_logits.Classifier(Stub(batches), to_tensor, "stub")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for c, synset in enumerate(("n01", "n02", "n03")):
        (folder := tmp_path / "val" / synset).mkdir(parents=True)
        for k in range(4):
            pixels = rng.integers(0, 100, (8, 8, 3), dtype=np.uint8)
            pixels[..., c] += 150
            image.fromarray(pixels).save(folder / f"{synset}_{k}.png")
    return tmp_path / "val"


def test_imagenet_logits(pictures: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    card = make_logits.imagenet_to_file(
        pictures, "stub", tmp_path, batch=5, device="cpu", make=stub, tell=lines.append
    )
    with np.load(tmp_path / "imagenet-stub.npz") as arrays:
        assert arrays["val_logits"].shape == (3, 3)
        assert arrays["test_logits"].shape == (9, 3)
    assert card["test_accuracy"] == card["val_accuracy"] == 1.0
    assert lines[-1].startswith("12/12 pictures")


def test_imagenet_logits_go_on(pictures: Path, tmp_path: Path) -> None:
    found, work = imagenet.find_pictures(pictures), tmp_path / "rows.npy"
    whole, _ = imagenet_logits.imagenet_logits(
        found, tmp_path / "w.npy", stub, split_seed=0, batch=5
    )
    with pytest.raises(KeyboardInterrupt):
        imagenet_logits.imagenet_logits(found, work, lambda: stub(1), split_seed=0, batch=5)
    done: list[int] = []
    resumed, _ = imagenet_logits.imagenet_logits(
        found, work, stub, split_seed=0, batch=5, report=lambda n, total: done.append(n)
    )
    assert done == [10, 12]
    np.testing.assert_array_equal(resumed.test_logits, whole.test_logits)
    again, _ = imagenet_logits.imagenet_logits(found, work, stub, split_seed=0, batch=5)
    np.testing.assert_array_equal(again.val_logits, whole.val_logits)
    other = imagenet_logits.Classifier(Stub(), to_tensor, "another")
    with pytest.raises(calibrant.FileError, match="another network"):
        imagenet_logits.imagenet_logits(found, work, lambda: other, split_seed=0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda work, card: flip(work, -1),
        lambda work, card: flip(work, 150),
        lambda work, card: work.write_bytes(work.read_bytes()[:-2]),
        lambda work, card: flip(card, 30),
        lambda work, card: card.write_text("{}"),
    ],
    ids=["last bit of the rows", "a bit", "cut", "a bit of the card", "an empty card"],
)
def test_damaged_imagenet_logits_are_computed_again(
    pictures: Path, tmp_path: Path, damage: Any
) -> None:
    found, work = imagenet.find_pictures(pictures), tmp_path / "rows.npy"
    whole, _ = imagenet_logits.imagenet_logits(found, work, stub, split_seed=0, batch=5)
    damage(work, work.with_suffix(".job.json"))
    done: list[int] = []
    with pytest.warns(calibrant.CalibrationWarning, match="cannot be read as written"):
        again, _ = imagenet_logits.imagenet_logits(
            found, work, stub, split_seed=0, batch=5, report=lambda n, total: done.append(n)
        )
    assert done == [5, 10, 12]
    np.testing.assert_array_equal(again.test_logits, whole.test_logits)


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def test_logits_that_cannot_be_written_are_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "cifar10-lenet5.json").mkdir()
    with pytest.raises(IsADirectoryError, match=r"cifar10-lenet5\.json"):
        make_logits.train_to_file("cifar10", tmp_path / "no images", "lenet5", tmp_path)


def test_classes_must_match(pictures: Path, tmp_path: Path) -> None:
    found = replace(imagenet.find_pictures(pictures), n_classes=4)
    with pytest.raises(ValueError, match="4 classes and the network 3"):
        imagenet_logits.imagenet_logits(found, tmp_path / "w.npy", stub, split_seed=0)


def test_published_networks_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = SimpleNamespace(transforms=lambda: "prepare")
    library = SimpleNamespace(
        get_model_weights=lambda name: {"IMAGENET1K_V1": weights},
        get_model=lambda name, weights: (name, weights),
    )
    monkeypatch.setattr(imagenet_logits, "need", lambda module: library)
    assert imagenet_logits.pretrained("mobilenetv2").module == ("mobilenet_v2", weights)
    with pytest.raises(ValueError, match="got 'alexnet'"):
        imagenet_logits.pretrained("alexnet")


# --- smaller files ----------------------------------------------------------------------------


def test_thin_logits_keep_the_top_and_move_no_probability_far(tmp_path, monkeypatch):
    tool = load_tool("thin_logits", monkeypatch)
    rng = np.random.default_rng(0)
    whole = (4.0 * rng.standard_normal((300, 100))).astype(np.float16)
    labels = rng.integers(100, size=300)
    write_logits(tmp_path / "a.npz", HeldOut(whole, labels, whole, labels), {"epochs": 3})
    before, after = tool.thin_file(tmp_path / "a.npz", tmp_path / "out" / "a.npz")
    near = whole > whole.max(axis=1, keepdims=True) - 2.0
    np.testing.assert_array_equal(after.val_logits[near], whole[near])
    probs = [np.exp(part.val_logits.astype(float)) for part in (before, after)]
    one, two = (part / part.sum(axis=1, keepdims=True) for part in probs)
    assert 0.0 < np.abs(one - two).max() < 0.003
    card = json.loads((tmp_path / "out" / "a.json").read_text())
    assert (card["name"], card["epochs"]) == ("a", 3)
    assert "multiples of 1/32" in card["rounding"]
    assert card["test_nll"] == mean_nll(after.test_logits, labels)


def test_thin_logits_leave_few_classes_alone(tmp_path, monkeypatch):
    tool = load_tool("thin_logits", monkeypatch)
    few, labels = np.eye(10, dtype=np.float16), np.arange(10)
    write_logits(tmp_path / "a.npz", HeldOut(few, labels, few, labels), {})
    tool.thin_file(tmp_path / "a.npz", tmp_path / "out" / "a.npz")
    assert (tmp_path / "out" / "a.npz").read_bytes() == (tmp_path / "a.npz").read_bytes()
