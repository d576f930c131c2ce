"""
Four kinds of reliability diagram
=================================

Bins of equal width are what papers show; most rows of a network are in the last one. Bins of equal
mass put as many rows into each. Isotonic regression (CORP) chooses its own bins, and a kernel has
none: both need no choice of yours.
"""

import matplotlib.pyplot as plt

import calibrant
from calibrant import diagrams, plots

data = calibrant.datasets.load("cifar10-vgg19")
ts = calibrant.TS().fit(data.val_logits, data.val_labels)
probs = ts.predict_proba(data.test_logits)

figure, panels = plt.subplots(2, 2, figsize=(9.0, 9.0), layout="constrained")
for ax, kind in zip(panels.flat, ("equal-width", "equal-mass", "isotonic", "smooth"), strict=True):
    found = diagrams.reliability(probs, data.test_labels, kind=kind, n_resamples=200)
    plots.reliability(found, ax=ax).set_title(kind)
