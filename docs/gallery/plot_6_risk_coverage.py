"""
Risk and coverage
=================

Leave the least confident rows to somebody else: how many errors remain among the others? Whoever
ranks rows by confidence wants this curve low. A calibrator changes the order of rows, for better or
worse: here one temperature for all rows makes it worse, and one for each row better.
"""

import calibrant
from calibrant import diagrams, plots

data = calibrant.datasets.load("cifar100-vgg19")
curves = {}
for name in ("base", "ts", "pts"):
    fitted = calibrant.calibrator(name).fit(data.val_logits, data.val_labels)
    curves[name] = diagrams.risk_coverage(fitted.predict_proba(data.test_logits), data.test_labels)

ax = plots.risk_coverage(curves)
for name, curve in curves.items():
    print(f"{name}: area under the curve {curve.aurc:.4f}")
