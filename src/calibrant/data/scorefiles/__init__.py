"""Files of scores and labels: one door for every format, none of which can run code.

A file holds named arrays (``logits`` or ``probs``, ``label`` or ``labels``) or, as a table, columns
(``logits_0``, ``logits_1``, .. beside ``label``). What the scores are is told by their name or by
the caller, never by their values.
"""

from __future__ import annotations

from calibrant.data.scorefiles._names import kind_in_name
from calibrant.data.scorefiles._reading import ScoreFile, read_scores
from calibrant.data.scorefiles._writing import write_probs

__all__ = ["ScoreFile", "kind_in_name", "read_scores", "write_probs"]
