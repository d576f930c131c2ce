"""Images that live on the training device as bytes, and their augmentation there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calibrant_papers.images import SIDE, TEST, TRAIN, VALIDATION, ImageSet
from calibrant_papers.recipes import Recipe


@dataclass(frozen=True)
class Part:
    """The rows of one part of the split, on the device."""

    images: Tensor  # (n, 32, 32, channels) bytes
    labels: Tensor

    @classmethod
    def of(cls, data: ImageSet, part: int, device: torch.device) -> Part:
        """The rows of a part of the split."""
        rows = data.rows(part)
        images, labels = torch.from_numpy(data.images[rows]), torch.from_numpy(data.labels[rows])
        return cls(images.to(device), labels.to(device))


def check_split(data: ImageSet) -> None:
    """No held-out row may be trained on."""
    held_out = np.concatenate([data.rows(VALIDATION), data.rows(TEST)])
    assert not np.isin(data.rows(TRAIN), held_out).any(), "a held-out row is among the train rows"
    assert len(data.rows(TRAIN)) + len(held_out) == len(data.labels), "a row is in no split"


def shuffled_crops(
    images: Tensor, recipe: Recipe, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """One epoch: the images in random order, each cropped and flipped at random; and that order."""
    n, device = len(images), images.device

    def draw(high: int) -> Tensor:
        return torch.randint(high, (n, 1), generator=generator, device=device)

    order = torch.randperm(n, generator=generator, device=device)
    if not (recipe.crop or recipe.flip):
        return images[order], order
    ruler = torch.arange(SIDE, device=device)
    rows, columns = ruler + draw(2 * recipe.crop + 1), ruler.expand(n, SIDE)
    if recipe.flip:
        columns = torch.where(draw(2).bool(), SIDE - 1 - columns, columns)
    columns = columns + draw(2 * recipe.crop + 1)
    border = (0, 0, recipe.crop, recipe.crop, recipe.crop, recipe.crop)
    padded = nn.functional.pad(images, border)
    return padded[order[:, None, None], rows[:, :, None], columns[:, None, :]], order


def pixel_scale(images: NDArray[np.uint8], device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and deviation of every channel, over the train rows alone."""
    levels = np.arange(256)
    counts = np.stack(
        [np.bincount(images[..., c].ravel(), minlength=256) for c in range(images.shape[3])]
    )
    shares = counts / counts.sum(axis=1, keepdims=True)
    mean = shares @ levels
    variance = (shares * (levels - mean[:, None]) ** 2).sum(axis=1)
    std = np.sqrt(np.maximum(variance, 1.0))  # a constant channel has none
    as_tensor = partial(torch.tensor, dtype=torch.float32, device=device)
    return as_tensor(mean), as_tensor(std)
