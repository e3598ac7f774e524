"""Collect from an Azure VM with either TPM, and judge what comes out as a stranger would."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attest.checks import Unchecked
from attest.collect import collect_machine
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import CollectionError
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.binding import Binding
from attest.evidence.envelope import Evidence, parse_envelope
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from tests.collect.azure_vm import SNP, AzureMachine, Host, software_vm
from tests.collect.swtpm import swtpm_vm
from tests.samples import AT

NONCE = bytes(range(32))


@contextmanager
def a_vm(kind: str, folder: Path, host: Host = SNP, *, stuck: bool = False) -> Iterator[AzureMachine]:
    if kind == "software":
        vm, tpm, _ = software_vm(folder, host)
        if stuck:
            tpm.on_write = None
        yield vm
        return
    with swtpm_vm(folder, host, stuck=stuck) as (vm, _):
        yield vm


def judged(
    evidence: Evidence,
    host: Host = SNP,
    *,
    nonce: bytes | None = NONCE,
    report_data: bytes | None = None,
    endorsements: Endorsements | None = None,
) -> VerifiedEvidence:
    """Verify as a stranger would: from the bytes of the envelope."""
    unchecked = (Unchecked(check="revocation", reason="a test"),) if endorsements is not None else ()
    return verify(
        parse_envelope(evidence.to_json()),
        endorsements=host.endorsements(at=AT) if endorsements is None else endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=ExpectedFreshness(nonce=nonce, report_data=report_data),
        unchecked=unchecked,
    )


def azure_of(verified: VerifiedEvidence) -> VerifiedAzureEvidence:
    (found,) = [item.verified for item in verified.items if isinstance(item.verified, VerifiedAzureEvidence)]
    return found


def refused(vm: AzureMachine, challenge: Binding | bytes = NONCE) -> CollectionError:
    with pytest.raises(CollectionError) as caught:
        collect_machine(challenge, access=vm.access)
    assert caught.value.hint
    return caught.value
