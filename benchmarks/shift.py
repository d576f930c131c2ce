"""Calibrated on one kind of data and used on another: what it costs, why, and what helps.

    python benchmarks/shift.py [--quick]

Two studies. The networks of ``data/corrupted`` (clean images and 12 corrupted copies: 13 domains)
are fitted on the rows of one domain and judged on the test rows of every other. The networks of
``data`` on CIFAR-10 and CIFAR-100, and of the package on Fashion-MNIST, are fitted on one
network's rows and judged on another's.
Differences are NLL against ``ts`` fitted on the same rows, times 1000; means and standard errors
are over the networks that were fitted on, whose pairs are averaged first.
``benchmarks/results/shift.json`` keeps them; docs/guide/shift.md explains them. Nine minutes on
one core; --quick takes one network, one size and a third of the domains.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# One core. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.optimize import minimize_scalar

import calibrant
from calibrant.calibrators import calibrator
from calibrant.metrics import ece, nll

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "shift.json"
METHODS = {
    "ts": ("ts", {}),
    "base": ("base", {}),
    "ets": ("ets", {}),
    "monotone": ("monotone", {}),
    "pts": ("pts", {}),
    "pts, loss=nll": ("pts", {"loss": "nll"}),
    "mpts": ("mpts", {}),
    "svs": ("svs", {}),
    "spts": ("spts", {}),
    "auto": ("auto", {}),
    "auto, accuracy kept": ("auto", {"preserve_accuracy": True}),
}
BY_CLASS = ("svs", "spts", "auto")  # cannot be applied to other classes
REPAIRED = ("pts", "mpts", "auto", "auto, accuracy kept")
FADES = {"fade": 2, "fade fast": 8}  # powers of the distance beyond the familiar rows
REMEDIES = ("as it is", "half way", "average", "cap", "never sharper", *FADES)
POOLED = ("ts", "ets", "pts", "pts, loss=nll", "mpts", "auto", "auto, accuracy kept")
KINDS = {
    "corrupted": (
        "in-domain",
        "milder",
        "heavier",
        "other, milder",
        "other, same",
        "other, heavier",
    ),
    "networks": ("in-domain", "other network", "other classes", "other task"),
}
SIZES = {"corrupted": (300, 2000), "networks": (300, 2000)}  # the files of 100 classes have 1,000
TESTED = 2000  # test rows of another network
CAP = 0.1  # in log T
FAMILIAR = 0.95  # the share of the fitting rows that are familiar
PENALTIES = (1000.0, 60.0, 15.0, 1.0)  # among which left-out domains choose
SMALLEST = 1e-30

Domain = tuple[int, int]
Rows = tuple[np.ndarray, np.ndarray]  # logits and labels


@dataclass(frozen=True)
class Record:
    """The mean over one network's pairs of one kind."""

    study: str
    network: str
    rows: int
    kind: str
    method: str
    remedy: str
    nll: float  # less that of ts, times 1000
    worst: float
    ece: float  # times 100
    pairs: int


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Log probabilities."""
    gaps = scores - scores.max(axis=1, keepdims=True)
    return gaps - np.log(np.exp(gaps).sum(axis=1, keepdims=True))


def loss(scores: np.ndarray, labels: np.ndarray) -> float:
    """The NLL of softmax(scores)."""
    return float(-log_softmax(scores)[np.arange(len(labels)), labels].mean())


def best_rescaled(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The NLL after the best single rescaling for these rows, and the log temperature of that."""
    found = minimize_scalar(
        lambda log_b: loss(np.exp(log_b) * scores, labels),
        bounds=(-3.0, 3.0),
        method="bounded",
        options={"xatol": 1e-2},
    )
    return float(found.fun), -float(found.x)


