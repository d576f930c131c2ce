"""``calibrant demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli._json import print_json
from calibrant.cli._judging import default_bins, judge
from calibrant.cli._options import AsJson
from calibrant.cli._progress import timed_fit, working
from calibrant.cli._tables import metric_table, print_table

DEMO_METHODS = {"Uncalibrated": "base", "TS": "ts", "ETS": "ets", "PTS": "pts"}


def demo(
    dataset: Annotated[str, typer.Option(help="One of the embedded sets of logits.")] = (
        "fashion-mnist-lenet5"
    ),
    as_json: AsJson = False,
) -> None:
    """Calibrate a real network's logits that come with the package, and compare the methods."""
    with working("loading"):
        from calibrant import calibrators, datasets

        data, bins = datasets.load(dataset), default_bins()
    judged: dict[str, dict[str, float]] = {}
    for name, acronym in DEMO_METHODS.items():
        method = calibrators.calibrator(acronym)
        seconds = timed_fit(method, data.val_logits, data.val_labels)
        judged[name] = judge(method.predict_proba(data.test_logits), data.test_labels, bins)
        judged[name]["fit_ms"] = 0.0 if acronym == "base" else 1000.0 * seconds  # nothing to fit
    if as_json:
        sizes = {"val_rows": len(data.val_labels), "test_rows": len(data.test_labels)}
        print_json({"dataset": dataset, **sizes, "bins": bins, "methods": judged})
        return
    title = f"{dataset}: fitted on {len(data.val_labels)}, judged on {len(data.test_labels)} rows"
    print_table(metric_table(title, judged, bins))
    typer.echo(
        "Next: save your own validation logits and labels as the arrays `logits` and\n"
        "`labels` of val.npz, then run: calibrant fit val.npz -o pts.safetensors"
    )
