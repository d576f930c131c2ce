"""The pages of the documentation: their Python runs from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant._parts import KINDS
from calibrant.calibrators import REGISTRY
from calibrant.metrics import METRICS

ROOT = Path(__file__).parents[1]
PAGES = sorted(ROOT.glob("docs/*.md"))
SLOW = {"serving.md"}  # it trains a network and runs PyTorch's exporter


def code_of(page: Path) -> str:
    """All Python blocks of a page, each on the lines where it stands."""
    lines = [""] * len(page.read_text().splitlines())
    for block in re.finditer(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        first = page.read_text().count("\n", 0, block.start(1))
        for offset, line in enumerate(block[1].splitlines()):
            lines[first + offset] = line
    return "\n".join(lines)


def probabilities(rng: np.random.Generator) -> dict[str, Any]:
    """What docs/metrics.md takes as given."""
    logits = rng.normal(size=(600, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    probs = calibrant.TS().fit(2.0 * logits, labels).predict_proba(2.0 * logits)
    sure = calibrant.Uncalibrated().fit(2.0 * logits, labels).predict_proba(2.0 * logits)
    meter = calibrant.metrics.CalibrationMeter(n_bins=15, input="logits").update(logits, labels)
    return {
        "logits": logits,
        "labels": labels,
        "probs": probs,
        "ts_probs": sure,
        "pts_probs": probs,
        "stream": [(logits, labels)],
        "text_from_another_machine": meter.to_json(),
    }


@pytest.fixture
def registries() -> Iterator[None]:
    """What a page registers is forgotten after it."""
    kept = [(registry, dict(registry)) for registry in (KINDS, METRICS, REGISTRY)]
    yield
    for registry, content in kept:
        registry.clear()
        registry.update(content)


def parameters() -> list[Any]:
    """The pages with Python in them, the slow ones marked."""
    pages = [page for page in (ROOT / "README.md", *PAGES) if page.exists()]
    slow = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # PyTorch's exporter warns
    return [
        pytest.param(page, id=page.name, marks=slow if page.name in SLOW else ())
        for page in pages
        if code_of(page).strip()
    ]


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", parameters())
def test_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name in SLOW:
        pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    given = probabilities(np.random.default_rng(0)) if page.name == "metrics.md" else {}
    code = compile(code_of(page), str(page), "exec", dont_inherit=True)
    exec(code, {"__name__": "page"} | given)


@pytest.mark.skipif(not PAGES, reason="the documentation is not in this distribution")
def test_links_between_pages_lead_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *PAGES):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
