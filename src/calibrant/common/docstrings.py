"""Parameters that many public functions share, documented once.

A docstring names such a parameter by a line ``{sample_weight}`` where its entry belongs, and
``documented`` fills in the text, so that ``help()`` and the reference show it in full.
"""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")

SHARED = {
    "probs": """\
probs : array of shape (n_rows, n_classes) or (n_rows,)
    Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.""",
    "labels": """\
labels : array of shape (n_rows,)
    The true classes as integers from 0, or one-hot rows.""",
    "n_bins": """\
n_bins : int, default 15
    The number of bins.""",
    "notion": """\
notion : {"class-1", "confidence"}, optional
    Whose calibration: class 1's of two classes, or the confidence's. By default class 1's
    with two classes, and the confidence's with more.""",
    "sample_weight": """\
sample_weight : array of shape (n_rows,), optional
    The weight of each row; all 1 by default.""",
    "row_sums": """\
row_sums : {"strict", "normalize", "raw"}, default "strict"
    Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.""",
    "input_probs": """\
input : {"probs", "logits"}, default "probs"
    What the scores are.""",
    "input_logits": """\
input : {"logits", "probs"}, default "logits"
    What the scores are.""",
    "ignore_index": """\
ignore_index : int, optional
    Rows with this label are left out.""",
    "random_state": """\
random_state : int, Generator or None, default None
    The seed; None is the seed 0, so that work can be repeated.""",
    "progress": """\
progress : bool or callable, default False
    True shows a bar on standard error; a callable is called as ``progress(done, total)``.""",
    "scores": """\
logits : array of shape (rows, classes), or (rows,) for two classes
    Scores of the kind that ``input`` names; masked classes are -inf (probability 0).""",
    "covariates": """\
covariates : array of shape (rows, columns), data frame or dict, optional
    What else is known of each row, for a calibrator that uses it.""",
}

_ENTRY = re.compile(r"^([ \t]*)\{(\w+)\}$", re.MULTILINE)


def documented(thing: T) -> T:
    """A decorator for functions and classes: fill in the shared entries of the docstring."""
    if thing.__doc__:
        thing.__doc__ = _ENTRY.sub(
            lambda found: "\n".join(found[1] + line for line in SHARED[found[2]].splitlines()),
            thing.__doc__,
        )
    return thing
