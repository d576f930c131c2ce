"""Train the paper's small networks, several at a time on one GPU, and gather their logits.

Run it from the repository root; it needs torch, NumPy and Pillow, and no installed calibrant:

    python tools/train_all_logits.py --data DIR --out LOGITS --seeds 0 1 --pack FOLDER

``DIR`` holds the folders cifar100, cifar10 and fashion-mnist. The logits of a seed come to lie in
``OUT/seedN/DATASET-NETWORK.npz`` with a card and a log each; what is there already is not made
again. ``--pack`` writes one tar file a seed. A small network keeps neither a GPU nor a CPU core
busy alone, so separate processes share the GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))  # the GPU machine has no installed calibrant

from calibrant.papers.pts.make_logits import summary  # noqa: E402
from calibrant.papers.pts.recipes import RECIPES  # noqa: E402


@dataclass(frozen=True)
class Job:
    """One network to train."""

    dataset: str
    network: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its logits."""
        return f"{self.dataset}-{self.network}"

    def folder(self, out: Path) -> Path:
        """Where its logits go."""
        return out / f"seed{self.seed}"


def jobs_of(options: argparse.Namespace) -> list[Job]:
    """The wanted jobs, seed by seed, within a seed the slow VGG19 first."""
    pairs = sorted(RECIPES, key=lambda pair: pair[1], reverse=True)
    jobs = [Job(*pair, seed) for seed in options.seeds for pair in pairs]
    return [job for job in jobs if not options.only or job.name in options.only]


def run(job: Job, options: argparse.Namespace) -> bool:
    """Train in a process of its own, its output in a log; print one line; say whether it worked."""
    folder = job.folder(options.out)
    card, log = folder / f"{job.name}.json", folder / f"{job.name}.log"
    if not card.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            code = subprocess.call(
                command_of(job, options), stdout=file, stderr=file, env=environment(options.jobs)
            )
        if code:
            print(
                f"FAILED {job.name} seed {job.seed}, exit code {code}:\n{end_of(log)}", flush=True
            )
            return False
    print(summary(json.loads(card.read_text())), flush=True)
    return True


def command_of(job: Job, options: argparse.Namespace) -> list[str]:
    """The command line of a job."""
    command = [sys.executable, "-m", "calibrant.papers.pts.make_logits"]
    command += ["--dataset", job.dataset, "--data", str(options.data / job.dataset)]
    command += ["--network", job.network, "--seed", str(job.seed)]
    command += ["--out", str(job.folder(options.out)), "--device", options.device]
    if options.epochs:
        command += ["--epochs", str(options.epochs)]
    return command


def environment(jobs: int) -> dict[str, str]:
    """The processes share the cores, and find the package in ``src``."""
    threads = max((os.cpu_count() or 1) // jobs, 1)
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": str(threads)}


def end_of(log: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text().splitlines()[-lines:])


def pack(out: Path, seed: int, target: Path) -> None:
    """One tar file with the logits, cards and logs of a seed."""
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target / f"logits-seed{seed}.tar", "w") as archive:
        for file in sorted((out / f"seed{seed}").iterdir()):
            if file.suffix in (".npz", ".json", ".log"):
                archive.add(file, arcname=f"seed{seed}/{file.name}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train all small networks of the paper.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the image folders")
    parser.add_argument("--out", type=Path, required=True, help="folder for all outputs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=3, help="networks trained at the same time")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int, help="instead of the recipes' (for a trial)")
    parser.add_argument("--only", nargs="+", help="names such as cifar100-vgg19")
    parser.add_argument("--pack", type=Path, help="folder for one tar file a seed")
    return parser.parse_args()


def main() -> int:
    """Run all jobs, longest first; the exit code says whether all worked."""
    options, began = parse_arguments(), time.monotonic()
    jobs = jobs_of(options)
    with ThreadPoolExecutor(options.jobs) as pool:
        worked = list(pool.map(lambda job: run(job, options), jobs))
    for seed in options.seeds if options.pack else []:
        pack(options.out, seed, options.pack)
    print(f"{sum(worked)} of {len(jobs)} networks in {time.monotonic() - began:.0f} s")
    return 0 if all(worked) else 1


if __name__ == "__main__":
    sys.exit(main())
