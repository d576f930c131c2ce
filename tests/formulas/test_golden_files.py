"""Files of earlier releases mean what they meant: never change these, add to them.

``tools/make_golden_files.py`` wrote them, and adds what is missing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import REGISTRY
from calibrant.formulas._serialization import KINDS

FOLDER = Path(__file__).parents[1] / "golden" / "files"
GAPS_NLL, NODES_NLL, METER_ECE = 0.9897201432900846, 3.985452422228839, 0.18182861025505792
OTHERS = FOLDER / "others"  # profiles and a meter
FILES = sorted(FOLDER.glob("*.safetensors"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_file_gives_its_probabilities(path: Path) -> None:
    with np.load(FOLDER / "probabilities.npz") as answers, np.load(FOLDER / "scores.npz") as scores:
        expected = answers[path.stem]
        given = scores[f"{calibrant.load(path).input}-{expected.shape[1]}"]
    np.testing.assert_allclose(
        calibrant.load(path).predict_proba(given), expected, rtol=0, atol=1e-12
    )


def test_golden_profiles_and_meters() -> None:
    gaps, nodes = (calibrant.load(OTHERS / f"{kind}.safetensors") for kind in ("gaps", "nodes"))
    assert (len(gaps), gaps.n_classes, gaps.input) == (80, 4, "logits")
    assert (len(nodes), nodes.n_classes) == (80, 80)
    assert gaps.nll(1.7) == pytest.approx(GAPS_NLL, abs=1e-9)
    assert nodes.nll(1.7) == pytest.approx(NODES_NLL, abs=1e-6)
    report = calibrant.load(OTHERS / "meter.safetensors").compute()
    assert report.n_rows == 80
    assert report.ece == pytest.approx(METER_ECE, abs=1e-12)


def test_every_method_and_every_kind_of_formula_has_a_golden_file() -> None:
    assert set(REGISTRY) <= {path.stem for path in FILES}
    content = b"".join(path.read_bytes() for path in FILES).decode("latin-1")
    ours = {kind for kind, cls in KINDS.items() if cls.__module__.startswith("calibrant.")}
    missing = {kind for kind in ours if f'\\\\\\"kind\\\\\\": \\\\\\"{kind}\\\\\\"' not in content}
    assert not missing
