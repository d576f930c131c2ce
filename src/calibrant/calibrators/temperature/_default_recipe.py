"""The default fit of a temperature that depends on the row: anchored networks, averaged.

    log T = log T0 + mean over networks of R tanh(r / R),  r = network(inputs)

T0 is the best single temperature. Every network starts at random hidden weights and a zero output
kernel, which is temperature scaling itself, and is pulled back to its own start by a quadratic
penalty. So the strongest penalty gives temperature scaling, the way from there is smooth (the
network begins as a linear model in random features), and different starts are worth averaging.

A fit follows a path of falling penalties by damped Newton steps on all rows at once, each from the
last one's solution; with many rows on a sample of them, and all rows then move the solutions at the
chosen penalty. The penalty is chosen by the leave-one-out loss, which the Newton model gives
without refitting: leaving out row i moves its own output by h_i g_i / (1 - h_i c_i), g and c being
the row's slope and curvature and h_i = J_i H^-1 J_i' its leverage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from calibrant.calibrators import _network as network
from calibrant.calibrators._best_temperature import Start, best_temperature, origin_of
from calibrant.calibrators._choosing import Sample, error_of_difference, sample_of_profile
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._optimizers import damped_newton
from calibrant.calibrators.profile.losses import ProfileLoss, chunks
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.progress import reporter
from calibrant.common.threads import available_cores, mapping, one_blas_thread
from calibrant.common.types import Floats, Progress, RandomState, Report, generator
from calibrant.formulas import ExponentialLink, NetworkTemperature, Reading
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._operations import Ops

DEFAULT_LOSS = "mixed"
DEFAULT_MEMBERS = 4
LARGEST_INPUT = 1e15  # larger inputs count as this, and have a finite spread
RANGE = 3.0  # no row's temperature leaves T0 e^-3 .. T0 e^3
PENALTIES = (1000.0, 250.0, 60.0, 15.0, 4.0, 1.0)  # in rows: a prior that weighs as much as these
# Weaker penalties than this over the number of rows are not tried: with few hundred rows, and
# hardly an error among them, the leave-one-out loss itself is too uncertain to tell. A penalty
# that weighs as much as ALWAYS rows is tried however few there are.
WEAKEST = 3_750.0
ALWAYS = 15.0
MAX_ITER = 12  # Newton steps per penalty
TOLERANCE = 1e-5
# .. of the steps on all rows: what is left in them is far below what the choice on a sample costs.
MOVING_TOLERANCE = 5e-5
SETTLED = 2e-3  # a network whose last step gained less than this share has all but converged
BIAS_ROWS = 1.0  # the prior of the output bias: nothing to many rows, a hold for few
LARGEST_WEIGHT = 1e6  # for inputs of size 1; losses without end would take weights anywhere
STEEPEST = 1e15  # larger slopes and curvatures of a row count as this: their products fit a float32
# A simpler candidate is taken while its leave-one-out loss is within this many standard errors
# of the best one's: with little data the best one is often the luckiest.
PATIENCE = 0.25
IDENTITY, SCALING = 0, 1  # positions among the candidates
# With more rows than this, estimating the one temperature costs less than leaving it alone could.
IDENTITY_ROWS = 300


@dataclass(frozen=True)
class NetworkSettings:
    """The parameters of the networks and of their fit, which several methods share."""

    title: str
    hidden: Sequence[int] = ()
    members: int = 1
    loss: str = DEFAULT_LOSS
    penalty: float | str = "auto"
    random_state: RandomState = None
    clip: float | None = None
    progress: Progress = False


@dataclass(frozen=True)
class ProfileRows:
    """The rows of a profile, as far as a network reads them."""

    profile: TemperatureProfile
    ops: Ops = NUMPY
    covariates: None = None  # a profile has none

    def top(self, k: int) -> Floats:
        """The k largest logits of each row in decreasing order."""
        return self.profile.top_logits(k)

    def entropy_share(self) -> Floats:
        """The entropy of softmax(z) over the largest possible one, (rows, 1)."""
        highest = np.log(np.maximum(self.profile.finite_classes, 2))
        return (np.asarray(self.profile.entropy(1.0), np.float64) / highest)[:, None]


@one_blas_thread()
def fit_default(
    profile: TemperatureProfile,
    reading_at: Callable[[float, float], Reading],
    settings: NetworkSettings,
    sample: Sample | None = None,
) -> tuple[NetworkTemperature, FitInfo, Floats]:
    """Networks that read ``reading_at(best temperature, origin)`` of a row.

    ``sample`` has the rows that are chosen on, those of the profile's own sample unless given.
    Beside the formula and the report: the logarithm of the temperature of each of these rows had it
    not been fitted on.
    """
    profile, place = profile._in_canonical_order()
    if sample is not None:
        sample = replace(sample, index=place[sample.index])
    else:
        sample = sample_of_profile(profile)
    start = best_temperature(profile, settings.loss, prior_rows="auto")
    origin = origin_of(profile.top_logits(1)[:, 0], profile.weight, start.temperature)
    reading = reading_at(start.temperature, origin)
    inputs = np.clip(reading.read(ProfileRows(profile)), -LARGEST_INPUT, LARGEST_INPUT)
    problem = ProfileLoss(profile, settings.loss)
    weights, base, info, held_out = _fit_networks(problem, inputs, start, settings, sample)
    formula = NetworkTemperature(
        reading,
        inputs.min(axis=0),
        inputs.max(axis=0),
        *side_by_side(weights),
        linear=False,
        link=ExponentialLink(base, RANGE),
        clip=settings.clip,
    )
    after = problem.mean(-np.log(formula.from_inputs(inputs, NUMPY)[:, 0]))
    return formula, replace(info, after=after), held_out if sample is not None else held_out[place]


def _fit_networks(
    problem: ProfileLoss,
    inputs: Floats,
    start: Start,
    settings: NetworkSettings,
    sample: Sample | None,
) -> tuple[list[Floats], float, FitInfo, Floats]:
    """Fit networks around the best temperature and choose the penalty, on the sample if any.

    Gives their weights for the raw inputs, with a leading axis over the networks, the temperature
    around which they are, the report, and log T of each row that was chosen on had it not been
    fitted on.
    """
    rng, penalty, base = generator(settings.random_state), settings.penalty, start.temperature
    mean, spread = _standardiser(inputs, problem.shares)
    standard = (inputs - mean) / spread
    sizes = network.layer_sizes(inputs.shape[1], settings.hidden)
    anchors = [_anchor(sizes, rng) for _ in range(settings.members if settings.hidden else 1)]
    nets = [_Member(problem, standard, sizes, float(np.log(base)), anchor) for anchor in anchors]
    few, chooser = nets, problem
    if sample is not None:  # the same networks on some of the rows
        some, read = problem.profile.take(sample.index), standard[sample.index]
        chooser = ProfileLoss(some, settings.loss, sample.weight)
        few = [replace(net, loss=chooser, inputs=read) for net in nets]
    penalties = _penalties(penalty, chooser.effective_rows)
    with reporter(f"fitting {settings.title}", settings.progress) as report:
        paths = _on_threads(lambda net: net.path(penalties), few, report)
    candidates = _candidates(chooser, base, penalties, paths)
    chosen, details = _choose(chooser, candidates) if penalty == "auto" else (candidates[-1], {})
    points: list[PathPoint] = []
    if chosen.penalty is not None:
        points = [path[penalties.index(chosen.penalty)] for path in paths]
        if sample is not None:  # all rows move the sample's solutions
            together = list(zip(nets, few, points, strict=True))
            points = _on_threads(lambda one: one[0].moved(one[2], chosen.penalty, one[1]), together)
    flats, worse = [point.flat for point in points], True
    if points:  # whether the averaged networks are worse on the rows that they were fitted on
        outputs = [net.link(net.output(f))[0] for net, f in zip(nets, flats, strict=True)]
        worse = problem.mean(-(nets[0].log_base + np.mean(outputs, axis=0))) > start.loss
    if worse:
        chosen = candidates[IDENTITY if chosen.name == "identity" else SCALING]
        points, flats = [], [np.zeros_like(anchor) for anchor in anchors]
    details |= {"choice": chosen.name, "penalty": chosen.penalty, "members": len(nets)}
    details["loss_temperature_scaling"] = start.loss
    gain = max((point.last_gain for point in points), default=0.0)
    message = "converged"
    if gain > 0.0:
        told = f"after {MAX_ITER} Newton steps the last one still lowered the loss by {gain:.2%}"
        remedy = "a larger penalty, or fewer hidden units, settles the networks"
        message = f"settled: {told}" if gain <= SETTLED else f"{told}: {remedy}"
    info = FitInfo(
        start.converged and gain <= SETTLED,
        message if start.converged else start.message,
        iterations=sum(point.iterations for path in paths for point in path),
        loss=settings.loss,
        before=start.loss_before,
        details=details,
    )
    around = 1.0 if chosen.name == "identity" else base
    return _stacked(flats, sizes, mean, spread), around, info, chosen.log_t


Model = tuple[Floats, Floats]  # the gradient and the Hessian of a penalised loss


@dataclass(frozen=True)
class PathPoint:
    """Where one network stands at one penalty, and how it got there."""

    flat: Floats
    held_out: Floats  # log(T / T0) of each row had it not been fitted on
    iterations: int
    last_gain: float  # by which share the last Newton step lowered the penalised loss; 0: converged


@dataclass(frozen=True)
class _Member:
    """One network's penalised problem on the rows of a profile.

    A penalty of p counts as p rows of the sum of squares: p / n times it beside the mean loss, n
    being the effective number of rows.
    """

    loss: ProfileLoss
    inputs: Floats  # standardised
    sizes: list[tuple[int, int]]
    log_base: float
    anchor: Floats

    def pull(self, penalty: float) -> Floats:
        """The penalty of every parameter; the output bias, which moves all T alike, has its own."""
        rows = np.full_like(self.anchor, penalty)
        rows[-1] = BIAS_ROWS
        return rows / self.loss.effective_rows

    def output(self, flat: Floats) -> Floats:
        weights, rows = network.unflatten(flat, self.sizes), chunks(len(self.inputs))
        return np.concatenate([network.forward(weights, self.inputs[chunk]) for chunk in rows])

    def link(self, raw: Floats) -> tuple[Floats, Floats]:
        """log(T / T0) of the outputs, and its derivative in them."""
        bent = np.tanh(raw / RANGE)
        return RANGE * bent, 1.0 - bent**2

    def at(self, flat: Floats, pull: Floats) -> _Standing:
        """How the penalised loss stands at some weights."""
        weights, standing = network.unflatten(flat, self.sizes), []
        for chunk in chunks(len(self.inputs)):
            shift, rate = self.link(network.forward(weights, self.inputs[chunk]))
            row = self.loss.rows(-(self.log_base + shift), self.loss.all_rows[chunk])
            slope = np.clip(-row.slope * rate, -STEEPEST, STEEPEST)
            standing.append((row.value, slope, np.clip(row.curvature * rate**2, 0.0, STEEPEST)))
        value, slope, curvature = (np.concatenate(part) for part in zip(*standing, strict=True))
        total = float(self.loss.shares @ value) + 0.5 * float(pull @ (flat - self.anchor) ** 2)
        if np.abs(flat).max() > LARGEST_WEIGHT:
            total = np.inf
        return _Standing(self, flat, pull, total, slope, curvature)

    def path(self, penalties: Sequence[float]) -> list[PathPoint]:
        """The solutions at all penalties, each from the last one's."""
        flat, result = self.anchor, []
        for penalty in penalties:
            pull = self.pull(penalty)

            def at(flat: Floats, pull: Floats = pull) -> tuple[float, Callable[[], Model]]:
                here = self.at(flat, pull)
                return here.value, here.model

            found = damped_newton(at, flat, max_iter=MAX_ITER, tolerance=TOLERANCE)
            flat = found.x
            held_out = self.at(flat, pull).held_out()
            result.append(PathPoint(flat, held_out, found.iterations, found.last_gain))
        return result

    def moved(self, point: PathPoint, penalty: float, sample: _Member) -> PathPoint:
        """What all rows make of a sample's solution: their gradient, and the sample's Hessian."""
        pull = self.pull(penalty)

        def at(flat: Floats) -> tuple[float, Callable[[], Model]]:
            here = self.at(flat, pull)
            return here.value, lambda: (here.gradient(), sample.at(flat, pull).model()[1])

        found = damped_newton(at, point.flat, max_iter=MAX_ITER, tolerance=MOVING_TOLERANCE)
        return replace(point, flat=found.x, last_gain=found.last_gain)


