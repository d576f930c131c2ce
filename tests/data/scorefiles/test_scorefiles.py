"""Files of scores: every format there and back, and every way in which one can be wrong."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import FileError
from calibrant.scorefiles import kind_in_name, read_scores, write_probs

SUFFIXES = [".npz", ".csv", ".parquet", ".pt", ".pth", ".safetensors"]
LOGITS = np.array([[1.5, -2.0, 0.25], [0.0, 3.0, -np.inf], [2.0, 2.0, 1.0], [0.1, 0.2, 0.3]])
LABELS = np.array([0, 1, 2, 2])


def probabilities(dtype: Any = np.float32) -> np.ndarray:
    rows = np.random.default_rng(0).dirichlet(np.ones(5), 40)
    return rows.astype(dtype)


def write_text(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def make(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """A file of named arrays as other programs write it, not through our own writer."""
    if path.suffix == ".npz":
        np.savez_compressed(path, **arrays)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file(arrays, path)
    elif path.suffix in (".pt", ".pth"):
        import torch

        torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, path)
    elif path.suffix == ".parquet":
        write_parquet(path, {name: array.tolist() for name, array in arrays.items()})
    else:
        names = [
            f"{name}_{i}" if array.ndim > 1 else name
            for name, array in arrays.items()
            for i in range(array.shape[1] if array.ndim > 1 else 1)
        ]
        table = np.column_stack(list(arrays.values()))
        write_text(path, ",".join(names), *(",".join(map(str, row)) for row in table))
    return path


def write_parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    return path


# --- there and back ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_written_probabilities_are_read_back_exactly(
    tmp_path: Path, suffix: str, dtype: Any
) -> None:
    probs, labels = probabilities(dtype), np.arange(40) % 5
    path = tmp_path / f"out{suffix}"
    write_probs(path, probs, labels, temperature=np.linspace(0.1, 3.0, 40, dtype=dtype))
    data = read_scores(path)
    np.testing.assert_array_equal(data.scores.astype(dtype), probs)
    assert data.labels is not None
    np.testing.assert_array_equal(data.labels, labels)
    assert (data.input, data.scores_name, data.labels_name) == ("probs", "probs", "labels")
    extra = read_scores(path, scores_key="temperature", input="logits", need_labels=False)
    np.testing.assert_array_equal(
        extra.scores.astype(dtype), np.linspace(0.1, 3.0, 40, dtype=dtype)
    )


def test_npy_stays_on_the_disk(tmp_path: Path) -> None:
    write_probs(tmp_path / "p.npy", probabilities())
    np.save(tmp_path / "y.npy", np.zeros(40, int))
    data = read_scores(tmp_path / "p.npy", labels_path=tmp_path / "y.npy", input="probs")
    assert isinstance(data.scores, np.memmap)
    np.testing.assert_array_equal(data.scores, probabilities())
    assert data.labels is not None
    assert data.labels.shape == (40,)


def test_one_hot_labels_are_written_as_class_indices(tmp_path: Path) -> None:
    labels = np.arange(40) % 5
    write_probs(tmp_path / "out.npz", probabilities(), np.eye(5)[labels])
    np.testing.assert_array_equal(read_scores(tmp_path / "out.npz").labels, labels)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_of_other_programs(tmp_path: Path, suffix: str) -> None:
    path = make(tmp_path / f"val{suffix}", {"logits": LOGITS, "label": LABELS})
    data = read_scores(path)
    np.testing.assert_array_equal(data.scores, LOGITS)
    np.testing.assert_array_equal(data.labels, LABELS)
    assert data.input == "logits"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_named_keys(tmp_path: Path, suffix: str) -> None:
    arrays = {"val_logits": LOGITS, "target": LABELS, "test_logits": LOGITS + 1.0}
    path = make(tmp_path / f"val{suffix}", arrays)
    data = read_scores(path, scores_key="test_logits", labels_key="target")
    np.testing.assert_array_equal(data.scores, LOGITS + 1.0)
    np.testing.assert_array_equal(data.labels, LABELS)
    assert (data.scores_name, data.labels_name) == ("test_logits", "target")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_labels_in_their_own_file(tmp_path: Path, suffix: str) -> None:
    make(tmp_path / "z.npz", {"logits": LOGITS, "label": 0 * LABELS})
    path = make(tmp_path / f"y{suffix}", {"labels": LABELS, "weight": LABELS})
    data = read_scores(tmp_path / "z.npz", labels_path=path)
    np.testing.assert_array_equal(data.labels, LABELS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_weights_are_read_by_their_name(tmp_path: Path, suffix: str) -> None:
    weights = np.array([0.5, 1.0, 2.0, 0.0])
    path = make(
        tmp_path / f"val{suffix}", {"logits": LOGITS, "label": LABELS, "importance": weights}
    )
    assert read_scores(path).weights is None
    data = read_scores(path, weights_key="importance")
    np.testing.assert_array_equal(data.weights, weights)
    np.testing.assert_array_equal(data.labels, LABELS)
    refuse(path, "has no 'weight'; it has ", weights_key="weight")
    both = read_scores(path, weights_key="label")
    np.testing.assert_array_equal(both.weights, both.labels)


def test_weights_lie_beside_the_scores(tmp_path: Path) -> None:
    make(tmp_path / "z.npz", {"logits": LOGITS, "weight": LABELS})
    np.save(tmp_path / "y.npy", LABELS)
    data = read_scores(tmp_path / "z.npz", labels_path=tmp_path / "y.npy", weights_key="weight")
    np.testing.assert_array_equal(data.weights, LABELS)
    named = {"labels_path": tmp_path / "y.npy", "weights_key": "w", "input": "logits"}
    refuse(tmp_path / "y.npy", "leave out the key 'w'", **named)


def test_labels_may_be_left_out(tmp_path: Path) -> None:
    make(tmp_path / "z.npz", {"logits": LOGITS})
    make(tmp_path / "two.npz", {"logits": LOGITS, "label": LABELS, "labels": LABELS})
    np.save(tmp_path / "z.npy", LOGITS)
    for name in ("z.npz", "two.npz", "z.npy"):
        assert read_scores(tmp_path / name, input="logits", need_labels=False).labels is None


# --- single formats ---------------------------------------------------------------------------


def test_csv_of_a_spreadsheet(tmp_path: Path) -> None:
    """A mark in front, quotes, other columns, columns out of order, empty lines, CR LF."""
    text = '\ufefflogit_1,"image", label,logit_0,logit_2\r\n'
    text += '2.5,"a, b.png",1,-inf,0\r\n\r\n 1e3 ,c.png,0,"7",0.5\r\n'
    (tmp_path / "x.csv").write_bytes(text.encode())
    data = read_scores(tmp_path / "x.csv")
    np.testing.assert_array_equal(data.scores, [[-np.inf, 2.5, 0.0], [7.0, 1000.0, 0.5]])
    np.testing.assert_array_equal(data.labels, [1, 0])


def test_csv_numbers_columns_by_value_not_by_text(tmp_path: Path) -> None:
    names = [f"probs_{i}" for i in range(12)]
    order = sorted(names)  # probs_0, probs_1, probs_10, ..
    row = [str(int(name[6:])) for name in order]
    write_text(tmp_path / "x.csv", ",".join([*order, "label"]), ",".join([*row, "3"]))
    np.testing.assert_array_equal(read_scores(tmp_path / "x.csv").scores, [np.arange(12.0)])


def test_csv_prefix_may_be_given_with_its_underscore(tmp_path: Path) -> None:
    write_text(tmp_path / "x.csv", "net_0,net_1,label", "1,2,0")
    data = read_scores(tmp_path / "x.csv", scores_key="net_", input="logits")
    np.testing.assert_array_equal(data.scores, [[1.0, 2.0]])


def test_csv_plain_column_is_the_score_of_a_binary_model(tmp_path: Path) -> None:
    write_text(tmp_path / "x.csv", "logit,label", "1.5,1", "-2,0")
    np.testing.assert_array_equal(read_scores(tmp_path / "x.csv").scores, [1.5, -2.0])


def test_parquet_flat_columns_and_row_groups(tmp_path: Path) -> None:
    probs = probabilities()
    columns = {f"prob_{i}": probs[:, i] for i in range(5)} | {"label": np.arange(40) % 5}
    write_parquet(tmp_path / "flat.parquet", columns, row_group_size=7)
    np.testing.assert_array_equal(read_scores(tmp_path / "flat.parquet").scores, probs)
    columns = {"probs": list(probs), "label": np.arange(40) % 5}
    write_parquet(tmp_path / "lists.parquet", columns, row_group_size=7)
    data = read_scores(tmp_path / "lists.parquet")
    np.testing.assert_array_equal(data.scores, probs)
    assert data.scores.dtype == np.float32


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_bfloat16(tmp_path: Path, suffix: str) -> None:
    import torch
    from safetensors.torch import save_file

    logits = torch.tensor([[1.5, -2.25], [3e38, float("-inf")]]).bfloat16()
    tensors = {"first": torch.arange(3), "logits": logits, "labels": torch.tensor([0, 1])}
    (torch.save if suffix == ".pt" else save_file)(tensors, tmp_path / f"x{suffix}")
    data = read_scores(tmp_path / f"x{suffix}")
    np.testing.assert_array_equal(data.scores, logits.float().numpy())
    assert data.scores.dtype == np.float32


def test_a_single_tensor(tmp_path: Path) -> None:
    import torch

    torch.save(torch.from_numpy(LOGITS).requires_grad_(), tmp_path / "z.pt")
    torch.save(torch.from_numpy(LABELS), tmp_path / "y.pt")
    data = read_scores(tmp_path / "z.pt", labels_path=tmp_path / "y.pt", input="logits")
    np.testing.assert_array_equal(data.scores, LOGITS)
    np.testing.assert_array_equal(data.labels, LABELS)


# --- logits or probabilities? -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("logits", "logits"),
        ("val_logits", "logits"),
        ("Logit", "logits"),
        ("prob", "probs"),
        ("probs_test", "probs"),
        ("scores", None),
        ("log_probs", None),
        ("logprobs", None),
        ("logits_or_probs", None),
        ("", None),
    ],
)
def test_the_kind_in_a_name(name: str, kind: str | None) -> None:
    assert kind_in_name(name) == kind


def test_the_caller_beats_the_name(tmp_path: Path) -> None:
    path = make(tmp_path / "x.npz", {"logits": LOGITS, "label": LABELS})
    assert read_scores(path, input="probs").input == "probs"
    assert read_scores(path, default_input="probs").input == "logits"


def test_the_kind_chooses_between_two_arrays(tmp_path: Path) -> None:
    path = make(tmp_path / "x.npz", {"logits": LOGITS, "probs": LOGITS + 1.0, "label": LABELS})
    np.testing.assert_array_equal(read_scores(path, input="probs").scores, LOGITS + 1.0)
    np.testing.assert_array_equal(read_scores(path, default_input="logits").scores, LOGITS)


def test_probabilities_without_a_name_are_not_recognised(tmp_path: Path) -> None:
    """Values that look like probabilities say nothing."""
    np.save(tmp_path / "x.npy", probabilities())
    with pytest.raises(FileError, match=r'x\.npy may be logits or probs: say input="logits"'):
        read_scores(tmp_path / "x.npy", need_labels=False)
    assert (
        read_scores(tmp_path / "x.npy", default_input="logits", need_labels=False).input == "logits"
    )


# --- what is wrong with a file ----------------------------------------------------------------


def refuse(path: Path, message: str, error: type[Exception] = FileError, **options: Any) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        read_scores(path, **options)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet", ".pt", ".safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])
def test_truncated_files(tmp_path: Path, suffix: str, share: float) -> None:
    path = tmp_path / f"x{suffix}"
    write_probs(path, probabilities(), None if suffix == ".npy" else np.arange(40) % 5)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    wrong = "cannot be read as a" if share else f"x{suffix} is empty"
    refuse(path, wrong, input="probs", need_labels=False)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".npy"])
def test_foreign_bytes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4)
    refuse(path, "cannot be read as a", input="probs", need_labels=False)


def test_missing_files_and_unknown_suffixes(tmp_path: Path) -> None:
    refuse(tmp_path / "no.npz", "does not exist", FileNotFoundError)
    (tmp_path / "folder.npz").mkdir()
    refuse(tmp_path / "folder.npz", "is a folder, not a file", FileNotFoundError)
    rule = "must end in one of .npz, .npy, .csv, .parquet, .pt, .pth, .safetensors, got"
    refuse(tmp_path / "x.xlsx", rule, ValueError)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = make(tmp_path / "x.npz", {"logits": LOGITS, "label": LABELS})
    path.chmod(0)
    refuse(path, "Permission denied", PermissionError)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_names_list_what_is_there(tmp_path: Path, suffix: str) -> None:
    path = make(tmp_path / f"x{suffix}", {"outputs": LOGITS, "target": LABELS})
    shown = "outputs_0..outputs_2, target" if suffix == ".csv" else "outputs"
    refuse(path, f"has no scores (logits, probs); it has {shown}")
    refuse(path, "say which with scores_key")
    refuse(path, f"has no 'logits'; it has {shown}", scores_key="logits")
    named = {"scores_key": "outputs", "input": "logits"}
    refuse(path, "has no labels (label, labels); it has", **named)
    refuse(path, "has no 'y'; it has", labels_key="y", **named)
    refuse(path, "'outputs' of ", scores_key="outputs", labels_key="target")


def test_many_names_are_cut_short(tmp_path: Path) -> None:
    path = make(tmp_path / "x.npz", {f"layer{chr(97 + i)}": LABELS for i in range(20)})
    refuse(path, "layerl and 8 more: say which")


def test_two_candidates(tmp_path: Path) -> None:
    both = {"logits": LOGITS, "probs": LOGITS, "label": LABELS, "labels": LABELS}
    path = make(tmp_path / "x.npz", both)
    refuse(path, "has logits and probs: say which with scores_key")
    refuse(path, "has label and labels: say which with labels_key", scores_key="probs")


def test_npy_needs_a_labels_file_and_has_no_keys(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", LOGITS)
    refuse(
        tmp_path / "z.npy",
        "give its labels in a file of their own with labels_path",
        input="logits",
    )
    refuse(tmp_path / "z.npy", "leave out the key 'logits'", scores_key="logits")
    labels = {"labels_path": tmp_path / "z.npy", "labels_key": "y"}
    refuse(tmp_path / "z.npy", "leave out the key 'y'", input="logits", **labels)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    import torch

    class Trap:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(tmp_path / "sprung"),))

    trap = np.array([Trap()], dtype=object)
    np.savez(tmp_path / "x.npz", logits=trap, label=LABELS)
    np.save(tmp_path / "x.npy", trap)
    torch.save({"logits": Trap()}, tmp_path / "x.pt")
    refuse(tmp_path / "x.npz", "holds pickled objects, which are never loaded")
    refuse(tmp_path / "x.npy", "holds pickled objects, which are never loaded", input="logits")
    refuse(tmp_path / "x.pt", "holds pickled objects, which are never loaded")
    assert not (tmp_path / "sprung").exists()


def test_archives_and_arrays_by_each_others_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", logits=LOGITS)
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    refuse(tmp_path / "x.npy", "is an archive of arrays: call it .npz")
    np.save(tmp_path / "y.npy", LOGITS)
    (tmp_path / "y.npy").rename(tmp_path / "y.npz")
    refuse(tmp_path / "y.npz", "is a single array, not an archive: call it .npy")


def test_torch_files_of_other_things(tmp_path: Path) -> None:
    import torch

    torch.save([torch.zeros(2)], tmp_path / "x.pt")
    refuse(tmp_path / "x.pt", "must hold a tensor or a dictionary of tensors, got a list")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["logits_0,logits_1,label", "1,2,0", "1,O.5,1"], "line 3, column 'logits_1': must be"),
        (["logits_0,logits_1,label", "1,2,cat"], "column 'label': must be a number, got 'cat'"),
        (["logits_0,logits_1,label", "1,,0"], "column 'logits_1': must be a number, got ''"),
        (["logits_0,logits_1,label", "1_0,2,0"], "column 'logits_0': must be a number, got '1_0'"),
        (["logits_0,logits_1,label", "", "1,2,0", '"1,5",2,0'], "line 4, column 'logits_0'"),
        (["logits_0,logits_1,label", "1,2,0", "1,2"], "line 3: 2 cells under a header of 3"),
        (["logits_0,logits_1,label", "1,5,2,0"], "line 2: 4 cells under a header of 3"),
        (["logits_0,logits_1,label"], "has no rows below its header"),
        (["logits_0,logits_2,label", "1,2,0"], "has a column logits_2, but no logits_1"),
        (["logits_1,logits_2,label", "1,2,0"], "has a column logits_2, but no logits_0"),
        (["logits_0,logits_0,label", "1,2,0"], "has 2 columns by the name of 'logits_0'"),
        (["logits,logits_0,logits_1,label", "1,2,3,0"], "has a column logits and columns logits_0"),
        (["0.5,1.5,0", "0.25,1,1"], "such as logits_0,logits_1,label: its first line is all"),
        (["", "logits_0,logits_1"], "such as logits_0,logits_1,label: its first line is empty"),
        (["logits_0;logits_1;label", "1;2;0"], "must have commas between its columns, and points"),
        (["logits_0\tlogits_1\tlabel", "1\t2\t0"], "its header has tabs"),
        (["logits_0,logits_1,label", '"0,5",2,0'], "got '0,5'. Numbers have a decimal point"),
        (["logits_0,logits_1,label", "50%,2,0"], "got '50%'. Give fractions of 1"),
        (["logits_0,logits_1,label", "1,,0"], "got ''. Leave the row out"),
        (["logits_0,logits_1,label", "1,2,cat"], "'cat'. Number the classes 0, 1, .. in the order"),
        (["logits_1,logits_2,label", "1,2,0"], "no logits_0: the columns of the classes are"),
        (["cat,dog,label", "1,2,0"], "or name the columns logits_0, logits_1, .., one for each"),
    ],
)
def test_bad_tables_of_text(tmp_path: Path, lines: list[str], message: str) -> None:
    refuse(write_text(tmp_path / "x.csv", *lines), message)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"logits": [[1.0, 2.0], [1.0]], "label": [0, 1]}, "row 0 has 2 values and row 1 has 1"),
        ({"logits": [[1.0, 2.0], None], "label": [0, 1]}, "column 'logits': row 1 is null"),
        ({"logits": [[1.0, None]], "label": [0]}, "column 'logits': a list holds a null"),
        (
            {"logits": [[1.0, 2.0]], "label": ["cat"]},
            "column 'label': must hold numbers, got string",
        ),
        ({"logits_0": [1.0], "logits_3": [2.0], "label": [0]}, "but no logits_1"),
    ],
)
def test_bad_parquet_tables(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    refuse(write_parquet(tmp_path / "x.parquet", columns), message)


def test_parquet_without_rows(tmp_path: Path) -> None:
    empty = {"logits_0": np.zeros(0), "logits_1": np.zeros(0), "label": np.zeros(0, int)}
    refuse(write_parquet(tmp_path / "x.parquet", empty), "has no rows")


@pytest.mark.parametrize(
    ("suffix", "package", "command"),
    [
        (".parquet", "pyarrow", 'pip install "calibrant[parquet]"'),
        (".pt", "torch", 'pip install "calibrant[torch]"'),
    ],
)
def test_missing_packages_come_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str, command: str
) -> None:
    path = make(tmp_path / f"x{suffix}", {"logits": LOGITS, "label": LABELS})
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.parquet", None)
    message = re.escape(f"{suffix} files need {package}: {command}")
    with pytest.raises(ImportError, match=message):
        read_scores(path)
    with pytest.raises(ImportError, match=message):
        write_probs(tmp_path / f"out{suffix}", probabilities())
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


# --- writing ----------------------------------------------------------------------------------


def test_names_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in one of \.npz, .*, got '.*out\.txt'"):
        write_probs(tmp_path / "out.txt", probabilities())
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere to write out\.npz"):
        write_probs(tmp_path / "nowhere" / "out.npz", probabilities())
    with pytest.raises(ValueError, match=r"a \.npy file holds one array, got probs and labels"):
        write_probs(tmp_path / "out.npy", probabilities(), np.zeros(40, int))
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.npz"
    path.write_bytes(b"old")

    def fail(file: Any, *args: Any, **options: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="No space left"):
        write_probs(path, probabilities())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_written_files_have_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_probs(tmp_path / "out.npz", probabilities())
    modes = {stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_torch_that_a_file_can_subvert_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "x.pt", {"logits": LOGITS, "label": LABELS})
    monkeypatch.setattr("torch.__version__", "2.9.1+cpu")
    message = re.escape('.pt files need torch 2.10 or later, not 2.9.1+cpu: pip install "calib')
    with pytest.raises(ImportError, match=message):
        read_scores(path)


# --- missing labels and other columns ---------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".pt", ".safetensors"])
def test_missing_labels_are_nan(tmp_path: Path, suffix: str) -> None:
    labels = np.array([0.0, np.nan, 2.0, 2.0])
    data = read_scores(make(tmp_path / f"x{suffix}", {"logits": LOGITS, "label": labels}))
    np.testing.assert_array_equal(data.labels, labels)
    rows, unlabelled = data.labelled()
    assert unlabelled == 1
    np.testing.assert_array_equal(rows.labels, [0, 2, 2])
    np.testing.assert_array_equal(rows.scores, LOGITS[[0, 2, 3]])


def test_null_labels_of_a_table(tmp_path: Path) -> None:
    columns = {"logits": LOGITS.tolist(), "label": [0, None, 2, 2], "w": [1.0, 2.0, 3.0, 4.0]}
    data = read_scores(write_parquet(tmp_path / "x.parquet", columns), weights_key="w")
    rows, unlabelled = data.labelled()
    assert unlabelled == 1
    np.testing.assert_array_equal(rows.weights, [1, 3, 4])
    columns["label"] = [None] * 4
    data = read_scores(write_parquet(tmp_path / "x.parquet", columns))
    with pytest.raises(ValueError, match="none of the 4 rows has a label"):
        data.labelled()


@pytest.mark.parametrize("cell", ["", "NA", "nan", "NaN", " null ", "None", "n/a"])
def test_missing_labels_of_a_text_table(tmp_path: Path, cell: str) -> None:
    lines = ["logits_0,logits_1,label", "1,2,0", f"1,2,{cell}", "1,2,1"]
    data = read_scores(write_text(tmp_path / "x.csv", *lines))
    np.testing.assert_array_equal(data.labels, [0, np.nan, 1])
    scores = ["logits_0,logits_1,label", "1,2,0", f"1,{cell or '?'},1"]
    if cell not in ("nan", "NaN"):  # a score is never missing
        refuse(
            write_text(tmp_path / "x.csv", *scores), "line 3, column 'logits_1': must be a number"
        )
    refuse(
        write_text(tmp_path / "x.csv", "logits_0,logits_1,label", "1,2,", "1,2,1_0"),
        "line 3, column 'label': must be a number, got '1_0'",
    )


def test_one_hot_rows_may_be_missing(tmp_path: Path) -> None:
    labels = np.eye(3)[LABELS]
    labels[1] = np.nan
    np.savez(tmp_path / "x.npz", logits=LOGITS, labels=labels)
    rows, unlabelled = read_scores(tmp_path / "x.npz").labelled()
    assert unlabelled == 1
    np.testing.assert_array_equal(rows.labels, np.eye(3)[[0, 2, 2]])


def test_text_tables_tell_numbers_from_texts(tmp_path: Path) -> None:
    lines = [
        "logits_0,logits_1,id,zip,n,x,gap,word,long",
        '1,2,7,007,3,0.5,,"a, b",12345678901234567890',
        "3,4,8,010,-4,1e-3,2,NA,1",
    ]
    data = read_scores(write_text(tmp_path / "x.csv", *lines), need_labels=False, all_columns=True)
    kinds = {name: column.dtype.kind for name, column in data.others.items()}
    assert "".join(kinds.values()) == "iOiffOO"
    assert data.others["zip"].tolist() == ["007", "010"]
    write_probs(tmp_path / "y.csv", [[0.25, 0.75], [0.5, 0.5]], others=data.others)
    assert (tmp_path / "y.csv").read_text().splitlines() == [
        "probs_0,probs_1,id,zip,n,x,gap,word,long",
        '0.25,0.75,7,007,3,0.5,,"a, b",12345678901234567890',
        "0.5,0.5,8,010,-4,0.001,2,NA,1",
    ]


def test_a_text_may_have_several_lines(tmp_path: Path) -> None:
    others = {"text": np.array(['two\nlines, and a "quote"', "one"], dtype=object)}
    path = tmp_path / "x.csv"
    write_probs(path, [[0.25, 0.75], [0.5, 0.5]], [1, 0], others=others)
    data = read_scores(path, all_columns=True)
    assert data.others["text"].tolist() == others["text"].tolist()
    np.testing.assert_array_equal(read_scores(path).labels, [1, 0])
    path.write_text(path.read_text().replace('"",one', '",one').replace(",one", ',"one'))
    refuse(path, "a quote is not closed")


def test_only_rows_are_copied(tmp_path: Path) -> None:
    """An array of pickled objects, a table of class names and images have no place in a row."""
    names = np.array(["a", "b", "c"], dtype=object)
    arrays = {"id": np.arange(4), "classes": np.arange(3), "images": np.zeros((4, 2, 2))}
    np.savez(tmp_path / "x.npz", logits=LOGITS, names=names, **arrays)
    data = read_scores(tmp_path / "x.npz", need_labels=False, all_columns=True)
    assert [*data.others] == ["id"]
    assert [*data.left_out] == ["names", "classes", "images"]


def test_a_column_may_be_called_file(tmp_path: Path) -> None:
    write_probs(tmp_path / "y.npz", probabilities(), others={"file": np.arange(40)})
    np.testing.assert_array_equal(
        read_scores(tmp_path / "y.npz", labels_key="file").labels, np.arange(40)
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("target", SUFFIXES)
def test_columns_pass_between_all_formats(tmp_path: Path, suffix: str, target: str) -> None:
    ids, place = np.array([3, 1, 2, 9]), np.array([0.5, 0.25, np.nan, 1e-9])
    arrays = {"logits": LOGITS, "label": LABELS, "id": ids, "place": place}
    path = make(tmp_path / f"x{suffix}", arrays)
    data = read_scores(path, all_columns=True)
    others = {name: data.others[name] for name in ("id", "place")}
    out = tmp_path / f"y{target}"
    assert write_probs(out, probabilities()[:4], others=others) == {}
    for name, column in (("id", ids), ("place", place)):
        np.testing.assert_array_equal(read_scores(out, labels_key=name).labels, column)


def test_what_a_format_cannot_hold_is_left_out(tmp_path: Path) -> None:
    others = {"id": np.array(["a", "b"]), "time": np.array(["2024-01-01", "NaT"], "M8[D]")}
    probs = [[0.25, 0.75], [0.5, 0.5]]
    left = {
        suffix: [*write_probs(tmp_path / f"x{suffix}", probs, others=others)]
        for suffix in [*SUFFIXES, ".npy"]
    }
    assert left == {
        ".npz": [],
        ".csv": [],
        ".parquet": [],
        ".pt": ["time"],
        ".pth": ["time"],
        ".safetensors": ["id", "time"],
        ".npy": ["id", "time"],
    }
    others = {"text": np.array(["a", "b" * 2 * 10**8], dtype=object)}
    (why,) = write_probs(tmp_path / "x.npz", probs, others=others).values()
    assert "as long as the longest one" in why
    assert "0.5,0.5,b,\n" in (tmp_path / "x.csv").read_text()
    data = read_scores(tmp_path / "x.pt", need_labels=False, all_columns=True)
    assert data.others["id"].tolist() == ["a", "b"]
    refuse(tmp_path / "x.pt", "'id' must hold numbers, got a list of texts", labels_key="id")


# --- covariates -------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".safetensors", ".pt"])
def test_covariates_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"scores{suffix}"
    columns = {"country": np.array([2, 0, 1]), "length": np.array([0.5, 1.5, 2.5])}
    write_probs(path, np.full((3, 2), 0.5), [0, 1, 1], others=columns)
    data = read_scores(path, covariates=("length", "country"))
    assert data.covariates is not None
    assert list(data.covariates) == ["length", "country"]
    for name, column in columns.items():
        np.testing.assert_array_equal(data.covariates[name], column)
    assert read_scores(path).covariates is None
    with pytest.raises(FileError, match=r"scores.* has no 'size'; it has .*length.*"):
        read_scores(path, covariates=["length", "size"])
    with pytest.raises(TypeError, match="a sequence of names"):
        read_scores(path, covariates="length")


def test_covariates_stay_with_their_rows(tmp_path: Path) -> None:
    (path := tmp_path / "a.csv").write_text("probs_0,probs_1,label,x\n1,0,0,5\n1,0,,6\n0,1,1,7\n")
    rows, unlabelled = read_scores(path, covariates=("x",)).labelled()
    assert unlabelled == 1
    assert rows.covariates is not None
    assert rows.covariates["x"].tolist() == [5, 7]
    path.write_text("probs_0,probs_1,label,x\n1,0,0,de\n")
    with pytest.raises(FileError, match=r"line 2, column 'x': must be a number, got 'de'$"):
        read_scores(path, covariates=("x",))
    np.savez(path.with_suffix(".npz"), probs=np.eye(2), label=[0, 1], x=[1.0])
    with pytest.raises(FileError, match="'x': a covariate must have one number per row"):
        read_scores(path.with_suffix(".npz"), covariates=("x",))
