"""Start of Python in a program on a simulated machine: ``attest.collect`` gets that machine when it is imported.

Programs that never import it load nothing more. A ``sitecustomize`` that this one hides runs first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_VARIABLE = "ATTEST_SIMULATED_MACHINE"
_SEAM = "attest.collect.access"


class _SimulatedMachine(Loader):
    """Loader of the module with the machine, which replaces it afterwards."""

    def __init__(self, original: Loader, description: str) -> None:
        self._original = original
        self._description = description

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._original.exec_module(module)
        from attest_simulator.program_machine import described_access  # noqa: PLC0415  only where it is needed

        module.THIS_MACHINE = described_access(self._description)  # type: ignore[attr-defined]  # of that module


class _Finder(MetaPathFinder):
    """Finder of that module alone, once."""

    def __init__(self, description: str) -> None:
        self._description = description

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        del path, target
        if name != _SEAM:
            return None
        sys.meta_path.remove(self)
        found = find_spec(name)
        if found is not None and found.loader is not None:
            found.loader = _SimulatedMachine(found.loader, self._description)
        return found


def _run_hidden() -> None:
    """Run the ``sitecustomize`` of the rest of the import path."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  this starts every Python of the program
    rest = [folder for folder in sys.path if os.path.abspath(folder) != here]  # noqa: PTH100  as above
    found = PathFinder.find_spec("sitecustomize", rest)
    if found is not None and found.loader is not None:
        found.loader.exec_module(module_from_spec(found))


_run_hidden()
if os.environ.get(_VARIABLE):
    sys.meta_path.insert(0, _Finder(os.environ[_VARIABLE]))
