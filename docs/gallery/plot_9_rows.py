"""
How many rows?
==============

Methods fitted on growing parts of the validation rows, judged on all test rows; the shade is one
standard deviation over the parts. :doc:`/guide/rows-needed` has twelve networks.
"""

import calibrant
from calibrant import diagrams, plots

data = calibrant.datasets.load("cifar10-vgg19")
curves = diagrams.learning_curves(
    data.val_logits,
    data.val_labels,
    data.test_logits,
    data.test_labels,
    methods=("ts", "ets", "hts", "vector"),
    fractions=(0.02, 0.05, 0.1, 0.3, 1.0),
    metric="nll",
    n_seeds=4,
)
ax = plots.learning_curves(curves)
