"""The documentation: its programs and commands run, and nothing public is left out."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import calibrant
from calibrant import metrics
from calibrant.calibrators import REGISTRY
from calibrant.formulas._serialization import KINDS
from calibrant.metrics import METRICS
from cli_support import sample, succeed

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = {"auto_gallery", "generated"}
PAGES = sorted(
    page for page in DOCS.rglob("*.md") if not GENERATED & set(page.relative_to(DOCS).parts)
)
SLOW = {("docs/serving.md", "python")}  # it trains a network and runs PyTorch's exporter
LONG = {"reproduce", "report"}  # commands that take long; they have tests of their own
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")

pytestmark = pytest.mark.skipif(not PAGES, reason="the documentation is not in this distribution")


def name_of(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> Iterator[re.Match[str]]:
    """The blocks of code in a language."""
    return re.finditer(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def code_of(page: Path) -> str:
    """All Python blocks of a page, each on the lines where it stands."""
    text = page.read_text()
    lines = [""] * len(text.splitlines())
    for block in blocks(page, "python"):
        first = text.count("\n", 0, block.start(1))
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


def parameters(language: str) -> list[Any]:
    """The pages with such blocks in them, the slow ones marked."""
    slow = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # PyTorch's exporter warns
    return [
        pytest.param(
            page, id=name_of(page), marks=slow if (name_of(page), language) in SLOW else ()
        )
        for page in (ROOT / "README.md", *PAGES)
        if page.exists() and any(blocks(page, language))
    ]


# --- Python -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", parameters("python"))
def test_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name_of(page) == "docs/serving.md":
        pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    given = probabilities(np.random.default_rng(0)) if name_of(page) == "docs/metrics.md" else {}
    code = compile(code_of(page), str(page), "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "page"} | given)
    if page.parent != DOCS and page.parent != ROOT:  # the pages at the top explain in comments
        assert_printed(promised(code_of(page)), printed.getvalue().splitlines())


def promised(code: str) -> list[str]:
    """What comments behind ``print`` and below it say will be printed."""
    found, after_print = [], False
    for line in code.splitlines():
        if line.lstrip().startswith("print("):
            found += re.findall(r"\)  # (.+)$", line)
            after_print = True
        elif after_print and line.startswith("# "):
            found.append(line[2:])
        else:
            after_print = False
    return found


def assert_printed(promises: list[str], lines: list[str]) -> None:
    """Every promise is kept by a line, in this order; others may lie between."""
    rest = iter(lines)
    for promise in promises:
        assert any(agrees(promise, line) for line in rest), f"{promise!r} was not printed: {lines}"


def agrees(promise: str, line: str) -> bool:
    """The same words, and the same numbers up to two units of the last digit that is written."""
    if NUMBER.sub("", promise).split() != NUMBER.sub("", line).split():
        return False
    written, printed = NUMBER.findall(promise), NUMBER.findall(line)
    return len(written) == len(printed) and all(
        abs(float(short) - float(full)) <= 2.0 * unit(short)
        for short, full in zip(written, printed, strict=True)
    )


def unit(number: str) -> float:
    """What the last digit of a number counts; whole numbers are exact."""
    digits, _, exponent = number.partition("e")
    whole = "." not in digits and not exponent
    return 0.0 if whole else 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def test_promises_are_checked() -> None:
    code = "print(a)  # x 0.5\nprint(b)\n# 7\n\n# prose"
    assert promised(code) == ["x 0.5", "7"]
    assert agrees("x 0.50", "x 0.5191999")
    assert not agrees("x 0.50", "x 0.5291999")
    assert not agrees("x 0.5", "y 0.5")
    assert agrees("1.84e-08", "1.8423e-08")
    with pytest.raises(AssertionError, match="was not printed"):
        assert_printed(["1", "2"], ["2", "1"])


# --- the command line -------------------------------------------------------------------------


def commands(page: Path) -> list[list[str]]:
    """The calls of calibrant in the console blocks of a page."""
    lines = [
        line
        for block in blocks(page, "console")
        for line in block[1].replace("\\\n", " ").splitlines()
    ]
    calls = [shlex.split(line, comments=True) for line in lines]
    return [call[1:] for call in calls if call[:1] == ["calibrant"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("val", "test", "part-1", "part-2")):
        logits, labels = sample(150, 4, seed=number)
        np.savez(f"{name}.npz", logits=logits, labels=labels)
    Path("names.txt").write_text("ant\nbee\ncat\ndog\n")
    Path("in").mkdir()
    np.savez("in/a.npz", logits=logits, labels=labels)
    np.save("logits.npy", logits)
    np.save("labels.npy", labels)
    calibrant.save(calibrant.TS().fit(logits, labels), "ts.safetensors")
    calibrant.save(calibrant.HTS(penalty=1.0).fit(logits, labels), "pts.safetensors")
    return tmp_path


def write_model(folder: Path) -> None:
    """A model of four classes, for ``calibrant attach``."""
    parser = pytest.importorskip("onnx.parser")
    network = "net (float[N, 4] x) => (float[N, 4] logits) { logits = Identity (x) }"
    text = '<ir_version: 8, opset_import: ["": 17]> ' + network
    importlib.import_module("onnx").save(parser.parse_model(text), folder / "model.onnx")


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")  # few rows
@pytest.mark.parametrize("page", parameters("console"))
def test_the_commands_run(page: Path, folder: Path) -> None:
    for call in commands(page):
        assert_known(call)
        if call[0] == "attach":
            write_model(folder)
        if call[0] not in LONG:
            succeed(*call)


def assert_known(call: list[str]) -> None:
    """The command and all its options exist."""
    from calibrant.cli import app
    from calibrant_papers.command import app as reproduce

    command: Any = typer.main.get_command(reproduce if call[0] == "reproduce" else app)
    words = iter(call[call[0] == "reproduce" :])
    while (word := next(words, None)) in getattr(command, "commands", {}):
        command = command.commands[word]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    options = {word for word in call if word.startswith("-") and not word[1:].isdigit()}
    assert options <= known, call


# --- the gallery ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program", sorted(DOCS.glob("gallery/plot_*.py")), ids=lambda path: path.stem
)
def test_the_gallery_draws(program: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    runpy.run_path(str(program))
    figures = matplotlib.pyplot.get_fignums()
    matplotlib.pyplot.close("all")
    assert len(figures) == 1


# --- the site ---------------------------------------------------------------------------------


def test_links_between_pages_lead_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *PAGES):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("method", REGISTRY)
def test_every_method_has_a_page(method: str) -> None:
    page = DOCS / "methods" / f"{method}.md"
    assert f"{{method-facts}} {method}\n" in page.read_text()
    assert "\n$$\n" in page.read_text()
    assert any(blocks(page, "python"))


def functions() -> list[str]:
    """All metrics, and all tests of calibration."""
    return sorted({*METRICS, *(name for name in metrics.__all__ if name.endswith("_test"))})


@pytest.mark.parametrize("metric", functions())
def test_every_metric_has_a_page(metric: str) -> None:
    page = DOCS / "metrics" / f"{metric}.md"
    assert f"{{metric-facts}} {metric}\n" in page.read_text()
    assert "## Formula" in page.read_text()
    assert any(blocks(page, "python"))


def documented() -> dict[int, str]:
    """The objects of the reference, by identity."""
    found: dict[int, str] = {}
    for page in DOCS.glob("api/*.rst"):
        text = page.read_text()
        [module] = re.findall(r"^\.\. currentmodule:: (\S+)$", text, re.MULTILINE) or ["calibrant"]
        listed = re.findall(r"^   ([\w.]+)$", text, re.MULTILINE)
        data = re.findall(r"^\.\. data:: (\w+)$", text, re.MULTILINE)
        for name in (*listed, *data):
            if (value := resolved(module, name)) is not None:
                found[id(value)] = f"{module}.{name}"
    return found


def resolved(module: str, name: str) -> Any:
    """What a name of the reference stands for; None for a page in a table of contents."""
    *inner, last = f"{module}.{name}".split(".")
    try:
        return getattr(importlib.import_module(".".join(inner)), last, None)
    except ImportError:
        return None


def test_everything_public_is_in_the_reference() -> None:
    check = runpy.run_path(str(ROOT / "tools" / "check_docstrings.py"))
    known = documented()
    for module_name in check["MODULES"]:
        module = importlib.import_module(module_name)
        for name in check["names_of"](module):
            value = getattr(module, name)
            if name.startswith("__") or type(value) is type(calibrant):
                continue
            assert id(value) in known, f"{module_name}.{name} is in no page of docs/api"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_are_named_exist(page: str) -> None:
    """A path in backticks is one of the repository, or of the package."""
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)+[A-Za-z_]+\.py)`", text))
    assert len(named) > 5
    places = (ROOT, ROOT / "src/calibrant")
    missing = {name for name in named if not any((place / name).exists() for place in places)}
    assert not {name for name in missing if "NAME" not in name}
