"""Output files that appear whole or not at all, for programs and plugins that write files.

``calibrant`` writes all its files this way. A link stands for what it points to: that is written,
and the link stays. A file that is replaced keeps its mode and its owner.
"""

from __future__ import annotations

from calibrant.common.files import check_output, check_suffix, replacing, write_text

__all__ = ["check_output", "check_suffix", "replacing", "write_text"]
