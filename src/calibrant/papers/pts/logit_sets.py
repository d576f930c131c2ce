"""The logits that the experiments run on: where they come from, and how a seed splits them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import datasets
from calibrant._arrays import as_labels, as_scores, to_numpy
from calibrant._types import InputKind
from calibrant.calibrators import calibrator

# The paper's networks by the names that their logits have here.
PAPER_ROWS = {
    "cifar10-lenet5": "CIFAR LeNet5",
    "cifar10-vgg19": "CIFAR VGG19",
    "cifar100-lenet5": "CIFAR100 LeNet5",
    "cifar100-vgg19": "CIFAR100 VGG19",
    "imagenet-resnet50": "ImgNet ResNet50",
    "imagenet-resnet152": "ImgNet ResNet152",
    "imagenet-densenet169": "ImgNet DenNet169",
    "imagenet-xception": "ImgNet Xception",
    "imagenet-mobilenetv2": "ImgNet MobNetV2",
}
STAND_INS = {"imagenet5k-mobilenetv2": "ImgNet MobNetV2"}
IMAGENET = "imagenet-"  # how the names of the paper's ImageNet networks begin


@dataclass(frozen=True)
class LogitSet:
    """Scores and labels to fit on and to judge on."""

    name: str
    val_scores: NDArray[Any] = field(repr=False)
    val_labels: NDArray[Any] = field(repr=False)
    test_scores: NDArray[Any] = field(repr=False)
    test_labels: NDArray[Any] = field(repr=False)
    kind: InputKind = "logits"

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.val_scores.shape[1])

    def digest(self) -> str:
        """A hash of all that it holds but its name."""
        parts = (self.val_scores, self.val_labels, self.test_scores, self.test_labels)
        whole = hashlib.sha256(self.kind.encode())
        for part in parts:
            whole.update(f"{part.dtype.str}{part.shape}".encode())
            whole.update(np.ascontiguousarray(part).data)
        return whole.hexdigest()

    def in_double(self) -> LogitSet:
        """The same in double precision."""
        val, test = (scores.astype(np.float64) for scores in (self.val_scores, self.test_scores))
        return replace(self, val_scores=val, test_scores=test)

    def drawn(self, seed: int) -> LogitSet:
        """Seed 0: the split as it is. Others: all rows, which no training saw, split anew."""
        if seed == 0:
            return self
        rows = len(self.val_labels)
        scores = np.concatenate([self.val_scores, self.test_scores])
        labels = np.concatenate([self.val_labels, self.test_labels])
        order = np.random.default_rng(seed).permutation(len(labels))
        val, test = order[:rows], order[rows:]
        return replace(
            self,
            val_scores=scores[val],
            val_labels=labels[val],
            test_scores=scores[test],
            test_labels=labels[test],
        )

    def with_part(self, fraction: float, seed: int) -> LogitSet:
        """The first part of the validation rows in an order that the seed draws.

        Larger fractions of one seed hold the smaller ones.
        """
        if fraction == 1.0:
            return self
        rows = len(self.val_labels)
        kept = np.random.default_rng([seed, 1]).permutation(rows)[: max(round(fraction * rows), 1)]
        return replace(self, val_scores=self.val_scores[kept], val_labels=self.val_labels[kept])


@dataclass(frozen=True)
class Source:
    """Where a set lies; small, so that it can be sent to another process, which loads it."""

    name: str
    file: Path | None = None  # NAME.npz with both parts; neither file: shipped with the package
    pair: tuple[Path, Path] | None = None  # validation and test scores in two files
    reading: tuple[tuple[str, Any], ...] = ()  # how to read files: options of ``read_scores``

    def load(self) -> LogitSet:
        """Read it."""
        if self.pair is not None:
            return _from_pair(self.name, *self.pair, dict(self.reading))
        if self.file is None:
            data = datasets.load(self.name)
            return LogitSet(
                self.name, data.val_logits, data.val_labels, data.test_logits, data.test_labels
            )
        data = datasets.read(self.file, max_size=dict(self.reading).get("max_size"))
        val = _checked(self.file, data.val_logits, data.val_labels, "logits")
        test = _checked(self.file, data.test_logits, data.test_labels, "logits")
        return LogitSet(self.name, *val, *test)


def _from_pair(name: str, val: Path, test: Path, reading: Mapping[str, Any]) -> LogitSet:
    from calibrant.scorefiles import read_scores

    fitted, judged = (read_scores(path, **reading) for path in (val, test))
    if fitted.input != judged.input:
        raise ValueError(f"{val} has {fitted.input}, but {test} has {judged.input}")
    parts = [_checked(p, f.scores, f.labels, f.input) for p, f in ((val, fitted), (test, judged))]
    widths = [scores.shape[1] for scores, _ in parts]
    if widths[0] != widths[1]:
        raise ValueError(f"{val} has {widths[0]} classes, but {test} has {widths[1]}")
    return LogitSet(name, *parts[0], *parts[1], fitted.input)


def _checked(
    path: Path, scores: Any, labels: Any, kind: InputKind
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Valid scores (rows, classes) and labels, now and not in the middle of an hour's work."""
    try:
        table = to_numpy(as_scores(scores, kind))
        target = as_labels(labels, *table.shape)
        # every row may come to be fitted on, under another seed
        calibrator("base", input=kind).fit(table, target)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return table, target


def sources(
    folders: Iterable[Path] = (),
    added: Iterable[tuple[str, Path, Path]] = (),
    only: Iterable[str] = (),
    reading: Mapping[str, Any] | None = None,
) -> list[Source]:
    """The shipped sets, then files NAME.npz of folders, then added pairs; a later name replaces.

    ``only`` keeps the sets with these names; ``reading`` says how to read files, added pairs above
    all.
    """
    found = {name: Source(name) for name in datasets.names()}
    options = tuple((reading or {}).items())
    for folder in folders:
        files = sorted(folder.glob("*.npz"))
        if not files:
            raise ValueError(f"{folder} holds no .npz file")
        found |= {
            file.stem: Source(file.stem, file=file.absolute(), reading=options) for file in files
        }
    for name, val, test in added:
        pair = (val.absolute(), test.absolute())
        found[name] = Source(name, pair=pair, reading=options)
    wanted = list(dict.fromkeys(only))
    for name in wanted:
        if name not in found:
            raise ValueError(f"there is no set {name!r}; there are {', '.join(found)}")
    return [found[name] for name in wanted or found]


def of_the_paper(names: Iterable[str]) -> list[str]:
    """The sets that the paper's claims are judged on: its networks, the shipped ones, stand-ins.

    Where there are none of these: all.
    """
    every = list(names)
    shipped = datasets.names()
    known = [name for name in every if name in PAPER_ROWS or name in STAND_INS or name in shipped]
    return known or every


def imagenet_group(names: Iterable[str]) -> tuple[list[str], bool]:
    """The sets for the ImageNet-only experiments, and whether they are the real ones.

    Where no logits of ImageNet are given, all sets stand in for them.
    """
    every = list(names)
    real = [name for name in every if name.startswith(IMAGENET)]
    return (real, True) if real else (every, False)
