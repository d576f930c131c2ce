"""How many of the paper's numbers a run has, and what else is to be said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calibrant_papers.experiments import METHODS
from calibrant_papers.logit_sets import IMAGENET, PAPER_ROWS, STAND_INS
from calibrant_papers.summary import STAND_IN, Table, published, row_label

# What the paper's own numbers do not agree on.
INCONSISTENT = (
    "Table 4 at 100% should be the mean of Table 1's ratios on the five ImageNet networks. It has "
    "1.16 for ETS, 2.28 for TS, 4.81 for IROvA-TS and 5.67 for IROvA; the ratios of Table 1 have "
    "means of 1.26, 2.48, 4.58 and 5.51. Without MobileNetV2 that of ETS is 1.06. IRM's agree "
    "(2.63 and 2.64).",
    "Table 3 gives TS a gain of 0.28 on MobileNetV2, where Table 1 has TS raise the ECE from 2.98 "
    "to 5.91. Xception has by far the largest ECE before calibration (13.25, ResNet50 6.26) and "
    "hardly a larger gain (0.49, ResNet50 0.47); IROvA gains 0.28 there with an ECE of 8.31, and "
    "nothing on ResNet50 with 6.60.",
    "The text gives PTS an additional improvement of 52% over ETS on MobileNetV2; 1.43 against "
    "2.94 is 51.4%.",
    "The text says that PTS has the lowest ECE in all settings; Table 1 has it in 7 of 9.",
    "The text finds excellent performance even on small fractions of the validation set; Table 4 "
    "has ETS at 0.40 of the ECE of PTS at 10%.",
    "PBMC is worded as temperature scaling with histogram binning; the authors' code has a sigmoid "
    "per class and then bins.",
)
# What the paper mentions and neither its tables nor this page compare.
MENTIONED = (
    "Dirichlet-based scaling: the paper cites Milios et al., who calibrate Gaussian processes. "
    "The Dirichlet calibration of Kull et al. for networks is in this library "
    "(docs/methods-affine.md); it changes the accuracy and is in none of the paper's tables.",
    "Vector and matrix scaling, Platt's sigmoid, histogram binning, BBQ and splines are in this "
    "library (docs/methods.md) and in none of the paper's tables.",
    "Of the intra order-preserving networks the paper compares DIAG alone; the OI and OP variants "
    "are not here.",
    "Calibration by Gaussian processes (Wenger et al.) is not here, for it needs variational "
    "inference; nothing stands in for it.",
    "ConfNet trains the classifier with the calibrator: it is not post-hoc, and not here.",
    "The ImageNet path (calibrant reproduce logits --dataset imagenet) takes torchvision's and "
    "timm's weights; the paper's are those of TensorFlow. Only with all five networks is the group "
    "called ImageNet's.",
)


@dataclass(frozen=True)
class Coverage:
    """The paper's cells: run on their own network and data, by stand-ins, or not at all."""

    own: int
    stand_in: int
    missing: int

    def __str__(self) -> str:
        total = self.own + self.stand_in + self.missing
        return (
            f"Of the paper's {total} cells (3 of them blank there), {self.own} were run on their "
            f"own network and data set here, {self.stand_in} on an {STAND_IN} and not on ImageNet, "
            f"and {self.missing} not at all."
        )


def coverage(tables: Mapping[str, Table], group: Sequence[str]) -> Coverage:
    """Count the cells of Tables 1-5 that have a number of ours, or whose stand-in has one.

    Those of Table 4 are means over five networks: with fewer in ``group`` they were not run.
    """
    whole = len(group) == len(IMAGENET)
    run = {
        (paper, row, column)
        for key, paper in TABLES.items()
        if key in tables and (whole or paper != "normalised_ece")
        for row, cells in tables[key].rows.items()
        for column, cell in zip(tables[key].columns, cells, strict=True)
        if cell.values
    }
    own = stand_in = missing = 0
    for table, rows in published().items():
        for row, cells in rows.items():
            for column in cells:
                mine, instead = (
                    any((table, name, ours) in run for name in names for ours in _ours(column))
                    for names in (_own(table, row), _instead(table, row))
                )
                own += mine
                stand_in += instead and not mine
                missing += not (mine or instead)
    return Coverage(own, stand_in, missing)


# The page's tables by the keys of the paper's.
TABLES = {
    "1": "ece",
    "2": "kde_ece",
    "3": "gain",
    "4-paper": "normalised_ece",
    "4": "normalised_ece",
    "5": "linear",
}


def _own(table: str, row: str) -> list[str]:
    """What the page calls a row of the paper that was run on its own network and data set."""
    if table == "normalised_ece":
        return [f"{row}%"]
    return [name for name, theirs in PAPER_ROWS.items() if theirs == row]


def _instead(table: str, row: str) -> list[str]:
    if table == "normalised_ece":
        return [f"{row}%, stand-ins"]
    return [row_label(name) for name, theirs in STAND_INS.items() if theirs == row]


def _ours(column: str) -> list[str]:
    """The labels of the methods that are a column of the paper."""
    return [method.label for method in METHODS.values() if method.published == column]
