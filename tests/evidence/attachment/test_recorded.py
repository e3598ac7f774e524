"""A recorded quote with the log of its boot, put together as Trustee's guests do."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AttestError
from attest.evidence.input_files import read_evidence
from attest.verification import verify
from attest_simulator.requests import attestation_rs_tdx, trustee_tdx

AT = datetime(2026, 6, 1, tzinfo=UTC)
LEFT_OUT = tuple(Unchecked(check=name, reason="a recorded quote") for name in ("revocation", "tcb"))


def verified(data: bytes) -> dict[str, Outcome]:
    evidence = read_evidence([("evidence.json", data)]).evidence
    found = verify(evidence, endorsements=NO_ENDORSEMENTS, anchors=TrustAnchors.vendors(), at=AT, unchecked=LEFT_OUT)
    return {check.id: check.outcome for check in found.checks}


def test_a_recorded_quote_and_its_log_verify_in_trustees_json(vectors_dir: Path) -> None:
    folder = vectors_dir / "ccel" / "live2"
    quote, log = (folder / "quote.bin").read_bytes(), (folder / "ccel.bin").read_bytes()
    for data in (trustee_tdx(quote, log), attestation_rs_tdx(quote, log, platform="gcp-tdx")):
        assert verified(data)["eventlog.replay"] is Outcome.PASS
    other = (vectors_dir / "ccel" / "live1" / "ccel.bin").read_bytes()
    with pytest.raises(AttestError) as caught:
        verified(trustee_tdx(quote, other))
    assert (caught.value.exit_code, caught.value.check) == (4, "eventlog.replay")
