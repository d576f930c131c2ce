"""Image sets as one array: CIFAR-10, CIFAR-100 and Fashion-MNIST from the files people have."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import FileError
from calibrant_papers._extras import need
from calibrant_papers.unpickle import read_arrays

TRAIN, VALIDATION, TEST = 0, 1, 2
SIDE = 32  # every image is SIDE x SIDE pixels
MOSAIC_TILES = 50  # a mosaic is 50 x 50 images
N_VALIDATION = 5_000
N_CLASSES = {"cifar100": 100, "cifar10": 10, "fashion-mnist": 10}

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class ImageSet:
    """Images (n, 32, 32, channels), labels (n,) and every row's part: 0 train, 1 val, 2 test."""

    name: str
    images: Bytes
    labels: NDArray[np.int64]
    split: Bytes
    origin: str  # where images and split come from, for the card

    def __post_init__(self) -> None:
        n = len(self.images)
        if self.images.shape[1:3] != (SIDE, SIDE) or self.labels.shape != (n,):
            raise ValueError(
                f"images must be (n, {SIDE}, {SIDE}, channels) with n labels, got "
                f"{self.images.shape} and {self.labels.shape}"
            )
        if self.split.shape != (n,) or set(np.unique(self.split)) != {TRAIN, VALIDATION, TEST}:
            raise ValueError("split must mark every row as 0, 1 or 2, and use all three")
        if not 0 <= self.labels.min() <= self.labels.max() < self.n_classes:
            raise ValueError(
                f"labels of {self.name} must be 0..{self.n_classes - 1}, got "
                f"{self.labels.min()}..{self.labels.max()}"
            )

    @property
    def n_classes(self) -> int:
        """How many classes the data set has."""
        return N_CLASSES[self.name]

    def rows(self, part: int) -> NDArray[np.int64]:
        """The row numbers of a part of the split."""
        return np.flatnonzero(self.split == part)


def load(dataset: str, folder: Path, split_seed: int = 0, held_out: int | None = None) -> ImageSet:
    """The images of a folder, in whichever of the known forms they lie there.

    ``held_out`` is the number of validation rows; left out, it is what the files say, and 5,000
    where they say nothing. ``split_seed`` draws them, or those that are missing, from the train
    rows. The test rows are always the same.
    """
    if dataset not in N_CLASSES:
        raise ValueError(f"data set must be one of {', '.join(N_CLASSES)}, got {dataset!r}")
    for tell, read, inner in _FORMS[dataset]:
        for place in (folder, folder / inner):
            if (place / tell).is_file():
                return read(dataset, place, split_seed, held_out)
    tells = ", ".join(tell for tell, _, _ in _FORMS[dataset])
    raise FileNotFoundError(f"{folder} holds no {dataset}: looked for {tells}")


# --- the project's mosaics --------------------------------------------------------------------


# How the mosaics' own split came to be, for the card.
_MOSAIC_SPLITS = {
    "cifar10": "the official test set, the rest split by class at random",
    "cifar100": "all 60,000 images split by class at random, not the official split",
}


def _read_mosaics(dataset: str, folder: Path, seed: int, held_out: int | None) -> ImageSet:
    with np.load(folder / f"{dataset}_meta.npz", allow_pickle=False) as meta:
        labels, split = meta["y"].astype(np.int64), meta["split"].astype(np.uint8)
    images: Bytes = np.empty((len(labels), SIDE, SIDE, 3), np.uint8)
    a_mosaic = MOSAIC_TILES**2
    for start in range(0, len(labels), a_mosaic):
        rows = images[start : start + a_mosaic]
        rows[:] = _read_mosaic(folder / f"{dataset}_{start // a_mosaic:02d}.webp")[: len(rows)]
    origin = "mosaics with their own split"
    if held_out is None:
        return ImageSet(dataset, images, labels, split, origin)
    n_own = int((split == VALIDATION).sum())
    split = hold_out_more(images, labels, split, held_out - n_own, seed)
    origin += (
        f": {_MOSAIC_SPLITS[dataset]}; validation: its own {n_own} rows and {held_out - n_own} of "
        f"its train rows, drawn by class with seed {seed}"
    )
    return ImageSet(dataset, images, labels, split, origin)


