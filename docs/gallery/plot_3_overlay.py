"""
Calibrators over one another
============================

Several diagrams by name are drawn as lines on one axes. With bins of equal mass each point has as
many rows behind it.
"""

import calibrant
from calibrant import diagrams, plots

data = calibrant.datasets.load("cifar100-vgg19")
found = {}
for name in ("base", "ts", "ets", "pts"):
    fitted = calibrant.calibrator(name).fit(data.val_logits, data.val_labels)
    probs = fitted.predict_proba(data.test_logits)
    found[name] = diagrams.reliability(probs, data.test_labels, kind="equal-mass", n_resamples=100)

ax = plots.reliability(found, interval=False)
