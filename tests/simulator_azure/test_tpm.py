"""The virtual TPM quotes as a TPM does, byte by byte."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, UnsupportedError
from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.azure.runtime import parse_runtime_claims
from attest.evidence.tpm.quote import require_pcr_values, require_signed
from attest.evidence.tpm.structure import parse_tpm_quote
from attest_simulator.azure import SimulatedTpm, boot_registers
from attest_simulator.azure.tpm import ALL_PCRS, qualified_name

TPM = SimulatedTpm()
NONCE = bytes(range(48))


def test_a_quote_is_what_the_verifier_reads() -> None:
    signature, message, pcrs = TPM.quote(NONCE)
    require_signed(message, signature, TPM.ak.public_key())
    quote = parse_tpm_quote(message)
    assert quote.to_bytes() == message
    assert require_pcr_values(quote, pcrs) == tuple(enumerate(TPM.pcrs))
    assert (quote.extra_data, quote.clock, quote.reset_count, quote.safe) == (NONCE, 1_800_000, 2, True)
    assert quote.firmware_version == 0x2020031200120003
    assert TPM.quote(NONCE) == (signature, message, pcrs)


@given(
    st.binary(max_size=50),
    st.sets(st.sampled_from(ALL_PCRS), min_size=1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_every_quote_is_read_as_it_was_meant(
    extra: bytes, indices: set[int], clock: int, count: int, safe: bool
) -> None:
    tpm = replace(TPM, clock=clock, reset_count=count, restart_count=count ^ 1, safe=safe)
    template = tpm.quote_template(extra, indices=tuple(indices))
    quote = parse_tpm_quote(template.message())
    assert (quote.extra_data, quote.clock, quote.reset_count, quote.safe) == (extra, clock, count, safe)
    assert quote.selections[0].indices == tuple(sorted(indices))
    assert require_pcr_values(quote, template.pcrs) == tuple((i, tpm.pcrs[i]) for i in sorted(indices))


def test_registers_after_a_boot_are_those_that_real_vms_use() -> None:
    registers = boot_registers()
    assert [index for index, value in enumerate(registers) if value == bytes(32)] == [8, 11, 13, 15, 16, 23]
    assert [index for index, value in enumerate(registers) if value == b"\xff" * 32] == [17, 18, 19, 20, 21, 22]
    other = boot_registers(secure_boot=False)
    assert [index for index in ALL_PCRS if registers[index] != other[index]] == [7]


def test_extending_a_register_hashes_what_was_there_and_the_digest() -> None:
    digest = sha256(b"kernel").digest()
    once = TPM.extend(11, digest)
    assert once.pcrs[11] == sha256(bytes(32) + digest).digest()
    assert once.extend(11, digest).pcrs[11] == sha256(once.pcrs[11] + digest).digest()
    assert once.pcrs[:11] + once.pcrs[12:] == TPM.pcrs[:11] + TPM.pcrs[12:]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: TPM.extend(24, bytes(32)),
        lambda: TPM.extend(0, bytes(31)),
        lambda: TPM.with_pcrs({-1: bytes(32)}),
        lambda: TPM.with_pcrs({0: bytes(33)}),
        lambda: SimulatedTpm(pcrs=TPM.pcrs[:23]),
        lambda: TPM.quote(bytes(51)),
        lambda: TPM.quote(b"", indices=()),
        lambda: TPM.quote(b"", indices=(24,)),
    ],
)
def test_what_no_tpm_has_is_refused(wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=r"expected|has"):
        wrong()


def test_another_name_is_another_tpm() -> None:
    other = SimulatedTpm(name="VM 1")
    assert other.ak.public_key() != TPM.ak.public_key()
    assert TPM.ek.public_key() != TPM.ak.public_key()
    signature, message, _ = other.quote(NONCE)
    with pytest.raises(InvalidSignature):
        TPM.ak.public_key().verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
    assert "key=" not in repr(TPM.quote_template(NONCE))


@pytest.mark.parametrize("changes", [{"magic": 0xFF544348}, {"kind": 0x8017}])
def test_what_is_no_quote_can_be_signed_and_is_refused(changes: dict[str, int]) -> None:
    _, message, _ = replace(TPM.quote_template(NONCE), **changes).issue()  # type: ignore[arg-type]  # by its names
    with pytest.raises(UnsupportedError):
        parse_tpm_quote(message)


@pytest.mark.parametrize("changes", [{"safe": 2}, {"trailing": b"\0"}, {"selections": ((0x000B, b"\xff" * 4),)}])
def test_a_malformed_quote_can_be_signed_and_is_refused(changes: dict[str, Any]) -> None:
    _, message, _ = replace(TPM.quote_template(NONCE), **changes).issue()
    with pytest.raises(AttestError):
        parse_tpm_quote(message)


# -- like the real ones


@pytest.mark.parametrize("name", ["az-snp-milan-v2", "az-snp-milan-v3", "az-snp-coco-v0", "az-tdx-v4"])
def test_a_recorded_quote_is_written_again_from_what_it_says(vectors_dir: Path, name: str) -> None:
    """Among it the name of the key, which is computed from the key alone."""
    evidence = parse_azure_evidence((vectors_dir / "azure" / name / "evidence.json").read_bytes())
    ak, said = parse_runtime_claims(evidence.hcl.runtime_data).ak, parse_tpm_quote(evidence.tpm.message)
    assert qualified_name(ak) == said.qualified_signer
    tpm = SimulatedTpm(pcrs=evidence.tpm.pcrs, clock=said.clock, reset_count=said.reset_count)
    template = replace(tpm.quote_template(said.extra_data), qualified_signer=qualified_name(ak))
    assert template.message() == evidence.tpm.message


@pytest.mark.parametrize("name", ["az-snp-milan-v3", "az-tdx-v4"])
def test_registers_that_measure_nothing_are_those_of_a_recorded_vm(vectors_dir: Path, name: str) -> None:
    real = parse_azure_evidence((vectors_dir / "azure" / name / "evidence.json").read_bytes()).tpm.pcrs
    unmeasured = [index for index, value in enumerate(real) if len(set(value)) == 1]
    assert [TPM.pcrs[index] for index in (3, *unmeasured)] == [real[index] for index in (3, *unmeasured)]
