"""Files: exact round trips, and one clear error for whatever is not a whole file of ours."""

from __future__ import annotations

import json
import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import ETS, PTS, TS, FileError, LinearPTS, TemperatureProfile, Uncalibrated
from calibrant.formulas import ConstantTemperature
from calibrant.formulas import _safetensors as _container
from crafting import with_formula

RNG = np.random.default_rng(0)
LOGITS = RNG.uniform(0.5, 4.0, (300, 1)) * RNG.standard_normal((300, 6))
LABELS = (LOGITS / 1.7 + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)

CALIBRATORS: dict[str, Callable[[], Any]] = {
    "base": lambda: Uncalibrated(),
    "ts": lambda: TS(loss="brier", bounds=(0.05, 30.0)),
    "ets": lambda: ETS(),
    "pts": lambda: PTS(members=2, penalty=3.0, random_state=4),
    "pts, paper": lambda: PTS(recipe="paper", steps=5, hidden=(3,), top_k=4),
    "pts-linear": lambda: LinearPTS(loss="nll"),
    "pts, clipped": lambda: PTS(members=1, clip_logits=True),
    "ts on probabilities": lambda: TS(input="probs"),
}


def scores_for(calibrator: Any) -> np.ndarray:
    if calibrator.input == "logits":
        return LOGITS
    weight = np.exp(LOGITS)
    return weight / weight.sum(axis=1, keepdims=True)


