"""CIR: centered isotonic regression, one class against all others (Oron and Flournoy 2017)."""

from __future__ import annotations

from calibrant.calibrators.isotonic._isotonic_regression import LinePerClass, centered_line
from calibrant.common.docstrings import documented


@documented
class CenteredIsotonic(LinePerClass):
    """A rising function of each class' own probability. Does not preserve accuracy.

    Parameters
    ----------
    normalize : bool, default True
        Divide each row by its sum; False gives one value per class, which sum to anything.
    {fit_progress}
    {input_logits}

    Notes
    -----
    Isotonic regression is flat wherever it pools rows: scores that differ become equal, and the
    flat pieces are biased at their ends. Here every pooled block is one point, at the weighted mean
    of its probabilities, and the function is linear between these points. Blocks of value 0 or 1
    stay flat, and outside the outermost points the function is constant. As with
    ``IsotonicOneVsAll``, 1e-9 p_c is added.

    References
    ----------
    Oron and Flournoy, "Centered Isotonic Regression: Point and Interval Estimation for
    Dose-Response Studies", Statistics in Biopharmaceutical Research 9(3), 2017.

    Examples
    --------
    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    >>> CenteredIsotonic().fit(logits, [0, 1, 0, 1]).predict_proba([[0.5, 0.0]]).round(3)
    array([[0.661, 0.339]])
    """

    _line_of = staticmethod(centered_line)
