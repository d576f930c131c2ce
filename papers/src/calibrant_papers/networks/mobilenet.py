"""MobileNetV2 (Sandler et al., 2018), for small images."""

from __future__ import annotations

from torch import Tensor, nn

from calibrant_papers.networks.layers import Head, convolution

# Expansion, width, blocks and first stride of every stage. ImageNet's form halves in the stem and
# in the stage of width 24 too: not here.
STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
STEM, LAST = 32, 1280


class InvertedResidual(nn.Module):
    """Widen by 1x1, look around by a 3x3 per channel, narrow by 1x1 without activation."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = expansion * inputs
        widening = _activated(inputs, wide) if expansion > 1 else []
        self.layers = nn.Sequential(
            *widening,
            *_activated(wide, wide, 3, stride=stride, groups=wide),
            *(convolution(wide, outputs), nn.BatchNorm2d(outputs)),
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, features: Tensor) -> Tensor:
        """Features (n, outputs, h / stride, w / stride)."""
        made = self.layers(features)
        return features + made if self.adds else made


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1 in CIFAR form.

    >>> sum(p.numel() for p in MobileNetV2(n_classes=100).parameters())
    2351972
    """

    summary = (
        "MobileNetV2 of width 1, CIFAR form (3x3 convolution, 17 inverted residual blocks, "
        "1x1 convolution, one dense layer)"
    )

    def __init__(self, n_classes: int, channels: int = 3) -> None:
        super().__init__()
        layers, inputs = _activated(channels, STEM, 3), STEM
        for expansion, width, n_blocks, stride in STAGES:
            for block in range(n_blocks):
                first = stride if block == 0 else 1
                layers.append(InvertedResidual(inputs, width, expansion, first))
                inputs = width
        layers += _activated(inputs, LAST)
        self.layers = nn.Sequential(*layers, Head(LAST, n_classes))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, channels, 32, 32)."""
        return self.layers(images)


def _activated(
    inputs: int, outputs: int, size: int = 1, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    return [
        convolution(inputs, outputs, size, stride=stride, groups=groups),
        *(nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True)),
    ]
