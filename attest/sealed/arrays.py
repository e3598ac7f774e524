"""Memory for tensors of NumPy or PyTorch: writable bytes, and the array over them.

Nothing is copied in between. Types unknown to NumPy (BF16, the 8-bit floats) become ``ml_dtypes`` types if that package
is installed, and unsigned integers of the same width otherwise. Types that pack several numbers into a byte (F4, F6)
stay packed and flat in both frameworks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

from attest.errors import ConfigurationError, SealedFileError
from attest.sealed.tensor_header import DTYPE_BITS, TensorInfo

Framework = Literal["numpy", "torch"]

_NUMPY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BOOL": "bool",
        "U8": "uint8",
        "I8": "int8",
        "I16": "int16",
        "U16": "uint16",
        "F16": "float16",
        "I32": "int32",
        "U32": "uint32",
        "F32": "float32",
        "C64": "complex64",
        "F64": "float64",
        "I64": "int64",
        "U64": "uint64",
    }
)
"""Names of types in both frameworks."""
_ML_DTYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BF16": "bfloat16",
        "F8_E5M2": "float8_e5m2",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E8M0": "float8_e8m0fnu",
        "F8_E4M3FNUZ": "float8_e4m3fnuz",
        "F8_E5M2FNUZ": "float8_e5m2fnuz",
    }
)
"""Names of types in PyTorch and ``ml_dtypes``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Memory of one tensor, writable bytes, with the array over it."""

    memory: memoryview
    array: Any  # Any: an array of either framework


class ArrayMaker(Protocol):
    """Maker of one framework's arrays."""

    def allocate(self, info: TensorInfo, shape: tuple[int, ...]) -> Allocation:
        """Return memory for a tensor, or for rows of it with this shape; packed types ignore the shape."""
        ...


def array_maker(framework: Framework) -> ArrayMaker:
    """Return the array maker of a framework.

    Raises:
        ConfigurationError: ``tensor-framework-unavailable``: not installed.
        ValueError: another framework.
    """
    makers: dict[str, Callable[[], ArrayMaker]] = {"numpy": _NumpyMaker, "torch": _TorchMaker}
    if framework not in makers:
        raise ValueError(f"framework must be 'numpy' or 'torch', not {framework!r}")
    try:
        return makers[framework]()
    except ImportError as exc:
        raise ConfigurationError(
            f"{framework} is not installed",
            code="tensor-framework-unavailable",
            got=framework,
            hint="install attest-kms[models] for NumPy, and PyTorch as its documentation describes",
        ) from exc


def require_bools(info: TensorInfo, memory: memoryview) -> None:
    """Require that all bytes of a BOOL tensor are 0 or 1, the type's only values.

    Raises:
        SealedFileError: ``safetensors-malformed``.
    """
    import numpy as np

    if info.dtype == "BOOL" and memory.nbytes and int(np.frombuffer(memory, np.uint8).max()) > 1:
        raise SealedFileError(
            f"safetensors: {info.name[:200]}: a BOOL is neither 0 nor 1",
            code="safetensors-malformed",
            field=info.name[:200],
            expected="0 or 1",
        )


class _NumpyMaker:
    def __init__(self) -> None:
        import numpy as np

        self._numpy = np
        try:
            import ml_dtypes
        except ImportError:
            self._types: Mapping[str, Any] = {}  # Any: types of ml_dtypes
        else:
            self._types = {
                name: getattr(ml_dtypes, word) for name, word in _ML_DTYPES.items() if hasattr(ml_dtypes, word)
            }

    def allocate(self, info: TensorInfo, shape: tuple[int, ...]) -> Allocation:
        if info.packed:
            flat = self._numpy.empty(info.nbytes, dtype=self._numpy.uint8)
            return Allocation(memory=flat.data, array=flat)
        kind = self._kind(info.dtype)
        flat = self._numpy.empty(prod(shape) * kind.itemsize, dtype=self._numpy.uint8)
        return Allocation(memory=flat.data, array=flat.view(kind).reshape(shape))

    def _kind(self, dtype: str) -> Any:  # noqa: ANN401  a numpy.dtype
        if dtype in self._types:
            return self._numpy.dtype(self._types[dtype])
        return self._numpy.dtype(_NUMPY.get(dtype, f"uint{DTYPE_BITS[dtype]}")).newbyteorder("<")


class _TorchMaker:
    def __init__(self) -> None:
        import torch

        self._torch = torch

    def allocate(self, info: TensorInfo, shape: tuple[int, ...]) -> Allocation:
        torch = self._torch
        if info.packed:
            flat = torch.empty(info.nbytes, dtype=torch.uint8)
            return Allocation(memory=memoryview(flat.numpy()), array=flat)
        kind = self._kind(info)
        flat = torch.empty(prod(shape) * DTYPE_BITS[info.dtype] // 8, dtype=torch.uint8)
        array = flat.view(kind).reshape(shape) if flat.numel() else torch.empty(shape, dtype=kind)
        return Allocation(memory=memoryview(flat.numpy()), array=array)

    def _kind(self, info: TensorInfo) -> Any:  # noqa: ANN401  a torch.dtype
        kind = getattr(self._torch, _NUMPY.get(info.dtype) or _ML_DTYPES[info.dtype], None)
        if kind is None:
            raise ConfigurationError(
                f"this version of PyTorch has no type for {info.dtype} ({info.name[:200]})",
                code="tensor-framework-unavailable",
                got=info.dtype,
                hint="install a newer PyTorch, or load as NumPy arrays",
            )
        return kind
