"""An increasing map of all logits, then a temperature for each row."""

from __future__ import annotations

from calibrant.calibrators._base import Fitted
from calibrant.calibrators._choosing import sample_of_logits
from calibrant.calibrators.joint._stages import JointCalibrator
from calibrant.data.rows import Rows


class MonotonePTS(JointCalibrator):
    """An increasing map of all logits, then PTS on the mapped logits. Preserves accuracy.

    The map m bends the logits, the same for every class and row (as DIAG does); the network of
    PTS then gives each row its temperature: softmax(m(z) / T(m(z))). Either part is left out
    where left-out rows show no gain from it, so that the method falls back to PTS, to an
    increasing map or to temperature scaling by itself.

    Parameters
    ----------
    knots : int, default 16
        The number of points between which the logarithm of m's slope is linear.
    hidden : sequence of int, default (5, 5)
        Widths of the network's hidden layers.
    top_k : int, default 10
        How many of the largest mapped logits the networks read; at most the number of classes.
    members : int, default 4
        How many networks are averaged.
    random_state : int, numpy.random.Generator or None, default None
        Where the networks start; None is the seed 0, so that a fit can be repeated.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    formula_ : Chain or NetworkTemperature
        The map and the temperatures, or the temperatures alone.
    fit_info_ : FitInfo
        How the fit went; ``details`` holds the choice and both paths of penalties with their
        left-out losses.

    See Also
    --------
    ParameterizedTemperatureScaling : The second part alone.
    DiagonalOrderPreserving : The first part alone, as a network.
    StructuredPTS : The same, then a class map: more accurate, but the arg max may move.

    Notes
    -----
    m'(x) = exp(s(x)), s piecewise linear; m is fitted by its NLL, the network by Brier + 0.2 NLL on
    the mapped logits, as PTS is. The map enters the profile while it is built: logits are mapped
    a block of rows at a time on their way into it, and the fit of the network costs what that of
    PTS costs. With more than 20,000 rows a sample of them chooses the penalties of both; the map is
    then fitted on at most 100,000 rows, and all rows move the networks.

    References
    ----------
    Tomani, Cremers and Buettner, "Parameterized Temperature Scaling for Boosting the Expressive
    Power in Post-Hoc Uncertainty Calibration", ECCV 2022; Rahimi, Shaban, Cheng, Hartley and
    Boots, "Intra Order-preserving Functions for Calibration of Multi-Class Neural Networks",
    NeurIPS 2020. Their combination is ours.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> mpts = MonotonePTS().fit(data.val_logits[:1000], data.val_labels[:1000])
    >>> calibrant.metrics.ece(mpts.predict_proba(data.test_logits), data.test_labels) < 0.02
    True
    """

    _keeps_arg_max = True

    def _fit_logits(self, data: Rows) -> Fitted:
        stages = self._fit_ordered(data, sample_of_logits(data))
        return stages.formula, stages.info
