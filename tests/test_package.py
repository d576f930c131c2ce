"""The package as a user gets it: import cost, public names, embedded data, wheel and sources."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import calibrant

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "matplotlib", "plotly", "seaborn", "pandas", "pyarrow", "onnx", "ray", "jinja2"}

MAIN_JOB = """
import sys
import numpy as np
import calibrant
data = calibrant.datasets.load("fashion-mnist-lenet5")
assert data.val_logits.shape == (5000, 10) and data.test_logits.shape == (10000, 10)
pts = calibrant.PTS(members=1, penalty=1.0).fit(data.val_logits[:500], data.val_labels[:500])
probs = pts.predict_proba(data.test_logits)
assert calibrant.metrics.ece(probs, data.test_labels) < 0.05
calibrant.save(pts, "pts.safetensors")
assert np.array_equal(calibrant.load("pts.safetensors").predict_proba(data.test_logits), probs)
"""


def run(code: str, **options: object) -> str:
    """What a fresh interpreter prints; its errors are the test's."""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, **options
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


# --- importing --------------------------------------------------------------------------------

IMPORT_TIMES = """
import time
import numpy, scipy.optimize, sklearn.base
start = time.process_time()
import calibrant
print(time.process_time() - start)
for name in calibrant.__all__:
    getattr(calibrant, name)
print(time.process_time() - start)
"""


def test_importing_costs_little():
    """The package, and all of it, over what it stands on, in seconds of the processor: those do
    not depend on what else the machine is doing."""
    runs = [[float(line) for line in run(IMPORT_TIMES).split()] for _ in range(2)]
    package, everything = np.min(runs, axis=0)
    assert package < 0.1
    assert everything < 0.5


def test_the_main_job_pulls_in_nothing_heavy(tmp_path):
    tell = "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(run(MAIN_JOB + tell, cwd=tmp_path).split())
    assert not loaded & (HEAVY | {"sklearn"})


def test_public_names():
    for name in calibrant.__all__:
        assert getattr(calibrant, name) is not None
    assert set(calibrant.__all__) <= set(dir(calibrant))
    assert calibrant.PTS is calibrant.ParameterizedTemperatureScaling
    assert calibrant.TS is calibrant.TemperatureScaling
    assert calibrant.ETS is calibrant.EnsembleTemperatureScaling
    with pytest.raises(AttributeError, match="module 'calibrant' has no attribute 'Platt'"):
        _ = calibrant.Platt


def test_the_version_stands_in_one_place():
    assert calibrant.__version__ == version("calibrant")


def test_warnings_and_errors_can_be_caught_by_their_kind():
    assert issubclass(calibrant.FileError, ValueError)
    assert issubclass(calibrant.CalibrationWarning, UserWarning)


# --- the embedded data ------------------------------------------------------------------------


def test_the_embedded_logits(fashion):
    assert (fashion.val_logits.shape, fashion.test_logits.shape) == ((5000, 10), (10_000, 10))
    assert fashion.val_logits.dtype == fashion.test_logits.dtype == np.float16
    assert np.isfinite(fashion.val_logits).all()
    assert np.isfinite(fashion.test_logits).all()
    for labels, rows in ((fashion.val_labels, 5000), (fashion.test_labels, 10_000)):
        assert labels.shape == (rows,)
        assert set(np.unique(labels)) == set(range(10))
    assert isinstance(fashion.card, dict)


def test_the_embedded_network_is_good_but_visibly_miscalibrated(fashion):
    base = calibrant.Uncalibrated().fit(fashion.val_logits, fashion.val_labels)
    for logits, labels in (
        (fashion.val_logits, fashion.val_labels),
        (fashion.test_logits, fashion.test_labels),
    ):
        probs = base.predict_proba(logits)
        assert calibrant.metrics.accuracy(probs, labels) > 0.88
        assert calibrant.metrics.ece(probs, labels) > 0.04


def test_the_embedded_file_is_small():
    files = list((ROOT / "src/calibrant/data/embedded").glob("fashion-mnist-lenet5.*"))
    assert {path.suffix for path in files} == {".npz", ".json"}
    assert sum(path.stat().st_size for path in files) < 400_000


# --- the wheel and the source distribution ------------------------------------------------------


def build(tree: Path, target: Path, **options: Any) -> Built:
    """A source distribution and the wheel from that, by the back end that is installed."""
    pytest.importorskip("hatchling", reason="the build back end is not installed")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(tree)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return Built(wheel, sdist)


class Built(NamedTuple):
    """The files of a release."""

    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def unpack(sdist: Path, place: Path) -> Path:
    """The folder of a source distribution, below another."""
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    (folder,) = place.iterdir()
    return folder


def files_of_the_repository() -> set[str]:
    """What is tracked, or will be."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        pytest.skip("this is no clone")
    return {name for name in result.stdout.splitlines() if (ROOT / name).is_file()}


def test_the_wheel_holds_the_package_its_data_and_its_licence(built):
    names = zipfile.ZipFile(built.wheel).namelist()
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src/calibrant").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in names if name.startswith("calibrant/")}
    assert packed == sources
    assert not any("papers" in name for name in names)
    assert {"calibrant/py.typed", "calibrant/data/embedded/fashion-mnist-lenet5.npz"} <= packed
    info = {name.partition("/")[2] for name in names if ".dist-info/" in name}
    assert info == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"calibrant"}


def test_the_source_distribution_holds_the_repository_but_its_large_data(built):
    with tarfile.open(built.sdist) as archive:
        assert all(member.isfile() for member in archive)
        packed = {name.partition("/")[2] for name in archive.getnames()}
    left_out = ("data/", ".ci/", ".pre-commit-config.yaml")
    tracked = {name for name in files_of_the_repository() if not name.startswith(left_out)}
    assert packed == tracked | {"PKG-INFO"}
    assert {"LICENSE", "SECURITY.md", "Makefile", "requirements/development.txt"} <= packed


def test_another_time_and_place_give_the_same_bytes(built, tmp_path):
    """From an unpacked source distribution, whose files have other dates and permissions."""
    tree = unpack(built.sdist, tmp_path / "elsewhere")
    for path in tree.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1e9, 1e9))
    again = build(tree, tmp_path / "dist", umask=0o077)
    for first, second in zip(built, again, strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes()


def test_the_wheel_does_the_main_job(built, tmp_path):
    """Unpacked in front of the installed package, whose dependencies it uses."""
    place = tmp_path / "unpacked"
    zipfile.ZipFile(built.wheel).extractall(place)
    code = MAIN_JOB + "print(calibrant.__file__)"
    output = run(code, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(place)})
    assert Path(output.strip()).is_relative_to(place)


@pytest.mark.slow
def test_the_source_distribution_has_all_that_its_tests_need(built, tmp_path):
    tree = unpack(built.sdist, tmp_path)
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    pages = ["tests/test_documentation.py", "tests/test_requirements.py", "-m", "not slow"]
    for command in ([*pytest_run, "--collect-only"], [*pytest_run, *pages]):
        places = os.pathsep.join([str(tree / "src"), str(tree / "papers" / "src")])
        environment = os.environ | {"PYTHONPATH": places}
        result = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(built, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", built.wheel]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    for command in (install, [python, "-c", MAIN_JOB], [tmp_path / "env/bin/calibrant", "--help"]):
        result = subprocess.run(
            command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=600
        )
        assert result.returncode == 0, result.stdout + result.stderr
