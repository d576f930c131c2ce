"""The default fit of a temperature that depends on the row: anchored networks, averaged.

    log T = log T0 + mean over networks of R tanh(r / R),  r = network(inputs)

T0 is the best single temperature. Every network starts at random hidden weights and a zero output
kernel, which is temperature scaling itself, and is pulled back to its own start by a quadratic
penalty. So the strongest penalty gives temperature scaling, the way from there is smooth (the
network begins as a linear model in random features), and different starts are worth averaging.

A fit follows a path of falling penalties by damped Newton steps on all rows at once, each from the
last one's solution. The penalty is chosen by the leave-one-out loss, which the Newton model gives
without refitting: leaving out row i moves its own output by h_i g_i / (1 - h_i c_i), g and c being
the row's slope and curvature and h_i = J_i H^-1 J_i' its leverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._losses import ProfileLoss
from calibrant._optimize import damped_newton
from calibrant._threads import available_cores, mapping, one_blas_thread
from calibrant._types import Floats as Vector
from calibrant._types import Report
from calibrant.calibrators import _network as network
from calibrant.calibrators._choosing import error_of_difference
from calibrant.profile import TemperatureProfile

RANGE = 3.0  # no row's temperature leaves T0 e^-3 .. T0 e^3
PENALTIES = (1000.0, 250.0, 60.0, 15.0, 4.0, 1.0)  # in rows: a prior that weighs as much as these
# Weaker penalties than this over the number of rows are not tried: with few hundred rows, and
# hardly an error among them, the leave-one-out loss itself is too uncertain to tell. A penalty
# that weighs as much as ALWAYS rows is tried however few there are.
WEAKEST = 3_750.0
ALWAYS = 15.0
MAX_ITER = 12  # Newton steps per penalty
TOLERANCE = 1e-5
SETTLED = 2e-3  # a network whose last step gained less than this share has all but converged
BIAS_ROWS = 1.0  # the prior of the output bias: nothing to many rows, a hold for few
CHUNK = 16_384  # rows whose Jacobian is held at once
STEEPEST = 1e15  # larger slopes and curvatures of a row count as this: their products fit a float32
# A simpler candidate is taken while its leave-one-out loss is within this many standard errors
# of the best one's: with little data the best one is often the luckiest.
PATIENCE = 0.25
IDENTITY, SCALING = 0, 1  # positions among the candidates
# With more rows than this, estimating the one temperature costs less than leaving it alone could.
IDENTITY_ROWS = 300


@dataclass(frozen=True)
class AnchoredFit:
    """Weights for the raw inputs, a leading axis over the networks, and how they were chosen."""

    weights: list[Vector]
    base_temperature: float
    converged: bool
    message: str
    iterations: int
    left_out: Vector  # log T of each row had it not been fitted on
    details: dict[str, Any]


@dataclass(frozen=True)
class PathPoint:
    """Where one network stands at one penalty, and how it got there."""

    flat: Vector
    left_out: Vector  # log(T / T0) of each row had it not been fitted on
    iterations: int
    last_gain: float  # by which share the last Newton step lowered the penalised loss; 0: converged


@dataclass(frozen=True)
class _Member:
    """One network's penalised problem on the rows of a profile.

    A penalty of p counts as p rows of the sum of squares: p / n times it beside the mean loss, n
    being the effective number of rows.
    """

    loss: ProfileLoss
    inputs: Vector  # standardised
    sizes: list[tuple[int, int]]
    log_base: float
    anchor: Vector

    def pull(self, penalty: float) -> Vector:
        """The penalty of every parameter; the output bias, which moves all T alike, has its own."""
        rows = np.full_like(self.anchor, penalty)
        rows[-1] = BIAS_ROWS
        return rows / self.loss.effective_rows

    def output(self, flat: Vector) -> Vector:
        return network.forward(network.unflatten(flat, self.sizes), self.inputs)

    def link(self, raw: Vector) -> tuple[Vector, Vector]:
        """log(T / T0) of the outputs, and its derivative in them."""
        bent = np.tanh(raw / RANGE)
        return RANGE * bent, 1.0 - bent**2

    def value(self, flat: Vector, pull: Vector) -> float:
        log_temperature = self.log_base + self.link(self.output(flat))[0]
        return self.loss.mean(-log_temperature) + 0.5 * float(pull @ (flat - self.anchor) ** 2)

    def model(self, flat: Vector, pull: Vector) -> tuple[Vector, Vector]:
        """Gradient, and a Hessian without negative curvature and the network's own."""
        gradient, hessian = pull * (flat - self.anchor), np.diag(pull)
        for chunk in self.chunks():
            jacobian, slope, curvature = self.rows(flat, chunk)
            share = self.loss.shares[chunk]
            gradient += (share * slope).astype(np.float32) @ jacobian
            jacobian *= np.sqrt(share * curvature).astype(np.float32)[:, None]
            hessian += jacobian.T @ jacobian
        return gradient, hessian

    def chunks(self) -> list[slice]:
        return [slice(first, first + CHUNK) for first in range(0, len(self.inputs), CHUNK)]

    def rows(self, flat: Vector, chunk: slice) -> tuple[NDArray[np.float32], Vector, Vector]:
        """The outputs' Jacobian, and slope and curvature of the loss in them, of some rows."""
        weights = network.unflatten(flat, self.sizes)
        raw, layers = network.forward_all(weights, self.inputs[chunk])
        shift, rate = self.link(raw)
        row = self.loss.rows(-(self.log_base + shift), self.loss.all_rows[chunk])
        slope = np.clip(-row.slope * rate, -STEEPEST, STEEPEST)
        curvature = np.clip(row.curvature * rate**2, 0.0, STEEPEST)
        return network.jacobian(weights, layers), slope, curvature

    def path(self, penalties: Sequence[float]) -> list[PathPoint]:
        """The solutions at all penalties, each from the last one's."""
        flat, result = self.anchor, []
        for penalty in penalties:
            pull = self.pull(penalty)
            found = damped_newton(
                lambda x, pull=pull: self.value(x, pull),  # type: ignore[misc]
                lambda x, pull=pull: self.model(x, pull),  # type: ignore[misc]
                flat,
                max_iter=MAX_ITER,
                tolerance=TOLERANCE,
            )
            flat = found.x
            left_out = self.left_out(flat, pull)
            result.append(PathPoint(flat, left_out, found.iterations, found.last_gain))
        return result

    def left_out(self, flat: Vector, pull: Vector) -> Vector:
        """log(T / T0) of each row had it not been fitted on."""
        inverse = np.linalg.pinv(self.model(flat, pull)[1], hermitian=True).astype(np.float32)
        shifts = []
        for chunk in self.chunks():
            jacobian, slope, curvature = self.rows(flat, chunk)
            leverage = self.loss.copy_share[chunk] * np.vecdot(jacobian @ inverse, jacobian)
            shifts.append(leverage * slope / np.maximum(1.0 - leverage * curvature, 0.05))
        return self.link(self.output(flat) + np.concatenate(shifts))[0]


