"""Train the paper's networks, several at a time on one GPU, and gather their logits.

Run it from the repository root; it needs torch, NumPy and Pillow, and no installed calibrant:

    python tools/train_all_logits.py --data DIR --out LOGITS --seeds 0 1 --pack FOLDER

``DIR`` holds the folders cifar100, cifar10 and fashion-mnist. The logits of a seed come to lie in
``OUT/seedN/DATASET-NETWORK.npz`` with a card and a log each; what is there already is not made
again. With ``--seconds`` all trainings stop cleanly after that time, and the same command goes on
with them. ``--pack`` writes one tar file per network as soon as it is finished. A small network
keeps neither a GPU nor a CPU core busy alone, so separate processes share the GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [str(ROOT / "src"), str(ROOT / "papers" / "src")]
sys.path[:0] = SOURCES  # the GPU machine has no installed calibrant

from calibrant_papers.make_logits import STOPPED, summary  # noqa: E402
from calibrant_papers.recipes import RECIPES  # noqa: E402

# The longest training first: whatever comes last leaves the GPU half idle.
SLOW_FIRST = ("densenet169", "resnet152", "xception", "resnet50", "mobilenetv2", "vgg19", "lenet5")
SHORTEST = 20.0  # seconds left under which no training is started: it would only get ready


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

    def file(self, out: Path, ending: str) -> Path:
        """Where its logits (npz), its card (json) and its log go."""
        return out / f"seed{self.seed}" / f"{self.name}.{ending}"


def jobs_of(options: argparse.Namespace) -> list[Job]:
    """The wanted jobs, seed by seed, within a seed the slow networks first."""
    pairs = sorted(RECIPES, key=lambda pair: SLOW_FIRST.index(pair[1]))
    jobs = [Job(*pair, seed) for seed in options.seeds for pair in pairs]
    return [job for job in jobs if not options.only or job.name in options.only]


def run(job: Job, options: argparse.Namespace, until: float) -> bool:
    """Train in a process of its own, its output in a log; print one line; say if it is finished."""
    card, log = job.file(options.out, "json"), job.file(options.out, "log")
    if not card.exists():
        left = until - time.monotonic()
        if left < SHORTEST:
            return _unfinished(job, "not started: too little time")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            command, settings = command_of(job, options, left), environment(options.jobs)
            code = subprocess.call(command, stdout=file, stderr=file, env=settings)
        if code:
            state = "stopped" if code == STOPPED else f"FAILED, exit code {code}"
            return _unfinished(job, f"{state}:\n{end_of(log)}")
        if options.pack:
            pack(job, options.out, options.pack)
    print(summary(json.loads(card.read_text())), flush=True)
    return True


def _unfinished(job: Job, state: str) -> bool:
    print(f"{job.name} seed {job.seed} {state}", flush=True)
    return False


def command_of(job: Job, options: argparse.Namespace, left: float) -> list[str]:
    """The command line of a job that may take ``left`` seconds."""
    command = [sys.executable, "-m", "calibrant_papers.make_logits"]
    command += ["--dataset", job.dataset, "--data", str(options.data / job.dataset)]
    command += ["--network", job.network, "--seed", str(job.seed)]
    command += ["--out", str(job.file(options.out, "npz").parent), "--device", options.device]
    command += ["--no-tuning"] if options.no_tuning else []
    command += ["--seconds", f"{left:.0f}"] if math.isfinite(left) else []
    for name in ("epochs", "held_out"):
        if getattr(options, name):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return command


def environment(jobs: int) -> dict[str, str]:
    """The processes share the cores, and find the package in ``src``."""
    threads = max((os.cpu_count() or 1) // jobs, 1)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES), "OMP_NUM_THREADS": str(threads)}


def end_of(log: Path, lines: int = 5) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text().splitlines()[-lines:])


def pack(job: Job, out: Path, target: Path) -> None:
    """One tar file with the logits, the card and the log of a finished job."""
    target.mkdir(parents=True, exist_ok=True)
    whole = target / f"{job.name}-seed{job.seed}.tar"
    unfinished = whole.with_suffix(".part")
    with tarfile.open(unfinished, "w") as archive:
        for ending in ("npz", "json", "log"):
            file = job.file(out, ending)
            archive.add(file, arcname=f"seed{job.seed}/{file.name}")
    unfinished.replace(whole)


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train all networks of the paper.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the image folders")
    parser.add_argument("--out", type=Path, required=True, help="folder for all outputs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=3, help="networks trained at the same time")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop cleanly after these")
    parser.add_argument("--epochs", type=int, help="instead of the recipes' (for a trial)")
    parser.add_argument("--held-out", type=int, help="validation rows, instead of the recipes'")
    parser.add_argument("--no-tuning", action="store_true", help="cuDNN's first algorithms will do")
    parser.add_argument("--only", nargs="+", help="names such as cifar100-vgg19")
    parser.add_argument("--pack", type=Path, help="folder for one tar file per finished network")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Run all jobs, longest first; the exit code says whether all are finished."""
    options, began = parse_arguments(words), time.monotonic()
    jobs = jobs_of(options)
    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda job: run(job, options, began + options.seconds), jobs))
    print(f"{sum(done)} of {len(jobs)} networks finished, {time.monotonic() - began:.0f} s")
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