def _read_mosaic(path: Path) -> Bytes:
    """The tiles of one picture, row by row."""
    image = need("PIL.Image")
    with image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    if pixels.shape != (MOSAIC_TILES * SIDE, MOSAIC_TILES * SIDE, 3):
        raise FileError(f"{path} must be {MOSAIC_TILES} x {MOSAIC_TILES} tiles of {SIDE} pixels")
    tiles = pixels.reshape(MOSAIC_TILES, SIDE, MOSAIC_TILES, SIDE, 3)
    return tiles.transpose(0, 2, 1, 3, 4).reshape(-1, SIDE, SIDE, 3)


# --- the standard CIFAR files -----------------------------------------------------------------

_CIFAR_FILES = {
    "cifar10": ([f"data_batch_{k}" for k in range(1, 6)], "test_batch"),
    "cifar100": (["train"], "test"),
}


def _read_python_batches(dataset: str, folder: Path, seed: int, held_out: int | None) -> ImageSet:
    train, test = _CIFAR_FILES[dataset]
    parts = [_python_batch(folder / name) for name in (*train, test)]
    return _official(dataset, parts, seed, held_out, "python batches")


def _python_batch(path: Path) -> tuple[Bytes, NDArray[np.int64]]:
    content = read_arrays(path)
    pixels: Any = content.get("data")
    labels: Any = content.get("fine_labels", content.get("labels"))
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or labels is None:
        raise FileError(f"{path} is not a CIFAR batch: it needs 'data' as bytes and labels")
    return _from_planes(pixels, path), np.asarray(labels, dtype=np.int64)


def _read_binary_batches(dataset: str, folder: Path, seed: int, held_out: int | None) -> ImageSet:
    train, test = _CIFAR_FILES[dataset]
    # A CIFAR-100 record begins with the coarse label, then the fine one.
    n_labels = 2 if dataset == "cifar100" else 1
    parts = [_binary_batch(folder / f"{name}.bin", n_labels) for name in (*train, test)]
    return _official(dataset, parts, seed, held_out, "binary batches")


def _binary_batch(path: Path, n_labels: int) -> tuple[Bytes, NDArray[np.int64]]:
    raw = np.fromfile(path, dtype=np.uint8)
    record = n_labels + 3 * SIDE * SIDE
    if len(raw) == 0 or len(raw) % record:
        raise FileError(f"{path} must be records of {record} bytes, got {len(raw)} bytes")
    records = raw.reshape(-1, record)
    return _from_planes(records[:, n_labels:], path), records[:, n_labels - 1].astype(np.int64)


def _from_planes(pixels: Bytes, path: Path) -> Bytes:
    """A row holds the red plane, then the green, then the blue."""
    if pixels.ndim != 2 or pixels.shape[1] != 3 * SIDE * SIDE:
        raise FileError(f"{path} must hold rows of {3 * SIDE * SIDE} bytes, got {pixels.shape}")
    return pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)


# --- Fashion-MNIST ----------------------------------------------------------------------------

IDX_UINT8 = 0x08


def _read_idx_files(dataset: str, folder: Path, seed: int, held_out: int | None) -> ImageSet:
    parts = [
        (
            _pad_to_side(read_idx(folder / f"{part}-images-idx3-ubyte.gz")),
            read_idx(folder / f"{part}-labels-idx1-ubyte.gz").astype(np.int64),
        )
        for part in ("train", "t10k")
    ]
    return _official(dataset, parts, seed, held_out, "idx files, padded to 32 x 32")


