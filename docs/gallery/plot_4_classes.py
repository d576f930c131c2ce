"""
A panel for every class
=======================

One temperature for all classes leaves some of them too sure and others not sure enough. The panels
show every class' own probability, the largest errors first.
"""

import calibrant
from calibrant import diagrams, plots

data = calibrant.datasets.load("fashion-mnist-lenet5")
ts = calibrant.TS().fit(data.val_logits, data.val_labels)
found = diagrams.reliability_by_class(
    ts.predict_proba(data.test_logits), data.test_labels, n_bins=8, n_resamples=100
)
panels = plots.reliability_grid(found, most=8)
