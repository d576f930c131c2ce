"""Train LeNet-5 on Fashion-MNIST and store its validation and test logits.

This makes the real logits that ship with calibrant. It needs torch and numpy, and the four
gzipped idx files of Fashion-MNIST (on Debian: ``apt-get install dataset-fashion-mnist``).

Run it from the repository root:

    python tools/train_fashion_mnist_lenet5.py --images DIR --out FILE --seed 0

``FILE`` is an .npz archive; a JSON card of the same name is written beside it. The network is
trained at a constant learning rate and without any regularisation, so a longer run
(``--epochs``) only continues a shorter one, and grows more over-confident on the way.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

DEBIAN_IMAGES = Path("/usr/share/datasets/fashion-mnist")
IDX_UINT8 = 0x08
N_CLASSES = 10
N_VALIDATION = 5_000
N_BINS = 15
BATCH_SIZE = 64
EVAL_BATCH_SIZE = 1_000
LEARNING_RATE = 1e-3
EPOCHS = 30


@dataclass(frozen=True)
class Split:
    """Standardised images (n, 1, 28, 28) and their labels (n,)."""

    images: Tensor
    labels: Tensor


class LeNet5(nn.Module):
    """LeNet-5 for 28x28 grey images, with ReLU and max pooling; returns raw logits."""

    def __init__(self) -> None:
        """Start from torch's default random weights."""
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 5 * 5, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, N_CLASSES),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (n, 10) of a batch of images (n, 1, 28, 28)."""
        logits: Tensor = self.layers(images)
        return logits


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read a gzipped idx file of unsigned bytes."""
    raw = gzip.decompress(path.read_bytes())
    zeros, kind, n_dims = raw[:2], raw[2], raw[3]
    if zeros != b"\0\0" or kind != IDX_UINT8:
        raise ValueError(f"{path} is not an idx file of unsigned bytes")
    shape = np.frombuffer(raw, dtype=">u4", count=n_dims, offset=4)
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * n_dims).reshape(shape.tolist())


