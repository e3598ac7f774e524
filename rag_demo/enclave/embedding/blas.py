"""One thread for each product of matrices, so that batches can be computed side by side.

NumPy's OpenBLAS divides each product among all processors and waits for the slowest part by spinning. On a machine that
does anything else as well, that made a batch five times slower than one thread alone; and it offers no setting but the
environment, read when it is loaded, and a function of its own. So the function is called, where it can be found.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

MAPS: Final = Path("/proc/self/maps")
_SETTERS: Final = (
    "scipy_openblas_set_num_threads64_",  # NumPy's own wheels.
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",  # Distributions'.
    "openblas_set_num_threads",
)


def single_threaded(maps: Path = MAPS) -> bool:
    """Limit OpenBLAS to one thread in the whole process; return true if there is one with this setting."""
    told = [_tell(path) for path in _libraries(maps)]
    return bool(told) and all(told)


def _libraries(maps: Path) -> list[str]:
    """Return the OpenBLAS libraries that this process has loaded."""
    try:
        lines = maps.read_text(errors="replace").splitlines()
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[-1] for line in lines}
    return sorted(path for path in paths if "openblas" in Path(path).name)


def _tell(path: str) -> bool:
    try:
        # It is loaded already: this gives the same library and loads none.
        library = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
    except OSError:
        return False
    for name in _SETTERS:
        setter = getattr(library, name, None)
        if setter is not None:
            setter.argtypes, setter.restype = [ctypes.c_int], None
            setter(1)
            return True
    return False