def fitted(method: str, rows: Rows) -> calibrant.Calibrator:
    """A calibrator for these rows."""
    name, parameters = METHODS[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        return calibrator(name, **parameters).fit(*rows)


class Fit:
    """All methods fitted on the same rows, and what is familiar in these rows."""

    def __init__(self, rows: Rows, methods: Sequence[str]) -> None:
        self.models = {method: fitted(method, rows) for method in methods}
        self.log_t = float(np.log(self.models["ts"].formula_.value))
        read = self.read(rows[0])
        self.center, spread = read.mean(axis=0), np.cov(read.T)
        ridge = 1e-3 * np.trace(spread) / len(spread)
        self.inverse = np.linalg.inv(spread + ridge * np.eye(len(spread)))
        self.limit = np.quantile(self.distance(read), FAMILIAR)

    def read(self, logits: np.ndarray) -> np.ndarray:
        """The largest logit, and the logarithms of nine gaps: what PTS reads."""
        top = -np.sort(-logits.astype(np.float64), axis=1)[:, :10]
        gaps = np.log(0.3 + (top[:, :1] - top[:, 1:]) / np.exp(self.log_t))
        return np.concatenate([top[:, :1], gaps], axis=1)

    def distance(self, read: np.ndarray) -> np.ndarray:
        """The Mahalanobis distance to the rows of the fit."""
        away = read - self.center
        return np.sqrt(np.einsum("ij,jk,ik->i", away, self.inverse, away))

    def unfamiliar(self, logits: np.ndarray) -> np.ndarray:
        """The distance over the limit: above 1 for a twentieth of the rows of the fit."""
        return self.distance(self.read(logits)) / self.limit

    def temperatures(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log T of every row by PTS, and whether an input is outside its fitted range."""
        from calibrant.formulas._array_operations import NUMPY
        from calibrant.formulas.networks import LogitRows

        formula = self.models["pts"].formula_
        inputs = formula.reading.read(LogitRows(logits, NUMPY, None))
        outside = ((inputs < formula.low) | (inputs > formula.high)).any(axis=1)
        return np.log(formula.from_inputs(inputs, NUMPY)[:, 0]), outside


def repaired(remedy: str, own: np.ndarray, ts: np.ndarray, unfamiliar: np.ndarray) -> np.ndarray:
    """Probabilities after a remedy, from a method's and those of temperature scaling."""
    if remedy == "average":
        return 0.5 * (own + ts)
    if remedy == "never sharper":  # rows that are more confident than with ts are those of ts
        return np.where(own.max(axis=1) > ts.max(axis=1), ts.T, own.T).T
    share: np.ndarray | float = 0.5
    if remedy in FADES:
        share = np.maximum(1.0, unfamiliar)[:, None] ** -float(FADES[remedy])
        return share * own + (1.0 - share) * ts
    logs = [np.log(np.maximum(probs, SMALLEST)) for probs in (own, ts)]
    return np.exp(log_softmax(share * logs[0] + (1.0 - share) * logs[1]))


def judged(fit: Fit, test: Rows, other_classes: bool) -> Iterator[tuple[str, str, float, float]]:
    """Method, remedy, NLL and ECE."""
    logits, labels = test
    unfamiliar = fit.unfamiliar(logits)
    ts = np.zeros(0)
    for method, model in fit.models.items():
        if other_classes and method in BY_CLASS:
            continue
        probs = np.asarray(model.formula_(logits), np.float64)
        ts = probs if method == "ts" else ts
        for remedy in REMEDIES if method in REPAIRED else REMEDIES[:1]:
            if remedy == "cap":
                if method != "pts":
                    continue
                moved = np.clip(fit.temperatures(logits)[0] - fit.log_t, -CAP, CAP) + fit.log_t
                changed = np.exp(log_softmax(logits / np.exp(moved)[:, None]))
            else:
                changed = probs if remedy == "as it is" else repaired(remedy, probs, ts, unfamiliar)
            yield method, remedy, nll(changed, labels), ece(changed, labels)


def explained(fit: Fit, test: Rows) -> dict[str, float]:
    """What may explain how much worse PTS is than TS; the NLL times 1000."""
    logits, labels = test
    log_t, outside = fit.temperatures(logits)
    log_t, scores = log_t.astype(np.float64), logits.astype(np.float64)
    adapted, plain = scores / np.exp(log_t)[:, None], scores / np.exp(fit.log_t)
    rows = np.arange(len(labels))
    more = log_softmax(plain)[rows, labels] - log_softmax(adapted)[rows, labels]
    sharper = log_t < fit.log_t
    (own, _), (best, needed) = best_rescaled(adapted, labels), best_rescaled(plain, labels)
    moved = float(log_t.mean()) - fit.log_t
    return {
        "PTS less TS": 1e3 * float(more.mean()),
        "one temperature, PTS's mean, less TS": 1e3
        * (loss(scores / np.exp(log_t.mean()), labels) - loss(plain, labels)),
        "PTS less TS, each rescaled for these rows": 1e3 * (own - best),
        "of it in rows sharper than TS": 1e3 * float((more * sharper).mean()),
        "of it in rows softer than TS": 1e3 * float((more * ~sharper).mean()),
        "best T over that of TS": float(np.exp(needed)),
        "PTS's mean T over that of TS": float(np.exp(moved)),
        "whether it moves towards the best": float(moved * needed > 0.0),
        "spread of log T": float(log_t.std()),
        "share outside the fitted range": float(outside.mean()),
        "share of unfamiliar rows": float((fit.unfamiliar(logits) > 1.0).mean()),
    }


# --- the data -------------------------------------------------------------------------------------


def kind_of(fit: Domain, test: Domain) -> str:
    """How a corrupted domain differs from the one fitted on."""
    if fit == test:
        return "in-domain"
    if fit[0] == test[0] or 0 in (fit[0], test[0]):
        return "heavier" if test[1] > fit[1] else "milder"
    order = "same" if fit[1] == test[1] else "heavier" if test[1] > fit[1] else "milder"
    return f"other, {order}"


def domains(path: Path) -> dict[Domain, tuple[Rows, Rows]]:
    """The rows to fit on (in the same random order of images) and to test on of every domain."""
    found = {}
    with np.load(path, allow_pickle=False) as arrays:
        part = {name: arrays[name] for name in arrays.files}
    codes = zip(part["corruption"].tolist(), part["severity"].tolist(), strict=True)
    for domain in sorted(set(codes)):
        here = (part["corruption"] == domain[0]) & (part["severity"] == domain[1])
        fit, test = (
            (part["logits"][rows].astype(np.float32), part["labels"][rows].astype(np.int64))
            for rows in (here & (part["split"] == split) for split in (0, 1))
        )
        order = np.random.default_rng(0).permutation(len(fit[1]))
        found[domain] = ((fit[0][order], fit[1][order]), test)
    return found


class Results:
    """What was measured, pair by pair, and its means."""

    def __init__(self) -> None:
        self.values: dict[tuple, list[tuple[float, float]]] = defaultdict(list)
        self.causes: dict[tuple[str, int, str], list[dict[str, float]]] = defaultdict(list)

    def add(self, study: str, network: str, rows: int, kind: str, fit: Fit, test: Rows) -> None:
        """Judge a fit on some rows."""
        base = 0.0
        other = kind in ("other classes", "other task")
        for method, remedy, value, error in judged(fit, test, other):
            base = value if method == "ts" else base
            key = (study, network, rows, kind, method, remedy)
            self.values[key].append((1e3 * (value - base), 1e2 * error))
        self.causes[study, rows, kind].append(explained(fit, test))

    def records(self) -> list[Record]:
        """The means over the pairs of each network."""
        return [
            Record(
                *key,
                nll=float(np.mean([n for n, _ in pairs])),
                worst=float(max(n for n, _ in pairs)),
                ece=float(np.mean([e for _, e in pairs])),
                pairs=len(pairs),
            )
            for key, pairs in self.values.items()
        ]


def corrupted(results: Results, paths: Sequence[Path], quick: bool) -> None:
    """Every domain as the one to fit on and the one to judge on."""
    for path in paths:
        data, name = domains(path), path.stem.removesuffix("-corrupted")
        chosen = [d for d in data if d[1] in (0, 5)] if quick else list(data)
        for size in SIZES["corrupted"][:1] if quick else SIZES["corrupted"]:
            for domain in track(chosen, description=f"{name}, {size} rows"):
                logits, labels = data[domain][0]
                fit = Fit((logits[:size], labels[:size]), list(METHODS))
                for other in chosen:
                    kind = kind_of(domain, other)
                    results.add("corrupted", name, size, kind, fit, data[other][1])


def networks(results: Results, quick: bool) -> None:
    """Fitted on one network's rows and judged on another's, of the same classes or others."""
    paths = sorted((ROOT / "data").glob("cifar*.npz"))[: 4 if quick else None]
    sets = {path.stem: calibrant.datasets.read(path) for path in paths}
    for name in ("fashion-mnist-lenet5", "fashion-mnist-vgg19"):
        sets[name] = calibrant.datasets.load(name)
    for size in SIZES["networks"][:1] if quick else SIZES["networks"]:
        for name, data in track(sets.items(), description=f"networks, {size} rows"):
            part = np.asarray(data.val_logits[:size], np.float32), data.val_labels[:size]
            fit = Fit(part, list(METHODS))
            for other, rows in sets.items():
                kind = relation(name, other)
                test = np.asarray(rows.test_logits[:TESTED], np.float32), rows.test_labels[:TESTED]
                results.add("networks", name, size, kind, fit, test)


def relation(fit: str, test: str) -> str:
    """How a network differs from the one fitted on; the names begin with the data set."""
    if fit == test:
        return "in-domain"
    own, other = fit.split("-")[0], test.split("-")[0]
    if own == other:
        return "other network"
    return "other task" if "fashion" in (own, other) else "other classes"


def together(paths: Sequence[Path], quick: bool) -> list[dict[str, object]]:
    """Fitted on clean rows, or on clean and corrupted ones with the judged corruption left out.

    Each calibration image is in one domain, drawn at random: as many rows as without corruptions.
    """
    found = []
    for path in paths:
        data, name = domains(path), path.stem.removesuffix("-corrupted")
        for size in SIZES["corrupted"][:1] if quick else SIZES["corrupted"]:
            clean = tuple(part[:size] for part in data[0, 0][0])
            models = {("clean", method): fitted(method, clean) for method in POOLED}
            for held_out in track(range(1, 5), description=f"{name}, {size} rows, several domains"):
                others = [d for d in data if d[0] != held_out]
                number = len(clean[1])
                drawn = np.random.default_rng(held_out).integers(len(others), size=number)
                logits = np.stack([data[others[d]][0][0][row] for row, d in enumerate(drawn)])
                rows, corruption = (logits, clean[1]), np.array([others[d][0] for d in drawn])
                mixed = {("several", method): fitted(method, rows) for method in POOLED}
                mixed["several", "pts, penalty by domain"] = by_domain(rows, corruption)
                for test in [(0, 0)] + [d for d in data if d[0] == held_out]:
                    reference = nll(
                        models["clean", "ts"].predict_proba(data[test][1][0]), data[test][1][1]
                    )
                    for (where, method), model in (models | mixed).items():
                        probs = model.predict_proba(data[test][1][0])
                        found.append(
                            {
                                "network": name,
                                "rows": size,
                                "fitted": where,
                                "method": method,
                                "severity": test[1],
                                "nll": 1e3 * (nll(probs, data[test][1][1]) - reference),
                                "ece": 1e2 * ece(probs, data[test][1][1]),
                            }
                        )
    return found


def by_domain(rows: Rows, corruption: np.ndarray) -> calibrant.Calibrator:
    """PTS whose penalty was chosen by left-out corruptions; temperature scaling competes."""
    tried = [("ts", {})] + [("pts", {"penalty": penalty}) for penalty in PENALTIES]
    losses = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        for name, parameters in tried:
            held_out = []
            for left_out in sorted(set(corruption.tolist())):
                kept = corruption != left_out
                model = calibrator(name, **parameters).fit(rows[0][kept], rows[1][kept])
                held_out.append(nll(model.predict_proba(rows[0][~kept]), rows[1][~kept]))
            losses.append(np.mean(held_out))
        name, parameters = tried[int(np.argmin(losses))]
        return calibrator(name, **parameters).fit(*rows)


# --- the tables -----------------------------------------------------------------------------------


def over_networks(values: dict[str, list[float]]) -> str:
    """The mean of the networks' means, and its standard error."""
    means = [np.mean(own) for own in values.values()]
    error = f" ± {np.std(means, ddof=1) / np.sqrt(len(means)):.0f}" if len(means) > 1 else ""
    return f"{np.mean(means):+.0f}{error}"


def show(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def cell(records: Sequence[Record], measure: str = "nll") -> str:
    """One mean over the networks."""
    if not records:
        return "-"
    if measure == "ece":
        return f"{np.mean([r.ece for r in records]):.1f}"
    by_network: dict[str, list[float]] = defaultdict(list)
    for record in records:
        by_network[record.network].append(record.nll)
    worst = f" ({max(r.worst for r in records):+.0f})" if measure == "worst" else ""
    return over_networks(by_network) + worst


def shifted(study: str) -> tuple[str, ...]:
    """The kinds that are a shift."""
    return KINDS[study][1:]


def show_methods(console: Console, records: Sequence[Record]) -> None:
    """The NLL and the ECE of every method, by kind of shift."""
    for study, kinds in KINDS.items():
        for size in sorted({r.rows for r in records if r.study == study}):
            for measure, title in (
                ("worst", "NLL less that of ts, x1000 (worst pair)"),
                ("ece", "ECE, x100"),
            ):
                rows = []
                for method in METHODS:
                    own = [
                        r
                        for r in records
                        if (r.study, r.rows, r.method, r.remedy)
                        == (study, size, method, "as it is")
                    ]
                    cells = [cell([r for r in own if r.kind == kind], measure) for kind in kinds]
                    rows.append((method, *cells))
                show(console, f"{study}, up to {size} rows: {title}", ("method", *kinds), rows)


def show_remedies(console: Console, records: Sequence[Record]) -> None:
    """What each remedy costs in-domain and gains under shift."""
    for study, kinds in KINDS.items():
        for size in sorted({r.rows for r in records if r.study == study}):
            rows = []
            for method in REPAIRED:
                for remedy in REMEDIES:
                    own = [
                        r
                        for r in records
                        if (r.study, r.rows, r.method, r.remedy) == (study, size, method, remedy)
                    ]
                    if own:
                        cells = [cell([r for r in own if r.kind == kind]) for kind in kinds]
                        moved = [r for r in own if r.kind != "in-domain"]
                        worst = f"{max(r.worst for r in moved):+.0f}"
                        rows.append((method, remedy, *cells, cell(moved), worst))
            columns = ("method", "remedy", *kinds, "all shifts", "worst")
            show(console, f"{study}, up to {size} rows: NLL less that of ts, x1000", columns, rows)


def causes_of(results: Results) -> list[dict[str, object]]:
    """Means of what may explain the loss of PTS under shift, and correlations with it."""
    found: list[dict[str, object]] = []
    for study in KINDS:
        for size in SIZES[study]:
            pairs = [
                one
                for (own, rows, kind), many in results.causes.items()
                if own == study and rows == size and kind != "in-domain"
                for one in many
            ]
            if not pairs:
                continue
            excess = np.array([one["PTS less TS"] for one in pairs])
            for name in pairs[0]:
                values = np.array([one[name] for one in pairs])
                entry = {"study": study, "rows": size, "what": name, "pairs": len(pairs)}
                entry["mean"] = float(values.mean())
                entry["where PTS loses 10 or more"] = float(values[excess >= 10.0].mean())
                entry["correlation"] = float(np.corrcoef(values, excess)[0, 1])
                found.append(entry)
    return found


def show_causes(console: Console, causes: Sequence[dict[str, object]]) -> None:
    """Print them."""
    rows = [
        (
            f"{one['study']}, {one['rows']}",
            str(one["what"]),
            f"{one['mean']:.2f}",
            f"{one['where PTS loses 10 or more']:.2f}",
            f"{one['correlation']:+.2f}",
        )
        for one in causes
    ]
    columns = ("study, rows", "what", "mean", "PTS loses 10+", "correlation with the loss")
    show(console, "Why PTS loses to TS under shift: all pairs of a shift", columns, rows)


def show_causes_by_kind(console: Console, results: Results) -> None:
    """Print the means for each kind of shift."""
    titles = ("PTS - TS", "its mean", "rescaled", "sharper", "softer")
    titles += ("best T", "mean T", "towards", "spread", "outside")
    rows = []
    for (study, size, kind), pairs in sorted(results.causes.items()):
        means = [f"{np.mean([one[name] for one in pairs]):.2f}" for name in pairs[0]]
        rows.append((f"{study}, {size}", kind, *means))
    columns = ("study, rows", "kind", *titles, "unfamiliar")
    show(console, "The same by kind of shift, means over the pairs", columns, rows)


def show_together(console: Console, found: Sequence[dict[str, object]]) -> None:
    """Clean rows against several domains."""
    for size in sorted({int(str(one["rows"])) for one in found}):
        rows = []
        for where, method in dict.fromkeys(
            (str(one["fitted"]), str(one["method"])) for one in found
        ):
            cells = []
            for severity in (0, 1, 3, 5):
                values: dict[str, list[float]] = defaultdict(list)
                for one in found:
                    if (one["rows"], one["fitted"], one["method"], one["severity"]) == (
                        size, where, method, severity,
                    ):  # fmt: skip
                        values[str(one["network"])].append(float(str(one["nll"])))
                cells.append(over_networks(values))
            rows.append((where, method, *cells))
        columns = ("fitted on", "method", "clean", "severity 1", "3", "5")
        title = (
            f"A corruption that was left out, {size} rows: NLL less that of ts on clean rows, x1000"
        )
        show(console, title, columns, rows)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one network, one size, few domains")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    started, console, results = time.perf_counter(), Console(width=160), Results()
    paths = sorted((ROOT / "data" / "corrupted").glob("*.npz"))[: 1 if arguments.quick else None]
    corrupted(results, paths, arguments.quick)
    networks(results, arguments.quick)
    several = together(paths, arguments.quick)
    records, causes = results.records(), causes_of(results)
    show_methods(console, records)
    show_causes(console, causes)
    show_causes_by_kind(console, results)
    show_remedies(console, records)
    show_together(console, several)
    seconds = time.perf_counter() - started
    console.print(f"{seconds:.0f} s")
    if not arguments.quick:
        save(arguments.out, records, causes, several)


def save(
    path: Path,
    records: Sequence[Record],
    causes: Sequence[dict[str, object]],
    several: Sequence[dict[str, object]],
) -> None:
    """Keep the means over the networks, rounded."""
    of_pairs: dict[tuple, list[Record]] = defaultdict(list)
    for record in records:
        key = (record.study, record.rows, record.kind, record.method, record.remedy)
        of_pairs[key].append(record)
    of_several: dict[tuple, dict[str, list[dict[str, object]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in several:
        key = (one["rows"], one["fitted"], one["method"], one["severity"])
        of_several[key][str(one["network"])].append(one)
    parts = {
        "pairs": [
            dict(zip(("study", "rows", "kind", "method", "remedy"), key, strict=True))
            | summary([r.nll for r in own], [r.ece for r in own])
            | {"worst": round(max(r.worst for r in own), 1)}
            for key, own in of_pairs.items()
        ],
        "causes": [
            {k: round(v, 3) if isinstance(v, float) else v for k, v in one.items()}
            for one in causes
        ],
        "several": [
            dict(zip(("rows", "fitted", "method", "severity"), key, strict=True))
            | summary(
                *(
                    [float(np.mean([float(str(one[name])) for one in own])) for own in by.values()]
                    for name in ("nll", "ece")
                )
            )
            for key, by in of_several.items()
        ],
    }
    lines = [
        f'"{name}": [\n' + ",\n".join(map(json.dumps, part)) + "\n]" for name, part in parts.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def summary(losses: Sequence[float], errors: Sequence[float]) -> dict[str, float]:
    """The mean over networks of the NLL, its standard error, and the mean ECE."""
    spread = np.std(losses, ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else 0.0
    return {
        "nll": round(float(np.mean(losses)), 2),
        "standard_error": round(float(spread), 2),
        "ece": round(float(np.mean(errors)), 2),
    }


if __name__ == "__main__":
    main()
