"""Real logits that come with the package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import as_file, files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.common.errors import FileError, did_you_mean
from calibrant.common.files import Expansion, parsing
from calibrant.data.npz import open_archive

__all__ = ["LogitData", "load", "names", "read"]

_ARRAYS = ("val_logits", "val_labels", "test_logits", "test_labels")


@dataclass(frozen=True, repr=False)
class LogitData:
    """A network's logits on held-out images: fit on the validation rows, judge on the test rows.

    Parameters
    ----------
    name : str
        The name of the data set.
    val_logits : array of shape (rows, classes)
        The logits to fit on.
    val_labels : array of shape (rows,)
        Their class indices.
    test_logits : array of shape (rows, classes)
        The logits to judge on.
    test_labels : array of shape (rows,)
        Their class indices.
    card : dict
        Where the logits come from: the network, its training, its accuracy.

    Examples
    --------
    >>> data = load("fashion-mnist-lenet5")
    >>> data.name, data.val_logits.shape, data.val_labels.shape
    ('fashion-mnist-lenet5', (5000, 10), (5000,))
    """

    name: str
    val_logits: NDArray[np.floating[Any]]
    val_labels: NDArray[np.integer[Any]]
    test_logits: NDArray[np.floating[Any]]
    test_labels: NDArray[np.integer[Any]]
    card: dict[str, Any]

    def __repr__(self) -> str:
        n_val, n_classes = self.val_logits.shape
        sizes = f"{n_val:,} + {len(self.test_logits):,} rows, {n_classes} classes"
        return f"LogitData({self.name!r}: {sizes})"


def names() -> list[str]:
    """List the data sets that ``load`` knows.

    Returns
    -------
    list of str
        Their names in alphabetical order.

    Examples
    --------
    >>> names()
    ['cifar10-lenet5', 'cifar10-vgg19', 'cifar100-lenet5', 'cifar100-vgg19',
     'fashion-mnist-lenet5', 'fashion-mnist-vgg19']
    """
    entries = (entry.name for entry in (files("calibrant.data") / "embedded").iterdir())
    return sorted(name.removesuffix(".npz") for name in entries if name.endswith(".npz"))


def load(name: str) -> LogitData:
    """Load a data set that comes with the package.

    Parameters
    ----------
    name : str
        One of ``names()``.

    Returns
    -------
    LogitData
        The data set.

    Raises
    ------
    ValueError
        Where no data set has that name.

    Examples
    --------
    >>> load("fashion-mnist-lenet5").val_logits.shape
    (5000, 10)
    """
    if name not in names():
        hint = did_you_mean(name, names())
        raise ValueError(f"data set must be one of {', '.join(names())}, got {name!r}{hint}")
    folder = files("calibrant.data") / "embedded"
    with as_file(folder / f"{name}.npz") as arrays, as_file(folder / f"{name}.json") as card:
        return _read(arrays, card)


def read(path: str | PathLike[str], *, max_size: int | None = None) -> LogitData:
    """Read a data set from a file.

    Parameters
    ----------
    path : path-like
        A file NAME.npz with the arrays ``val_logits``, ``val_labels``, ``test_logits`` and
        ``test_labels``. Where NAME.json lies beside it, that is the card.
    max_size : int, optional
        The most bytes that the arrays may take in memory; by default 1e9, or 20 times the size of
        the file where that is more.

    Returns
    -------
    LogitData
        The data set, called NAME.

    Raises
    ------
    ValueError
        Where the file does not end in .npz.
    FileError
        Where the file is damaged, lacks an array, or would take too much memory.
    FileNotFoundError
        Where there is no such file.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "mine.npz")
    >>> logits, labels = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    >>> np.savez(
    ...     file, val_logits=logits, val_labels=labels, test_logits=logits, test_labels=labels
    ... )
    >>> data = read(file)
    >>> data.name, data.test_logits.shape
    ('mine', (2, 2))
    """
    file = Path(path)
    if file.suffix != ".npz":
        raise ValueError(f"the file must end in .npz, got {file}")
    return _read(file, file.with_suffix(".json"), max_size)


def _read(file: Path, card_file: Path, max_size: int | None = None) -> LogitData:
    allowed = Expansion(file, max_size)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    with parsing(file, "a NumPy archive"), open_archive(file) as archive:
        missing = [name for name in _ARRAYS if name not in archive.names]
        if missing:
            raise FileError(f"{file} lacks {', '.join(missing)}; it must hold {_ARRAYS}")
        arrays = archive.read(list(_ARRAYS), allowed)
    with parsing(card_file, "a card"):
        card = json.loads(card_file.read_text()) if card_file.is_file() else {}
    return LogitData(file.stem, **dict(zip(_ARRAYS, arrays, strict=True)), card=card)
