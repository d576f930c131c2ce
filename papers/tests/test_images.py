"""Loaders of the paper's image sets, on small generated files of the same formats."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant_papers import imagenet, images
from calibrant_papers.unpickle import read_arrays
from image_files import random_planes, write_cifar10

RNG = np.random.default_rng(0)


def as_images(planes: np.ndarray) -> np.ndarray:
    """Pixel by pixel, not by the loader's own transposition."""
    out = np.empty((len(planes), 32, 32, 3), np.uint8)
    for c in range(3):
        out[..., c] = planes[:, c * 1024 : (c + 1) * 1024].reshape(-1, 32, 32)
    return out


# --- mosaics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", [False, True])
def test_mosaics(tmp_path: Path, nested: bool) -> None:
    picture = pytest.importorskip("PIL.Image")
    folder = tmp_path / "cifar10" if nested else tmp_path
    folder.mkdir(exist_ok=True)
    n, tiles = 2_600, RNG.integers(0, 256, (5_000, 32, 32, 3), dtype=np.uint8)
    for k in range(2):
        canvas = np.zeros((1600, 1600, 3), np.uint8)
        for i, tile in enumerate(tiles[2_500 * k : 2_500 * (k + 1)]):
            y, x = 32 * (i // 50), 32 * (i % 50)
            canvas[y : y + 32, x : x + 32] = tile
        picture.fromarray(canvas).save(
            folder / f"cifar10_{k:02d}.webp", lossless=True, method=0, quality=0
        )
    y, split = np.arange(n) % 10, np.arange(n) % 3
    np.savez(folder / "cifar10_meta.npz", y=y.astype(np.uint8), split=split.astype(np.int8))

    data = images.load("cifar10", tmp_path)

    np.testing.assert_array_equal(data.images, tiles[:n])
    np.testing.assert_array_equal(data.labels, y)
    np.testing.assert_array_equal(data.split, split)

    wider = images.load("cifar10", tmp_path, split_seed=1, held_out=1_000)

    assert (wider.split == images.VALIDATION).sum() == 1_000
    np.testing.assert_array_equal(wider.rows(images.TEST), data.rows(images.TEST))
    assert np.isin(data.rows(images.VALIDATION), wider.rows(images.VALIDATION)).all()
    assert "the official test set" in wider.origin
    assert "own 867 rows and 133 of its train rows, drawn by class with seed 1" in wider.origin
    for held_out in (866, 867 + 867):
        with pytest.raises(ValueError, match="867 to 1733 rows can be held out"):
            images.load("cifar10", tmp_path, held_out=held_out)


# --- CIFAR files ------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [None, 2, 4])
def test_python_batches(tmp_path: Path, protocol: int | None) -> None:
    planes, labels = write_cifar10(tmp_path / "cifar-10-batches-py", protocol)

    data = images.load("cifar10", tmp_path, split_seed=3)

    np.testing.assert_array_equal(data.images, as_images(planes))
    np.testing.assert_array_equal(data.labels, labels)
    assert np.bincount(data.split).tolist() == [90, 10, 20]
    assert (data.split[100:] == images.TEST).all()
    assert sorted(data.labels[data.rows(images.VALIDATION)]) == list(range(10))


def test_cifar100_python_takes_fine_labels(tmp_path: Path) -> None:
    for name, n in (("train", 40), ("test", 20)):
        fine = (np.arange(n) * 5 % 100).tolist()
        content = {"data": random_planes(n), "fine_labels": fine, "coarse_labels": [0] * n}
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol=2))
    data = images.load("cifar100", tmp_path)
    assert data.labels[:4].tolist() == [0, 5, 10, 15]
    assert np.bincount(data.split).tolist() == [36, 4, 20]


@pytest.mark.parametrize(("dataset", "n_labels"), [("cifar10", 1), ("cifar100", 2)])
def test_binary_batches(tmp_path: Path, dataset: str, n_labels: int) -> None:
    train, test = images._CIFAR_FILES[dataset]
    planes, labels = random_planes(20 * (len(train) + 1)), []
    for k, name in enumerate((*train, test)):
        part = RNG.integers(0, 10, 20)
        labels += part.tolist()
        heads = np.stack([np.full(20, 7), part][-n_labels:], axis=1).astype(np.uint8)
        records = np.concatenate([heads, planes[20 * k : 20 * (k + 1)]], axis=1)
        (tmp_path / f"{name}.bin").write_bytes(records.tobytes())
    data = images.load(dataset, tmp_path)
    np.testing.assert_array_equal(data.images, as_images(planes))
    assert data.labels.tolist() == labels
    (tmp_path / f"{test}.bin").write_bytes(b"too short")
    with pytest.raises(calibrant.FileError, match="records of"):
        images.load(dataset, tmp_path)


