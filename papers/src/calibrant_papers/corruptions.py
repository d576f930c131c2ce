"""Corrupted copies of small colour images: noise, blur, low contrast and JPEG, in five severities.

The kinds follow common practice in tests of robustness; the code and the strengths are this
project's own, chosen for 32 x 32 pixels. Severity 1 is mild. Severity 5 takes a good network a
large part of its accuracy, but by far not all of it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calibrant_papers._extras import need

Bytes = NDArray[np.uint8]
Pixels = NDArray[np.float32]  # of one slice of images, 0 to 255
SEVERITIES = (1, 2, 3, 4, 5)
# The strength of each severity.
STRENGTHS: dict[str, tuple[float, ...]] = {
    "gaussian_noise": (0.02, 0.035, 0.05, 0.065, 0.08),  # standard deviation; white is 1
    "gaussian_blur": (0.4, 0.55, 0.7, 0.85, 1.0),  # standard deviation in pixels
    "contrast": (0.75, 0.5, 0.35, 0.27, 0.2),  # what is left of the distance from the mean
    "jpeg": (80, 60, 40, 25, 15),  # Pillow's quality
}
CLEAN = "none"
CORRUPTIONS = (CLEAN, *STRENGTHS)  # a corruption's place here is its code in files
_SLICE = 1_000  # images turned into floats at a time


def corrupted(images: Bytes, corruption: str, severity: int, rng: np.random.Generator) -> Bytes:
    """Copies of images under one corruption.

    Parameters
    ----------
    images : ndarray of uint8, (n, height, width, 3)
        They are left as they are.
    corruption : str
        One of ``CORRUPTIONS``.
    severity : int
        1 to 5. With 0, or with the corruption ``none``, the copies are equal to the images.
    rng : numpy.random.Generator
        Where the noise comes from. The other corruptions are not random.

    Returns
    -------
    ndarray of uint8, of the same shape

    Examples
    --------
    >>> image = np.arange(0, 192, 4, dtype=np.uint8).reshape(1, 4, 4, 3)
    >>> corrupted(image, "contrast", 5, np.random.default_rng(0))[0, 0, :, 0].tolist()
    [72, 74, 77, 79]
    """
    _check(images, corruption, severity)
    if corruption == CLEAN or severity == 0:
        return images.copy()
    change, strength = _CHANGES[corruption], STRENGTHS[corruption][severity - 1]
    out = np.empty_like(images)
    for start in range(0, len(images), _SLICE):
        rows = slice(start, start + _SLICE)
        changed = change(images[rows].astype(np.float32), strength, rng)
        out[rows] = np.clip(np.rint(changed), 0, 255).astype(np.uint8)
    return out


def _check(images: Bytes, corruption: str, severity: int) -> None:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise ValueError(
            "images must be bytes (n, height, width, 3), "
            f"got {images.dtype} of shape {images.shape}"
        )
    if corruption not in CORRUPTIONS:
        known = ", ".join(CORRUPTIONS)
        raise ValueError(f"corruption must be one of {known}, got {corruption!r}")
    if severity not in (0, *SEVERITIES):
        raise ValueError(f"severity must be 1 to 5, or 0 for a clean copy, got {severity!r}")


def _noise(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    noise = rng.standard_normal(pixels.shape, dtype=np.float32)
    return pixels + np.float32(255 * strength) * noise


def _blur(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """A Gaussian kernel down the columns, then along the rows; borders are mirrored."""
    reach = math.ceil(4 * strength)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / strength) ** 2)
    kernel /= kernel.sum()
    for axis in (1, 2):
        size = pixels.shape[axis]
        border = [(reach, reach) if place == axis else (0, 0) for place in range(4)]
        wide = np.pad(pixels, border, mode="symmetric")
        shifted = (wide.take(range(k, k + size), axis) for k in range(len(kernel)))
        terms = (np.float32(weight) * part for weight, part in zip(kernel, shifted, strict=True))
        pixels = sum(terms, np.zeros_like(pixels))
    return pixels


def _contrast(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Every channel of every image moves towards its own mean."""
    mean = pixels.mean(axis=(1, 2), keepdims=True)
    return mean + np.float32(strength) * (pixels - mean)


def _jpeg(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    image = need("PIL.Image")
    out = np.empty_like(pixels)
    for place, picture in enumerate(pixels.astype(np.uint8)):
        file = io.BytesIO()
        image.fromarray(picture).save(file, "JPEG", quality=int(strength))
        with image.open(file) as decoded:
            out[place] = np.asarray(decoded)
    return out


_CHANGES: dict[str, Callable[[Pixels, float, np.random.Generator], Pixels]] = {
    "gaussian_noise": _noise,
    "gaussian_blur": _blur,
    "contrast": _contrast,
    "jpeg": _jpeg,
}
