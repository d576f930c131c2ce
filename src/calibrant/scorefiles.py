"""Files of scores and labels: one door for every format, none of which can run code."""

from calibrant.data.scorefiles import ScoreFile, kind_in_name, read_scores, write_probs

__all__ = ["ScoreFile", "kind_in_name", "read_scores", "write_probs"]
