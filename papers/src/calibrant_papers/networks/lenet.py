"""LeNet-5 (LeCun et al., 1998)."""

from __future__ import annotations

from torch import Tensor, nn


class LeNet5(nn.Module):
    """LeNet-5 with ReLU and max pooling.

    >>> sum(p.numel() for p in LeNet5(n_classes=10, channels=1).parameters())
    61706
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
