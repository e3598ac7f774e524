"""A pytest plugin that collects the cases beside policies: ``pytest policies/`` runs every ``*.tests.yaml``.

Pytest loads it wherever this package is installed, so it imports nothing until there is a file of cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from attest.policy import Policy
    from attest.policy.authoring.policy_cases import PolicyCase

_SUFFIX = ".tests.yaml"
_SCHEMA = b"attest.policy-tests/"
_HEAD_BYTES = 65536


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file of cases; a file of that name with another schema is left alone."""
    if not file_path.name.endswith(_SUFFIX):
        return None
    with file_path.open("rb") as file:
        ours = _SCHEMA in file.read(_HEAD_BYTES)
    return PolicyTestsFile.from_parent(parent, path=file_path) if ours else None


class PolicyTestsFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one item for each case.

        Raises:
            CollectError: the file, or its policy, cannot be read.
        """
        from attest.cli.policy_test import read_tests  # noqa: PLC0415  see the module's docstring
        from attest.errors import AttestError  # noqa: PLC0415

        try:
            policy, cases = read_tests(self.path)
        except AttestError as exc:
            raise self.CollectError(exc.message) from exc
        for case in cases:
            yield _Item.from_parent(self, name=case.name, policy=policy, case=case)


class _CaseError(Exception):
    """A case that did not come out as expected."""


class _Item(pytest.Item):
    def __init__(self, *, policy: Policy, case: PolicyCase, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]  # what ``from_parent`` passes
        self._policy = policy
        self._case = case

    def runtest(self) -> None:
        """Judge the evidence, and compare."""
        from attest.cli.policy_test import try_case  # noqa: PLC0415  see the module's docstring
        from attest.policy.authoring.policy_cases import differences  # noqa: PLC0415

        problems = differences(self._case, try_case(self._case, self._policy, folder=self.path.parent))
        if problems:
            raise _CaseError("\n".join((f"policy {self._policy.name!r}, case {self._case.name!r}", *problems)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        """Report a wrong outcome or a missing file in lines, and only a defect with its traceback."""
        from attest.errors import AttestError  # noqa: PLC0415  see the module's docstring

        if isinstance(excinfo.value, _CaseError | AttestError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the file and the case."""
        return self.path, None, self.name
