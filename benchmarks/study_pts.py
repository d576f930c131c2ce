"""The study behind the default of PTS: which inputs, loss, link, and how many networks.

    python benchmarks/study_pts.py --data FOLDER [--seeds 5] [--fractions 0.1,1.0]

Every file (.npz with `logits` or `probs`, and `labels`) is cut into random halves. Each variant is
fitted on one half (or a fraction of it), the penalty chosen as PTS chooses it, and judged on the
other. Prints, per group of files (the name up to the first `_`), the mean over cuts, and for the
Brier score the difference to TS with its standard error; all values times 100. `excess` is the
15-bin ECE beyond what the same confidences would show if they were perfectly calibrated.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import calibrant
from calibrant.calibrators import _network as network
from calibrant.calibrators._best_temperature import TEMPERATURE_BOUNDS, best_temperature
from calibrant.calibrators.profile.losses import ProfileLoss
from calibrant.calibrators.temperature import _default_recipe as recipe
from calibrant.metrics import BinStats
from calibrant.profile import TemperatureProfile
from quality import perfect_ece

Inputs = Callable[[np.ndarray, float], np.ndarray]


def gaps(top: np.ndarray, base: float) -> np.ndarray:
    """Gaps to the largest logit."""
    return (top[:, :1] - top[:, 1:]) / base


def log_gaps(top: np.ndarray, base: float) -> np.ndarray:
    """Their logarithms."""
    return np.log(0.3 + gaps(top, base))


INPUTS: dict[str, Inputs] = {
    "logits": lambda top, base: top,
    "gaps": gaps,
    "log gaps": log_gaps,
    "top logit + log gaps": lambda top, base: np.hstack([top[:, :1], log_gaps(top, base)]),
}
BEST = "top logit + log gaps"


class AbsoluteMember(recipe._Member):
    """T = T0 |1 + r|: the paper's link around the same start."""

    def link(self, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log |1 + r| and its derivative, kept off the pole."""
        shifted = np.where(np.abs(1.0 + raw) < 1e-3, 1e-3, 1.0 + raw)
        return np.log(np.abs(shifted)), 1.0 / shifted


@dataclass(frozen=True)
class Variant:
    """One way to do it."""

    inputs: str = BEST
    loss: str = "mixed"
    hidden: tuple[int, ...] = (5, 5)
    members: int = 4
    member: type[recipe._Member] = recipe._Member
    standardise: bool = True


VARIANTS = {
    "default: top logit + log gaps, mixed, 4 networks": Variant(),
    "inputs: logits (the paper's)": Variant(inputs="logits"),
    "inputs: gaps": Variant(inputs="gaps"),
    "inputs: log gaps": Variant(inputs="log gaps"),
    "inputs: logits, not standardised": Variant(inputs="logits", standardise=False),
    "loss: brier": Variant(loss="brier"),
    "loss: nll": Variant(loss="nll"),
    "link: absolute value": Variant(member=AbsoluteMember),
    "networks: 1": Variant(members=1),
    "networks: 2": Variant(members=2),
    "networks: 8": Variant(members=8),
    "width: 10, 10": Variant(hidden=(10, 10)),
    "linear": Variant(hidden=(), members=1),
    "linear in the logits": Variant(inputs="logits", hidden=(), members=1),
}


@dataclass(frozen=True)
class Cut:
    """A fitting and a judging half, and which rows of the latter the classifier got right."""

    fit: TemperatureProfile
    test: TemperatureProfile
    hit: np.ndarray


def cut(path: str, seed: int, fraction: float) -> Cut:
    """The profiles of two random halves of a file."""
    with np.load(path, allow_pickle=False) as arrays:
        kind = "logits" if "logits" in arrays else "probs"
        scores, labels = arrays[kind], arrays["labels"]
    order = np.random.default_rng(seed).permutation(len(scores))
    half = len(scores) // 2
    rows = order[: round(half * fraction)], order[half:]
    halves = (TemperatureProfile().update(scores[i], labels[i], input=kind) for i in rows)
    return Cut(*halves, scores[rows[1]].argmax(axis=1) == labels[rows[1]])


def fit_variant(
    profile: TemperatureProfile, variant: Variant
) -> Callable[[TemperatureProfile], np.ndarray]:
    """Fit as `_default_recipe.fit_default` does; gives the temperatures of a profile."""
    base = best_temperature(profile, variant.loss, TEMPERATURE_BOUNDS).temperature
    problem = ProfileLoss(profile, variant.loss)
    inputs = INPUTS[variant.inputs](profile.top_logits(), base)
    mean, spread = recipe._standardiser(inputs, problem.shares)
    if not variant.standardise:
        mean, spread = np.zeros_like(mean), np.ones_like(spread)
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    sizes = network.layer_sizes(inputs.shape[1], variant.hidden)
    penalties = recipe._penalties("auto", problem.effective_rows)
    rng = np.random.default_rng(0)
    nets = [
        variant.member(
            problem,
            (inputs - mean) / spread,
            sizes,
            float(np.log(base)),
            recipe._anchor(sizes, rng),
        )
        for _ in range(variant.members)
    ]
    paths = [net.path(penalties) for net in nets]
    candidates = recipe._candidates(problem, base, penalties, paths)
    chosen, _ = recipe._choose(problem, candidates)

    def temperature(other: TemperatureProfile) -> np.ndarray:
        if chosen.penalty is None:
            return np.full(len(other), 1.0 if chosen.name == "identity" else base)
        at = penalties.index(chosen.penalty)
        read = np.clip(INPUTS[variant.inputs](other.top_logits(), base), low, high)
        raw = [
            network.forward(network.unflatten(path[at].flat, sizes), (read - mean) / spread)
            for path in paths
        ]
        return base * np.exp(np.mean([nets[0].link(r)[0] for r in raw], axis=0))

    return temperature


def judge(halves: Cut, temperature: np.ndarray | float, seed: int) -> list[float]:
    """ECE, excess, Brier and NLL, times 100."""
    test, confidence = halves.test, halves.test.confidence(temperature)
    stats = BinStats.from_confidence(confidence, halves.hit)
    excess = stats.error() - perfect_ece(confidence, seed)
    scores = (stats.error(), excess, test.brier(temperature), test.nll(temperature))
    return [100.0 * score for score in scores]


def run(job: tuple[str, int, float]) -> tuple[str, float, dict[str, list[float]]]:
    """All variants on one cut."""
    path, seed, fraction = job
    halves = cut(path, seed, fraction)
    scaling = calibrant.TS().fit(halves.fit).temperature_
    results = {"TS": judge(halves, scaling, seed)}
    for name, variant in VARIANTS.items():
        temperature = fit_variant(halves.fit, variant)(halves.test)
        results[name] = judge(halves, temperature, seed)
    return Path(path).name.split("_")[0], fraction, results


def tables(results: list[tuple[str, float, dict[str, list[float]]]]) -> Iterator[str]:
    """One Markdown table a group and fraction: mean +- standard error of the difference to TS."""
    for group in sorted({r[0] for r in results}):
        for fraction in sorted({r[1] for r in results}, reverse=True):
            chosen = [r[2] for r in results if r[:2] == (group, fraction)]
            yield f"\n{group}, {fraction:.0%} of the fitting half, {len(chosen)} cuts\n"
            yield "| variant | ECE | excess | Brier | NLL | Brier - TS |\n|---|---|---|---|---|---|"
            for name in chosen[0]:
                values = np.array([c[name] for c in chosen])
                change = values[:, 2] - np.array([c["TS"][2] for c in chosen])
                error = change.std(ddof=1) / np.sqrt(len(change))
                mean = " | ".join(f"{v:.3f}" for v in values.mean(axis=0))
                yield f"| {name} | {mean} | {change.mean():+.3f} ± {error:.3f} |"


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder of .npz files")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fractions", default="1.0,0.1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    jobs = [
        (str(path), seed, float(fraction))
        for fraction in arguments.fractions.split(",")
        for path in sorted(Path(arguments.data).glob("*.npz"))
        for seed in range(arguments.seeds)
    ]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(run, jobs))
    print("\n".join(tables(results)))


if __name__ == "__main__":
    main()
