"""Recorded documents of services with each of their values changed in turn: refused, or known to be covered by nothing.

The lists below are what a service, or anything between it and its client, can change without being noticed. No claim
is made of any of it.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attest.checks import Unchecked
from attest.encoding import rfc3339
from attest.endorsements.anchors import TrustAnchors
from attest.errors import AttestError
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.input_files import read_evidence
from attest.verification import ExpectedFreshness, verify

UNCHECKED = tuple(Unchecked(check=name, reason="recorded evidence") for name in ("rim", "revocation", "topology"))
_JUNE = tuple(f"providers/collateral/tdx-{fmspc}06f000000-2026-06-10.json" for fmspc in ("90c", "b0c"))
_LATE_JUNE = tuple(f"providers/collateral/tdx-{fmspc}06f000000-2026-06-29.json" for fmspc in ("90c", "b0c"))


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One recorded document with the request that it answers.

    Attributes:
        files: the first one is changed, the others stand beside it.
        uncovered: paths that may change; one that ends in ``.*`` stands for all below it.
    """

    files: tuple[str, ...]
    at: str
    nonce: str | None
    endorsements: tuple[str, ...]
    uncovered: frozenset[str] = frozenset()


_LOG = frozenset({"event", "event_payload", "event_type"})
"""Of the firmware's events, whose digests do not cover them; those of dstack's are covered."""
_OF_MACHINE = frozenset(
    {
        "model_name",
        *(f"event_log[].{name}" for name in _LOG),
        *(f"info.tcb_info.event_log[].{name}" for name in _LOG),
        *("info.app_cert", "info.app_name", "info.device_id", "info.tcb_info.device_id", "info.vm_config"),
    }
)
_OF_MANAGER = frozenset({"compose_manager_attestation.nonce_source", "compose_manager_attestation.vm_config"})
_OF_VENICE = frozenset(
    {
        *("candidates_available", "candidates_evaluated", "model", "nonce", "nonce_source", "tee_hardware"),
        *("tee_provider", "upstream_model", "verified", "server_verification.*"),
    }
)
RECORDED: dict[str, Recorded] = {
    "near-direct": Recorded(
        files=("near-direct/report.json",),
        at="2026-06-29T02:06:38Z",
        nonce="541b6523f9446dcd170e67ac8171eb9226bee5e3f192de4900b74f0ef293500b",
        endorsements=_LATE_JUNE,
        # Its copy of the machine must agree: whatever differs is another machine with the same GPUs.
        uncovered=frozenset({"all_attestations[].model_name", "model_name"}) | _OF_MANAGER,
    ),
    "near-cloud": Recorded(
        files=("near-cloud/report.json",),
        at="2026-06-10T01:48:56Z",
        nonce="c8f32651d8b42f2e06411a1cde89fc2311dae0490c0a61483a757517a31030b2",
        endorsements=_JUNE,
        uncovered=frozenset(f"model_attestations[].{path}" for path in _OF_MACHINE | _OF_MANAGER)
        | frozenset(f"gateway_attestation.{path}" for path in _OF_MACHINE if path.startswith("info."))
        # Of the certificates, only the key of the first one counts.
        | frozenset({"gateway_attestation.vpc.*", "tls_certificate"}),
    ),
    "venice": Recorded(
        files=("venice/report.json",),
        at="2026-06-10T01:47:08Z",
        nonce="d2f37ab51f93f80365506fcc09119b28bd9c521be89ba25e3aa439912bbba732",
        endorsements=_JUNE,
        uncovered=_OF_MACHINE | _OF_MANAGER | _OF_VENICE,
    ),
    "nanogpt": Recorded(
        files=("nanogpt/report.json",),
        at="2026-06-10T01:49:06Z",
        nonce="9a796732359e9324a45576a730e5a9c47bff518b8ee8bcb882d00b5b1ff6f39a",
        endorsements=_JUNE,
    ),
    "redpill": Recorded(
        files=("redpill/report.json",),
        at="2026-06-10T01:49:18Z",
        nonce="aa8aa7cb237cb07d054e2ba1c1660b6d6bf60a1501e4d33bec8115148543e501",
        endorsements=_JUNE,
        uncovered=frozenset({"all_attestations[].instance_id", "nonce"}),
    ),
    "chutes evidence": Recorded(
        files=("chutes/evidence.json", "chutes/instances.json"),
        at="2026-06-29T02:07:26Z",
        nonce="c7fe347ecca03db12e156e048bbe809024928ef0707a319796956fe7415148e4",
        endorsements=_LATE_JUNE,
    ),
    "chutes instances": Recorded(
        files=("chutes/instances.json", "chutes/evidence.json"),
        at="2026-06-29T02:07:26Z",
        nonce="c7fe347ecca03db12e156e048bbe809024928ef0707a319796956fe7415148e4",
        endorsements=_LATE_JUNE,
        uncovered=frozenset({"instances[].nonces[]", "nonce_expires_at", "nonce_expires_in"}),
    ),
    "tinfoil-direct": Recorded(
        files=("tinfoil-direct/report.json",),
        at="2026-06-29T02:13:04Z",
        nonce="1b63be880a57c6cb2ea2191157e35bdc0de416d3b9e4b5b17423b12f8553d633",
        endorsements=_LATE_JUNE,
    ),
    "tinfoil-router": Recorded(
        files=("tinfoil-router/report.json",),
        at="2026-06-29T02:12:50Z",
        nonce="229471a8453a3521eac3d6ada9f1d52e42c97a527c3a50d565e999401dfd3e9b",
        endorsements=("providers/tinfoil-router/genoa-cert-chain.pem", "providers/tinfoil-router/vcek.der"),
    ),
    "tinfoil-v2": Recorded(
        files=("tinfoil-v2/report.json",),
        at="2026-03-25T22:50:22Z",
        nonce=None,
        endorsements=("collateral/tdx-90c06f000000-2026-03.json",),
        uncovered=frozenset({"nonce"}),
    ),
}


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value that holds no others; of several devices, the first ones stand for all."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, (*path, name))
    elif isinstance(value, list):
        few = path[-1] in ("gpu_evidence", "evidences", "nonces", "actions")
        for number, member in enumerate(value[:2] if few else value):
            yield from leaves(member, (*path, number))
    else:
        yield path


