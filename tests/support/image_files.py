"""CIFAR-10 as its authors pack it, with random pictures."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(0)


def random_planes(n: int) -> np.ndarray:
    return RNG.integers(0, 256, (n, 3 * 32 * 32), dtype=np.uint8)


def python2_batch(planes: np.ndarray, key: bytes, labels: list[int]) -> bytes:
    """Opcode by opcode what Python 2 wrote: byte strings, old module names, flags 0 and 1."""

    def short(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    raw, (rows, width) = planes.tobytes(), planes.shape
    shape = b"M" + struct.pack("<H", rows) + b"M" + struct.pack("<H", width) + b"\x86"
    dtype = b"cnumpy\ndtype\n" + short(b"u1") + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + short(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
    array += short(b"b") + b"\x87R(K\x01" + shape + dtype + b"\x89"
    array += b"T" + struct.pack("<I", len(raw)) + raw + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + short(b"data") + array + short(key) + numbers + b"u."


def write_cifar10(folder: Path, protocol: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Five train batches of 20 and a test batch of 20; protocol None writes as Python 2 did."""
    folder.mkdir(parents=True)
    planes, labels = random_planes(120), np.arange(120) % 10
    for k, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        rows = slice(20 * k, 20 * (k + 1))
        part = labels[rows].tolist()
        if protocol is None:
            content = python2_batch(planes[rows], b"labels", part)
        else:
            content = pickle.dumps({b"data": planes[rows], b"labels": part}, protocol=protocol)
        (folder / name).write_bytes(content)
    return planes, labels