def fitted(name: str) -> Any:
    calibrator = CALIBRATORS[name]()
    return calibrator.fit(scores_for(calibrator), LABELS)


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small file."""
    path = tmp_path_factory.mktemp("files") / "pts.safetensors"
    calibrant.save(fitted("pts, paper"), path)
    return path.read_bytes()


# --- round trips ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALIBRATORS)
def test_round_trip_is_exact(name, tmp_path):
    saved = fitted(name)
    calibrant.save(saved, tmp_path / "c.safetensors")
    loaded = calibrant.load(tmp_path / "c.safetensors")
    assert type(loaded) is type(saved)
    assert loaded.get_params() == saved.get_params()
    assert loaded.fit_info_ == saved.fit_info_
    assert loaded.n_classes_ == saved.n_classes_ == 6
    for method in ("predict_proba", "predict_log_proba", "predict", "temperature", "transform"):
        if hasattr(saved, method):
            scores = scores_for(saved)
            one, other = getattr(saved, method)(scores), getattr(loaded, method)(scores)
            np.testing.assert_array_equal(one, other)


@given(temperature=st.floats(1e-37, 1e37))
@settings(max_examples=30)
def test_every_bit_of_a_temperature_survives(tmp_path_factory, temperature):
    path = tmp_path_factory.mktemp("t") / "ts.safetensors"
    calibrant.save(with_formula(TS(), ConstantTemperature(temperature)), path)
    assert calibrant.load(path).temperature_ == temperature


def test_saving_again_gives_the_same_bytes(tmp_path):
    one, other = (tmp_path / f"{name}.safetensors" for name in "ab")
    for path in (one, other):
        calibrant.save(fitted("pts"), path)
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    "parameters",
    [
        {"hidden": [3], "members": 1},
        {"hidden": (np.int64(3),), "members": np.int32(1), "top_k": np.int64(4)},
        {"recipe": "paper", "steps": np.int64(3), "learning_rate": np.float32(1e-3)},
        {"penalty": np.float64(2.0), "members": 1, "random_state": np.int64(3)},
        {"random_state": np.random.default_rng(1), "members": 1},
    ],
    ids=["list", "numpy integers", "numpy steps", "numpy penalty", "generator"],
)
def test_parameters_of_any_numeric_type_are_saved(parameters, tmp_path):
    pts = PTS(**parameters).fit(LOGITS, LABELS)
    calibrant.save(pts, tmp_path / "pts.safetensors")
    loaded = calibrant.load(tmp_path / "pts.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), pts.predict_proba(LOGITS))


def test_the_header_is_readable_json_and_holds_no_pickle(tmp_path):
    path = tmp_path / "pts.safetensors"
    saved = fitted("pts")
    calibrant.save(saved, path)
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["calibrant"])
    body = json.loads(header["body"])
    assert len(header["sha256"]) == 64
    assert body["version"] == 2
    assert body["class"] == "ParameterizedTemperatureScaling"
    assert body["parameters"]["penalty"] == 3.0
    assert body["fit_info"]["loss"] == "mixed"
    assert body["formula"]["kind"] == "network-temperature"
    assert body["formula"]["version"] == 1


# --- writing ----------------------------------------------------------------------------------


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "ts.safetensors"
    calibrant.save(fitted("ts"), path)
    before = path.read_bytes()

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        calibrant.save(fitted("ets"), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_follows_the_umask(tmp_path):
    path = tmp_path / "ts.safetensors"
    before = os.umask(0o027)
    try:
        calibrant.save(fitted("ts"), path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_may_be_renamed_but_is_written_with_its_suffix(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.safetensors, got '.*ts\.cal'"):
        calibrant.save(fitted("ts"), tmp_path / "ts.cal")
    assert list(tmp_path.iterdir()) == []
    calibrant.save(fitted("ts"), tmp_path / "ts.SafeTensors")
    renamed = (tmp_path / "ts.SafeTensors").rename(tmp_path / "ts.cal")
    assert calibrant.load(renamed).temperature_ == fitted("ts").temperature_


def test_relative_and_textual_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calibrant.save(fitted("ts"), "ts.safetensors")
    assert calibrant.load("ts.safetensors").temperature_ == fitted("ts").temperature_


def test_only_calibrators_are_saved(tmp_path):
    for other in (object(), {"temperature_": 1.0}, TS):
        with pytest.raises(TypeError, match="save takes a calibrator of calibrant, a Temp"):
            calibrant.save(other, tmp_path / "x.safetensors")
    with pytest.raises(NotFittedError):
        calibrant.save(TS(), tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


# --- damage -----------------------------------------------------------------------------------


def load_bytes(folder: Path, content: bytes) -> Any:
    path = folder / "changed.safetensors"
    path.write_bytes(content)
    return calibrant.load(path)


@settings(max_examples=300)
@given(data=st.data())
def test_no_changed_byte_goes_unnoticed(payload, tmp_path_factory, data):
    at = data.draw(st.integers(0, len(payload) - 1))
    mask = data.draw(st.integers(1, 255))
    changed = bytearray(payload)
    changed[at] ^= mask
    with pytest.raises(FileError):
        load_bytes(tmp_path_factory.mktemp("bytes"), bytes(changed))


@settings(max_examples=60)
@given(data=st.data())
def test_no_truncation_goes_unnoticed(payload, tmp_path_factory, data):
    length = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(FileError, match="not a whole safetensors file"):
        load_bytes(tmp_path_factory.mktemp("cut"), payload[:length])


def test_appended_bytes_are_noticed(payload, tmp_path):
    with pytest.raises(FileError, match="not a whole safetensors file"):
        load_bytes(tmp_path, payload + b"\0")


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change the document and the arrays of a file, but not its checksum."""
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["calibrant"])
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    body = json.loads(header["body"])
    change(body, arrays)
    header["body"] = json.dumps(body)
    save_file(arrays, path, metadata={"calibrant": json.dumps(header)})


@pytest.mark.parametrize("part", ["tensor", "document", "more tensors", "name"])
def test_tampering_is_told(part, tmp_path):
    def change(body: dict[str, Any], arrays: dict[str, Any]) -> None:
        if part == "tensor":
            arrays["formula.kernels.0"] = arrays["formula.kernels.0"] + 1e-12
        elif part == "document":
            body["parameters"]["clip_logits"] = True
        elif part == "more tensors":
            arrays["extra"] = np.zeros(3)
        else:
            arrays["formula.kernels.9"] = arrays.pop("formula.kernels.0")

    path = tmp_path / "pts.safetensors"
    calibrant.save(fitted("pts"), path)
    rewritten(path, change)
    with pytest.raises(FileError, match="was changed after it was written: its SHA-256 does not"):
        calibrant.load(path)


