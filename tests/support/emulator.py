"""The CUDA sources on a CPU: compiled by the machine's own compiler, launched as in earnest.

The code under test is the package's own, up to the call of the driver: `cpu_device.h` takes the
place of `device.cuh`, and this module that of NVRTC and the driver.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant.backends.cuda import _driver, kernels

COMPILER = shutil.which("c++") or shutil.which("g++")
DEVICE = (Path(__file__).parent / "cpu_device.h").read_text()
LAUNCHERS = {
    "calibrate": """
static const input_t* a; static Out b; static int64 c; static Fitted d;
extern "C" void launch(int count, const input_t* logits, Out out, int64 rows, Fitted fitted) {
  a = logits; b = out; c = rows; d = fitted;
  run_blocks(count, [] { calibrate(a, b, c, d); });
}
""",
    "profile": """
static const input_t* a; static const int64* b; static Summary c; static int64 d; static float e;
extern "C" void launch(int count, const input_t* logits, const int64* labels, Summary out,
                       int64 rows, float scale) {
  a = logits; b = labels; c = out; d = rows; e = scale;
  run_blocks(count, [] { profile(a, b, c, d, e); });
}
""",
}


@dataclass(frozen=True)
class CpuKernel:
    """A compiled source."""

    library: ctypes.CDLL

    def launch(self, blocks: int, *arguments: Any) -> None:
        self.library.launch(ctypes.c_int(min(blocks, 2)), *arguments)


class CpuFlags:
    """As ``Flags``, without a device to wait for."""

    def __init__(self) -> None:
        self._value = torch.zeros(4, dtype=torch.int32)
        self.place = self._value.data_ptr()

    def read(self) -> tuple[bool, bool]:
        first, *others = self._value.tolist()
        return bool(first), all(others)


@cache
def compiled(source: str) -> CpuKernel:
    """Once for all tests of a process; the library stays loaded when its file is gone."""
    with tempfile.TemporaryDirectory() as folder:
        path, library = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        path.write_text(source)
        command = [COMPILER, "-O1", "-std=c++17", "-shared", "-fPIC", "-w", "-o", library, path]
        subprocess.run(command, check=True)
        return CpuKernel(ctypes.CDLL(str(library)))


def emulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU tensors count as CUDA tensors, and kernels run on the CPU."""

    def kernel(name: str, constants: dict[str, int | str]) -> CpuKernel:
        source = _driver.source_of(name, constants, DEVICE)
        return compiled(f"{source}}}  // namespace\n{LAUNCHERS[name]}")

    monkeypatch.setattr(kernels, "kernel", kernel)
    monkeypatch.setattr(kernels, "Flags", CpuFlags)
    monkeypatch.setattr(kernels, "on_device", nullcontext)
    for name in ("_calibrate_kernel", "_profile_kernel"):
        monkeypatch.setattr(kernels, name, getattr(kernels, name).__wrapped__)
    for user in (
        "calibrant.backends.cuda.dispatch",
        "calibrant.calibrators.profile.temperature_profile",
    ):
        monkeypatch.setattr(f"{user}.has_kernels", lambda array: isinstance(array, torch.Tensor))
    for user in (
        "calibrant.calibrators._prediction",
        "calibrant.calibrators.profile.temperature_profile",
    ):
        monkeypatch.setattr(f"{user}.on_host", lambda array: not isinstance(array, torch.Tensor))
