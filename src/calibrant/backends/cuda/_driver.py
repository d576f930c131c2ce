"""CUDA sources to functions: compiled when first needed by NVRTC, launched by the driver.

Both are libraries that come with every CUDA build of PyTorch and its driver; their C interfaces
are called directly, so that no compiler and no other package is needed.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, wraps
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")
# names and numbers of the driver's interface
SHARED_SIZE_BYTES, PREFERRED_SHARED_MEMORY_CARVEOUT = 1, 9  # of a function
MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81  # of a device
RESERVED_PER_BLOCK = 1024  # bytes

FOLDER = Path(__file__).parent


class KernelError(RuntimeError):
    """A library that is not there, or a call of it that failed."""


@dataclass(frozen=True)
class Kernel:
    """A function on a device."""

    handle: ctypes.c_void_p
    threads: int
    resident_blocks: int  # that the device can run at once

    def launch(self, blocks: int, *arguments: Any) -> None:
        """Start it on the current stream, with arguments that are objects of ctypes."""
        _enter_context()
        packed = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
        grid, block = (min(blocks, self.resident_blocks), 1, 1), (self.threads, 1, 1)
        _check(_driver().cuLaunchKernel(self.handle, *grid, *block, 0, _stream(), packed, None))


class Flags:
    """Numbers in main memory that a kernel can set, for one launch at a time in each thread."""

    _of_thread = threading.local()

    def __init__(self) -> None:
        if not hasattr(self._of_thread, "value"):
            tensor = torch.zeros(4, dtype=torch.int32, pin_memory=True)
            self._of_thread.place, self._of_thread.value = tensor.data_ptr(), tensor.numpy()
        self.place: int = self._of_thread.place  # its address, for the device too
        self._of_thread.value[:] = 0

    def read(self) -> tuple[bool, bool]:
        """Whether a kernel has set the first, and all others: waits for the current stream."""
        _check(_driver().cuStreamSynchronize(_stream()))
        first, *others = self._of_thread.value.tolist()
        return bool(first), all(others)


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """A context in which the device is the current one; nothing where it is already."""
    same = device.index == torch.cuda.current_device()
    return nullcontext() if same else torch.cuda.device(device)


def kernel(name: str, constants: dict[str, int | str]) -> Kernel | None:
    """The function of ``name.cu`` for these constants on the current device.

    None where there is no library to compile it with, or none for this device.
    """
    try:
        return _loaded(name, constants)
    except KernelError:
        return None


def per_device(make: Callable[P, T]) -> Callable[P, T]:
    """Call a function once for each device and arguments that can be hashed."""

    @cache
    def made(device: int, *args: P.args, **kwargs: P.kwargs) -> T:
        return make(*args, **kwargs)

    @wraps(make)
    def found(*args: P.args, **kwargs: P.kwargs) -> T:
        return made(torch.cuda.current_device(), *args, **kwargs)  # type: ignore[arg-type]

    return found


def source_of(name: str, constants: dict[str, int | str], device: str) -> str:
    """What is compiled: constants, the device's instructions, rows, the kernel."""
    defines = "".join(f"#define {key} {value}\n" for key, value in constants.items())
    files = (FOLDER / "rows.cuh", FOLDER / f"{name}.cu")
    return "\n".join([defines, device, *(file.read_text() for file in files)])


def _loaded(name: str, constants: dict[str, int | str]) -> Kernel:
    _enter_context()
    code = _compiled(source_of(name, constants, (FOLDER / "device.cuh").read_text()))
    driver, module, handle = _driver(), ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver.cuModuleLoadData(ctypes.byref(module), code))
    _check(driver.cuModuleGetFunction(ctypes.byref(handle), module, name.encode()))
    threads, per_processor = int(constants["THREADS"]), ctypes.c_int()
    query = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
    _check(query(ctypes.byref(per_processor), handle, threads, ctypes.c_size_t(0)))
    resident = max(1, per_processor.value)
    # enough shared memory for all of these blocks; the rest of it stays a cache
    device, of_block, of_processor = torch.cuda.current_device(), ctypes.c_int(), ctypes.c_int()
    _check(driver.cuFuncGetAttribute(ctypes.byref(of_block), SHARED_SIZE_BYTES, handle))
    query = driver.cuDeviceGetAttribute
    _check(query(ctypes.byref(of_processor), MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device))
    needed = resident * (of_block.value + RESERVED_PER_BLOCK)
    percent = min(100, -(-100 * needed // of_processor.value))
    _check(driver.cuFuncSetAttribute(handle, PREFERRED_SHARED_MEMORY_CARVEOUT, percent))
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return Kernel(handle, threads, resident * processors)


def _stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(torch.cuda.current_device()))


def _enter_context() -> None:
    """Makes PyTorch's context that of this thread, which may not have asked for anything yet."""
    _check(_driver().cuCtxSetCurrent(_context(torch.cuda.current_device())))


@cache
def _context(device: int) -> ctypes.c_void_p:
    torch.cuda.init()  # type: ignore[no-untyped-call]
    context = ctypes.c_void_p()
    _check(_driver().cuInit(0))
    _check(_driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    return context


def _compiled(source: str) -> bytes:
    """Machine code of the current device."""
    nvrtc, program = _nvrtc(), ctypes.c_void_p()
    major, minor = torch.cuda.get_device_capability()
    flags = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17"]
    options = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    text = source.encode()
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"calibrant.cu", 0, None, None))
    try:
        if nvrtc.nvrtcCompileProgram(program, len(flags), options):
            raise KernelError(_text(program, "ProgramLog").decode())
        return _text(program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(program: ctypes.c_void_p, what: str) -> bytes:
    nvrtc, size = _nvrtc(), ctypes.c_size_t()
    _check(getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _check(status: int) -> None:
    if status:
        raise KernelError(f"a call of CUDA failed with status {status}")


@cache
def _driver() -> ctypes.CDLL:
    return _library(["nvcuda.dll"] if sys.platform == "win32" else ["libcuda.so.1"])


@cache
def _nvrtc() -> ctypes.CDLL:
    major = str(torch.version.cuda).split(".")[0]
    name = f"nvrtc64_{major}0_0.dll" if sys.platform == "win32" else f"libnvrtc.so.{major}"
    spec = find_spec("nvidia")  # its wheels, or that of PyTorch, may have the library
    roots = [Path(torch.__file__).parent / "lib"]
    roots += [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    found = [path for root in roots for path in glob(f"{root}/**/{name}", recursive=True)]
    return _library([name, *found])


def _library(names: Sequence[str]) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise KernelError(f"no library {names[0]}")
