"""
Before and after PTS
====================

A reliability diagram shows accuracy against confidence: a calibrated model lies on the diagonal.
The band is where it would lie by chance, with as many rows in each bin; the histogram beneath shows
where the rows are.
"""

import matplotlib.pyplot as plt

import calibrant
from calibrant import diagrams, plots

data = calibrant.datasets.load("cifar100-vgg19")
pts = calibrant.PTS().fit(data.val_logits, data.val_labels)

before = diagrams.reliability(data.test_logits, data.test_labels, input="logits")
after = diagrams.reliability(pts.predict_proba(data.test_logits), data.test_labels)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.8), layout="constrained")
plots.reliability(before, ax=left).set_title("Uncalibrated")
plots.reliability(after, ax=right).set_title("PTS")

# %%
# The same numbers, without a picture:

print(f"ECE before {before.error:.3f}, after {after.error:.3f}")
