"""Residual networks of bottleneck blocks (He et al., 2016), for small images."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from calibrant_papers.networks.layers import Head, convolution

WIDTHS = (64, 128, 256, 512)  # of a stage's narrow convolutions
EXPANSION = 4  # a block's output is this much wider


class Bottleneck(nn.Module):
    """Narrow by 1x1, look around by 3x3, widen by 1x1; then add the input."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.layers = nn.Sequential(
            *(convolution(inputs, width), nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
            # The stride is here and not in the first 1x1, which would throw away 3/4 of its input.
            convolution(width, width, 3, stride=stride),
            *(nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
            *(convolution(width, outputs), last := nn.BatchNorm2d(outputs)),
        )
        # The block starts as the identity: a deep stack trains at a high rate from the start.
        nn.init.zeros_(last.weight)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                convolution(inputs, outputs, stride=stride), nn.BatchNorm2d(outputs)
            )
        self.activation = nn.ReLU(inplace=True)

    def forward(self, features: Tensor) -> Tensor:
        """Features (n, 4 width, h / stride, w / stride)."""
        return self.activation(self.layers(features) + self.shortcut(features))


class ResNet(nn.Module):
    """A 3x3 convolution, four stages of bottleneck blocks, a mean, one dense layer."""

    blocks: ClassVar[tuple[int, ...]]  # how many a stage has
    summary: ClassVar[str]

    def __init__(self, n_classes: int, channels: int = 3) -> None:
        super().__init__()
        inputs = WIDTHS[0]
        layers: list[nn.Module] = [
            *(convolution(channels, inputs, 3), nn.BatchNorm2d(inputs), nn.ReLU(inplace=True))
        ]
        for stage, (width, n_blocks) in enumerate(zip(WIDTHS, self.blocks, strict=True)):
            for block in range(n_blocks):
                # ImageNet's form halves in the stem and in a pooling too: not here.
                halves = stage > 0 and block == 0
                layers.append(Bottleneck(inputs, width, stride=2 if halves else 1))
                inputs = EXPANSION * width
        self.layers = nn.Sequential(*layers, Head(inputs, n_classes))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, channels, 32, 32)."""
        return self.layers(images)


class ResNet50(ResNet):
    """ResNet-50 in CIFAR form.

    >>> sum(p.numel() for p in ResNet50(n_classes=100).parameters())
    23705252
    """

    blocks = (3, 4, 6, 3)
    summary = (
        "ResNet-50, CIFAR form (3x3 convolution, 3 + 4 + 6 + 3 bottleneck blocks, one dense layer)"
    )


class ResNet152(ResNet):
    """ResNet-152 in CIFAR form.

    >>> sum(p.numel() for p in ResNet152(n_classes=100).parameters())
    58341028
    """

    blocks = (3, 8, 36, 3)
    summary = (
        "ResNet-152, CIFAR form (3x3 convolution, 3 + 8 + 36 + 3 bottleneck blocks, "
        "one dense layer)"
    )