# --- pickles that want more -------------------------------------------------------------------


class Touch:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


class Call:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    proof, file = tmp_path / "proof", tmp_path / "train"
    file.write_bytes(pickle.dumps({"data": Touch(proof)}, protocol=protocol))
    with pytest.raises(calibrant.FileError, match="only plain arrays are allowed"):
        read_arrays(file)
    assert not proof.exists()


@pytest.mark.parametrize("call", [Call(eval, "1"), Call(getattr, 1, "real"), Call(np.load, "x")])
def test_no_other_function_is_reachable(tmp_path: Path, call: Call) -> None:
    (tmp_path / "train").write_bytes(pickle.dumps([call]))
    with pytest.raises(calibrant.FileError, match="only plain arrays are allowed"):
        read_arrays(tmp_path / "train")


def test_damaged_and_foreign_pickles(tmp_path: Path) -> None:
    whole = pickle.dumps({"data": random_planes(2), "labels": [0, 1]}, protocol=2)
    for content in (b"", whole[: len(whole) // 2], b"hello", pickle.dumps([1])):
        (tmp_path / "train").write_bytes(content)
        with pytest.raises(calibrant.FileError, match="not a CIFAR batch"):
            read_arrays(tmp_path / "train")


# --- Fashion-MNIST ----------------------------------------------------------------------------


def write_idx(path: Path, values: np.ndarray) -> None:
    head = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    path.write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes()))


def test_idx_files_are_padded(tmp_path: Path) -> None:
    pixels = RNG.integers(1, 256, (50, 28, 28), dtype=np.uint8)
    for part, rows in (("train", slice(0, 40)), ("t10k", slice(40, 50))):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", pixels[rows])
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", np.arange(50)[rows] % 10)
    data = images.load("fashion-mnist", tmp_path)
    assert data.images.shape == (50, 32, 32, 1)
    np.testing.assert_array_equal(data.images[:, 2:30, 2:30, 0], pixels)
    assert data.images.astype(int).sum() == pixels.astype(int).sum()
    assert np.bincount(data.split).tolist() == [36, 4, 10]


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"no idx"), gzip.compress(b"")],
    ids=["no gzip", "no idx", "nothing"],
)
def test_bad_idx_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises(calibrant.FileError):
        images.read_idx(tmp_path / "x.gz")


# --- splits -----------------------------------------------------------------------------------


def test_split_by_class_is_stratified_and_seeded() -> None:
    labels = RNG.permutation(np.repeat(np.arange(100), 50))
    split = images.split_by_class(labels, 500, seed=1)
    chosen = split == images.VALIDATION
    assert np.bincount(labels[chosen], minlength=100).tolist() == [5] * 100
    np.testing.assert_array_equal(split, images.split_by_class(labels, 500, seed=1))
    assert (split != images.split_by_class(labels, 500, seed=2)).any()


