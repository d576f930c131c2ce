"""Files: outputs that appear whole or not at all, and inputs of others that are not trusted.

An output takes the place of nothing but files. A link stands for what it points to, there or not:
that is written, and the link stays. A file that is replaced keeps its mode and its owner. All of it
is checked twice: before the work, where the caller asks for it, and when the file is written.

An input of a few megabytes can hold arrays of many gigabytes: compressed, or as a header's claim.
So every reader says how much memory it is about to take, and asks first.
"""

from __future__ import annotations

import errno
import os
import pickle
import secrets
import stat
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from calibrant.common.errors import FileError, closest
from calibrant.common.memory import available_memory, lacks_memory, size_text

FilePath = str | os.PathLike[str]

ALWAYS = 10**9  # bytes that the arrays of any file may take in memory
USUAL = 20  # .. or so many times its own size: numbers as networks give them compress far less

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


def check_suffix(path: FilePath, suffixes: Collection[str]) -> None:
    """Refuse the name of a file that ends otherwise than it should, in letters of either case.

    Parameters
    ----------
    path : path-like
        The file; it need not exist.
    suffixes : collection of str
        The ends that are allowed, in lower case, such as ``(".npz",)``.

    Raises
    ------
    ValueError
        Where the name ends otherwise.

    Examples
    --------
    >>> check_suffix("probs.NPZ", (".npz",))
    >>> check_suffix("probs.txt", (".npz",))
    Traceback (most recent call last):
    ValueError: the file's name must end in .npz, got 'probs.txt'
    """
    if Path(path).suffix.lower() not in suffixes:
        ends = ", ".join(suffixes) if len(suffixes) == 1 else f"one of {', '.join(suffixes)}"
        raise ValueError(f"the file's name must end in {ends}, got {os.fspath(path)!r}")


def check_output(path: FilePath, suffixes: Collection[str] = ()) -> None:
    """Refuse what ``replacing`` would refuse to write: before the work is done, not after it.

    Parameters
    ----------
    path : path-like
        The file that will be written.
    suffixes : collection of str, default ()
        The ends that its name may have; any by default.

    Raises
    ------
    ValueError
        Where the name ends otherwise.
    OSError
        Where the folder is missing or may not be written to, or something other than a file that
        may be replaced is in the way.

    Examples
    --------
    >>> check_output("no-such-folder/probs.npz")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder no-such-folder to write probs.npz to
    """
    if suffixes:
        check_suffix(path, suffixes)
    _destination(Path(path))


@contextmanager
def replacing(path: FilePath) -> Iterator[IO[bytes]]:
    """Write to a file under a temporary name, which takes the place of ``path`` once it is whole.

    It does so at the end of the ``with`` block. Where an error ends the block, the temporary file
    is deleted, and what was at ``path`` stays.

    Parameters
    ----------
    path : path-like
        The file to write. A file that is there is replaced and keeps its mode and owner; a link
        stays, and what it points to is written.

    Yields
    ------
    file
        The temporary file, open for writing bytes.

    Raises
    ------
    OSError
        Where the file cannot be written; the error has the name of ``path``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "probs.bin")
    >>> with replacing(path) as file:
    ...     length = file.write(b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    path = Path(path)
    target, before = _destination(path)
    # hidden, in the same folder, from where renaming is one step; never longer than allowed
    temporary = target.with_name(f".calibrant-{secrets.token_hex(8)}.tmp")
    mode = 0o666 if before is None else 0o600  # less the umask, which the system sees to
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            if before is not None:  # from the start, so that nobody reads what he could not read
                now = os.fstat(file.fileno())
                owner = before.st_uid, before.st_gid
                if hasattr(os, "chown") and (now.st_uid, now.st_gid) != owner:
                    os.chown(temporary, *owner)
                # last: a new owner takes some bits away
                os.chmod(temporary, stat.S_IMODE(before.st_mode))
            yield file
            file.flush()
            # Before the renaming: after a crash of the machine there is the old file or the new
            # one, and never an empty one. Which of them does not matter: the folder is not synced.
            os.fsync(file.fileno())
        _destination(path)  # something else may have come there meanwhile
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # torch raises one of its own over that of the system, NumPy one without a number
        cause = error.__context__ if isinstance(error, RuntimeError) else error
        if not isinstance(cause, OSError) or cause.filename not in (None, os.fspath(temporary)):
            raise
        if cause.errno is None:
            raise OSError(f"{path} could not be written whole: {cause}") from None
        # an error of the system is about the file that was asked for
        raise OSError(cause.errno, cause.strerror, os.fspath(path)) from None


def write_text(path: FilePath, text: str) -> None:
    """Write a text file in UTF-8; it appears whole or not at all.

    Parameters
    ----------
    path : path-like
        The file to write, as in ``replacing``.
    text : str
        Its content.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "card.json")
    >>> write_text(path, "{}")
    >>> path.read_text()
    '{}'
    """
    with replacing(path) as file:
        file.write(text.encode())


def _destination(path: Path) -> tuple[Path, os.stat_result | None]:
    """The file that stands behind a name, and what is known of it where it is there already.

    What is no file is refused, and so is one that is write-protected or belongs to somebody else,
    to whom the new file could not be given back.
    """
    target = Path(os.path.realpath(path))
    try:
        before = os.stat(path)  # refuses circles of links and names that are too long
    except (FileNotFoundError, NotADirectoryError):
        before = None
    folder = target.parent if path.parent.is_dir() else path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to write {path.name} to")
    refusal = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        kind = _KINDS.get(stat.S_IFMT(before.st_mode), "no file")
        code = errno.EISDIR if stat.S_ISDIR(before.st_mode) else errno.EEXIST
        refusal = code, f"is {kind}, and only a file is replaced"
    elif before is not None and not os.access(path, os.W_OK):
        refusal = errno.EACCES, "may not be written to"
    elif before is not None and hasattr(os, "geteuid") and os.geteuid() not in (0, before.st_uid):
        refusal = errno.EPERM, "belongs to somebody else: delete it first"
    elif not os.access(folder, os.W_OK | os.X_OK):
        refusal = errno.EACCES, "its folder may not be written to"
    if refusal is not None:
        raise OSError(*refusal, os.fspath(path))
    return target, before


# --- files of others --------------------------------------------------------------------------


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
