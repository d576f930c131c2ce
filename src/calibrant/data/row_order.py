"""An order of the rows that follows from their content.

Sums of the same numbers in another order differ in their last digits. Fits of networks, and fits in
single precision, amplify such differences until they show in the probabilities. So these fits
first put the rows into an order that does not depend on how they were given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.data.copies import row_keys
from calibrant.data.weights import are_counts


def canonical_rows(
    values: Floats, labels: NDArray[np.integer], weight: Floats
) -> tuple[NDArray[np.intp], Floats]:
    """The rows in their own order, and their weights.

    They are sorted by the label's value, so that rows at equal distances are a fair sample, and so
    that scores which differ by rounding alone keep their order. The rest of a row decides ties.

    Whole weights count repeated rows, so copies of a row become one row with the sum of their
    weights. Other weights are not added up: they would stand for another number of rows.
    """
    own = values[np.arange(len(labels)), labels]
    order, tied = sorted_with_ties(own)
    keys = row_keys(values[order[tied]], labels[order[tied]])
    inner = np.lexsort((weight[order[tied]], keys, own[order[tied]]))
    order[tied] = order[tied][inner]
    if not are_counts(weight):
        return order, weight[order]
    starts = np.ones(len(order), bool)
    starts[tied] = np.append(True, (np.diff(own[order[tied]]) > 0) | (np.diff(keys[inner]) != 0))
    first = np.flatnonzero(starts)
    return order[first], np.add.reduceat(weight[order], first)


def sorted_with_ties(values: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order of rising values, and the places in it of values that occur more than once."""
    order = np.argsort(values)
    same = np.diff(values[order]) == 0.0
    return order, np.flatnonzero(np.append(same, False) | np.append(False, same))