def read_idx(path: Path) -> Bytes:
    """A gzipped idx file of unsigned bytes."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError) as error:
        raise FileError(f"{path} is not a whole gzip file: {error}") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != IDX_UINT8:
        raise FileError(f"{path} is not an idx file of unsigned bytes")
    n_dims = raw[3]
    shape = np.frombuffer(raw, dtype=">u4", count=n_dims, offset=4).tolist()
    values = np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * n_dims)
    if values.size != np.prod(shape):
        raise FileError(f"{path} must hold {shape} bytes, got {values.size}")
    return values.reshape(shape)


def _pad_to_side(images: Bytes) -> Bytes:
    """Black borders around 28 x 28 pixels, as LeNet-5 was first described."""
    border = (SIDE - images.shape[1]) // 2
    return np.pad(images, ((0, 0), (border, border), (border, border)))[..., None]


# --- splits -----------------------------------------------------------------------------------


def _official(
    dataset: str,
    parts: list[tuple[Bytes, NDArray[np.int64]]],
    seed: int,
    held_out: int | None,
    form: str,
) -> ImageSet:
    """Join the parts, the last of which is the official test set, and set validation rows apart."""
    images = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([labels for _, labels in parts])
    n_train = len(labels) - len(parts[-1][1])
    split = np.full(len(labels), TEST, dtype=np.uint8)
    # A tenth of a small set: the tests' generated files have a handful of images.
    n_validation = min(N_VALIDATION, max(n_train // 10, 1)) if held_out is None else held_out
    if not 0 < n_validation < n_train:
        raise ValueError(f"1 to {n_train - 1} rows can be held out of these files, got {held_out}")
    split[:n_train] = split_by_class(labels[:n_train], n_validation, seed)
    origin = f"{form}, official test set; validation drawn by class with seed {seed}"
    return ImageSet(dataset, images, labels, split, origin)


def split_by_class(labels: NDArray[np.int64], n_validation: int, seed: int) -> Bytes:
    """Mark ``n_validation`` rows as validation, every class in its share, and the rest as train."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    # Equal steps through the rows sorted by class take from every class its share.
    chosen = order[(np.arange(n_validation) * len(labels)) // n_validation]
    split = np.full(len(labels), TRAIN, dtype=np.uint8)
    split[chosen] = VALIDATION
    return split


def hold_out_more(
    images: Bytes, labels: NDArray[np.int64], split: Bytes, more: int, seed: int
) -> Bytes:
    """A split with ``more`` of the train rows marked as validation, every class in its share.

    An image that occurs twice stays where it is: its twin may be a train row.
    """
    n_train = int((split == TRAIN).sum())
    if not 0 <= more < n_train:
        own = int((split == VALIDATION).sum())
        raise ValueError(
            f"{own} to {own + n_train - 1} rows can be held out of these files, got {own + more}"
        )
    # Rows of one class in random order, those that may be drawn first.
    order = np.random.default_rng(seed).permutation(np.flatnonzero(split == TRAIN))
    order = order[np.lexsort((occurs_again(images)[order], labels[order]))]
    counts = np.bincount(labels[order])
    ends = np.cumsum(counts)
    # Rounded at the classes' ends, the shares add up to ``more``.
    shares = np.diff(np.round(ends * more / n_train).astype(np.int64), prepend=0)
    place_in_class = np.arange(n_train) - np.repeat(ends - counts, counts)
    wider = split.copy()
    wider[order[place_in_class < np.repeat(shares, counts)]] = VALIDATION
    return wider


def occurs_again(images: Bytes) -> NDArray[np.bool_]:
    """Whether another row has the very same pixels."""
    digests = [hashlib.sha256(image.tobytes()).digest() for image in images]
    seen = Counter(digests)
    return np.array([seen[digest] > 1 for digest in digests])


# Data set -> (a file that tells the form, its reader, the folder inside the usual archive).
_Form = tuple[str, Callable[[str, Path, int, int | None], ImageSet], str]
_FORMS: dict[str, list[_Form]] = {
    "cifar10": [
        ("cifar10_meta.npz", _read_mosaics, "cifar10"),
        ("data_batch_1", _read_python_batches, "cifar-10-batches-py"),
        ("data_batch_1.bin", _read_binary_batches, "cifar-10-batches-bin"),
    ],
    "cifar100": [
        ("cifar100_meta.npz", _read_mosaics, "cifar100"),
        ("train", _read_python_batches, "cifar-100-python"),
        ("train.bin", _read_binary_batches, "cifar-100-binary"),
    ],
    "fashion-mnist": [("train-images-idx3-ubyte.gz", _read_idx_files, "fashion-mnist")],
}
