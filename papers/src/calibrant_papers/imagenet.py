"""An ImageNet validation folder: its files, its labels and the paper's split of them.

Labels count the classes in the order of their synset names (n01440764 is 0), as the networks of
torchvision, timm and Keras do. The ids of the official development kit are in another order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant import FileError

VALIDATION_SHARE = 0.25  # 12,500 of 50,000 to fit on, 37,500 to judge on
PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp"})


@dataclass(frozen=True)
class Pictures:
    """Picture files in a fixed order, and their labels."""

    files: list[Path]
    labels: NDArray[np.int64]
    n_classes: int | None  # None where the labels do not say

    def fingerprint(self) -> str:
        """Changes when the files, their order or their labels do."""
        lines = (f"{file.name} {y}" for file, y in zip(self.files, self.labels, strict=True))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def validation_rows(self, seed: int) -> NDArray[np.bool_]:
        """Mark a random quarter of the rows, those to fit calibrators on."""
        n = len(self.files)
        mask = np.zeros(n, dtype=np.bool_)
        mask[np.random.default_rng(seed).permutation(n)[: round(VALIDATION_SHARE * n)]] = True
        return mask


def find_pictures(folder: Path, truth: Path | None = None) -> Pictures:
    """The pictures of a folder of class folders, or of a flat folder with a file of labels.

    ``truth`` has a line for each picture: the label alone, in the order of the file names, or the
    file name and the label. A label is a synset name or, after a file name, a class number from 0
    in the order of synset names. Bare numbers are the development kit's ids: its ``meta.mat`` must
    lie beside them.
    """
    if truth is not None:
        return _flat(folder, truth)
    classes = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"{folder} has no class folders; give the file of labels too")
    files = [_pictures_in(entry) for entry in classes]
    labels = np.repeat(np.arange(len(classes)), [len(part) for part in files])
    return Pictures([file for part in files for file in part], labels, len(classes))


def _pictures_in(folder: Path) -> list[Path]:
    found = sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES)
    if not found:
        raise FileNotFoundError(f"{folder} holds no pictures ({', '.join(sorted(PICTURES))})")
    return found


# --- a flat folder ----------------------------------------------------------------------------


def _flat(folder: Path, truth: Path) -> Pictures:
    files = _pictures_in(folder)
    lines = [line.split() for line in truth.read_text().splitlines() if line.strip()]
    if len(lines) != len(files):
        raise FileError(f"{truth} must label {len(files)} pictures, got {len(lines)} lines")
    if {len(line) for line in lines} == {1}:
        codes = [line[0] for line in lines]
        ids = _development_kit_order(truth) if codes[0].isdigit() else None
    elif {len(line) for line in lines} == {2}:
        by_name = {Path(name).stem: code for name, code in lines}
        codes, ids = _in_order(by_name, files, truth), None
    else:
        raise FileError(f"{truth} must have lines of a label, or of a file name and a label")
    return _labelled(files, codes, ids, truth)


def _in_order(by_name: Mapping[str, str], files: list[Path], truth: Path) -> list[str]:
    missing = [file.name for file in files if file.stem not in by_name]
    if missing:
        raise FileError(f"{truth} has no label for {missing[0]}")
    return [by_name[file.stem] for file in files]


def _labelled(
    files: list[Path], codes: list[str], ids: Mapping[int, int] | None, truth: Path
) -> Pictures:
    try:
        if ids is not None:
            return Pictures(files, np.array([ids[int(code)] for code in codes]), len(ids))
        if all(code.isdigit() for code in codes):
            return Pictures(files, np.array([int(code) for code in codes]), None)
    except KeyError as error:
        raise FileError(f"{truth} holds the id {error}, which meta.mat does not know") from None
    synsets = sorted(set(codes))
    number = {synset: k for k, synset in enumerate(synsets)}
    return Pictures(files, np.array([number[code] for code in codes]), len(synsets))


def _development_kit_order(truth: Path) -> dict[int, int]:
    """The kit's ids -> class numbers in the order of synset names."""
    meta = truth.with_name("meta.mat")
    if not meta.is_file():
        raise FileError(
            f"{truth} lists bare numbers, the development kit's ids, which are not in the order of "
            "the networks' outputs: put the kit's meta.mat beside it, or use synset names"
        )
    from scipy.io import loadmat

    table = loadmat(meta, squeeze_me=True)["synsets"]
    # The table holds inner nodes of WordNet too; the classes are the leaves.
    leaves = [row for row in table if int(row["num_children"]) == 0]
    names = sorted(str(row["WNID"]) for row in leaves)
    return {int(row["ILSVRC2012_ID"]): names.index(str(row["WNID"])) for row in leaves}
