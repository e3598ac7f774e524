"""Entry points of ``attest``, ``kms`` and the sample."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from attest_kms.extras import (
    DISTRIBUTION,
    SIMULATOR_MODULE,
    describe_extra,
    missing_extra,
    missing_simulator,
)

_USAGE = 2
_NEW_OBJECTS = 250_000
"""Number of new objects that starts a search for garbage. With Python's own, a command that loads 200,000 objects and
ends spends an eighth of its time on searches that find nothing."""
_OURS = frozenset({"attest", "kms", "rag_demo"})
_SAMPLES = {
    "rag_demo": "rag_demo.demo.cli",
    "rag_demo.client": "rag_demo.client.cli",
    "rag_demo.enclave": "rag_demo.enclave.cli",
}
"""Modules of the main functions of the sample's programs."""


def attest() -> int:
    """Run ``attest``."""
    return _run("attest", module="attest.cli.main", packages=("attest",), extra="cli")


def kms() -> int:
    """Run ``kms``."""
    return _run("kms", module="kms.cli.main", packages=("attest", "kms"), extra="kms")


def sample(program: str) -> int:
    """Run a program of the sample, as ``python -m`` names it."""
    return _run(f"python -m {program}", sys.argv[1:], module=_SAMPLES[program], packages=("attest", "kms"), extra="rag")


def _run(command: str, *arguments: list[str], module: str, packages: tuple[str, ...], extra: str) -> int:
    """Run a command; exit 2 where a package is another distribution's, or a library is missing."""
    gc.set_threshold(_NEW_OBJECTS)
    for package in packages:
        if not _is_ours(package):
            return _refuse(
                f"the package {package!r} is not the one of {DISTRIBUTION}: {_place(package)}", _way(package)
            )
    try:
        main = import_module(module).main
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] in _OURS:
            raise
        if exc.name == SIMULATOR_MODULE:
            return _refuse(*missing_simulator(command))
        missing = missing_extra(exc, command=command) or describe_extra(str(exc.name), extra=extra, command=command)
        return _refuse(*missing)
    try:
        code: int = main(*arguments)
        return code
    finally:
        gc.freeze()  # or Python searches all objects for garbage before it ends, a fifth of a short command's time


def _is_ours(package: str) -> bool:
    try:
        found = import_module(package)
    except Exception:  # noqa: BLE001  another distribution's package may raise anything; ours imports nothing that fails
        return False
    return getattr(found, "__distribution__", None) == DISTRIBUTION


def _place(package: str) -> str:
    spec = find_spec(package)
    if spec is None:
        return "it is not installed"
    return spec.origin or ", ".join(spec.submodule_search_locations or ())


def _way(package: str) -> str:
    """Return a hint. The index has unrelated distributions that are called like our packages."""
    again = f"install {DISTRIBUTION} again with --force-reinstall"
    try:
        version = distribution(package).version
    except PackageNotFoundError:
        return f"leave or rename that folder, or remove it from PYTHONPATH; if it is in site-packages, {again}"
    return f"{package} {version} is an unrelated distribution: pip uninstall {package}, then {again}"


def _refuse(message: str, hint: str) -> int:
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    return _USAGE