def test_a_profile_is_protected_as_well(tmp_path):
    path = tmp_path / "profile.safetensors"
    calibrant.save(TemperatureProfile.from_logits(LOGITS, LABELS), path)
    rewritten(path, lambda body, arrays: arrays.update(weight=2.0 * arrays["weight"]))
    with pytest.raises(FileError, match="SHA-256 does not match"):
        calibrant.load(path)


# --- foreign files ----------------------------------------------------------------------------


class Trap:
    """Unpickling it would leave a trace."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("kind", ["empty", "text", "npz", "pickle", "noise", "huge header"])
def test_foreign_files(kind, tmp_path):
    path = tmp_path / "foreign"
    if kind == "npz":
        with path.open("wb") as file:
            np.savez(file, logits=LOGITS)
    else:
        path.write_bytes(
            {
                "empty": b"",
                "text": b"label,0,1\n0,0.5,0.5\n",
                "pickle": pickle.dumps(Trap(tmp_path / "trace")),
                "noise": np.random.default_rng(0).bytes(5000),
                "huge header": (2**62).to_bytes(8, "little") + b"{}",
            }[kind]
        )
    with pytest.raises(FileError, match=r"foreign is not a whole safetensors file"):
        calibrant.load(path)
    assert not (tmp_path / "trace").exists()
    assert issubclass(FileError, ValueError)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_safetensors_of_others(metadata, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"weight": np.ones(3, np.float32)}, path, metadata=metadata)
    with pytest.raises(FileError, match="is a safetensors file, but calibrant did not write it"):
        calibrant.load(path)


def test_bfloat16_weights_of_others(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_torch

    path = tmp_path / "model.safetensors"
    save_torch({"weight": torch.ones(3, dtype=torch.bfloat16)}, path)
    with pytest.raises(FileError, match="calibrant did not write it"):
        calibrant.load(path)


def test_there_must_be_a_file(tmp_path):
    for path in (tmp_path / "missing.safetensors", tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            calibrant.load(path)


@pytest.mark.parametrize(
    "header",
    ["", "[]", "{}", '{"body": "{}"}', '{"body": "{", "sha256": ""}', '{"body": 3, "sha256": 4}'],
)
def test_damaged_headers(header, tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"empty": np.zeros(0, np.float32)}, path, metadata={"calibrant": header})
    with pytest.raises(FileError, match=r"damaged header|was changed after"):
        calibrant.load(path)


# --- well-formed, but not what it should be: the checksum is no secret ------------------------


def forge(path: Path, kind: str, document: dict[str, Any], arrays: dict[str, Any]) -> Path:
    _container.write(path, kind, document, arrays)
    return path


TS_DOCUMENT = {
    "class": "TemperatureScaling",
    "parameters": {"loss": "nll", "bounds": [0.01, 100.0], "input": "logits"},
    "n_classes": 3,
    "input": "logits",
    "fit_info": {"converged": True, "message": "converged"},
    "formula": {"kind": "constant-temperature", "version": 1, "values": {"value": {"value": 1.5}}},
}


def ts_formula(**change: Any) -> dict[str, Any]:
    return {"formula": TS_DOCUMENT["formula"] | change}


def test_a_forged_file_is_read_like_any_other(tmp_path):
    """The other tests of this section change one thing of this document."""
    path = forge(tmp_path / "ts", "calibrator", TS_DOCUMENT, {})
    assert calibrant.load(path).temperature_ == 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "Oracle"}, "holds a 'Oracle', which this calibrant does not know"),
        ({"class": ["TemperatureScaling"]}, "which this calibrant does not know"),
        ({"version": 999}, "format version 999, this calibrant reads version 2"),
        ({"parameters": {"temper": 1}}, "does not fit a calibrator: .*temper"),
        ({"parameters": None}, "does not fit a calibrator"),
        ({"input": "scores"}, "input must be .*logits.* or .*probs"),
        ({"n_classes": "three"}, "n_classes must be a whole number up to"),
        ({"fit_info": {}}, "does not fit a calibrator"),
        (ts_formula(kind="oracle"), "there is no part 'oracle' in this calibrant"),
        (ts_formula(version=2), "constant-temperature has version 2, this calibrant reads 1"),
        (ts_formula(version="1"), "does not fit a calibrator"),
        (ts_formula(values={}), r"has the fields \['value'\], got \[\]"),
        (ts_formula(values={"value": {"value": -1.0}}), "value must be a number from 1e-37"),
        (ts_formula(values={"value": {"value": 0.0}}), "value must be a number from 1e-37"),
        (ts_formula(values={"value": {"value": "1.5"}}), "value must be a number"),
        (ts_formula(values={"value": {"array": "missing"}}), "there is no array 'missing'"),
        ({"formula": None}, "a part must have a kind, a version and values"),
    ],
)
def test_documents_that_do_not_fit(change, message, tmp_path):
    path = forge(tmp_path / "ts", "calibrator", TS_DOCUMENT | change, {})
    with pytest.raises(FileError, match=message):
        calibrant.load(path)


def test_a_document_that_is_no_object(tmp_path):
    body = "[1, 2]"
    header = json.dumps({"body": body, "sha256": _container._digest(body, {})})
    path = tmp_path / "x.safetensors"
    save_file({"empty": np.zeros(0, np.float32)}, path, metadata={"calibrant": header})
    with pytest.raises(FileError):
        calibrant.load(path)


@pytest.mark.parametrize("missing", ["peak", "weight", "rows.gaps"])
def test_a_profile_without_one_of_its_arrays(missing, tmp_path):
    path = tmp_path / "profile.safetensors"
    calibrant.save(TemperatureProfile.from_logits(LOGITS, LABELS), path)
    document, arrays = _container.read(path)
    del arrays[missing]
    forge(path, "profile", document, arrays)
    with pytest.raises(FileError, match="profile"):
        calibrant.load(path)


def test_a_profile_without_its_settings(tmp_path):
    path = tmp_path / "profile.safetensors"
    calibrant.save(TemperatureProfile.from_logits(LOGITS, LABELS), path)
    document, arrays = _container.read(path)
    del document["top_k"]
    forge(path, "profile", document, arrays)
    with pytest.raises(FileError, match="profile"):
        calibrant.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d, a: a.update(peak=a["peak"][:-1]),
            "peak of a profile must be float64 of shape|label_gap of a profile must be float32 of",
        ),
        (lambda d, a: a.update({"rows.gaps": a["rows.gaps"][:-1]}), "gaps of a profile must be"),
        (
            lambda d, a: a["label_gap"].__setitem__(0, np.nan),
            "label_gap of a profile must be finite",
        ),
        (lambda d, a: a["label_gap"].__setitem__(0, 1.0), "not above 0"),
        (lambda d, a: a["weight"].__setitem__(0, -1.0), "sample_weight must be finite"),
        (lambda d, a: a["peak"].__setitem__(0, -np.inf), "peak of a profile must be finite"),
        (lambda d, a: d.update(n_classes=0), "n_classes must be a whole number from 2"),
        (lambda d, a: d.update(input="scores"), "input must be"),
        (lambda d, a: d.update(scale=-1.0), "scale must be a number from"),
        (lambda d, a: d.update(scale=1e300), "scale must be a number from"),
        (lambda d, a: d.update(scale=True), "scale must be a number, got True"),
        (lambda d, a: d.update(scale="1"), "scale must be a number, got '1'"),
        (lambda d, a: d.update(top_k=2.5), "top_k must be a whole number from 1"),
        (lambda d, a: d.update(top_k=10**400), "top_k must be a whole number from 1"),
        (lambda d, a: d.update(rows="sums"), "KeyError"),
        (lambda d, a: a.update({k: v[..., :0] for k, v in a.items()}), "at least one row"),
        (lambda d, a: a.update(weight=a["weight"].astype(np.float32)), "weight of a profile must"),
        (lambda d, a: a["weight"].__setitem__(0, 1e60), r"must be 0 or in \[1e-50, 1e"),
        (lambda d, a: a["rows.gaps"].__setitem__((0, 0), -1.0), "must begin with 0 and not rise"),
        (lambda d, a: a["rows.gaps"].__setitem__((5, 0), 0.5), "must begin with 0 and not rise"),
        (lambda d, a: a["rows.gaps"].__setitem__((3, 0), np.nan), "must begin with 0 and not rise"),
        (lambda d, a: a["label_gap"].__setitem__(0, -0.1234), "one of its row's gaps"),
    ],
)
def test_crafted_profiles_are_refused(change, message, tmp_path):
    check_changed_profile(TemperatureProfile.from_logits(LOGITS, LABELS), change, message, tmp_path)


WIDE = np.random.default_rng(3).normal(size=(20, 70))  # a profile of nodes


LIFTED = np.zeros((20, 45, 3), np.float32)
LIFTED[0, 22, 0] = 0.1


def node(value: int, number: float) -> Callable[[Any, Any], None]:
    """One number of psi in the middle of the grid: 0 is psi, 1 its slope, 2 its curvature."""
    return lambda document, arrays: arrays["rows.nodes"].__setitem__((0, 22, value), number)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (node(0, np.nan), "nodes of a profile must be finite"),
        (node(0, 9.0), "nodes of a profile must lie between the logarithms"),
        (node(0, -1.0), "nodes of a profile must lie between the logarithms"),
        (node(1, 0.1), "nodes of a profile must fall"),
        (node(1, -9.0), "nodes of a profile must have a possible entropy"),
        (node(2, 30.0), "nodes of a profile must have a possible variance"),
        (node(2, -30.0), "nodes of a profile must have a possible variance"),
        (lambda d, a: a["rows.nodes"].__iadd__(LIFTED), "nodes of a profile must be convex"),
        (lambda d, a: a["rows.top"].__setitem__((0, 1), 0.1), "top of a profile must begin with 0"),
        (
            lambda d, a: a["rows.top"].__setitem__((0, -1), -np.inf),
            "top of a profile must be finit",
        ),
        (lambda d, a: a["rows.mean"].__setitem__(0, 0.1), "mean of a profile must be finite and"),
        (lambda d, a: a["rows.finite"].__setitem__(0, 71), "finite of a profile must be between"),
        (lambda d, a: a["rows.ties"].__setitem__(0, 2), "ties of a profile must be the classes at"),
        (lambda d, a: a["label_gap"].__setitem__(0, -1e-3), "label_gap of a profile must be a gap"),
        (
            lambda d, a: a.update({"rows.top": a["rows.top"][:, :2]}),
            "top of a profile must be floa",
        ),
    ],
)
def test_crafted_profiles_of_nodes_are_refused(change, message, tmp_path):
    profile = TemperatureProfile.from_logits(WIDE, WIDE.argmax(axis=1), top_k=4)
    check_changed_profile(profile, change, message, tmp_path)


def check_changed_profile(profile: Any, change: Any, message: str, folder: Path) -> None:
    path = folder / "profile.safetensors"
    calibrant.save(profile, path)
    document, arrays = _container.read(path)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(document, arrays)
    forge(path, "profile", document, arrays)
    with pytest.raises(FileError, match=message):
        calibrant.load(path)


# --- what a file promises ---------------------------------------------------------------------


def test_a_formula_that_moves_the_arg_max_is_not_that_of_a_method_that_keeps_it(tmp_path):
    path = tmp_path / "irm.safetensors"
    calibrant.save(calibrant.calibrator("irm").fit(LOGITS, LABELS), path)
    document, arrays = _container.read(path)
    document["formula"]["values"]["keep_arg_max"] = {"value": False}
    forge(path, "calibrator", document, arrays)
    with pytest.raises(FileError, match="MultiClassIsotonic with these parameters keeps the arg m"):
        calibrant.load(path)


def test_parameters_set_after_the_fit_must_not_promise_more(tmp_path):
    pts = PTS(clip_logits=True, members=1).fit(LOGITS, LABELS)
    pts.set_params(clip_logits=False)
    with pytest.raises(ValueError, match="with these parameters keeps the arg max, its formula"):
        calibrant.save(pts, tmp_path / "pts.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ts", lambda d: d.update(formula=MARGIN), "needs a formula, got a Margin"),
        ("ets", lambda d: d.update(formula=TS_DOCUMENT["formula"]), "which has no such attribute"),
        ("matrix", lambda d: d["fit_info"].update(details={}), "KeyError.*start_temperature"),
        (
            "matrix",
            lambda d: start_temperature(d, -1.0),
            "temperature_ must be a finite number abo",
        ),
        ("matrix", lambda d: start_temperature(d, "warm"), "could not convert string to float"),
        ("ts", lambda d: d["fit_info"].update(iterations=1.5), "the report of the fit is none"),
        ("ts", lambda d: d["fit_info"].update(loss=3), "the report of the fit is none"),
        ("ts", lambda d: d["fit_info"].update(after=True), "the report of the fit is none"),
        ("ts", lambda d: d["fit_info"].update(details=[]), "the report of the fit is none"),
        ("ts", lambda d: d.update(n_classes=10**30), "n_classes must be a whole number up to"),
        ("ts", lambda d: d.update(n_classes=1), "reads the top 2 logits, got 1 classes"),
        ("ts", lambda d: d.update(parameters=[]), "has no attribute 'items'"),
        ("ts", lambda d: d.update(kind="oracle"), "holds a 'oracle', which this calibrant does"),
    ],
)
def test_documents_that_promise_what_is_not_there(name, change, message, tmp_path):
    path = tmp_path / "c.safetensors"
    calibrant.save(calibrant.calibrator(name).fit(LOGITS, LABELS), path)
    document, arrays = _container.read(path)
    change(document)
    arrays = arrays if name == "matrix" else {}
    forge(path, document.pop("kind"), document, arrays)
    with pytest.raises(FileError, match=message):
        calibrant.load(path)


MARGIN = {"kind": "margin", "version": 1, "values": {}}


def start_temperature(document: dict[str, Any], value: Any) -> None:
    document["fit_info"]["details"]["start_temperature"] = value


def test_messages_stay_short(tmp_path):
    long = {"value": {"value": "x" * 100_000}}
    for change in (ts_formula(values=long), {"class": "x" * 99_999}, {"input": "x" * 99_999}):
        path = forge(tmp_path / "ts", "calibrator", TS_DOCUMENT | change, {})
        with pytest.raises(FileError) as caught:
            calibrant.load(path)
        assert len(str(caught.value)) < 500 + len(str(path))


def test_meters_go_round(tmp_path):
    path = tmp_path / "meter.safetensors"
    meter = calibrant.CalibrationMeter(input="logits").update(LOGITS, LABELS)
    calibrant.save(meter, path)
    assert calibrant.load(path).compute().ece == meter.compute().ece


def test_a_calibrator_of_another_kind_of_file(tmp_path):
    calibrant.save(fitted("ts"), tmp_path / "ts.safetensors")
    assert isinstance(calibrant.io.load_calibrator(tmp_path / "ts.safetensors"), TS)
    path = tmp_path / "profile.safetensors"
    calibrant.save(TemperatureProfile.from_logits(LOGITS, LABELS), path)
    with pytest.raises(FileError, match="holds a TemperatureProfile, not a calibrator"):
        calibrant.io.load_calibrator(path)


# --- several calibrators in one file ----------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_calibrators_go_round(kind, tmp_path):
    path = tmp_path / "several.safetensors"
    names = ["pts", "ts", "pts", "ets", "pts, paper", "ts on probabilities"]
    saved = kind(fitted(name) for name in names)
    calibrant.save(saved, path)
    loaded = calibrant.load(path)
    assert type(loaded) is tuple
    for one, other in zip(saved, loaded, strict=True):
        assert type(one) is type(other)
        assert one.get_params() == other.get_params()
        assert one.fit_info_ == other.fit_info_
        scores = scores_for(one)
        np.testing.assert_array_equal(one.predict_proba(scores), other.predict_proba(scores))
    first = path.read_bytes()
    calibrant.save(loaded, path)
    assert path.read_bytes() == first


def test_one_in_a_list_stays_in_a_list(tmp_path):
    calibrant.save([fitted("ts")], tmp_path / "ts.safetensors")
    [ts] = calibrant.load(tmp_path / "ts.safetensors")
    assert ts.temperature_ == fitted("ts").temperature_


def test_several_calibrators_are_not_one(tmp_path):
    calibrant.save([fitted("ts")] * 3, tmp_path / "ts.safetensors")
    with pytest.raises(FileError, match=r"holds 3 calibrators, not one: calibrant\.load reads"):
        calibrant.io.load_calibrator(tmp_path / "ts.safetensors")


@pytest.mark.parametrize(
    ("things", "error", "message"),
    [
        ([], ValueError, "at least one calibrator, got an empty list"),
        ([1, 2], TypeError, "or a list of calibrators, got int in a list"),
        ([TS], TypeError, "in a list"),
        ([[]], TypeError, "got list in a list"),
        ([TS()], NotFittedError, "TemperatureScaling"),
    ],
)
def test_lists_of_anything_else(things, error, message, tmp_path):
    good = [fitted("ts")] if things else []
    with pytest.raises(error, match=message):
        calibrant.save([*good, *things], tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, a: d.update(calibrators=[]), "a list of at least one"),
        (lambda d, a: d.update(calibrators={}), "a list of at least one"),
        (lambda d, a: d.pop("calibrators"), "does not fit a list of calibrators: KeyError"),
        (lambda d, a: d.update(calibrators=[3, 4]), "does not fit a list of calibrators"),
        (lambda d, a: d["calibrators"].pop(), "no calibrator has the array '1.formula"),
        (lambda d, a: d["calibrators"].reverse(), "there is no array"),
        (lambda d, a: d["calibrators"][1].update({"class": "Oracle"}), "holds a 'Oracle', which"),
        (lambda d, a: a.update({"extra": np.zeros(3)}), "no calibrator has the array 'extra'"),
        (lambda d, a: a.update({"²": np.zeros(3)}), "no calibrator has the array '²'"),
        (lambda d, a: a.update({"9" * 5000: np.zeros(3)}), "does not fit a list of calibrators"),
        (lambda d, a: a.update({"1.extra": np.zeros(3)}), "no part has the arrays"),
        (lambda d, a: a.pop("0.formula.kernels.0"), "there is no array"),
    ],
)
def test_crafted_lists_are_refused(change, message, tmp_path):
    path = tmp_path / "several.safetensors"
    calibrant.save([fitted("pts"), fitted("pts, paper")], path)
    document, arrays = _container.read(path)
    change(document, arrays)
    forge(path, document.pop("kind"), document, arrays)
    with pytest.raises(FileError, match=message):
        calibrant.load(path)