def own_split(n_classes: int, per_class: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Labels and a split with so many train, validation and test rows in every class."""
    parts = np.repeat([images.TRAIN, images.VALIDATION, images.TEST], per_class)
    order = RNG.permutation(n_classes * len(parts))
    labels, split = np.repeat(np.arange(n_classes), len(parts)), np.tile(parts, n_classes)
    return labels[order], split[order].astype(np.uint8)


def small_images(n: int) -> np.ndarray:
    return np.arange(4 * n, dtype=np.uint32).view(np.uint8).reshape(n, 4, 4, 1)


def test_12500_rows_are_held_out_by_class() -> None:
    labels, split = own_split(100, (450, 50, 100))  # as CIFAR-100's
    pixels = small_images(60_000)
    wider = images.hold_out_more(pixels, labels, split, 7_500, seed=0)

    assert np.bincount(wider).tolist() == [37_500, 12_500, 10_000]
    for part, expected in ((images.TRAIN, 375), (images.VALIDATION, 125), (images.TEST, 100)):
        assert np.unique(np.bincount(labels[wider == part])).tolist() == [expected]
    moved = wider != split
    assert moved.sum() == 7_500
    assert (split[moved] == images.TRAIN).all()
    again, other = (images.hold_out_more(pixels, labels, split, 7_500, seed) for seed in (0, 1))
    np.testing.assert_array_equal(wider, again)
    assert (wider != other).sum() > 5_000


def test_twins_stay_in_the_train_rows() -> None:
    labels, split = own_split(4, (20, 2, 3))
    pixels = small_images(100)
    train = np.flatnonzero(split == images.TRAIN)
    pixels[train[10:20]] = pixels[train[:10]]
    twins = images.occurs_again(pixels)
    assert np.flatnonzero(twins).tolist() == sorted(train[:20])
    for seed in range(5):
        wider = images.hold_out_more(pixels, labels, split, 32, seed)
        assert (wider[twins] == images.TRAIN).all()
        assert np.bincount(labels[(wider != split)]).tolist() == [8] * 4


def test_as_many_rows_as_wanted_of_official_files(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "cifar-10-batches-py", 4)
    data = images.load("cifar10", tmp_path, held_out=30)
    assert np.bincount(data.split).tolist() == [70, 30, 20]
    assert np.bincount(data.labels[data.rows(images.VALIDATION)]).tolist() == [3] * 10
    for held_out in (0, 100):
        with pytest.raises(ValueError, match="1 to 99 rows"):
            images.load("cifar10", tmp_path, held_out=held_out)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="data_batch_1"):
        images.load("cifar10", tmp_path)
    with pytest.raises(ValueError, match="got 'svhn'"):
        images.load("svhn", tmp_path)


# --- ImageNet folders -------------------------------------------------------------------------


def test_class_folders(tmp_path: Path) -> None:
    for synset, n in (("n02", 2), ("n01", 3)):
        (tmp_path / synset).mkdir()
        for k in range(n):
            (tmp_path / synset / f"{k}.JPEG").touch()
    pictures = imagenet.find_pictures(tmp_path)
    assert pictures.labels.tolist() == [0, 0, 0, 1, 1]
    assert pictures.files[0] == tmp_path / "n01" / "0.JPEG"
    assert pictures.n_classes == 2


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["n03", "n01", "n02", "n01"], [2, 0, 1, 0]),
        (["c.JPEG 5", "a.JPEG 7", "b.JPEG 0", "d.JPEG 2"], [7, 0, 5, 2]),
        (["d n02", "a n01", "b n02", "c n01"], [0, 1, 0, 1]),
    ],
)
def test_flat_folder(tmp_path: Path, lines: list[str], expected: list[int]) -> None:
    (tmp_path / "val").mkdir()
    for name in "dbca":
        (tmp_path / "val" / f"{name}.JPEG").touch()
    truth = tmp_path / "truth.txt"
    truth.write_text("\n".join(lines) + "\n")
    assert imagenet.find_pictures(tmp_path / "val", truth).labels.tolist() == expected


def test_development_kit_ids_need_their_table(tmp_path: Path) -> None:
    from scipy.io import savemat

    (tmp_path / "val").mkdir()
    for name in "abc":
        (tmp_path / "val" / f"{name}.JPEG").touch()
    truth = tmp_path / "ILSVRC2012_validation_ground_truth.txt"
    truth.write_text("1\n3\n2\n")
    with pytest.raises(calibrant.FileError, match=r"meta\.mat"):
        imagenet.find_pictures(tmp_path / "val", truth)

    kinds = [("ILSVRC2012_ID", "f8"), ("WNID", "O"), ("num_children", "f8")]
    table = [(1, "n09", 0), (2, "n03", 0), (3, "n05", 0), (4, "n00", 3)]
    savemat(tmp_path / "meta.mat", {"synsets": np.array(table, dtype=kinds)})
    pictures = imagenet.find_pictures(tmp_path / "val", truth)
    assert pictures.labels.tolist() == [2, 1, 0]
    assert pictures.n_classes == 3


def test_imagenet_split() -> None:
    pictures = imagenet.Pictures([Path(str(k)) for k in range(50_000)], np.zeros(50_000, int), 1000)
    val = pictures.validation_rows(seed=0)
    assert val.sum() == 12_500
    assert (val != pictures.validation_rows(seed=1)).any()
