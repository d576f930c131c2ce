"""Test files of packages whose wheels come without them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

FOLDER = Path(sys.prefix) / "peer-tests"  # kept with the environment


def from_sdist(requirement: str, sha256: str, member: str) -> Path:
    """Fetch a file of a package's source distribution.

    Parameters
    ----------
    requirement : str
        The package and its version, as ``name==version``.
    sha256 : str
        The hash of its source distribution.
    member : str
        The path of the file in it.

    Returns
    -------
    Path
        Where the file lies.
    """
    name = requirement.replace("==", "-")
    target = FOLDER / name / member
    if not target.exists():
        FOLDER.mkdir(exist_ok=True)
        pinned = FOLDER / f"{name}.txt"
        pinned.write_text(f"{requirement} --hash=sha256:{sha256}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        options = ["--no-binary=:all:", "--require-hashes", f"--dest={FOLDER}"]
        subprocess.run([*pip, *options, f"--requirement={pinned}"], check=True)
        with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
            archive.extract(f"{name}/{member}", FOLDER, filter="data")
    return target