def stratified_validation_mask(labels: NDArray[np.uint8], seed: int) -> NDArray[np.bool_]:
    """Mark ``N_VALIDATION`` rows, the same number drawn at random from each class."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(len(labels), dtype=np.bool_)
    for label in range(N_CLASSES):
        rows = rng.permutation(np.flatnonzero(labels == label))
        mask[rows[: N_VALIDATION // N_CLASSES]] = True
    return mask


def load_splits(folder: Path, seed: int) -> tuple[Split, Split, Split]:
    """Return the train, validation and test splits, standardised by the train pixels."""
    images = read_idx(folder / "train-images-idx3-ubyte.gz")
    labels = read_idx(folder / "train-labels-idx1-ubyte.gz")
    test_images = read_idx(folder / "t10k-images-idx3-ubyte.gz")
    test_labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz")
    held_out = stratified_validation_mask(labels, seed)
    mean, std = float(images[~held_out].mean()), float(images[~held_out].std())

    def split(pixels: NDArray[np.uint8], classes: NDArray[np.uint8]) -> Split:
        scaled = ((pixels.astype(np.float64) - mean) / std).astype(np.float32)
        return Split(
            torch.from_numpy(scaled).unsqueeze(1), torch.from_numpy(classes.astype(np.int64))
        )

    return (
        split(images[~held_out], labels[~held_out]),
        split(images[held_out], labels[held_out]),
        split(test_images, test_labels),
    )


def train_epoch(
    network: LeNet5, optimiser: torch.optim.Optimizer, train: Split, generator: torch.Generator
) -> float:
    """Pass once over the shuffled training images; return the mean loss."""
    network.train()
    total = 0.0
    order = torch.randperm(len(train.labels), generator=generator)
    for start in range(0, len(order), BATCH_SIZE):
        rows = order[start : start + BATCH_SIZE]
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(network(train.images[rows]), train.labels[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += loss.item() * len(rows)
    return total / len(train.labels)


@torch.no_grad()
def predict_logits(network: LeNet5, images: Tensor) -> NDArray[np.float16]:
    """Return the raw logits of the images, rounded to float16 as they will be stored."""
    network.eval()
    starts = range(0, len(images), EVAL_BATCH_SIZE)
    logits = torch.cat([network(images[start : start + EVAL_BATCH_SIZE]) for start in starts])
    stored: NDArray[np.float16] = logits.numpy().astype(np.float16)
    if not np.isfinite(stored).all():
        raise OverflowError("a logit does not fit into float16")
    return stored


def accuracy_and_ece(logits: NDArray[np.float16], labels: Tensor) -> tuple[float, float]:
    """Return the accuracy and the top-label ECE over equal-width bins, as fractions."""
    wide = logits.astype(np.float64)
    exps = np.exp(wide - wide.max(axis=1, keepdims=True))
    probabilities = exps / exps.sum(axis=1, keepdims=True)
    confidence = probabilities.max(axis=1)
    correct = (probabilities.argmax(axis=1) == labels.numpy()).astype(np.float64)
    bins = np.clip(np.ceil(confidence * N_BINS).astype(np.int64) - 1, 0, N_BINS - 1)
    gaps = np.bincount(bins, weights=confidence - correct, minlength=N_BINS)
    return float(correct.mean()), float(np.abs(gaps).sum() / len(correct))


def train_network(train: Split, val: Split, epochs: int, seed: int) -> LeNet5:
    """Train LeNet-5 from a seeded start, with one progress line per epoch."""
    torch.manual_seed(seed)
    network = LeNet5()
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        loss = train_epoch(network, optimiser, train, generator)
        accuracy, ece = accuracy_and_ece(predict_logits(network, val.images), val.labels)
        left = (time.perf_counter() - start) / epoch * (epochs - epoch)
        print(
            f"epoch {epoch}/{epochs}  train loss {loss:.4f}  val accuracy {accuracy:.4f}  "
            f"val ECE {ece:.4f}  {math.ceil(left)} s left",
            flush=True,
        )
    print(f"trained in {time.perf_counter() - start:.0f} s", flush=True)
    return network


def make_card(
    network: LeNet5, arguments: argparse.Namespace, metrics: dict[str, float]
) -> dict[str, Any]:
    """Describe where the logits come from and how good they are."""
    command = ["python", "tools/train_fashion_mnist_lenet5.py"]
    for option in ("images", "out", "seed", "epochs"):
        command += [f"--{option}", str(getattr(arguments, option))]
    return {
        "name": arguments.out.stem,
        "dataset": (
            f"Fashion-MNIST; validation: {N_VALIDATION} of the 60000 official training images, "
            "stratified by class and never trained on; test: the 10000 official test images"
        ),
        "network": (
            "LeNet-5 (convolution 6@5x5, max pooling, convolution 16@5x5, max pooling, "
            "dense 120, 84, 10; ReLU)"
        ),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "recipe": (
            f"Adam, constant learning rate {LEARNING_RATE:g}, batch size {BATCH_SIZE}, "
            "cross-entropy, pixels standardised, no augmentation, no regularisation, "
            "weights of the last epoch"
        ),
        "epochs": arguments.epochs,
        "seed": arguments.seed,
        "torch_version": torch.__version__,
        **metrics,
        "ece_bins": N_BINS,
        "licence": (
            "The Fashion-MNIST images are by Zalando SE, under the MIT licence, and are not "
            "included; the logits are this project's own."
        ),
        "command": shlex.join(command),
    }


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train LeNet-5 on Fashion-MNIST, store logits.")
    parser.add_argument("--images", type=Path, default=DEBIAN_IMAGES, help="folder of idx files")
    parser.add_argument("--out", type=Path, required=True, help="the .npz file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of split and training")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="passes over the train split")
    arguments = parser.parse_args()
    if arguments.out.suffix != ".npz":
        parser.error("--out must end in .npz")
    if arguments.epochs < 1:
        parser.error("--epochs must be at least 1")
    return arguments


def main() -> None:
    """Train, then write the logits and their card."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train, val, test = load_splits(arguments.images, arguments.seed)
    network = train_network(train, val, arguments.epochs, arguments.seed)

    val_logits = predict_logits(network, val.images)
    test_logits = predict_logits(network, test.images)
    metrics: dict[str, float] = {}
    for name, logits, split in (("val", val_logits, val), ("test", test_logits, test)):
        accuracy, ece = accuracy_and_ece(logits, split.labels)
        metrics |= {f"{name}_accuracy": accuracy, f"{name}_ece": ece}

    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        arguments.out,
        val_logits=val_logits,
        val_labels=val.labels.numpy().astype(np.uint8),
        test_logits=test_logits,
        test_labels=test.labels.numpy().astype(np.uint8),
    )
    card = make_card(network, arguments, metrics)
    arguments.out.with_suffix(".json").write_text(json.dumps(card, indent=2) + "\n")
    print(f"wrote {arguments.out} ({arguments.out.stat().st_size} bytes)", metrics)


if __name__ == "__main__":
    main()
