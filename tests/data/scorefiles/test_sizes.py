"""Files that claim, or expand to, more than they may are refused before they do."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import FileError
from calibrant.common import memory as _memory
from calibrant.scorefiles import read_scores
from cli_support import PEAK, python, refuse, succeed

ROWS = 40_000
ZEROS = {"logits": np.zeros((ROWS, 10)), "labels": np.zeros(ROWS, np.int64)}  # 3.5 MB


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write(path: Path) -> Path:
    """The zeros in a file of any format, as small as it can be."""
    if path.suffix == ".npz":
        np.savez_compressed(path, **ZEROS)
    elif path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        columns = {"logits": list(ZEROS["logits"]), "labels": ZEROS["labels"]}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file(ZEROS, path)
    elif path.suffix == ".pt":
        import torch

        torch.save({name: torch.from_numpy(array) for name, array in ZEROS.items()}, path)
    else:
        lines = ["logits_0,logits_1,logits_2,logits_3,logits_4,labels", *["0,0,0,0,0,0"] * 80_000]
        path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".safetensors", ".pt", ".csv"])
def test_the_limit_holds_and_can_be_raised(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"x{suffix}")
    assert read_scores(path, max_size=5_000_000).scores.shape[0] >= ROWS
    told = r"but its arrays would take 3\.[5-9] MB of memory, and 3\.0 MB are allowed: if you trust"
    with pytest.raises(FileError, match=told) as caught:
        read_scores(path, max_size=3_000_000)
    size = int(str(caught.value).rpartition("say max_size=")[2])
    assert read_scores(path, max_size=size).scores.shape[0] >= ROWS
    with pytest.raises(FileError, match="say max_size="):
        read_scores(path, max_size=size - 1)


def test_labels_of_their_own_have_the_same_limit(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", np.zeros((3, 2)))
    path = write(tmp_path / "y.npz")
    with pytest.raises(FileError, match=r"y\.npz has .* would take 320\.0 kB"):
        read_scores(tmp_path / "z.npy", labels_path=path, input="logits", max_size=300_000)


def test_a_npy_file_may_have_any_size(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", ZEROS["logits"])
    data = read_scores(tmp_path / "z.npy", input="logits", need_labels=False, max_size=1)
    assert isinstance(data.scores, np.memmap)


def test_a_sparse_npy_file_larger_than_memory_is_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", np.zeros((1, 1000), np.float32))
    header = (tmp_path / "z.npy").read_bytes()[:128]
    (tmp_path / "z.npy").write_bytes(header.replace(b"(1, 1000)    ", b"(50000000, 1000)"[:13]))
    text = (
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (50000000, 1000), }".ljust(117) + b"\n"
    )
    (tmp_path / "z.npy").write_bytes(header[:8] + struct.pack("<H", 118) + text)
    os.truncate(tmp_path / "z.npy", 128 + 4 * 50_000_000 * 1000)
    data = read_scores(tmp_path / "z.npy", input="logits", need_labels=False)
    assert data.scores.shape == (50_000_000, 1000)


@pytest.mark.parametrize("size", [0, -1, True, 1e9, "4GB"])
def test_what_is_no_limit(tmp_path: Path, size: Any) -> None:
    with pytest.raises(
        ValueError, match="max_size must be a whole number of bytes, at least 1, got"
    ):
        read_scores(tmp_path / "x.npz", max_size=size)


def claiming(path: Path, size: int) -> Path:
    """An archive that claims so many bytes of zeros, in its header as in its directory."""
    header = npy(np.zeros((1, 1000)))[:128]
    shape = f"({size // 8000}, 1000), }}".encode()
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': " + shape
    member = header[:10] + text.ljust(117) + b"\n" + bytes(1000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", member)
        archive.writestr("labels.npy", npy(np.zeros(3, int)))
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = struct.pack("<I", 128 + size)
    path.write_bytes(content)
    return path


def test_what_expands_to_gigabytes_is_refused_by_default(tmp_path: Path) -> None:
    path = claiming(tmp_path / "x.npz", 2_400_000_000)
    told = r"x\.npz has .* would take 2\.4 GB of memory, and 1\.0 GB are allowed: .* max_size=24000"
    with pytest.raises(FileError, match=told):
        read_scores(path)
    line = refuse("evaluate", path)
    assert line.endswith("are allowed: if you trust the file, say --max-size 2400000024\n")


def test_large_files_may_take_more_by_default(tmp_path: Path) -> None:
    """20 times their size: an honest archive is hardly smaller than its arrays."""
    path = claiming(tmp_path / "x.npz", 2_400_000_000)
    with path.open("ab") as file:
        file.truncate(130_000_000)
    with pytest.raises(FileError, match="cannot be read as a NumPy archive"):  # no directory
        read_scores(path)
    from calibrant.common.files import Expansion

    Expansion(path).check(2_500_000_000)
    with pytest.raises(FileError, match=r"2\.6 GB are allowed"):
        Expansion(path).check(2_700_000_000)


def test_what_memory_cannot_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_memory, "available_memory", lambda: 70_000_000)
    monkeypatch.setattr("calibrant.common.files.available_memory", lambda: 70_000_000)
    path = claiming(tmp_path / "x.npz", 80_000_000)
    told = r"would take 80\.0 MB of memory, 70\.0 MB are available: as a \.npy file they could stay"
    with pytest.raises(FileError, match=told):
        read_scores(path)


def test_a_refused_bomb_takes_no_memory(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("logits.npy", npy(np.zeros((12_500, 1000))))
        archive.writestr("labels.npy", npy(np.zeros(12_500, int)))
    code = (
        f"{PEAK}\nimport sys; import numpy as np\n"
        "from calibrant import FileError; from calibrant.scorefiles import read_scores\n"
        "before = peak()\n"
        "try: read_scores(sys.argv[1], max_size=50_000_000)\n"
        "except FileError: print(peak() - before)"
    )
    assert int(python(code, str(tmp_path / "x.npz")).stdout) < 20_000_000


def test_tensors_of_strides_of_0(tmp_path: Path) -> None:
    import torch

    torch.save({"logits": torch.zeros(1).expand(10**9, 1000)}, tmp_path / "x.pt")
    assert (tmp_path / "x.pt").stat().st_size < 2000
    with pytest.raises(FileError, match=r"would take 4\.0 TB of memory"):
        read_scores(tmp_path / "x.pt", need_labels=False)


def test_many_equal_values_of_a_table(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    column = pyarrow.array(np.zeros(4_000_000, np.float32))
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"logits": column, "labels": column}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(FileError, match=r"would take 32\.0 MB of memory"):
        read_scores(path, max_size=30_000_000)


# --- lies -------------------------------------------------------------------------------------


def test_headers_that_claim_what_is_not_there(tmp_path: Path) -> None:
    whole = npy(np.zeros((4, 3)))
    lie = whole.replace(b"(4, 3)", b"(5, 3)")
    (tmp_path / "x.npy").write_bytes(lie)
    told = "cannot be read as a NumPy array: its header claims 120 bytes of data, but there are 96"
    with pytest.raises(FileError, match=told):
        read_scores(tmp_path / "x.npy", input="logits", need_labels=False)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("logits.npy", lie)
    told = "the header of 'logits' claims 120 bytes of data, but there are 96"
    with pytest.raises(FileError, match=told):
        read_scores(tmp_path / "x.npz", need_labels=False)


def test_directories_that_claim_less_than_there_is(tmp_path: Path) -> None:
    """zipfile stops at the claimed size: what is beyond it is never expanded."""
    path = claiming(tmp_path / "x.npz", 800)
    with pytest.raises(FileError, match="Bad CRC-32"):
        read_scores(path, need_labels=False)


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_numpy_never_uses(tmp_path: Path, way: int) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", way) as archive:
        archive.writestr("logits.npy", npy(np.zeros((4, 3))))
    with pytest.raises(FileError, match="'logits' is compressed in a way that NumPy never uses"):
        read_scores(tmp_path / "x.npz", need_labels=False)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("logits.npy", npy(np.zeros((4, 3))))
        archive.writestr("logits.npy", npy(np.ones((4, 3))))
    with pytest.raises(FileError, match="has 2 arrays by the name of 'logits'"):
        read_scores(tmp_path / "x.npz", need_labels=False)


def test_text_in_a_table(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {"logits": [[1.0, 2.0]] * 3, "labels": ["cat", "dog", "cat"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    with pytest.raises(FileError, match="column 'labels': must hold numbers, got string"):
        read_scores(tmp_path / "x.parquet")


def test_a_parser_without_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: Any, **__: Any) -> Any:
        raise MemoryError

    np.savez(tmp_path / "x.npz", logits=np.zeros((4, 3)))
    monkeypatch.setattr("calibrant.data.npz.npy.read_array", greedy)
    with pytest.raises(
        FileError, match=r"x\.npz cannot be .* it asks for more memory than there is"
    ):
        read_scores(tmp_path / "x.npz", need_labels=False)


# --- sets of logits, commands -----------------------------------------------------------------


def test_sets_of_logits_have_the_same_limit(tmp_path: Path) -> None:
    arrays = {f"{part}_{name}": array for part in ("val", "test") for name, array in ZEROS.items()}
    np.savez_compressed(tmp_path / "mine.npz", **arrays)
    assert calibrant.datasets.read(tmp_path / "mine.npz").val_logits.shape == (ROWS, 10)
    with pytest.raises(FileError, match=r"would take 7\.0 MB of memory, and 5\.0 MB are allowed"):
        calibrant.datasets.read(tmp_path / "mine.npz", max_size=5_000_000)
    (tmp_path / "mine.npz").write_bytes(b"PK and no more")
    with pytest.raises(FileError, match=r"mine\.npz cannot be read as a NumPy archive"):
        calibrant.datasets.read(tmp_path / "mine.npz")


def test_every_command_takes_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("x.npz"))
    logits, labels = np.eye(4)[[0, 1, 2, 3] * 5] * 3.0, np.array([0, 1, 2, 3] * 4 + [0] * 4)
    np.savez("small.npz", logits=logits, labels=labels)
    calibrant.save(calibrant.TS().fit(logits, labels), "ts.safetensors")
    for command in (
        ("fit", "x.npz", "-o", "out.safetensors", "--method", "base"),
        ("apply", "ts.safetensors", "x.npz", "-o", "out.npz"),
        ("evaluate", "x.npz"),
        ("evaluate", "small.npz", "x.npz"),
        ("compare", "small.npz", "x.npz"),
        ("reproduce", "--add", "mine", "small.npz", "x.npz", "--sets", "mine"),
    ):
        assert "--max-size 3" in refuse(*command, "--max-size", "100kB"), command
    assert "--max-size must be a number of bytes" in refuse("evaluate", "x.npz", "--max-size", "?")
    assert "20 rows" in succeed("evaluate", "small.npz", "--max-size", "1GB", "--n-resamples", "0")
