"""Layers that several architectures are made of."""

from __future__ import annotations

import math

from torch import Tensor, nn


def convolution(
    inputs: int, outputs: int, size: int = 1, *, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """A convolution that keeps the image's size but for the stride, without bias.

    Every network here normalises a batch after or before it: a bias would do little or nothing.
    Its weights start as He et al. (2015) draw them, by the number of outputs that see an input.
    """
    layer = nn.Conv2d(
        inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False
    )
    # Not nn.init's kaiming_normal_: it counts the outputs of all groups, a depthwise layer's too.
    nn.init.normal_(layer.weight, std=math.sqrt(2.0 * groups / (outputs * size * size)))
    return layer


class Head(nn.Module):
    """The mean over the image, then one dense layer."""

    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, n_classes)

    def forward(self, features: Tensor) -> Tensor:
        """Logits (n, n_classes) of features (n, width, height, width)."""
        return self.dense(features.mean(dim=(2, 3)))
