"""On Ray everything is as on one machine; `make test-ray` has the environment for it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import FileError, streams
from calibrant.scale.streams._evaluating import Judge
from calibrant.streams import open_stream
from stream_support import contents, rows, write_folder

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

LOGITS, LABELS = rows()


@pytest.fixture(scope="module")
def cluster() -> Any:
    from calibrant.ray import connected

    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield connected()
    ray.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "in", LOGITS, LABELS)


@pytest.fixture(scope="module")
def ts() -> calibrant.TS:
    return calibrant.TS().fit(LOGITS, LABELS)


@pytest.mark.parametrize("method", ["ts", "pts", "vector"])
@pytest.mark.parametrize("stratify", [False, True])
def test_files_are_fitted_on_the_same_rows(
    cluster: Any, folder: Path, method: str, stratify: bool
) -> None:
    options = {"max_rows": 300, "stratify": stratify}
    here = streams.fit_stream(open_stream(folder), method, **options)
    there = cluster.fit_stream(open_stream(folder), method, **options)
    assert here.fit_info_.details["sample"] == there.fit_info_.details["sample"]
    np.testing.assert_allclose(
        there.predict_proba(LOGITS), here.predict_proba(LOGITS), rtol=1e-6, atol=1e-9
    )


def test_files_are_judged_alike(cluster: Any, folder: Path, ts: calibrant.TS) -> None:
    from calibrant.scale.ray._files import _measured

    stream = open_stream(folder)
    judge = Judge("logits", ts, also_scores=True)
    here, there = judge.measured(stream), _measured(stream, judge)
    for name in ("scores", "calibrated"):
        one, other = here.meters[name], there.meters[name]
        np.testing.assert_array_equal(one.counts, other.counts)
        np.testing.assert_allclose(one.sums, other.sums, rtol=1e-9, atol=1e-9)


def test_files_are_calibrated_to_the_same_bytes(
    cluster: Any, folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    streams.apply_stream(ts, open_stream(folder), tmp_path / "here")
    done = cluster.apply_stream(ts, open_stream(folder), tmp_path / "there")
    assert (done.n_rows, done.n_shards) == (600, 3)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    (tmp_path / "there" / "part-2.parquet").unlink()
    assert cluster.apply_stream(ts, open_stream(folder), tmp_path / "there").skipped == 2
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_a_killed_worker_changes_nothing(
    cluster: Any, folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    """The first worker that is at it is killed; Ray gives its shard to another."""
    stream = open_stream(write_folder(tmp_path / "many", LOGITS, LABELS, parts=8), batch_rows=1)
    streams.apply_stream(ts, stream, tmp_path / "here")
    killed: list[int] = []

    def kill() -> None:
        out = tmp_path / "there"
        for _ in range(3000):
            for temporary in out.glob(".calibrant-*.tmp") if out.exists() else ():
                if _kill_writer(temporary, killed):
                    return
            time.sleep(0.002)

    thread = Thread(target=kill)
    thread.start()
    done = cluster.apply_stream(ts, stream, tmp_path / "there")
    thread.join()
    assert len(killed) == 1
    assert done.n_rows == 600
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def _kill_writer(file: Path, killed: list[int]) -> bool:
    """Kill the process, one of Ray's workers, that has a file open."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if not (process / "cmdline").read_bytes().startswith(b"ray::"):
                continue
            if any(os.readlink(one) == str(file) for one in (process / "fd").iterdir()):
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
                return True
        except OSError:
            continue
    return False


def test_errors_are_those_of_one_machine(cluster: Any, tmp_path: Path, ts: calibrant.TS) -> None:
    logits = LOGITS.copy()
    logits[599, 0] = np.nan
    stream = open_stream(write_folder(tmp_path / "in", logits, LABELS))
    with pytest.raises(ValueError, match="logits must be finite") as caught:
        cluster.apply_stream(ts, stream, tmp_path / "out")
    assert "part-2.parquet" in caught.value.__notes__[0]
    assert not (tmp_path / "out" / "part-2.parquet").exists()
    path = tmp_path / "in" / "part-1.parquet"
    stream = open_stream(tmp_path / "in")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FileError, match=r"part-1\.parquet cannot be read as a parquet table"):
        cluster.evaluate_stream(stream)


def test_rows_without_labels_are_counted_and_columns_copied(
    cluster: Any, folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    labels = np.where(np.arange(600) < 250, np.nan, LABELS)  # all of part-0 and some of part-1
    stream = open_stream(write_folder(tmp_path / "nan", LOGITS, labels))
    assert cluster.evaluate_stream(stream, ts).n_unlabelled == 250
    sample = cluster.fit_stream(stream, "ts").fit_info_.details["sample"]
    assert (sample["rows"], sample["unlabelled"]) == (350, 250)
    done = cluster.apply_stream(ts, stream, tmp_path / "out")
    assert done.columns == ["probs", "prediction", "confidence", "label"]
    assert streams.evaluate_stream(open_stream(tmp_path / "out")).n_unlabelled == 250


# --- data sets --------------------------------------------------------------------------------


@pytest.fixture
def dataset(cluster: Any, folder: Path) -> Any:
    return ray.data.read_parquet(str(folder))


def test_data_sets_are_fitted_judged_and_calibrated(
    dataset: Any, folder: Path, ts: calibrant.TS
) -> None:
    import calibrant.ray as on_ray

    here = streams.fit_stream(open_stream(folder), "ts", max_rows=300)
    there = on_ray.fit(dataset, "ts", max_rows=300)
    np.testing.assert_allclose(
        there.predict_proba(LOGITS), here.predict_proba(LOGITS), rtol=1e-6, atol=1e-9
    )
    expected = streams.evaluate_stream(open_stream(folder), ts)
    for report in (
        on_ray.evaluate(dataset, ts),
        on_ray.evaluate(on_ray.apply(dataset, ts)),
        on_ray.evaluate(on_ray.apply(dataset, ts, only="confidence")),
    ):
        assert report.n_rows == 600
        for name in report.metrics:
            assert report.metrics[name].value == pytest.approx(
                expected.metrics[name].value, abs=1e-6
            ), name
    columns = on_ray.apply(dataset, ts).take_batch(5)
    assert {*columns} == {"label", "probs", "prediction", "confidence"}


def test_tensors_and_keys(cluster: Any, ts: calibrant.TS) -> None:
    import calibrant.ray as on_ray

    data = ray.data.from_items(
        [
            {"z": z, "y": int(y), "id": i}
            for i, (z, y) in enumerate(zip(LOGITS, LABELS, strict=True))
        ]
    )
    report = on_ray.evaluate(data, scores_key="z", labels_key="y", input="logits")
    expected = calibrant.metrics.nll(LOGITS, LABELS, input="logits")
    assert report.nll == pytest.approx(expected, rel=1e-6)
    out = on_ray.apply(data, ts, scores_key="z").take_all()
    assert {*out[0]} == {"id", "y", "probs", "prediction", "confidence"}
    with pytest.raises(FileError, match=r"the data set has no (scores|labels)"):
        on_ray.evaluate(data)
