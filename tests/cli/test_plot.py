"""``calibrant plot``: files, what is in them, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import diagrams
from cli_support import as_json, program, refuse, run, sample, softmax, succeed

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.pyplot as plt


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with scores, a table of them, and two calibrators."""
    monkeypatch.chdir(tmp_path)
    logits, labels = sample(300, 4)
    camera = np.arange(300) % 3
    place = np.array(["in", "out"])[np.arange(300) % 2]
    weight = 1.0 + np.arange(300) % 2
    columns = {"labels": labels, "camera": camera, "place": place, "weight": weight}
    np.savez("test.npz", logits=logits, **columns)
    np.savez("probs.npz", probs=softmax(logits), labels=labels)
    np.savez("padded.npz", logits=logits, **{**columns, "labels": np.where(labels, labels, -100)})
    table = np.column_stack([logits, labels, camera])
    header = "logits_0,logits_1,logits_2,logits_3,label,camera"
    np.savetxt("test.csv", table, delimiter=",", header=header, comments="")
    calibrant.save(calibrant.TS().fit(logits, labels), "ts.safetensors")
    calibrant.save(calibrant.HTS().fit(logits, labels), "hts.safetensors")
    calibrant.save(calibrant.calibrator("vector").fit(logits, labels), "vector.safetensors")
    return tmp_path


BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_every_format_twice_the_same(folder, suffix):
    said = succeed("plot", "test.npz", "-o", f"a{suffix}")
    assert said == f"drew reliability of 300 rows: a{suffix}\n"
    succeed("plot", "test.npz", "-o", f"b{suffix.upper()}")
    first, second = Path(f"a{suffix}").read_bytes(), Path(f"b{suffix.upper()}").read_bytes()
    assert first.startswith(BEGINNINGS[suffix])
    assert first == second


def test_size_and_dots_of_a_picture(folder):
    succeed("plot", "test.npz", "-o", "a.png", "--size", "3x2.5", "--dpi", "40")
    assert plt.imread("a.png").shape[:2] == (100, 120)


def test_light_and_dark_pages(folder):
    succeed("plot", "test.npz", "-o", "light.png")
    succeed("plot", "test.npz", "-o", "dark.png", "--dark")
    corners = [plt.imread(f"{name}.png")[0, 0, :3].max() for name in ("light", "dark")]
    assert corners == [1.0, 0.0]


def test_titles_are_taken_literally(folder):
    before = dict(mpl.rcParams)
    succeed("plot", "test.npz", "-o", "a.svg", "--title", "5$ or $frac{")
    succeed("plot", "test.npz", "-o", "b.svg")
    assert Path("a.svg").read_bytes() != Path("b.svg").read_bytes()
    assert dict(mpl.rcParams) == before
    assert not plt.get_fignums(), "a figure is left open"


def test_the_numbers_of_a_picture(folder):
    found = as_json("plot", "test.npz", "-o", "a.png", "--calibrator", "ts.safetensors")
    assert (found["file"], found["what"]) == ("a.png", "reliability")
    assert list(found["diagrams"]) == ["uncalibrated", "ts"]
    with np.load("test.npz") as data:
        logits, labels = data["logits"], data["labels"]
    base = diagrams.reliability(logits, labels, input="logits")
    after = diagrams.reliability(calibrant.load("ts.safetensors").predict_proba(logits), labels)
    for name, diagram in (("uncalibrated", base), ("ts", after)):
        assert found["diagrams"][name]["error"] == diagram.error
        assert found["diagrams"][name]["weight"] == diagram.weight.tolist()


@pytest.mark.parametrize("kind", ["equal-mass", "isotonic", "smooth"])
def test_kinds(folder, kind):
    found = as_json("plot", "probs.npz", "-o", "a.png", "--kind", kind, "--n-bins", "7")
    (diagram,) = found["diagrams"].values()
    assert diagram["kind"] == kind
    assert len(diagram["histogram"]["weight"]) == 7


def test_weights_and_ignored_rows(folder):
    args = ("--weights-key", "weight", "--ignore-index", "-100")
    (diagram,) = as_json("plot", "padded.npz", "-o", "a.png", *args)["diagrams"].values()
    with np.load("padded.npz") as data:
        kept = data["labels"] != -100
        assert diagram["n_rows"] == kept.sum()
        assert sum(diagram["weight"]) == pytest.approx(data["weight"][kept].sum())
    found = as_json("plot", "padded.npz", "-o", "a.png", *args, "--segment-key", "camera")
    assert sum(d["n_rows"] for d in found["diagrams"].values()) == kept.sum()


