"""Many files judged as one, in constant memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli._inputs import about, check_same_kind, read_for

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.metrics import CalibrationMeter, MeterReport


def measure(
    files: list[Path],
    method: Calibrator | None,
    reading: Mapping[str, Any],
    bins: Mapping[str, Any],
    ignore_index: int | None,
) -> dict[str, MeterReport]:
    """The scores and, where there is a calibrator, its probabilities: meters add the files up."""
    from calibrant.metrics import CalibrationMeter

    calibrated = None if method is None else CalibrationMeter(**bins)
    scores: CalibrationMeter | None = None
    for file in files:
        data = read_for(method, file, **reading)
        if scores is None:
            scores = CalibrationMeter(input=data.input, **bins)
        check_same_kind(files[0], scores.input, file, data.input)
        rows: dict[str, Any] = {"sample_weight": data.weights, "ignore_index": ignore_index}
        with about(file):
            scores.update(data.scores, data.labels, **rows)
            if method is not None and calibrated is not None:
                calibrated.update(method.predict_proba(data.scores), data.labels, **rows)
    meters = {"scores": scores, "calibrated": calibrated}
    return {name: meter.compute() for name, meter in meters.items() if meter is not None}
