"""Densely connected network (Huang et al., 2017), for small images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calibrant_papers.networks.layers import Head, convolution

GROWTH = 32  # features that a layer adds
BOTTLENECK = 4  # a layer's 1x1 convolution gives this many times the growth
BLOCKS = (6, 12, 32, 32)  # layers of a dense block
STEM = 2 * GROWTH


class DenseLayer(nn.Module):
    """A 1x1 and a 3x3 convolution, each after normalisation and ReLU; the input stays beside."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        width = BOTTLENECK * GROWTH
        self.layers = nn.Sequential(
            *(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), convolution(inputs, width)),
            *(nn.BatchNorm2d(width), nn.ReLU(inplace=True), convolution(width, GROWTH, 3)),
        )

    def forward(self, features: Tensor) -> Tensor:
        """The input and behind it ``GROWTH`` new features."""
        return torch.cat([features, self.layers(features)], dim=1)


class DenseNet169(nn.Module):
    """DenseNet-169 with compression by half between blocks, in CIFAR form.

    >>> sum(p.numel() for p in DenseNet169(n_classes=100).parameters())
    12643300
    """

    summary = (
        "DenseNet-169, CIFAR form (3x3 convolution, dense blocks of 6, 12, 32 and 32 layers, "
        "growth 32, compression 0.5, one dense layer)"
    )

    def __init__(self, n_classes: int, channels: int = 3) -> None:
        super().__init__()
        width = STEM
        # ImageNet's form halves in the stem and in a pooling too: not here.
        layers: list[nn.Module] = [
            *(convolution(channels, width, 3), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        ]
        for number, n_layers in enumerate(BLOCKS):
            if number > 0:
                layers += _transition(width, width // 2)
                width //= 2
            layers += [DenseLayer(width + k * GROWTH) for k in range(n_layers)]
            width += n_layers * GROWTH
        layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers, Head(width, n_classes))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, channels, 32, 32)."""
        return self.layers(images)


def _transition(inputs: int, outputs: int) -> list[nn.Module]:
    """Fewer features on a map of half the side."""
    return [
        *(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)),
        *(convolution(inputs, outputs), nn.AvgPool2d(2)),
    ]
