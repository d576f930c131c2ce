"""Files of others: how large they may become in memory, and what becomes of their faults.

A file of a few megabytes can hold arrays of many gigabytes: compressed, or as a header's claim. So
every reader says how much memory it is about to take, and asks first.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from calibrant.common.errors import FileError, closest
from calibrant.common.memory import available_memory, lacks_memory, size_text

ALWAYS = 10**9  # bytes that any file may take
USUAL = 20  # .. or so many times its own size: numbers as networks give them compress far less


@dataclass(frozen=True)
class Expansion:
    """The bytes that the arrays of a file may take in memory.

    ``max_size`` None: 1 GB or 20 times the size of the file, whichever is more.
    """

    path: Path
    max_size: int | None = None

    def __post_init__(self) -> None:
        size = self.max_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ValueError(f"max_size must be a whole number of bytes, at least 1, got {size!r}")

    def check(self, needed: int) -> None:
        """Refuse arrays that would take more than is allowed, or than there is."""
        self.check_claim(needed)
        if lacks_memory(needed):
            raise FileError(
                f"the arrays of {self.path} would take {size_text(needed)} of memory, "
                f"{size_text(available_memory() or 0)} are available: as a .npy file they could "
                "stay on the disk"
            )

    def check_claim(self, needed: int) -> None:
        """Refuse arrays that would be too large beside their file: a few bytes can claim any."""
        size = self.path.stat().st_size
        limit = max(ALWAYS, USUAL * size) if self.max_size is None else self.max_size
        if needed > limit:
            raise FileError(
                f"{self.path} has {size_text(size)}, but its arrays would take "
                f"{size_text(needed)} of memory, and {size_text(limit)} are allowed: if you trust "
                f"the file, say max_size={needed}"
            )


def similar_file(path: Path) -> str:
    """The end of a message about a file that is not there: one beside it that was meant, if any."""
    stem, suffix = path.stem.lower(), path.suffix.lower()
    try:
        names = {
            one.stem.lower(): one.name
            for one in path.parent.iterdir()
            if one.is_file() and (one.suffix.lower() == suffix or one.stem.lower() == stem)
        }
    except OSError:  # the folder is not there either, or may not be read
        return ""
    found = closest(stem, names)
    return "" if found is None else f". Did you mean {names[found]!r}?"


@contextmanager
def parsing(path: Path, what: str) -> Iterator[None]:
    """Whatever a parser raises becomes one clear line that names the file.

    Damaged files make the parsers of other packages raise nearly anything.
    """
    try:
        yield
    except (FileError, ImportError):
        raise
    except Exception as error:
        raise FileError(f"{path} cannot be read as {what}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    if isinstance(error, pickle.UnpicklingError) or "pickle" in str(error):
        return (
            "it is damaged or holds pickled objects, which are never loaded. Save arrays of numbers"
        )
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8. The end of its name must tell its format"
    if isinstance(error, zipfile.BadZipFile) and "not a zip file" in str(error):
        return "it is damaged, or something else. The end of its name must tell its format"
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
