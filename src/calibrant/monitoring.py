"""Is a deployed calibrator still calibrated? Rows in windows, and an alarm that seldom errs."""

from calibrant.scale.monitoring import CalibrationMonitor, WindowReport

__all__ = ["CalibrationMonitor", "WindowReport"]
