"""What "calibrated" may mean, and which meaning a metric has where none is named.

| notion | calibrated means |
|---|---|
| "confidence" | of the rows whose largest probability is c, a share c is right |
| "top-label" | the same of the rows that predict the same class |
| "class-1" | of the rows that give class 1 of two the probability p, a share p is of it |
| "classwise" | the same of every class |
| "canonical" | of the rows with the probabilities q, the classes have the shares q |

Canonical calibration implies all others. With two classes it is the same as that of class 1, and
calibration of the confidence is weaker: errors below and above 1/2 can cancel in it.
"""

from __future__ import annotations

from reprlib import repr as shown
from typing import Literal

RowNotion = Literal["confidence", "class-1"]  # one score per row
ScoreNotion = Literal["confidence", "class-1", "classwise"]
Notion = Literal["confidence", "top-label", "class-1", "classwise", "canonical"]

_ELSEWHERE = {
    "classwise": "classwise_ece judges every class",
    "top-label": "top_label_ece judges the confidence by predicted class",
    "canonical": "omnibus_test and skce judge all classes together",
}


def row_notion(asked: str | None, n_classes: int) -> RowNotion:
    """The notion that was asked for; by default class 1 of two classes, else the confidence."""
    if asked is None:
        return "class-1" if n_classes == 2 else "confidence"
    check_row_notion(asked)
    if asked == "class-1":
        check_two_classes(n_classes)
        return "class-1"
    return "confidence"


def check_row_notion(asked: str | None) -> None:
    """Refuse what is no notion of one score per row."""
    if asked not in (None, "confidence", "class-1"):
        known = isinstance(asked, str) and asked in _ELSEWHERE
        hint = f": {_ELSEWHERE[asked]}" if known else ""
        raise ValueError(f'notion must be "confidence" or "class-1", got {shown(asked)}{hint}')


def score_notion(asked: str | None, n_classes: int) -> ScoreNotion:
    """The same where all classes may be judged one after another, too."""
    if asked == "classwise":
        return "classwise"
    if asked not in (None, "confidence", "class-1"):
        rule = 'notion must be "confidence", "class-1" or "classwise"'
        raise ValueError(f"{rule}, got {shown(asked)}")
    return row_notion(asked, n_classes)


def check_two_classes(n_classes: int) -> None:
    """Refuse what asks for class 1 of more than two."""
    if n_classes != 2:
        raise ValueError(f"class 1 of two is asked for, but there are {n_classes} classes")
