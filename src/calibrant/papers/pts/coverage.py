"""How many of the paper's numbers a run has, and what else is to be said about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from calibrant.papers.pts.logit_sets import IMAGENET, PAPER_ROWS, STAND_INS, imagenet_group
from calibrant.papers.pts.summary import published

BY_NETWORK = ("ece", "kde_ece", "gain", "linear")  # tables whose rows are networks

# What the paper's own numbers do not agree on.
INCONSISTENT = (
    "Table 4 at 100% should be the mean of Table 1's ratios on the five ImageNet networks. It has "
    "1.16 for ETS, 2.28 for TS, 4.81 for IROvA-TS and 5.67 for IROvA; the ratios of Table 1 have "
    "means of 1.26, 2.48, 4.58 and 5.51. Without MobileNetV2 that of ETS is 1.06.",
    "Table 3 gives TS a gain of 0.28 on MobileNetV2, where Table 1 has TS raise the ECE from 2.98 "
    "to 5.91. Xception has by far the largest ECE before calibration (13.25, ResNet50 6.26) and "
    "hardly a larger gain (0.49, ResNet50 0.47); IROvA gains 0.28 there with an ECE of 8.31, and "
    "nothing on ResNet50 with 6.60.",
    "The text gives PTS an additional improvement of 52% over ETS on MobileNetV2; 1.43 against "
    "2.94 is 51.4%.",
    "The text says that PTS has the lowest ECE in all settings; Table 1 has it in 7 of 9.",
)
# What the paper mentions and neither its tables nor this page compare.
MENTIONED = (
    "Dirichlet-based scaling is cited by Milios et al., who calibrate Gaussian processes; the "
    "Dirichlet calibration of Kull et al. for networks is in this library "
    "(docs/methods-affine.md), and changes the accuracy, so that it is in none of the paper's "
    "tables.",
    "Of the intra order-preserving networks the paper compares DIAG alone; the OI and OP variants "
    "are not here.",
    "Calibration by Gaussian processes (Wenger et al.) is not here: it needs variational "
    "inference; IRM and splines stand in for it among non-parametric methods.",
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
            f"Of the paper's {total} cells, {self.own} have their own network and data set here, "
            f"{self.stand_in} an architecture stand-in on CIFAR-100 (on ImageNet: not run), and "
            f"{self.missing} neither."
        )


def coverage(names: Iterable[str]) -> Coverage:
    """Count the cells of Tables 1-5."""
    known = set(names)
    group, real = imagenet_group(known)
    own_rows = {PAPER_ROWS[name] for name in known if name in PAPER_ROWS}
    stand_in_rows = {STAND_INS[name] for name in known if name in STAND_INS} - own_rows
    own = stand_in = missing = 0
    for table, rows in published().items():
        for row, cells in rows.items():
            count = len(cells)
            if table in BY_NETWORK:
                run, instead = row in own_rows, row in stand_in_rows
            else:  # Table 4: a mean over all five
                run, instead = real, len(group) == len(IMAGENET) and set(group) <= set(STAND_INS)
            own += count * run
            stand_in += count * (instead and not run)
            missing += count * (not run and not instead)
    return Coverage(own, stand_in, missing)
