"""VGG19 (Simonyan and Zisserman, 2015) for small images."""

from __future__ import annotations

from torch import Tensor, nn

# Widths of VGG19's convolutions; None halves the image.
VGG19_LAYERS = (
    *(64, 64, None),
    *(128, 128, None),
    *(256, 256, 256, 256, None),
    *(512, 512, 512, 512, None),
    *(512, 512, 512, 512, None),
)


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