@dataclass(frozen=True)
class _Standing:
    """The penalised loss of one network at some weights, and each row's slope and curvature."""

    member: _Member
    flat: Floats
    pull: Floats
    value: float
    slope: Floats  # of the loss in the network's output
    curvature: Floats  # not below 0

    def model(self) -> Model:
        """Gradient, and a Hessian without negative curvature and the network's own."""
        gradient, hessian = self.pull * (self.flat - self.member.anchor), np.diag(self.pull)
        for chunk, jacobian in self._jacobians():
            share = self.member.loss.shares[chunk]
            gradient += jacobian @ (share * self.slope[chunk]).astype(np.float32)
            jacobian *= np.sqrt(share * self.curvature[chunk]).astype(np.float32)
            hessian += jacobian @ jacobian.T
        return gradient, hessian

    def gradient(self) -> Floats:
        """The gradient alone, for less."""
        weights = network.unflatten(self.flat, self.member.sizes)
        gradient = self.pull * (self.flat - self.member.anchor)
        for chunk in chunks(len(self.slope)):
            layers = network.forward_all(weights, self.member.inputs[chunk])[1]
            signal = self.member.loss.shares[chunk] * self.slope[chunk]
            gradient += network.gradient(weights, layers, signal)
        return gradient

    def held_out(self) -> Floats:
        """log(T / T0) of each row had it not been fitted on."""
        member = self.member
        inverse = np.linalg.pinv(self.model()[1], hermitian=True).astype(np.float32)
        leverage = np.concatenate(
            [((inverse @ jacobian) * jacobian).sum(axis=0) for _, jacobian in self._jacobians()]
        )
        leverage = member.loss.copy_share * leverage
        shift = leverage * self.slope / np.maximum(1.0 - leverage * self.curvature, 0.05)
        return member.link(member.output(self.flat) + shift)[0]

    def _jacobians(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """The outputs' Jacobian, some rows at a time."""
        weights = network.unflatten(self.flat, self.member.sizes)
        for chunk in chunks(len(self.slope)):
            layers = network.forward_all(weights, self.member.inputs[chunk])[1]
            yield chunk, network.jacobian(weights, layers)


@dataclass(frozen=True)
class _Candidate:
    name: str
    penalty: float | None
    log_t: Floats  # of each row had it not been fitted on
    held_out: Floats  # and its loss then


def _penalties(penalty: float | str, rows: float) -> tuple[float, ...]:
    """The penalties that are worth trying with so many rows, or those on the way to a given one."""
    if isinstance(penalty, str):
        return tuple(p for p in PENALTIES if p >= min(WEAKEST / rows, ALWAYS))
    return (*(p for p in PENALTIES if p > penalty), float(penalty))


def _anchor(sizes: Sequence[tuple[int, int]], rng: np.random.Generator) -> Floats:
    """Glorot kernels, hidden biases that spread the kinks over the data, a zero output kernel."""
    weights = network.glorot(sizes, rng)
    for bias in weights[1:-2:2]:
        bias[:] = rng.uniform(-1.0, 1.0, bias.shape)
    weights[-2][:] = 0.0
    return network.flatten(weights)


def _on_threads(
    work: Callable[[Any], Any], items: Sequence[Any], report: Report | None = None
) -> list[Any]:
    """What ``work`` gives for every item, one thread each."""
    results = []
    # One BLAS thread per network: the matrices are small, and BLAS threads wait for each other.
    with one_blas_thread(), mapping(min(available_cores(), len(items))) as on_threads:
        for done, result in enumerate(on_threads(work, items)):
            results.append(result)
            if report is not None:
                report(done + 1, len(items))
    return results


def _candidates(
    problem: ProfileLoss, base: float, penalties: Sequence[float], paths: list[list[PathPoint]]
) -> list[_Candidate]:
    """What may be chosen, the simplest first."""
    # temperature scaling without each row: the same formula with one parameter
    log_b = np.full(len(problem.all_rows), -np.log(base))
    row = problem.rows(log_b)
    curvature = np.maximum(row.curvature, 0.0)
    leverage = problem.copy_share / max(float(problem.shares @ curvature), 1e-12)
    shift = leverage * row.slope / np.maximum(1.0 - leverage * curvature, 0.05)
    found: list[tuple[str, float | None, Floats]] = [
        ("identity", None, np.zeros(len(problem.all_rows))),
        ("temperature scaling", None, -(log_b + np.clip(shift, -RANGE, RANGE))),
    ]
    for at, penalty in enumerate(penalties):
        shift = np.mean([path[at].held_out for path in paths], axis=0)
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
    scores = [float(problem.shares @ c.held_out) for c in candidates]
    first = IDENTITY if problem.effective_rows <= IDENTITY_ROWS else SCALING
    best = first + int(np.argmin(scores[first:]))
    weight, lowest = problem.weight, candidates[best].held_out
    errors = [error_of_difference(c.held_out, lowest, weight) for c in candidates]
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


def _stacked(
    flats: Sequence[Floats], sizes: Sequence[tuple[int, int]], mean: Floats, spread: Floats
) -> list[Floats]:
    """All networks' weights for raw inputs: the standardisation goes into the first layer."""
    nets = [network.unflatten(flat.copy(), sizes) for flat in flats]
    for weights in nets:
        weights[0] /= spread[:, None]
        weights[1] -= mean @ weights[0]
    return [np.stack(parts) for parts in zip(*nets, strict=True)]


def _standardiser(inputs: Floats, shares: Floats) -> tuple[Floats, Floats]:
    mean = shares @ inputs
    spread = np.sqrt(shares @ (inputs - mean) ** 2)
    constant = spread <= 1e-9 * np.maximum(np.abs(inputs).max(axis=0), 1.0)
    # the mean of equal numbers may be rounded: what is constant must stand at 0 exactly
    return np.where(constant, inputs[0], mean), np.where(constant, 1.0, spread)


def side_by_side(weights: Sequence[Floats]) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Networks as one: the first kernels joined, the others along the diagonal.

    ``weights`` are W1, b1, W2, b2, .. with a leading axis over the networks.
    """
    kernels = [np.concatenate(list(weights[0]), axis=1)]
    kernels += [block_diag(*members) for members in weights[2::2]]
    return tuple(kernels), tuple(bias.reshape(-1) for bias in weights[1::2])


def taken_apart(formula: NetworkTemperature) -> list[Floats]:
    """The weights of ``side_by_side``."""
    members = len(formula.biases[-1])
    weights: list[Floats] = []
    for index, (kernel, bias) in enumerate(zip(formula.kernels, formula.biases, strict=True)):
        columns = np.split(kernel, members, axis=1)
        if index:
            height = len(kernel) // members
            columns = [c[i * height : (i + 1) * height] for i, c in enumerate(columns)]
        weights += [np.stack(columns), bias.reshape(members, -1)]
    return weights