def changed(value: object) -> object:
    """Return another value of the same type; of text one that differs in one character in its middle."""
    if isinstance(value, str):
        middle = len(value) // 2
        other = "1" if value[middle : middle + 1] == "0" else "0"
        return f"{value[:middle]}{other}{value[middle + 1 :]}"
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else 0


def compact(document: object) -> bytes:
    """Write a document as tinfoil does, whose signature is over its bytes."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def changes(document: object) -> Iterator[tuple[str, Any]]:
    """Yield each path, without numbers, with the document in which that value alone is another one."""
    for path in leaves(document):
        copy = deepcopy(document)
        *parents, last = path
        place: Any = copy
        for step in parents:
            place = place[step]
        place[last] = changed(place[last])
        yield "".join("[]" if isinstance(step, int) else f".{step}" for step in path)[1:], copy


def listed(path: str, uncovered: frozenset[str]) -> str:
    """Return the entry of the list that a path falls under, or the path."""
    return next((entry for entry in uncovered if entry.endswith(".*") and path.startswith(entry[:-1])), path)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_every_value_is_covered_or_listed(vectors_dir: Path, name: str) -> None:
    recorded = RECORDED[name]
    files = [(file, (vectors_dir / "providers" / file).read_bytes()) for file in recorded.files]
    at = rfc3339(recorded.at, what="at")
    pool = read_endorsements([(e, (vectors_dir / e).read_bytes()) for e in recorded.endorsements], at=at).endorsements
    expected = None if recorded.nonce is None else ExpectedFreshness(nonce=bytes.fromhex(recorded.nonce))

    def accepted(first: bytes) -> bool:
        try:
            evidence = read_evidence([(files[0][0], first), *files[1:]]).evidence
            verify(
                evidence,
                endorsements=pool,
                anchors=TrustAnchors.vendors(),
                at=at,
                expected=expected,
                unchecked=UNCHECKED,
            )
        except AttestError:
            return False
        return True

    document = json.loads(files[0][1])
    assert accepted(compact(document))
    found = {path for path, changed_one in changes(document) if accepted(compact(changed_one))}
    assert {listed(path, recorded.uncovered) for path in found} == recorded.uncovered
