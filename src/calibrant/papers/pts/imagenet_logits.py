"""The logits of trained ImageNet networks, batch by batch into a memory-mapped file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._errors import FileError
from calibrant.papers.pts._extras import need
from calibrant.papers.pts.imagenet import Pictures
from calibrant.papers.pts.logits import HeldOut

BATCH = 128
DECODERS = 8  # threads that decode pictures; Pillow frees Python's lock meanwhile

# Network -> its name in torchvision (None: not there) and in timm, both with ImageNet-1k weights.
IMAGENET_NETWORKS: dict[str, tuple[str | None, str]] = {
    "resnet50": ("resnet50", "resnet50.tv_in1k"),
    "resnet152": ("resnet152", "resnet152.tv_in1k"),
    "densenet169": ("densenet169", "densenet169.tv_in1k"),
    "xception": (None, "legacy_xception.tf_in1k"),
    "mobilenetv2": ("mobilenet_v2", "mobilenetv2_100.ra_in1k"),
}


@dataclass(frozen=True)
class Classifier:
    """A trained network, and how a picture becomes its input."""

    module: Any  # torch.nn.Module
    prepare: Callable[[Any], Any]  # a Pillow picture in RGB -> a tensor (channels, h, w)
    origin: str  # library and weights, for the card


def pretrained(network: str) -> Classifier:
    """A network with its published weights, from the user's cache or the hub."""
    if network not in IMAGENET_NETWORKS:
        raise ValueError(f"network must be one of {', '.join(IMAGENET_NETWORKS)}, got {network!r}")
    in_torchvision, in_timm = IMAGENET_NETWORKS[network]
    if in_torchvision is not None:
        return _from_torchvision(in_torchvision)
    return _from_timm(in_timm)


def _from_torchvision(name: str) -> Classifier:
    models = need("torchvision.models")
    # The first published weights: later ones are trained by recipes that the paper's never saw.
    weights = models.get_model_weights(name)["IMAGENET1K_V1"]
    module = models.get_model(name, weights=weights)
    return Classifier(module, weights.transforms(), f"torchvision {name}, {weights}")


def _from_timm(name: str) -> Classifier:
    timm = need("timm")
    module = timm.create_model(name, pretrained=True)
    settings = timm.data.resolve_model_data_config(module)
    prepare = timm.data.create_transform(**settings, is_training=False)
    return Classifier(module, prepare, f"timm {name}")


def imagenet_logits(
    pictures: Pictures,
    work: Path,
    make: Callable[[], Classifier],
    *,
    split_seed: int,
    device: str = "cpu",
    batch: int = BATCH,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[HeldOut, dict[str, Any]]:
    """Logits of all pictures, split into validation and test; and the card.

    ``work`` is the memory-mapped .npy file: an interrupted run goes on where it stopped.
    """
    torch = need("torch")
    began = time.monotonic()
    classifier = make()
    module = classifier.module.to(device).eval()
    job = {"origin": classifier.origin, "pictures": pictures.fingerprint()}
    rows: NDArray[np.float16] | None = _reopen(work, job)
    with torch.inference_mode():
        for start, inputs in _batches(pictures, classifier, _done(rows), batch):
            logits = module(inputs.to(device)).float().cpu().numpy()
            if rows is None:
                _check_classes(pictures, logits.shape[1])
                rows = _create(work, job, (len(pictures.files), logits.shape[1]))
            _store(rows, start, logits, pictures)
            report(start + len(logits), len(pictures.files))
    assert rows is not None, "there is at least one picture"
    return _divide(rows, pictures, split_seed), {
        "dataset": f"ImageNet validation images, a quarter to fit on, split seed {split_seed}",
        "network": classifier.origin,
        "parameters": sum(weights.numel() for weights in module.parameters()),
        "recipe": "published weights",
        "seed": split_seed,
        "seconds": round(time.monotonic() - began, 1),
        "torch_version": torch.__version__,
    }


def _batches(
    pictures: Pictures, classifier: Classifier, first: int, batch: int
) -> Iterator[tuple[int, Any]]:
    """Inputs of the network from row ``first`` on; the next batch is decoded meanwhile."""
    torch, image = need("torch"), need("PIL.Image")

    def read(path: Path) -> Any:
        with image.open(path) as picture:
            return classifier.prepare(picture.convert("RGB"))

    starts = range(first, len(pictures.files), batch)
    with ThreadPoolExecutor(DECODERS) as pool:
        ahead = [pool.map(read, pictures.files[s : s + batch]) for s in starts[:1]]
        for number, start in enumerate(starts):
            ahead += [
                pool.map(read, pictures.files[s : s + batch]) for s in starts[number + 1 :][:1]
            ]
            yield start, torch.stack(list(ahead.pop(0)))


# --- the memory-mapped file: NaN marks rows still to come -------------------------------------


def _card_of(work: Path) -> Path:
    return work.with_suffix(".job.json")


def _create(work: Path, job: dict[str, str], shape: tuple[int, int]) -> NDArray[np.float16]:
    work.parent.mkdir(parents=True, exist_ok=True)
    _card_of(work).write_text(json.dumps(job))
    unfinished = work.with_name(work.name + ".part")
    rows = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float16, shape=shape)
    rows[:] = np.nan
    rows.flush()
    del rows  # closes the map, which some systems want before renaming
    unfinished.replace(work)  # so a file half filled with NaN never has the name
    return np.lib.format.open_memmap(work, mode="r+")


def _reopen(work: Path, job: dict[str, str]) -> NDArray[np.float16] | None:
    if not work.exists():
        return None
    if not _card_of(work).exists() or json.loads(_card_of(work).read_text()) != job:
        raise FileError(f"{work} belongs to another network or other pictures: delete it first")
    return np.lib.format.open_memmap(work, mode="r+")


def _done(rows: NDArray[np.float16] | None) -> int:
    """How many rows are complete; they are written in order."""
    if rows is None:
        return 0
    unwritten = np.isnan(rows[:, -1])
    return int(unwritten.argmax()) if unwritten.any() else len(rows)


def _store(
    rows: NDArray[np.float16], start: int, logits: NDArray[np.float32], pictures: Pictures
) -> None:
    with np.errstate(over="ignore"):  # told below, with the file
        stored = logits.astype(np.float16)
    bad = np.flatnonzero(~np.isfinite(stored).all(axis=1))
    if bad.size:
        raise OverflowError(f"{pictures.files[start + bad[0]]} gets a logit beyond float16")
    rows[start : start + len(stored)] = stored
    rows.flush()  # type: ignore[attr-defined]


def _check_classes(pictures: Pictures, n_outputs: int) -> None:
    if pictures.n_classes not in (None, n_outputs) or pictures.labels.max() >= n_outputs:
        found = pictures.n_classes or int(pictures.labels.max()) + 1
        raise ValueError(
            f"the pictures have {found} classes and the network {n_outputs}: "
            "class numbers would not match"
        )


def _divide(rows: NDArray[np.float16], pictures: Pictures, seed: int) -> HeldOut:
    val = pictures.validation_rows(seed)
    return HeldOut(rows[val], pictures.labels[val], rows[~val], pictures.labels[~val])
