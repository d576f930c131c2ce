"""Pin what the Makefile installs, each file of every package by its hash: `make lock`.

Writes three files of requirements, for every platform and every Python from the oldest on:

    requirements/pip.txt            the installer itself
    requirements/runtime.txt        what calibrant runs on and is built with
    requirements/development.txt    all groups but the peers and ray, the two above included

Versions that are pinned already stay where pyproject.toml allows them; `make lock LOCK=--upgrade`
looks for newer ones. Arguments are passed on to `uv pip compile`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
BUILDS = REQUIREMENTS / "torch-builds.txt"
GROUPS = ("pip", "build", "tools", "check", "test", "docs", "jax")


def main(options: list[str]) -> None:
    """Write the three files, the whole first: it holds the other two to its versions."""
    development = REQUIREMENTS / "development.txt"
    resolve(development, ["pyproject.toml", *in_groups(*GROUPS), *options])
    development.write_text(with_builds(development.read_text(), BUILDS.read_text()))
    same = ["--constraint", str(development.relative_to(ROOT))]
    resolve(REQUIREMENTS / "runtime.txt", ["pyproject.toml", *in_groups("build"), *same])
    resolve(REQUIREMENTS / "pip.txt", [*in_groups("pip"), *same])


def in_groups(*names: str) -> list[str]:
    """Options that ask for dependency groups."""
    return [option for name in names for option in ("--group", name)]


def resolve(target: Path, options: list[str]) -> None:
    """Have uv write one file; how it does so stands in pyproject.toml."""
    name = str(target.relative_to(ROOT))
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", *options, "-o", name]
    subprocess.run(command, cwd=ROOT, check=True)


def with_builds(lock: str, builds: str) -> str:
    """The lock with the hashes of further builds of torch beside those of the index."""
    listed = [line.split() for line in builds.splitlines() if not line.startswith("#")]
    (start,) = (line for line in lock.splitlines() if line.startswith("torch=="))
    version = start.removeprefix("torch==").removesuffix(" \\")
    for _, name in listed:
        if not name.startswith(f"torch-{version}+"):
            raise SystemExit(
                f"torch is {version}: {BUILDS.name} needs its builds instead of {name}"
            )
    new = [digest for digest, _ in listed if digest not in lock]  # uv keeps what was there
    return lock.replace(start, start + "".join(f"\n    --hash=sha256:{one} \\" for one in new))


if __name__ == "__main__":
    main(sys.argv[1:])
