"""What reaches a terminal: one line per error, and nothing in it that could steer the terminal."""

from __future__ import annotations

import io
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rich.console

import calibrant
from calibrant import onnx
from calibrant.cli._output import working
from calibrant.common.errors import printable
from cli_support import program, python, refuse, run, sample, succeed, whole_archive

RED, SHOWN = "\x1b[31m\x9b2J\u202e", r"\x1b[31m\x9b2J\u202e"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with val.npz and ts.safetensors."""
    monkeypatch.chdir(tmp_path)
    logits, labels = sample(60, 3)
    np.savez("val.npz", logits=logits, labels=labels)
    calibrant.save(calibrant.TS().fit(logits, labels), "ts.safetensors")
    return tmp_path


# --- control characters -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("café 猫 [red]", "café 猫 [red]"),
        ("a\tb\nc\rd", r"a\tb\nc\rd"),
        ("\x00\x07\x1b\x7f\x80\x9f", r"\x00\x07\x1b\x7f\x80\x9f"),
        ("\u061c\u200e\u200f\u202a\u202e\u2066\u2069", None),
        ("\u2028\u2029\ufeff\u200b", None),
        ("\udc80\ud800", r"\udc80\ud800"),
    ],
)
def test_what_could_steer_a_terminal_is_escaped(text: str, shown: str | None) -> None:
    assert printable(text) == (shown or text.encode("unicode_escape").decode())
    assert printable(text).isprintable()


def test_errors_of_files_are_escaped_in_python_too() -> None:
    assert str(calibrant.FileError(f"no {RED}")) == f"no {SHOWN}"


def test_names_of_arrays_and_columns(folder: Path) -> None:
    np.savez("x.npz", **{RED: np.zeros((3, 2))})
    assert f"it has {SHOWN}: say" in refuse("evaluate", "x.npz")
    Path("x.csv").write_text(f"logits_0,logits_1,{RED}\n1,2,0\n")
    assert f"it has logits_0..logits_1, {SHOWN}: say" in refuse("evaluate", "x.csv")
    Path("y.csv").write_text(f"logits_0,logits_1,label\n1,{RED},0\n")
    assert f"must be a number, got '{SHOWN}'" in refuse("evaluate", "y.csv")


def test_names_of_files(folder: Path) -> None:
    for name in (f"{RED}.npz", "two\nlines.npz", "a\rb.npz"):
        line = refuse("evaluate", name)
        assert line[:-1].isprintable()
    os.rename("val.npz", f"{RED}.npz")
    assert SHOWN in succeed("evaluate", f"{RED}.npz", "--n-resamples", "0")
    said = succeed("fit", f"{RED}.npz", "--method", "ts", "-o", f"{RED}.safetensors")
    assert f"file    {SHOWN}.safetensors\n" in said
    said = succeed("apply", f"{RED}.safetensors", f"{RED}.npz", "-o", f"{RED}.csv")
    assert said.endswith(f"to {SHOWN}.csv\n")
    said = succeed("evaluate", f"{RED}.npz", "--calibrator", f"{RED}.safetensors")
    assert f"{SHOWN}.npz: 60 rows" in said
    assert all(c.isprintable() or c == "\n" for c in said)


def test_names_that_are_no_text(folder: Path) -> None:
    """A file's name may be any bytes: those that are no text are halves of surrogates to Python."""
    name = os.fsdecode(b"\xff\xfe.npz")
    assert r"\udcff\udcfe.npz does not exist" in refuse("evaluate", name)


def test_markup_is_not_interpreted(folder: Path) -> None:
    for name in ("[red]x[bold].npz", "[@click=x]y.npz", "[link=a]x.npz"):
        np.savez(name, **whole_archive("val.npz"))
        said = succeed("evaluate", name, "--calibrator", "ts.safetensors", "--n-resamples", "0")
        assert f"{name}: 60 rows" in said
        assert name in refuse("evaluate", f"no-{name}")


def test_json_stays_json(folder: Path) -> None:
    said = succeed("apply", "ts.safetensors", "val.npz", "-o", f"{RED}.csv", "--json")
    assert json.loads(said)["file"] == f"{RED}.csv"
    assert all(c.isprintable() or c == "\n" for c in said)


def test_options(folder: Path) -> None:
    for words in ([f"--{RED}"], ["--metrics", RED], ["--scores-key", RED], ["--n-bins", RED]):
        line = refuse("evaluate", "val.npz", *words)
        assert line[:-1].isprintable()


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    console = partial(rich.console.Console, file=terminal, force_terminal=True, width=200)
    monkeypatch.setattr(rich.console, "Console", lambda **_: console())
    with working(f"reading {RED}[red]x"):
        pass
    assert f"reading {SHOWN}[red]x" in terminal.getvalue()


# --- one line, exit code 2 --------------------------------------------------------------------


def test_no_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: Any, **__: Any) -> Any:
        return np.empty((10**9, 10**9))

    monkeypatch.setattr("calibrant.evaluation.evaluate", greedy)
    line = refuse("evaluate", "val.npz")
    assert line.startswith("error: val.npz: there is not enough memory. Unable to allocate")
    monkeypatch.setattr("calibrant.common.memory.available_memory", lambda: 1)
    np.savez("wide.npz", logits=np.eye(5, 700), labels=np.arange(5))
    line = refuse("fit", "wide.npz", "--method", "sms", "-o", "x.safetensors")
    assert line.startswith(
        "error: wide.npz: StructuredMatrixScaling of 5 rows and 700 classes needs"
    )
    assert line.endswith("vector, svs, ts, ets and pts need no matrix of classes by classes\n")


