"""Xception (Chollet, 2017), for small images."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from calibrant_papers.networks.layers import Head, convolution

MIDDLE_WIDTH, MIDDLE_BLOCKS = 728, 8


def separable(inputs: int, outputs: int) -> list[nn.Module]:
    """A 3x3 convolution of every channel by itself, a 1x1 across channels, normalisation."""
    return [
        convolution(inputs, inputs, 3, groups=inputs),
        *(convolution(inputs, outputs), nn.BatchNorm2d(outputs)),
    ]


class Block(nn.Module):
    """Separable convolutions, the first after a ReLU or not, beside a shortcut."""

    def __init__(self, widths: tuple[int, ...], *, halves: bool, active: bool = True) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for number, (inputs, outputs) in enumerate(pairwise(widths)):
            if number > 0 or active:
                # Not in place at first: the shortcut needs the input as it was.
                layers.append(nn.ReLU(inplace=number > 0))
            layers += separable(inputs, outputs)
        if halves:
            layers.append(nn.MaxPool2d(3, stride=2, padding=1))
        self.layers = nn.Sequential(*layers)
        self.shortcut: nn.Module = nn.Identity()
        if halves or widths[0] != widths[-1]:
            self.shortcut = nn.Sequential(
                convolution(widths[0], widths[-1], stride=2 if halves else 1),
                nn.BatchNorm2d(widths[-1]),
            )

    def forward(self, features: Tensor) -> Tensor:
        """Features of the last width, on a map of half the side where the block halves."""
        return self.layers(features) + self.shortcut(features)


class Xception(nn.Module):
    """Xception in CIFAR form: entry, middle and exit flow.

    >>> sum(p.numel() for p in Xception(n_classes=100).parameters())
    21011852
    """

    summary = (
        "Xception, CIFAR form (two 3x3 convolutions, 3 + 8 + 1 blocks of separable convolutions, "
        "two more, one dense layer)"
    )

    def __init__(self, n_classes: int, channels: int = 3) -> None:
        super().__init__()
        # ImageNet's form halves in the first convolution and in the first block too: not here.
        entry = [
            *(convolution(channels, 32, 3), nn.BatchNorm2d(32), nn.ReLU(inplace=True)),
            *(convolution(32, 64, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True)),
            Block((64, 128, 128), halves=False, active=False),  # a ReLU was just there
            Block((128, 256, 256), halves=True),
            Block((256, MIDDLE_WIDTH, MIDDLE_WIDTH), halves=True),
        ]
        middle = [Block((MIDDLE_WIDTH,) * 4, halves=False) for _ in range(MIDDLE_BLOCKS)]
        exits = [
            Block((MIDDLE_WIDTH, MIDDLE_WIDTH, 1024), halves=True),
            *(*separable(1024, 1536), nn.ReLU(inplace=True)),
            *(*separable(1536, 2048), nn.ReLU(inplace=True)),
        ]
        self.layers = nn.Sequential(*entry, *middle, *exits, Head(2048, n_classes))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, channels, 32, 32)."""
        return self.layers(images)
