"""
The ECE against the number of bins
==================================

The same probabilities in more and more bins. What a calibrated model would show grows, too: an ECE
means nothing without its number of bins and rows.
"""

import calibrant
from calibrant import diagrams, plots

data = calibrant.datasets.load("cifar10-vgg19")
pts = calibrant.PTS().fit(data.val_logits, data.val_labels)
sweep = diagrams.ece_by_bins(pts.predict_proba(data.test_logits), data.test_labels)
ax = plots.ece_by_bins(sweep)
