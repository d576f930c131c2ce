"""The paper's two small networks, for 32 x 32 images; both return raw logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Widths of VGG19's convolutions; None halves the image.
VGG19_LAYERS = (
    *(64, 64, None),
    *(128, 128, None),
    *(256, 256, 256, 256, None),
    *(512, 512, 512, 512, None),
    *(512, 512, 512, 512, None),
)


class LeNet5(nn.Module):
    """LeNet-5 with ReLU and max pooling.

    >>> LeNet5(n_classes=10, channels=1)(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 10])
    """

    summary = (
        "LeNet-5 (convolution 6@5x5, max pooling, convolution 16@5x5, max pooling, "
        "dense 120, 84, classes; ReLU)"
    )

    def __init__(self, n_classes: int, channels: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, 6, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Flatten(),
            *(nn.Linear(16 * 5 * 5, 120), nn.ReLU()),
            *(nn.Linear(120, 84), nn.ReLU()),
            nn.Linear(84, n_classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, channels, 32, 32)."""
        return self.layers(images)


class VGG19(nn.Module):
    """VGG19 in its CIFAR form: batch norm after every convolution, one dense layer at the end.

    >>> sum(p.numel() for p in VGG19(n_classes=100).parameters())
    20081188
    """

    summary = (
        "VGG19 with batch normalisation, CIFAR form (16 convolutions, five max poolings, "
        "one dense layer)"
    )

    def __init__(self, n_classes: int, channels: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in VGG19_LAYERS:
            if width is None:
                layers.append(nn.MaxPool2d(2))
            else:
                layers += _convolution(channels, width)
                channels = width
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, n_classes))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, channels, 32, 32)."""
        return self.layers(images)


def _convolution(channels: int, width: int) -> list[nn.Module]:
    # Batch norm subtracts the mean: a bias before it would do nothing.
    layer = nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return [layer, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]


_BUILDERS: dict[str, type[LeNet5] | type[VGG19]] = {"lenet5": LeNet5, "vgg19": VGG19}


def build(network: str, n_classes: int, channels: int, seed: int) -> LeNet5 | VGG19:
    """A network by name, its starting weights drawn from the seed alone."""
    if network not in _BUILDERS:
        raise ValueError(f"network must be one of {', '.join(_BUILDERS)}, got {network!r}")
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random state as it was
        torch.manual_seed(seed)
        return _BUILDERS[network](n_classes, channels)
