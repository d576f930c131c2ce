"""Every example that ``--help`` shows is run as it stands, in a folder with the files it names."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import calibrant
from calibrant import cli
from calibrant.calibrators import REGISTRY
from calibrant_papers.command import app as reproduce_app
from cli_support import refuse, run, sample, softmax

GROUP: Any = typer.main.get_group(cli.app)
REPRODUCE: Any = typer.main.get_group(reproduce_app)

# What would take long is run in its cheapest form: fewer methods and no draws, and a local engine
# in place of a cluster (tests of Ray are apart).
LOCAL = ["--engine", "local"]
FEWER = ["--methods", "base,ts", "--n-resamples", "0"]
CHEAPER = {
    "calibrant apply pts.safetensors in/ -o out/ --only confidence --engine ray": LOCAL,
    "calibrant compare val.npz": FEWER,
    "calibrant compare val.npz test.npz": FEWER,
    "calibrant compare z.npy t.npy --input logits --labels y.npy --test-labels u.npy": FEWER,
    "calibrant report -o demo.html": FEWER,
    "calibrant report val.npz test.npz -o report.html --methods ts,ets,pts,auto": FEWER,
    "calibrant report val.npz -o report.html --force": FEWER,
}
# Minutes to hours: everything is read, and the page is asked for without the runs.
PREVIEWED = (
    "calibrant reproduce --out reproduction",
    "calibrant reproduce --quick --add mine val.npz test.npz",
)
# Hours on a GPU, with images that nobody has here: parsed, and not run.
PARSED = "calibrant reproduce logits --dataset cifar10 --data DIR --network vgg19 --out logits"


def examples() -> Iterator[str]:
    """The command lines in the help of the program and of all commands, without their remarks."""
    for command in (GROUP, *GROUP.commands.values(), REPRODUCE):
        for line in (command.epilog or "").splitlines():
            if line.startswith("calibrant "):
                yield line.partition("    (")[0]


EXAMPLES = list(dict.fromkeys(examples()))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files that the examples read."""
    folder = tmp_path_factory.mktemp("examples")
    logits, labels = sample(240, 3)
    rows = {"logits": logits, "labels": labels}
    for name in ("val.npz", "test.npz", "part-1.npz", "part-2.npz"):
        np.savez(folder / name, **rows)
    for name in ("logits.npy", "test.npy", "z.npy", "t.npy"):
        np.save(folder / name, logits)
    for name in ("labels.npy", "y.npy", "u.npy"):
        np.save(folder / name, labels)
    table = np.column_stack([logits, labels])
    header = "logits_0,logits_1,logits_2,label"
    np.savetxt(folder / "val.csv", table, "%.9g", ",", header=header, comments="")
    for name, arrays in (
        ("in", rows),
        ("scored", {"probs": softmax(logits), "labels": labels}),
        ("out", {"probs": softmax(logits), "labels": labels}),
    ):
        (folder / name).mkdir()
        np.savez(folder / name / "part-1.npz", **arrays)
    for method in ("ts", "pts", "vector"):
        fitted = calibrant.calibrator(method).fit(logits, labels)
        calibrant.save(fitted, folder / f"{method}.safetensors")
    _save_model(folder / "model.onnx")
    return folder


@pytest.fixture
def folder(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with copies of the files: an example may replace them."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _save_model(path: Path) -> None:
    """A model whose one output is called logits."""
    import onnx
    import onnx.parser

    network = "net (float[N, 3] x) => (float[N, 3] logits) { logits = Neg(x) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {network}'), path)


def test_every_command_has_examples() -> None:
    commands = {"reproduce", *GROUP.commands}
    assert {line.split()[1] for line in EXAMPLES} == commands
    assert {*CHEAPER, *PREVIEWED, PARSED} <= set(EXAMPLES)


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
@pytest.mark.parametrize("line", [x for x in EXAMPLES if x not in (*PREVIEWED, PARSED)])
def test_examples_run(line: str, folder: Path) -> None:
    if " -o out/" in line:
        shutil.rmtree("out")
    result = run(*shlex.split(line)[1:], *CHEAPER.get(line, []))
    assert result.exit_code == 0, result.output
    assert result.stdout
    if line.startswith("calibrant fit"):  # a file is named after the method that is in it
        written = next(word for word in line.split() if word.endswith(".safetensors"))
        assert type(calibrant.load(written)) is REGISTRY[Path(written).stem]


@pytest.mark.parametrize("line", PREVIEWED)
def test_reproductions_are_ready_to_run(line: str, folder: Path) -> None:
    message = "reproduction/rows holds no row of these experiments yet"
    assert message in refuse(*shlex.split(line)[1:], "--preview")


def test_a_network_of_the_paper_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("DIR").mkdir()
    words = shlex.split(PARSED)[3:]
    context = REPRODUCE.commands["logits"].make_context("logits", words)
    assert context.params["network"] == "vgg19"
