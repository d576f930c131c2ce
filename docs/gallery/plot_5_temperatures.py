"""
The temperatures of PTS
=======================

PTS gives every row its own temperature. The line is the one temperature of temperature scaling;
the rows that PTS trusts are left of it, those that it doubts right of it.
"""

import matplotlib.pyplot as plt

import calibrant
from calibrant import diagrams, plots

data = calibrant.datasets.load("cifar100-vgg19")
ts = calibrant.TS().fit(data.val_logits, data.val_labels)
pts = calibrant.PTS().fit(data.val_logits, data.val_labels)
found = diagrams.temperatures(pts, data.test_logits, reference=ts)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
plots.temperatures(found, ax=left)
plots.temperatures(found, against="confidence", ax=right)
