"""How good are probabilities? All metrics return fractions, and take ``sample_weight``."""

from typing import Any

from calibrant.data.binning import BinStats
from calibrant.metrics._intervals import Estimate
from calibrant.metrics._metric import Merging, Metric
from calibrant.metrics._registry import METRICS
from calibrant.metrics._reports import MeterReport
from calibrant.metrics.binned import (
    adaptive_ece,
    bin_stats,
    confidence_ece,
    debiased_ece,
    ece,
    ece_sweep,
    mce,
    rms_ece,
)
from calibrant.metrics.bootstrap import (
    CalibrationTest,
    Interval,
    PairedComparison,
    bootstrap_ci,
    calibration_test,
    compare_paired,
)
from calibrant.metrics.classwise import (
    ace,
    classwise_adaptive_ece,
    classwise_debiased_ece,
    classwise_ece,
    classwise_ece_per_class,
    top_label_ece,
)
from calibrant.metrics.cox import CoxTest, cox_test
from calibrant.metrics.cumulative import CumulativeTest, ks_test, kuiper_test
from calibrant.metrics.decomposition import BrierDecomposition, brier_decomposition
from calibrant.metrics.kernel import SKCETest, skce, skce_test
from calibrant.metrics.meter import CalibrationMeter, ConfidenceMeter
from calibrant.metrics.omnibus import OmnibusTest, omnibus_test
from calibrant.metrics.scores import (
    accuracy,
    brier,
    brier_per_row,
    calibration_gain,
    nll,
    nll_per_row,
)
from calibrant.metrics.smooth import kde_ece, smooth_ece
from calibrant.metrics.spiegelhalter import ZTest, spiegelhalter_test
from calibrant.metrics.two_classes import (
    CalibrationIndices,
    HosmerLemeshowTest,
    calibration_indices,
    class1_ece,
    hosmer_lemeshow_test,
)

__all__ = [
    "METRICS",
    "BinStats",
    "BrierDecomposition",
    "CalibrationIndices",
    "CalibrationMeter",
    "CalibrationTest",
    "ConfidenceMeter",
    "CoxTest",
    "CumulativeTest",
    "Estimate",
    "HosmerLemeshowTest",
    "Interval",
    "Merging",
    "MeterReport",
    "Metric",
    "OmnibusTest",
    "PairedComparison",
    "SKCETest",
    "ZTest",
    "accuracy",
    "ace",
    "adaptive_ece",
    "bin_stats",
    "bootstrap_ci",
    "brier",
    "brier_decomposition",
    "brier_per_row",
    "calibration_gain",
    "calibration_indices",
    "calibration_test",
    "class1_ece",
    "classwise_adaptive_ece",
    "classwise_debiased_ece",
    "classwise_ece",
    "classwise_ece_per_class",
    "compare_paired",
    "confidence_ece",
    "cox_test",
    "debiased_ece",
    "ece",
    "ece_sweep",
    "hosmer_lemeshow_test",
    "kde_ece",
    "ks_test",
    "kuiper_test",
    "mce",
    "nll",
    "nll_per_row",
    "omnibus_test",
    "rms_ece",
    "skce",
    "skce_test",
    "smooth_ece",
    "spiegelhalter_test",
    "top_label_ece",
]


def __getattr__(name: str) -> Any:
    """A metric without a function of its own is its record, which can be called."""
    if name in METRICS:
        return METRICS[name]
    raise AttributeError(f"module 'calibrant.metrics' has no attribute {name!r}")
