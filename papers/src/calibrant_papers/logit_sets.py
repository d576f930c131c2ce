"""The logits that the experiments run on: where they come from, and how a seed splits them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import datasets
from calibrant.calibrators import calibrator
from calibrant_papers._types import InputKind

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
# The paper's ImageNet architectures, trained on CIFAR-100: the rows that they stand in for.
STAND_INS = {
    "cifar100-resnet50": "ImgNet ResNet50",
    "cifar100-resnet152": "ImgNet ResNet152",
    "cifar100-densenet169": "ImgNet DenNet169",
    "cifar100-xception": "ImgNet Xception",
    "cifar100-mobilenetv2": "ImgNet MobNetV2",
}
IMAGENET = tuple(name for name in PAPER_ROWS if name.startswith("imagenet-"))
ON_CIFAR = tuple(name for name in PAPER_ROWS if name not in IMAGENET)
FIGURE_3C = "cifar100-lenet5"
FIT_ROWS = dict.fromkeys(ON_CIFAR, 5_000)  # as in the paper; our files may hold more


@dataclass(frozen=True)
class LogitSet:
    """Scores and labels to fit on and to judge on."""

    name: str
    val_scores: NDArray[Any] = field(repr=False)
    val_labels: NDArray[Any] = field(repr=False)
    test_scores: NDArray[Any] = field(repr=False)
    test_labels: NDArray[Any] = field(repr=False)
    kind: InputKind = "logits"
    fit_rows: int | None = None  # how many of the validation rows to fit on; None: all

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.val_scores.shape[1])

    def digest(self) -> str:
        """A hash of all that it holds but its name."""
        parts = (self.val_scores, self.val_labels, self.test_scores, self.test_labels)
        whole = hashlib.sha256(f"{self.kind} {self.fit_rows}".encode())
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
            return self._with_fit_rows(0)
        rows = len(self.val_labels)
        scores = np.concatenate([self.val_scores, self.test_scores])
        labels = np.concatenate([self.val_labels, self.test_labels])
        order = np.random.default_rng(seed).permutation(len(labels))
        val, test = order[:rows], order[rows:]
        drawn = replace(
            self,
            val_scores=scores[val],
            val_labels=labels[val],
            test_scores=scores[test],
            test_labels=labels[test],
        )
        return drawn._with_fit_rows(seed)

    def _with_fit_rows(self, seed: int) -> LogitSet:
        """As many validation rows as are to be fitted on, in an order that the seed draws."""
        rows = len(self.val_labels)
        if self.fit_rows is None or self.fit_rows >= rows:
            return self
        kept = np.random.default_rng([seed, 2]).permutation(rows)[: self.fit_rows]
        return replace(self, val_scores=self.val_scores[kept], val_labels=self.val_labels[kept])

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
    more: tuple[Path, ...] = ()  # the same network trained again: SEED/NAME.npz beside the file

    def training(self, seed: int) -> int:
        """Which training a seed takes: each its own, where there are enough."""
        return seed % (1 + len(self.more))

    def load(self, training: int = 0) -> LogitSet:
        """Read the logits of one training."""
        if self.pair is not None:
            return _from_pair(self.name, *self.pair, dict(self.reading))
        fit_rows = FIT_ROWS.get(self.name)
        if self.file is None:
            data = datasets.load(self.name)
            parts = (data.val_logits, data.val_labels, data.test_logits, data.test_labels)
            return LogitSet(self.name, *parts, fit_rows=fit_rows)
        file = (self.file, *self.more)[training]
        data = datasets.read(file, max_size=dict(self.reading).get("max_size"))
        val = _checked(file, data.val_logits, data.val_labels, "logits")
        test = _checked(file, data.test_logits, data.test_labels, "logits")
        return LogitSet(self.name, *val, *test, fit_rows=fit_rows)


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
        # every row may come to be fitted on, under another seed
        calibrator("base", input=kind).fit(scores, labels)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return _with_two_columns(np.asarray(scores), kind), _class_indices(np.asarray(labels))


def _with_two_columns(scores: NDArray[Any], kind: InputKind) -> NDArray[Any]:
    """A binary model's scores of class 1 as scores of both classes; others as they are."""
    if scores.ndim == 2:
        return scores
    if kind == "logits":
        return np.stack([np.zeros_like(scores), scores], axis=1)
    scores = scores.astype(np.result_type(scores, np.float32))
    return np.stack([np.maximum(1.0 - scores, 0.0), scores], axis=1)


def _class_indices(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels that were checked, as class indices: they may be one-hot rows, or a column."""
    if labels.ndim == 2:
        labels = labels[:, 0] if labels.shape[1] == 1 else labels.argmax(axis=1)
    return labels.astype(np.int64)


def sources(
    folders: Iterable[Path] = (),
    added: Iterable[tuple[str, Path, Path]] = (),
    only: Iterable[str] = (),
    reading: Mapping[str, Any] | None = None,
) -> list[Source]:
    """The shipped sets, then files NAME.npz of folders, then added pairs; a later name replaces.

    Folders seed1, seed2 and so on in a folder hold further trainings of its networks. ``only``
    keeps the sets with these names; ``reading`` says how to read files, added pairs above all.
    """
    found = {name: Source(name) for name in datasets.names()}
    options = tuple((reading or {}).items())
    for folder in folders:
        files = sorted(folder.glob("*.npz"))
        if not files:
            raise ValueError(f"{folder} holds no .npz file")
        found |= {
            file.stem: Source(
                file.stem, file=file.absolute(), reading=options, more=_more_trainings(file)
            )
            for file in files
        }
    for name, val, test in added:
        pair = (val.absolute(), test.absolute())
        found[name] = Source(name, pair=pair, reading=options)
    wanted = list(dict.fromkeys(only))
    for name in wanted:
        if name not in found:
            raise ValueError(f"there is no set {name!r}; there are {', '.join(found)}")
    return [found[name] for name in wanted or found]


def _more_trainings(file: Path) -> tuple[Path, ...]:
    """seed1/NAME.npz, seed2/NAME.npz and so on, as far as there are."""
    beside = (file.parent / f"seed{seed}" / file.name for seed in count(1))
    return tuple(path.absolute() for path in takewhile(Path.is_file, beside))


def of_the_paper(names: Iterable[str]) -> list[str]:
    """The rows of Table 1, of which the claims are judged; where there are none: all sets.

    They are the paper's networks, an ImageNet one by its stand-in unless all five are there.
    """
    every = list(names)
    group, _ = imagenet_group(every)
    known = [name for name in every if name in ON_CIFAR or (name in group and _known(name))]
    return known or every


def imagenet_group(names: Iterable[str]) -> tuple[list[str], bool]:
    """The sets for the ImageNet-only experiments, and whether they are the real ones.

    All five ImageNet networks are the real ones. Else the architecture stand-ins take their place;
    where there is none of them either, the sets of your own do.
    """
    every = list(names)
    if set(IMAGENET) <= set(every):
        return [name for name in every if name in IMAGENET], True
    stand_ins = [name for name in every if name in STAND_INS]
    return stand_ins or [name for name in every if not _known(name)], False


def _known(name: str) -> bool:
    """Whether it is one of the paper's networks, a stand-in or a set that is shown by itself."""
    return name in PAPER_ROWS or name in STAND_INS or name in BY_THEMSELVES


BY_THEMSELVES = ("fashion-mnist-lenet5", "fashion-mnist-vgg19", "imagenet5k-mobilenetv2")
