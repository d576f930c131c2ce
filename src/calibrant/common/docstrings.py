"""Parameters that many public functions share, documented once.

A docstring names such a parameter by a line ``{sample_weight}`` where its entry belongs, and
``documented`` fills in the text, so that ``help()`` and the reference show it in full.
"""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")

SHARED = {
    "ax": """\
ax : matplotlib.axes.Axes, optional
    Where to draw; a new figure by default.""",
    "backend": """\
backend : {"pandas", "polars", "pyarrow"}, default "pandas"
    The library, which must be installed.""",
    "band_level": """\
level : float, default 0.95
    The level of interval and band.""",
    "by_metric": """\
by : str, optional
    One of the metrics; by default the log loss, or the first of them.""",
    "covariates": """\
covariates : array of shape (rows, columns), data frame or dict, optional
    What else is known of each row, for a calibrator that uses it.""",
    "curve_kind": """\
kind : {"equal-width", "equal-mass", "isotonic", "smooth"}, default "equal-width"
    How the curve is found: in bins of equal width or with equally many rows; by isotonic
    regression, which needs no bins (CORP); or by a kernel, wide where rows are few.""",
    "diagram_bins": """\
n_bins : int, default 15
    The number of bins, also of the histogram.""",
    "drawn_axes": """\
matplotlib.axes.Axes
    The axes.""",
    "fit_progress": """\
progress : bool or callable, default False
    True shows a bar on standard error where a fit takes more than a second; a callable is
    called as ``progress(done, total)``.""",
    "ignore_index": """\
ignore_index : int, optional
    Rows with this label are left out.""",
    "input_log_probs": """\
input : {"logits", "probs"}, default "logits"
    What the scores are; probabilities are taken as log p minus its row mean.""",
    "input_logits": """\
input : {"logits", "probs"}, default "logits"
    What the scores are.""",
    "input_probs": """\
input : {"probs", "logits"}, default "probs"
    What the scores are.""",
    "labels": """\
labels : array of shape (n_rows,)
    The true classes as integers from 0, or one-hot rows.""",
    "line_options": """\
**kwargs : object
    Passed on to the lines (``Axes.plot``).""",
    "max_iter": """\
max_iter : int, default 500
    The most iterations of L-BFGS.""",
    "module_covariates": """\
covariates : Tensor of shape (.., columns), optional
    For a calibrator that was fitted with covariates, in the order of the fit: the shape of
    the scores without the classes, and the columns last.""",
    "module_scores": """\
scores : Tensor of shape (.., classes)
    What the calibrator was fitted on: logits or probabilities. With ``class_axis`` the
    classes are that dimension.""",
    "n_bins": """\
n_bins : int, default 15
    The number of bins.""",
    "needs_matplotlib": """\
ImportError
    Where matplotlib is not installed.""",
    "norm": """\
norm : {1, 2, "max"}, default 1
    The mean gap of the bins, its root mean square, or the largest gap.""",
    "notion": """\
notion : {"class-1", "confidence"}, optional
    Whose calibration: class 1's of two classes, or the confidence's. By default class 1's
    with two classes, and the confidence's with more.""",
    "probs": """\
probs : array of shape (n_rows, n_classes) or (n_rows,)
    Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.""",
    "progress": """\
progress : bool or callable, default False
    True shows a bar on standard error; a callable is called as ``progress(done, total)``.""",
    "random_state": """\
random_state : int, Generator or None, default None
    The seed; None is the seed 0, so that work can be repeated.""",
    "refused": """\
ValueError
    Where an argument is refused: the message names the rule, the value and the row.""",
    "row_sums": """\
row_sums : {"strict", "normalize", "raw"}, default "strict"
    Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.""",
    "sample_weight": """\
sample_weight : array of shape (n_rows,), optional
    The weight of each row; all 1 by default.""",
    "scheme": """\
scheme : {"equal-width", "equal-mass"}, default "equal-width"
    Bins of equal width, or with equally many rows.""",
    "scores": """\
logits : array of shape (rows, classes), or (rows,) for two classes
    Scores of the kind that ``input`` names; masked classes are -inf (probability 0).""",
    "stream_progress": """\
progress : bool or callable, default False
    True shows a bar on standard error; a callable is called as ``progress(done, total)`` with
    rows, the total being 0 where it is not known.""",
    "test_labels": """\
test_labels : array of shape (n_test,)
    Their true classes.""",
    "test_scores": """\
test_scores : array of shape (n_test, n_classes) or (n_test,)
    The scores to judge on.""",
    "test_weight": """\
test_weight : array of shape (n_test,), optional
    The weight of each test row; all 1 by default.""",
    "tested_notion": """\
notion : {"confidence", "class-1", "classwise"}, optional
    The null hypothesis: the largest probability is calibrated, that of class 1 of two, or
    those of all classes. By default that of class 1 with two classes, else the largest.""",
    "val_labels": """\
val_labels : array of shape (n_val,)
    Their true classes.""",
    "val_scores": """\
val_scores : array of shape (n_val, n_classes) or (n_val,)
    The scores to fit on; 1-D for class 1 of two.""",
    "val_weight": """\
val_weight : array of shape (n_val,), optional
    The weight of each validation row; all 1 by default.""",
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