@dataclass(frozen=True)
class _Candidate:
    name: str
    penalty: float | None
    log_t: Vector  # of each row had it not been fitted on
    left_out: Vector  # and its loss then


def fit(
    profile: TemperatureProfile,
    inputs: Vector,
    base: float,
    *,
    hidden: Sequence[int],
    loss: str,
    penalty: float | str,
    members: int,
    rng: np.random.Generator,
    report: Report,
) -> AnchoredFit:
    """Fit ``members`` networks around the best temperature ``base`` and choose the penalty."""
    problem = ProfileLoss(profile, loss)
    mean, spread = _standardiser(inputs, problem.shares)
    standard = (inputs - mean) / spread
    sizes = network.layer_sizes(inputs.shape[1], hidden)
    anchors = [_anchor(sizes, rng) for _ in range(members if hidden else 1)]
    nets = [_Member(problem, standard, sizes, float(np.log(base)), anchor) for anchor in anchors]
    penalties = _path(problem) if penalty == "auto" else _way_to(float(penalty))
    paths = _run(nets, penalties, report)
    candidates = _candidates(problem, base, penalties, paths)
    chosen, details = _choose(problem, candidates) if penalty == "auto" else (candidates[-1], {})
    points = _points_at(paths, penalties, chosen)
    flats = [point.flat for point in points]
    scaling_loss = problem.mean(-float(np.log(base)))
    if not points or _fitted_loss(nets, flats) > scaling_loss:
        chosen = candidates[IDENTITY if chosen.name == "identity" else SCALING]
        points, flats = [], [np.zeros_like(anchor) for anchor in anchors]
    details |= {"choice": chosen.name, "penalty": chosen.penalty, "members": len(nets)}
    details["loss_temperature_scaling"] = scaling_loss
    return AnchoredFit(
        _stacked(flats, sizes, mean, spread),
        1.0 if chosen.name == "identity" else base,
        *_ending(points),
        iterations=sum(point.iterations for path in paths for point in path),
        left_out=chosen.log_t,
        details=details,
    )


def _points_at(
    paths: Sequence[Sequence[PathPoint]], penalties: Sequence[float], chosen: _Candidate
) -> list[PathPoint]:
    """Every network's solution at the chosen penalty; none where a simpler candidate won."""
    if chosen.penalty is None:
        return []
    return [path[penalties.index(chosen.penalty)] for path in paths]


def _ending(points: Sequence[PathPoint]) -> tuple[bool, str]:
    """Whether the chosen networks converged, and how it ended in words."""
    gain = max((point.last_gain for point in points), default=0.0)
    if gain == 0.0:
        return True, "converged"
    told = f"after {MAX_ITER} Newton steps the last one still lowered the loss by {gain:.2%}"
    if gain <= SETTLED:
        return True, f"settled: {told}"
    return False, f"{told}: a larger penalty, or fewer hidden units, settles the networks"


