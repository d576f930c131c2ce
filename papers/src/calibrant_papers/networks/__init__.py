"""The paper's networks for 32 x 32 images; all return raw logits.

LeNet-5 and VGG19 are the paper's own on CIFAR. The other five are its ImageNet architectures in
CIFAR form: widths and depths as published, a 3x3 convolution in front, and the first two of their
five halvings left out, so that 32 x 32 pixels end as a 4 x 4 map.
"""

from __future__ import annotations

import torch

from calibrant_papers.networks.densenet import DenseNet169
from calibrant_papers.networks.lenet import LeNet5
from calibrant_papers.networks.mobilenet import MobileNetV2
from calibrant_papers.networks.resnet import ResNet50, ResNet152
from calibrant_papers.networks.vgg import VGG19
from calibrant_papers.networks.xception import Xception

__all__ = [
    "VGG19",
    "DenseNet169",
    "LeNet5",
    "MobileNetV2",
    "ResNet50",
    "ResNet152",
    "Xception",
    "build",
]

Network = LeNet5 | VGG19 | ResNet50 | ResNet152 | DenseNet169 | Xception | MobileNetV2
_BUILDERS: dict[str, type[Network]] = {
    "lenet5": LeNet5,
    "vgg19": VGG19,
    "resnet50": ResNet50,
    "resnet152": ResNet152,
    "densenet169": DenseNet169,
    "xception": Xception,
    "mobilenetv2": MobileNetV2,
}


def build(network: str, n_classes: int, channels: int, seed: int) -> Network:
    """A network by name, its starting weights drawn from the seed alone."""
    if network not in _BUILDERS:
        raise ValueError(f"network must be one of {', '.join(_BUILDERS)}, got {network!r}")
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random state as it was
        torch.manual_seed(seed)
        return _BUILDERS[network](n_classes, channels)
