"""Output files: they appear whole or not at all, and take the place of nothing but files.

A link stands for what it points to, there or not: that is written, and the link stays. A file that
is replaced keeps its mode and its owner. All of it is checked twice: before the work, where the
caller asks for it, and when the file is written.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

FilePath = str | os.PathLike[str]

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
    temporary = _temporary_beside(target)
    mode = 0o666 if before is None else 0o600  # less the umask, which the system sees to
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            if before is not None:  # from the start, so that nobody reads what he could not read
                _keep_mode_and_owner(temporary, before)
            yield file
            file.flush()
            # Before the renaming: after a crash of the machine there is the old file or the new
            # one, and never an empty one. Which of them does not matter: the folder is not synced.
            os.fsync(file.fileno())
        _destination(path)  # something else may have come there meanwhile
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        _raise_about(path, temporary, error)


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


# --- where an output goes ---------------------------------------------------------------------


def _destination(path: Path) -> tuple[Path, os.stat_result | None]:
    """The file that stands behind a name, and what is known of it where it is there already."""
    target = Path(os.path.realpath(path))
    try:
        before = os.stat(path)  # refuses circles of links and names that are too long
    except (FileNotFoundError, NotADirectoryError):
        before = None
    folder = target.parent if path.parent.is_dir() else path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to write {path.name} to")
    if before is not None:
        _check_replaceable(path, before)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(errno.EACCES, "its folder may not be written to", path)
    return target, before


def _check_replaceable(path: Path, before: os.stat_result) -> None:
    """Refuse what is no file, is write-protected, or could not be given back to its owner."""
    if not stat.S_ISREG(before.st_mode):
        kind = _KINDS.get(stat.S_IFMT(before.st_mode), "no file")
        code = errno.EISDIR if stat.S_ISDIR(before.st_mode) else errno.EEXIST
        raise _refused(code, f"is {kind}, and only a file is replaced", path)
    if not os.access(path, os.W_OK):
        raise _refused(errno.EACCES, "may not be written to", path)
    if hasattr(os, "geteuid") and os.geteuid() not in (0, before.st_uid):
        raise _refused(errno.EPERM, "belongs to somebody else: delete it first", path)


def _refused(code: int, reason: str, path: Path) -> OSError:
    return OSError(code, reason, os.fspath(path))


# --- writing it -------------------------------------------------------------------------------


def _temporary_beside(target: Path) -> Path:
    """A hidden name in the folder, from where renaming is one step; never longer than allowed."""
    return target.with_name(f".calibrant-{secrets.token_hex(8)}.tmp")


def _keep_mode_and_owner(file: Path, before: os.stat_result) -> None:
    """Give a new file the mode and the owner of the one whose place it will take."""
    now = os.stat(file)
    if hasattr(os, "chown") and (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        os.chown(file, before.st_uid, before.st_gid)
    os.chmod(file, stat.S_IMODE(before.st_mode))  # last: a new owner takes some bits away


def _raise_about(path: Path, temporary: Path, error: BaseException) -> NoReturn:
    """Raise an error; one of the system is about the file that was asked for."""
    # torch raises one of its own over that of the system, NumPy one without a number
    cause = error.__context__ if isinstance(error, RuntimeError) else error
    if not isinstance(cause, OSError) or cause.filename not in (None, os.fspath(temporary)):
        raise error
    if cause.errno is None:
        raise OSError(f"{path} could not be written whole: {cause}") from None
    raise OSError(cause.errno, cause.strerror, os.fspath(path)) from None
