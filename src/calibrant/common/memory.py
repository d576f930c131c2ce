"""Memory: how much this process may still take, and refusing work that would need more."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

SMALL = 64 * 2**20  # bytes: so little is there, and asking the system would take longer


def require_memory(needed: int, who: str, remedy: str) -> None:
    """Refuse work that needs more bytes than there are, before it begins."""
    if lacks_memory(needed):
        available = size_text(available_memory() or 0)
        raise MemoryError(
            f"{who} needs about {size_text(needed)} of memory, {available} are available: {remedy}"
        )


def lacks_memory(needed: int) -> bool:
    """Whether so many bytes are more than this process can have."""
    if needed <= SMALL:
        return False
    available = available_memory()
    return available is not None and needed > available


def size_text(size: float) -> str:
    """A number of bytes as people write it.

    >>> size_text(640), size_text(2.4e9), size_text(3e15)
    ('640 bytes', '2.4 GB', '3,000.0 TB')
    """
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000.0
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000.0:,.1f} TB"


def parse_size(text: str | None) -> int | None:
    """The bytes that a size with or without a unit means; None stays None.

    >>> parse_size("4GB"), parse_size("1.5 MiB"), parse_size("2400000128")
    (4000000000, 1572864, 2400000128)
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?", text.strip().lower())
    if match is None:
        raise ValueError(f"max_size must be a number of bytes, or such as 500MB, got {text!r}")
    number, unit, binary = match.groups()
    power = "kmgt".index(unit) + 1 if unit else 0
    return int(Fraction(number) * (1024 if binary else 1000) ** power)


def available_memory() -> int | None:
    """The bytes that this process may still take; None where the system does not say."""
    known = [*_of_system(), *_of_groups(), *_of_process()]
    return max(0, min(known)) if known else None


def _of_system() -> Iterator[int]:
    """What the machine has left, swap included; where it does not say, all that it has."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        entries = dict(line.split(":", 1) for line in lines)
        left = sum(int(entries[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
        yield 1024 * left
    except (OSError, KeyError, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups() -> Iterator[int]:
    """What the control groups of this process leave: those of a container, of a batch job."""
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup")
        if not controllers:  # version 2
            limit, used, cache = "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):  # version 1
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
            root, cache = root / "memory", "total_inactive_file"
        else:
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            most, taken = _number(folder / limit), _number(folder / used)
            if most is not None and taken is not None:
                entries = map(str.split, _text(folder / "memory.stat").splitlines())
                # what the system keeps of files only as long as nobody needs the memory
                cached = next((int(value) for name, value in entries if name == cache), 0)
                yield most - taken + cached
            if folder == root:
                break


def _of_process() -> Iterator[int]:
    """What a limit of the address space (``ulimit -v``) leaves."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text("/proc/self/statm").split()
    if most != resource.RLIM_INFINITY and pages:
        yield most - int(pages[0]) * resource.getpagesize()


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:  # "max", or no such file
        return None


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
