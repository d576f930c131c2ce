"""``calibrant demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli._echo import say
from calibrant.cli._json import print_json
from calibrant.cli._options import AsJson
from calibrant.cli._progress import method_bar, working
from calibrant.cli._tables import show

DEMO_METHODS = {"Uncalibrated": "base", "TS": "ts", "ETS": "ets", "PTS": "pts"}
DEMO_METRICS = ("accuracy", "ece", "brier", "nll")


def demo(
    dataset: Annotated[str, typer.Option(help="One of the embedded sets of logits.")] = (
        "fashion-mnist-lenet5"
    ),
    as_json: AsJson = False,
) -> None:
    """Calibrate a real network's logits that come with the package, and compare the methods."""
    with working("loading"):
        from calibrant.data import datasets
        from calibrant.evaluation import comparison

        data = datasets.load(dataset)
    with method_bar() as progress:
        results = comparison.compare(
            data.val_logits,
            data.val_labels,
            data.test_logits,
            data.test_labels,
            methods=DEMO_METHODS,
            metrics=DEMO_METRICS,
            progress=progress,
        )
    if as_json:
        sizes = {"n_val": results.n_val, "n_test": results.n_test}
        methods = {
            result.method: {**result.values, "fit_ms": 1000.0 * result.fit_seconds}
            for result in results
        }
        print_json({"dataset": dataset, **sizes, "n_bins": results.n_bins, "methods": methods})
        return
    show(results, dataset)
    say(
        "",
        "Next: save your own validation logits and labels as the arrays `logits` and",
        "`labels` of val.npz, then run: calibrant fit val.npz -o auto.safetensors",
    )