def _fitted_loss(nets: Sequence[_Member], flats: Sequence[Vector]) -> float:
    """The loss of the averaged networks on the rows they were fitted on."""
    shift = np.mean([n.link(n.output(f))[0] for n, f in zip(nets, flats, strict=True)], axis=0)
    return nets[0].loss.mean(-(nets[0].log_base + shift))


def _path(problem: ProfileLoss) -> tuple[float, ...]:
    """The penalties that are worth trying with so many rows."""
    weakest = min(WEAKEST / problem.effective_rows, ALWAYS)
    return tuple(p for p in PENALTIES if p >= weakest)


def _way_to(penalty: float) -> tuple[float, ...]:
    return (*(p for p in PENALTIES if p > penalty), penalty)


def _anchor(sizes: Sequence[tuple[int, int]], rng: np.random.Generator) -> Vector:
    """Glorot kernels, hidden biases that spread the kinks over the data, a zero output kernel."""
    weights = network.glorot(sizes, rng)
    for bias in weights[1:-2:2]:
        bias[:] = rng.uniform(-1.0, 1.0, bias.shape)
    weights[-2][:] = 0.0
    return network.flatten(weights)


def _run(nets: list[_Member], penalties: Sequence[float], report: Report) -> list[list[PathPoint]]:
    """Every network's path, on threads."""
    paths = []
    workers = min(available_cores(), len(nets))
    # One BLAS thread per network: the matrices are small, and BLAS threads wait for each other.
    with one_blas_thread(), mapping(workers) as on_threads:
        for done, path in enumerate(on_threads(lambda net: net.path(penalties), nets)):
            paths.append(path)
            report(done + 1, len(nets))
    return paths


def _candidates(
    problem: ProfileLoss,
    base: float,
    penalties: Sequence[float],
    paths: list[list[PathPoint]],
) -> list[_Candidate]:
    """What may be chosen, the simplest first."""
    found: list[tuple[str, float | None, Vector]] = [
        ("identity", None, np.zeros(len(problem.all_rows))),
        ("temperature scaling", None, _scaling_left_out(problem, base)),
    ]
    for at, penalty in enumerate(penalties):
        shift = np.mean([path[at].left_out for path in paths], axis=0)
        found.append(("network", penalty, np.log(base) + shift))
    return [
        _Candidate(name, penalty, log_t, problem.rows(-log_t).value)
        for name, penalty, log_t in found
    ]


def _choose(
    problem: ProfileLoss, candidates: list[_Candidate]
) -> tuple[_Candidate, dict[str, Any]]:
    """The simplest candidate whose leave-one-out loss is as good as the best one's.

    The identity is taken only with few rows, and where it is the best itself.
    """
    scores = [float(problem.shares @ c.left_out) for c in candidates]
    first = IDENTITY if problem.effective_rows <= IDENTITY_ROWS else SCALING
    best = first + int(np.argmin(scores[first:]))
    weight, lowest = problem.profile.weight, candidates[best].left_out
    errors = [error_of_difference(c.left_out, lowest, weight) for c in candidates]
    rows = list(zip(candidates, scores, errors, strict=True))
    chosen = next(
        candidate
        for at, (candidate, score, error) in enumerate(rows)
        if at == best or (at >= SCALING and score - scores[best] <= PATIENCE * error)
    )
    names = ("candidate", "penalty", "left_out_loss", "error_of_difference")
    return chosen, {
        "path": [dict(zip(names, (c.name, c.penalty, s, e), strict=True)) for c, s, e in rows]
    }


def _scaling_left_out(problem: ProfileLoss, base: float) -> Vector:
    """log T of temperature scaling without each row: the same formula with one parameter."""
    log_b = np.full(len(problem.all_rows), -np.log(base))
    row = problem.rows(log_b)
    curvature = np.maximum(row.curvature, 0.0)
    leverage = problem.copy_share / max(float(problem.shares @ curvature), 1e-12)
    shift = leverage * row.slope / np.maximum(1.0 - leverage * curvature, 0.05)
    return -(log_b + np.clip(shift, -RANGE, RANGE))


def _stacked(
    flats: Sequence[Vector], sizes: Sequence[tuple[int, int]], mean: Vector, spread: Vector
) -> list[Vector]:
    """All networks' weights for raw inputs: the standardisation goes into the first layer."""
    nets = [network.unflatten(flat.copy(), sizes) for flat in flats]
    for weights in nets:
        weights[0] /= spread[:, None]
        weights[1] -= mean @ weights[0]
    return [np.stack(parts) for parts in zip(*nets, strict=True)]


def _standardiser(inputs: Vector, shares: Vector) -> tuple[Vector, Vector]:
    mean = shares @ inputs
    spread = np.sqrt(shares @ (inputs - mean) ** 2)
    constant = spread <= 1e-9 * np.maximum(np.abs(inputs).max(axis=0), 1.0)
    return mean, np.where(constant, 1.0, spread)
