"""The parameters that the adaptive methods share, checked once."""

from __future__ import annotations

from typing import Any

from calibrant.calibrators._parameters import check_choice, check_strength, check_widths, is_count
from calibrant.calibrators.profile.losses import LOSSES


def check_adaptive(loss: Any, penalty: Any, hidden: Any = (), members: Any = 1) -> None:
    """Refuse a loss, a penalty, widths or a number of networks that make no sense."""
    check_choice("loss", loss, sorted(LOSSES))
    check_strength("penalty", penalty)
    check_widths("hidden", hidden)
    if not is_count(members):
        raise ValueError(f"members must be a whole number of at least 1, got {members!r}")
