"""The logits of trained ImageNet networks, batch by batch into a memory-mapped file."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import FileError
from calibrant.files import replacing, write_text
from calibrant_papers._extras import need
from calibrant_papers._messages import warn
from calibrant_papers._sealed import sealed, unsealed
from calibrant_papers.imagenet import Pictures
from calibrant_papers.logits import HeldOut

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
    kept = _Work(work, job)
    with torch.inference_mode():
        for inputs in _batches(pictures, classifier, kept.done, batch):
            logits = module(inputs.to(device)).float().cpu().numpy()
            if kept.rows is None:
                _check_classes(pictures, logits.shape[1])
                kept.create((len(pictures.files), logits.shape[1]))
            kept.store(logits, pictures)
            report(kept.done, len(pictures.files))
    assert kept.rows is not None, "there is at least one picture"
    return _divide(kept.rows, pictures, split_seed), {
        "dataset": f"ImageNet validation images, a quarter to fit on, split seed {split_seed}",
        "network": classifier.origin,
        "parameters": sum(weights.numel() for weights in module.parameters()),
        "recipe": "published weights",
        "seed": split_seed,
        "seconds": round(time.monotonic() - began, 1),
        "torch_version": torch.__version__,
    }


def _batches(pictures: Pictures, classifier: Classifier, first: int, batch: int) -> Iterator[Any]:
    """Inputs of the network from row ``first`` on; the next batch is decoded meanwhile."""
    torch, image = need("torch"), need("PIL.Image")

    def read(path: Path) -> Any:
        with image.open(path) as picture:
            return classifier.prepare(picture.convert("RGB"))

    starts = range(first, len(pictures.files), batch)
    with ThreadPoolExecutor(DECODERS) as pool:
        ahead = [pool.map(read, pictures.files[s : s + batch]) for s in starts[:1]]
        for number in range(len(starts)):
            ahead += [
                pool.map(read, pictures.files[s : s + batch]) for s in starts[number + 1 :][:1]
            ]
            yield torch.stack(list(ahead.pop(0)))


# --- the memory-mapped file -------------------------------------------------------------------


class _Work:
    """Logits in a memory-mapped file, row after row; a card beside it has their checksum.

    What an earlier run of the same job left is kept where it is as it was written.
    """

    def __init__(self, path: Path, job: dict[str, str]) -> None:
        self.path, self.job = path, job
        self.card = path.with_suffix(".job.json")
        self.rows: NDArray[np.float16] | None = None
        self.done, self.digest = 0, hashlib.sha256()
        if path.exists():
            self._reopen()

    def create(self, shape: tuple[int, int]) -> None:
        """Make the file, in its whole size: a full disk is told now."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.done, self.digest = 0, hashlib.sha256()
        self._write_card()
        with replacing(self.path) as file:
            np.save(file, np.zeros(shape, np.float16))
        self.rows = np.lib.format.open_memmap(self.path, mode="r+")

    def store(self, logits: NDArray[np.float32], pictures: Pictures) -> None:
        """Put the next rows into the file."""
        with np.errstate(over="ignore"):  # told below, with the picture
            stored = logits.astype(np.float16)
        bad = np.flatnonzero(~np.isfinite(stored).all(axis=1))
        if bad.size:
            raise OverflowError(f"{pictures.files[self.done + bad[0]]} gets a logit beyond float16")
        rows: Any = self.rows
        rows[self.done : self.done + len(stored)] = stored
        rows.flush()
        self.done += len(stored)
        self.digest.update(stored.data)
        self._write_card()

    def _write_card(self) -> None:
        progress = {"done": self.done, "rows_sha256": self.digest.hexdigest()}
        write_text(self.card, sealed(json.dumps(self.job | progress)))

    def _reopen(self) -> None:
        if not self.card.is_file():
            raise FileError(f"{self.path} has no card {self.card.name}: delete it first")
        try:
            card = json.loads(unsealed(self.card.read_text(encoding="utf-8")) or "")
            rows = np.lib.format.open_memmap(self.path, mode="r+")
            self.digest.update(np.ascontiguousarray(rows[: card["done"]]).data)
        except ValueError:  # of JSON, of UTF-8, or of NumPy for a file that is too short
            card, rows = {}, None
        if any(card.get(key, value) != value for key, value in self.job.items()):
            raise FileError(
                f"{self.path} belongs to another network or other pictures: delete it first"
            )
        if card.get("rows_sha256") == self.digest.hexdigest():
            self.rows, self.done = rows, card["done"]
        else:
            warn(f"{self.path} cannot be read as written: computed again")


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