def test_nesting(folder: Path) -> None:
    deep = "[" * 100_000
    line = refuse(
        "fit", "val.npz", "-o", "x.safetensors", "--method", "pts", "--param", f"hidden={deep}"
    )
    assert line == "error: a file or an option is nested too deeply\n"


def test_circles_of_links(folder: Path) -> None:
    os.symlink("b.npz", "a.npz")
    os.symlink("a.npz", "b.npz")
    assert "Too many levels of symbolic links" in refuse("evaluate", "a.npz")
    os.symlink("d.safetensors", "c.safetensors")
    os.symlink("c.safetensors", "d.safetensors")
    for words in (
        ("fit", "val.npz", "--method", "ts", "-o", "c.safetensors"),
        ("apply", "c.safetensors", "val.npz", "-o", "out.npz"),
    ):
        refuse(*words)


def test_pipes_and_devices(folder: Path) -> None:
    """They are not waited for."""
    os.mkfifo("x.npz")
    assert "x.npz is a device or a pipe, not a file" in refuse("evaluate", "x.npz")
    os.symlink("/dev/zero", "y.npz")
    assert "y.npz is a device or a pipe, not a file" in refuse("evaluate", "y.npz")


def test_rows_that_are_refused_name_their_file(folder: Path) -> None:
    logits, labels = sample(30, 3)
    np.savez("nan.npz", logits=np.where(logits > 4.0, np.nan, logits), labels=labels)
    np.savez("far.npz", logits=logits, labels=labels + 5)
    for words in (
        ("fit", "{}", "--method", "ts", "-o", "x.safetensors"),
        ("evaluate", "{}"),
        ("evaluate", "val.npz", "{}"),
        ("compare", "{}", "val.npz"),
        ("compare", "val.npz", "{}"),
    ):
        for name, rule in (("nan.npz", "logits must be finite"), ("far.npz", "labels must lie in")):
            line = refuse(*(word.format(name) for word in words))
            assert line.startswith(f"error: {name}: {rule}")
    line = refuse("apply", "ts.safetensors", "nan.npz", "-o", "out.npz")
    assert line.startswith("error: nan.npz: logits must be finite")


def test_parameters_are_refused_before_the_file_is_read(folder: Path) -> None:
    line = refuse("fit", "no.npz", "-o", "x.safetensors", "--method", "pts", "--param", "top_k=0")
    assert line.startswith("error: --param top_k must be")


def test_weights_of_onnx_models_in_other_files(folder: Path) -> None:
    import onnx as format_of_models

    network = "net (float[N, 3] x) => (float[N, 3] logits) { logits = MatMul(x, w) }"
    model = format_of_models.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> {network}'
    )
    weights = format_of_models.numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")
    model.graph.initializer.append(weights)
    tensor = model.graph.initializer[0]
    format_of_models.external_data_helper.set_external_data(tensor, "w.bin", length=36)
    raw = tensor.raw_data
    tensor.ClearField("raw_data")
    location = next(entry for entry in tensor.external_data if entry.key == "location")
    os.mkdir("models")
    for place in ("models/w.bin", "w.bin"):
        Path(place).write_bytes(raw)
    os.symlink("../w.bin", "models/link.bin")
    for name, told in (
        ("no.bin", "its weights 'no.bin' are not beside it"),
        ("../w.bin", "its weights '../w.bin' lie outside its folder"),
        (str(folder / "w.bin"), "lie outside its folder"),
        ("link.bin", "its weights 'link.bin' lie outside its folder"),
        (f"{RED}.bin", rf"its weights '{SHOWN}.bin' are not beside it"),
    ):
        location.value = name
        Path("models/m.onnx").write_bytes(model.SerializeToString())
        line = refuse("attach", "models/m.onnx", "ts.safetensors", "-o", "out.onnx")
        assert line.startswith("error: models/m.onnx cannot be read as an ONNX model: ")
        assert told in line
        assert not Path("out.onnx").exists()
    location.value = "w.bin"
    Path("models/m.onnx").write_bytes(model.SerializeToString())
    succeed("attach", "models/m.onnx", "ts.safetensors", "-o", "out.onnx")


def test_onnx_models_that_are_damaged(folder: Path) -> None:
    onnx.export(calibrant.load("ts.safetensors"), "net.onnx")
    whole = Path("net.onnx").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(40):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        Path("bad.onnx").write_bytes(content)
        words = ("attach", "bad.onnx", "ts.safetensors", "-o", "out.onnx")
        result = run(*words, "--logits-output", "logits")
        assert result.exit_code in (0, 2), result.exception
        assert result.stderr.count("\n") == (result.exit_code == 2)


# --- Ctrl-C -----------------------------------------------------------------------------------

INTERRUPTED_IMPORT = """
import builtins, sys
name, as_import_error = sys.argv.pop(1), sys.argv.pop(1) == "hidden"
real = builtins.__import__
def interrupted(module, *args, **kwargs):
    if module.partition(".")[0] != name:
        return real(module, *args, **kwargs)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        if not as_import_error:
            raise
        raise ImportError("initialization failed") from error  # as extensions in C do
builtins.__import__ = interrupted
from calibrant.cli import main
main()
"""


@pytest.mark.parametrize(
    ("module", "way"),
    [("typer", "plain"), ("numpy", "plain"), ("numpy", "hidden"), ("torch", "hidden")],
)
def test_ctrl_c_while_importing(folder: Path, module: str, way: str) -> None:
    import torch

    torch.save({"logits": torch.zeros(3, 2), "labels": torch.zeros(3)}, "val.pt")
    result = python(INTERRUPTED_IMPORT, module, way, "evaluate", "val.pt")
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_the_program_still_runs(folder: Path) -> None:
    assert program("evaluate", "val.npz", "--n-resamples", "0").returncode == 0
    assert program("--version").stdout == f"calibrant {calibrant.__version__}\n"