def test_other_pictures(folder):
    both = ("--calibrator", "ts.safetensors", "--calibrator", "hts.safetensors")
    names = ["uncalibrated", "ts", "hts"]
    found = as_json("plot", "test.npz", "-o", "a.png", "--what", "risk-coverage", *both)
    assert [*found["diagrams"]] == names
    found = as_json("plot", "test.npz", "-o", "a.png", "--what", "bins", "--kind", "equal-mass")
    assert found["diagrams"]["uncalibrated"]["scheme"] == "equal-mass"
    found = as_json("plot", "test.npz", "-o", "a.png", "--what", "gaps", "--n-bins", "4")
    assert np.shape(found["diagrams"]["uncalibrated"]["bins"]["weight"]) == (4, 4)
    found = as_json("plot", "test.npz", "-o", "a.png", "--what", "temperatures", *both)
    (shown,) = found["diagrams"].values()
    assert shown["reference"] == pytest.approx(calibrant.load("ts.safetensors").temperature_)
    assert len(shown["temperature"]) == 300
    one = ("--calibrator", "ts.safetensors", "--against", "margin")
    succeed("plot", "test.npz", "-o", "a.png", "--what", "temperatures", *one)


@pytest.mark.parametrize(
    ("file", "args", "panels"),
    [
        ("test.npz", ["--by", "class"], ["0", "1", "2", "3"]),
        ("test.npz", ["--segment-key", "place"], ["in", "out"]),
        ("test.csv", ["--segment-key", "camera"], ["0", "1", "2"]),
    ],
)
def test_small_multiples(folder, file, args, panels):
    method = ("--calibrator", "vector.safetensors")
    assert [*as_json("plot", file, "-o", "a.png", *args, *method)["diagrams"]] == panels


def test_the_embedded_logits_need_no_file(folder):
    args = ("-o", "a.png", "--what", "risk-coverage", "--json")
    done = program("plot", *args)
    assert done.returncode == 0, done.stderr
    assert '"pts"' in done.stdout
    assert as_json("plot", "-o", "a.png", "--what", "gaps")["diagrams"].keys() == {"uncalibrated"}


def test_calibrators_of_the_same_name_are_told_apart(folder):
    Path("other").mkdir()
    Path("other/ts.safetensors").write_bytes(Path("hts.safetensors").read_bytes())
    args = ("--calibrator", "ts.safetensors", "--calibrator", "other/ts.safetensors")
    found = as_json("plot", "test.npz", "-o", "a.png", *args)
    assert [*found["diagrams"]] == ["uncalibrated", "ts.safetensors", "other/ts.safetensors"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--size", "6"], "--size must be width and height in inches, each at least 1, such as"),
        (["--size", "0x4"], "such as 6x4, got '0x4'"),
        (["--size", "90x90", "--dpi", "600"], "--size 90x90 at --dpi 600 is more than 100,000,000"),
        (["--by", "class", "--segment-key", "camera"], "are two ways to divide: leave one out"),
        (["--what", "bins", "--by", "class"], "--by and --segment-key go with --what reliability"),
        (["--against", "margin"], "--against goes with --what temperatures"),
        (["--what", "gaps", "--kind", "smooth"], "--kind goes with --what reliability or bins"),
        (["--what", "bins", "--kind", "smooth"], "takes --kind equal-width or equal-mass, got"),
        (["--what", "bins", "--n-bins", "5"], "--n-bins goes with --what reliability or gaps"),
        (["--what", "temperatures"], "takes one --calibrator, such as PTS, and TS to compare with"),
        (
            ["--what", "temperatures", "--calibrator", "vector.safetensors"],
            "VectorScaling gives no temperatures",
        ),
        (
            ["--what", "gaps", "--calibrator", "ts.safetensors", "--calibrator", "hts.safetensors"],
            "--what gaps is drawn of one calibrator, got ts, hts",
        ),
        (["--segment-key", "nothing"], "test.npz has no 'nothing'; it has logits, labels, camera"),
        (["--segment-key", "logits"], "segments must be texts or whole numbers of shape (300,)"),
        (["--what", "pie"], "'pie' is not one of 'reliability', 'risk-coverage'"),
    ],
)
def test_what_is_refused(folder, args, message):
    assert message in refuse("plot", "test.npz", "-o", "a.png", *args)
    assert not Path("a.png").exists()


def test_scores_and_calibrators_that_do_not_match(folder):
    line = refuse("plot", "probs.npz", "-o", "a.png", "--calibrator", "ts.safetensors")
    assert "the calibrator takes logits, but probs.npz has probs" in line
    line = refuse("plot", "-o", "a.png", "--labels-key", "y")
    assert line == "error: --labels-key goes with a file of scores, and there is none\n"
    np.savez("narrow.npz", logits=np.zeros((5, 2)), labels=np.zeros(5, int))
    line = refuse("plot", "narrow.npz", "-o", "a.png", "--calibrator", "ts.safetensors")
    assert line.startswith("error: narrow.npz: ")


def test_matplotlib_is_missed_before_the_work(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("calibrant.data.scorefiles.read_scores", None)
    said = run("plot", "test.npz", "-o", "a.png").stderr
    assert said == 'error: calibrant.plots needs matplotlib: pip install "calibrant[plot]"\n'
