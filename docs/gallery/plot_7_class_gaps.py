"""
Classes and bins as a heat map
==============================

Accuracy minus confidence of the rows that predict each class, by bins of confidence: which classes
are promised too much, and where. With many classes a map shows more than many panels.
"""

import matplotlib.pyplot as plt

import calibrant
from calibrant import diagrams, plots

NAMES = ["T-shirt", "trousers", "pullover", "dress", "coat"]
NAMES += ["sandal", "shirt", "sneaker", "bag", "boot"]

data = calibrant.datasets.load("fashion-mnist-lenet5")
figure, panels = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained")
for ax, name in zip(panels, ("ts", "vector"), strict=True):
    fitted = calibrant.calibrator(name).fit(data.val_logits, data.val_labels)
    gaps = diagrams.class_gaps(fitted.predict_proba(data.test_logits), data.test_labels)
    plots.class_gaps(gaps, ax=ax, names=NAMES, sort=False, limit=0.2).set_title(name)
