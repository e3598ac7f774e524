"""NVIDIA's Python verifier 2.7.3 beside this one, over recorded evidence and changes of it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from attest.checks import Outcome
from attest.nvsdk import NvsdkEnvironment, Pair, SecondOpinion, examine, side_by_side, time_sdk
from attest.nvsdk.opinion import read_answer
from attest.nvsdk.protocol import SdkAnswer
from tests.conftest import vectors_root
from tests.differential.nvidia_cases import NvidiaCase, our_checks, recorded_cases
from tests.differential.nvidia_differences import DIFFERENCES, differ, explain
from tests.nvsdk.conftest import real_sdk  # noqa: F401  a fixture

pytestmark = [pytest.mark.nvsdk, pytest.mark.vectors]

COMPLETE = "hopper-545-complete-pass"


def _cases() -> list[NvidiaCase]:
    root = vectors_root()
    return recorded_cases(root / "nvidia") if root is not None else []


def _flip(place: int) -> Callable[[NvidiaCase], NvidiaCase]:
    def change(case: NvidiaCase) -> NvidiaCase:
        report = bytearray(case.report)
        report[place] ^= 1
        return replace(case, report=bytes(report))

    return change


def _commented(case: NvidiaCase) -> NvidiaCase:
    return replace(case, rims={**case.rims, "driver": case.rims["driver"].rstrip() + b"<!-- anybody's -->"})


def _without_root(case: NvidiaCase) -> NvidiaCase:
    blocks = case.chain.decode().split("-----END CERTIFICATE-----\n")
    return replace(case, chain="-----END CERTIFICATE-----\n".join([*blocks[:4], ""]).encode())


def _changed_value(case: NvidiaCase) -> NvidiaCase:
    at = case.rims["driver"].index(b'Hash0="') + len(b'Hash0="')
    xml = bytearray(case.rims["driver"])
    xml[at] = ord("0") if xml[at] != ord("0") else ord("1")
    return replace(case, rims={**case.rims, "driver": bytes(xml)})


MADE: dict[str, Callable[[NvidiaCase], NvidiaCase]] = {
    "SPDM version changed": _flip(0),
    "request code changed": _flip(1),
    "slot changed": _flip(36),
    "nonce changed": _flip(10),
    "response code changed": _flip(38),
    "number of blocks changed": _flip(41),
    "record length changed": _flip(42),
    "index of the first block changed": _flip(45),
    "specification of the first block changed": _flip(46),
    "measurement 0 changed": _flip(60),
    "last measurement changed": _flip(45 + 64 * 55 - 1),
    "responder nonce changed": _flip(45 + 64 * 55 + 3),
    "opaque length changed": _flip(45 + 64 * 55 + 32),
    "opaque data changed": _flip(-120),
    "signature changed": _flip(-1),
    "a byte behind the signature": lambda case: replace(case, report=case.report + b"\0"),
    "the last byte missing": lambda case: replace(case, report=case.report[:-1]),
    "a report of 36 bytes": lambda case: replace(case, report=case.report[:36]),
    "a comment in a signed RIM": _commented,
    "a reference value changed": _changed_value,
    "a chain without its root": _without_root,
    "a chain in reverse": lambda case: replace(case, chain=_reversed(case.chain)),
    "no chain": lambda case: replace(case, chain=b""),
    "no RIM": lambda case: replace(case, rims={}),
}


def _reversed(chain: bytes) -> bytes:
    end = b"-----END CERTIFICATE-----\n"
    return b"".join(block + end for block in reversed(chain.split(end)[:-1]))


def _all() -> list[NvidiaCase]:
    cases = _cases()
    complete = [case for case in cases if case.name == COMPLETE]
    made = [replace(make(case), name=name, recorded=None) for case in complete for name, make in MADE.items()]
    return [*cases, *made]


@cache
def _compared(name: str, environment: NvsdkEnvironment) -> tuple[SdkAnswer, SecondOpinion, tuple[Pair, ...]]:
    """Ask once about each case: importing their packages takes longer than what they then do."""
    case = next(one for one in _all() if one.name == name)
    answer = examine(case.device(), at=case.at, nonce=case.nonce, environment=environment)
    opinion = SecondOpinion(versions=answer.versions, at=case.at, devices=(read_answer("gpu0", "nvidia-gpu", answer),))
    return answer, opinion, side_by_side(opinion, our_checks(case)[0])


def compared(case: NvidiaCase, environment: NvsdkEnvironment) -> tuple[SdkAnswer, SecondOpinion, tuple[Pair, ...]]:
    return _compared(case.name, environment)


@pytest.mark.parametrize("case", [case for case in _cases() if case.recorded is not None], ids=lambda case: case.name)
def test_their_findings_are_those_that_were_recorded(case: NvidiaCase, real_sdk: NvsdkEnvironment) -> None:  # noqa: F811
    assert as_recorded(compared(case, real_sdk)[0].found) == case.recorded


@pytest.mark.parametrize("case", _all(), ids=lambda case: case.name)
def test_every_difference_is_explained(case: NvidiaCase, real_sdk: NvsdkEnvironment) -> None:  # noqa: F811
    _, _, pairs = compared(case, real_sdk)
    unexplained = [pair for pair in pairs if differ(pair) and explain(case, pair, pairs) is None]
    assert unexplained == []


@pytest.mark.parametrize("case", _all(), ids=lambda case: case.name)
def test_what_they_accept_we_accept_unless_a_difference_says_why(
    case: NvidiaCase,
    real_sdk: NvsdkEnvironment,  # noqa: F811
) -> None:
    _, opinion, pairs = compared(case, real_sdk)
    checks, refusal = our_checks(case)
    refused = refusal is not None or any(check.outcome is Outcome.FAIL for check in checks)
    if refused != (opinion.conclusion == "refuses"):
        assert any(explain(case, pair, pairs) for pair in pairs if differ(pair))


def test_every_difference_shows_in_some_case(real_sdk: NvsdkEnvironment) -> None:  # noqa: F811
    if not _cases():
        pytest.skip("no recorded evidence here; set ATTEST_VECTORS to its folder")
    found = set()
    for case in _all():
        _, _, pairs = compared(case, real_sdk)
        found |= {one.name for pair in pairs if differ(pair) and (one := explain(case, pair, pairs)) is not None}
    assert found == {difference.name for difference in DIFFERENCES}


def test_their_verification_can_be_timed_and_only_of_good_evidence(real_sdk: NvsdkEnvironment) -> None:  # noqa: F811
    from attest.errors import ConfigurationError

    for case in _cases():
        if case.name == COMPLETE:
            told = time_sdk(case.device(), at=case.at, nonce=case.nonce, rounds=3, environment=real_sdk).found
            assert told["rounds"] == 3
            assert isinstance(told["median_seconds"], float)
            assert 0 < told["median_seconds"] < 5
        elif case.name == "hopper-545-vbios-rim-expired":
            with pytest.raises(ConfigurationError, match="RIM signature"):
                time_sdk(case.device(), at=case.at, nonce=case.nonce, rounds=1, environment=real_sdk)


# -- their findings in the manifest's form


def as_recorded(found: Mapping[str, Any]) -> dict[str, Any]:  # Any: JSON
    """Write an answer of the worker as the manifest of the vectors has it."""
    told: dict[str, Any] = {"chain": _chain(found["chain"]), "report_ok": _step(found["report"])}
    measured = found["measurements"]
    if measured["outcome"] != "not run":
        told["measres"] = _step(measured)
    if "mismatches" in measured:
        told |= {"mismatch": measured["mismatches"], "n_golden": measured["compared"]}
    for role, steps in found["rims"].items():
        told[f"rim_{role}"] = {
            "version_match": _step(steps["version"]),
            "schema": _step(steps["schema"]),
            "chain": _chain(steps["chain"]),
            "xmlsig": _step(steps["signature"]),
        }
    return told


def _step(told: Mapping[str, Any]) -> bool | str:
    return f"raises {told['raised']}" if told["outcome"] == "raised" else told["outcome"] == "pass"


def _chain(told: Mapping[str, Any]) -> object:
    if "not_after" not in told:
        return _step(told)
    return [told["outcome"] == "pass", "expired" if told["expired"] else "", told["not_after"]]
