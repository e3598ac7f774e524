"""Attesters: the identity in leases, derived from verified evidence."""

from __future__ import annotations

from hashlib import sha256

from attest import VerifiedEvidence
from attest.encoding import cbor_bytes
from attest.evidence import VerifiedIntelQuote, VerifiedSnpReport
from kms.domain.lease_claims import PASSPORT, kept_claims, passport_claims, passport_tee
from kms.domain.leases import Attester
from kms.domain.passports import VerifiedPassport

_INSTANCE = "attest kms instance v1"
_HOLDER = "attest kms holder v1"
_MEASUREMENTS = ("measurement", "mr_td", "mr_enclave")


def attester_of(verified: VerifiedEvidence | VerifiedPassport, *, recipient: bytes) -> Attester:
    """Describe the Attester of a verified proof; ``recipient`` is the public key in its binding.

    A token does not identify a machine reliably, so all passports of one Verifier are one instance.
    """
    product: str | None = None
    chip: str | None = None
    measurement: bytes | None = None
    if isinstance(verified, VerifiedPassport):
        tee, claims = passport_tee(verified), passport_claims(verified)
        issuer = sha256(verified.issuer.encode()).digest()
        instance = instance_of(tee=PASSPORT, chip=None, measurement=issuer)
    else:
        tee, product, chip, measurement = _cpu_of(verified)
        claims = kept_claims(verified)
        instance = instance_of(tee=tee, chip=chip, measurement=measurement)
    return Attester(
        tee=tee,
        product=product,
        chip=chip,
        measurement=measurement,
        instance=instance,
        holder=holder_of(instance, recipient),
        recipient=sha256(recipient).digest(),
        gpus=sum(item.kind == "nvidia-gpu" for item in verified.items),
        simulated=verified.simulated,
        claims=claims,
        claims_digest=sha256(claims).digest(),
    )


def chip_and_image_of(verified: VerifiedEvidence) -> tuple[str | None, bytes | None]:
    """Return the CPU's chip, as ``amd:`` or ``intel:`` and hex, and the launch measurement.

    The chip is None if it is masked, unknown or of another kind.
    """
    return _cpu_of(verified)[2:]


def instance_of(*, tee: str, chip: str | None, measurement: bytes | None) -> bytes:
    """Return 32 bytes that identify this image on this machine, or on any machine if chips are masked."""
    return sha256(cbor_bytes((_INSTANCE, tee, chip, measurement))).digest()


def holder_of(instance: bytes, recipient: bytes) -> bytes:
    """Return 32 bytes that identify the instance with this key."""
    return sha256(cbor_bytes((_HOLDER, instance, sha256(recipient).digest()))).digest()


def _cpu_of(verified: VerifiedEvidence) -> tuple[str, str | None, str | None, bytes | None]:
    """Return TEE, product, chip and measurement from the evidence that the vendor's hardware signed."""
    cpu = next((item for item in verified.items if not item.kind.startswith("nvidia")), None)
    if cpu is None:
        return "none", None, None, None
    match cpu.silicon:
        case VerifiedSnpReport() as found:
            chip = found.report.chip_id
            named = f"amd:{chip.hex()}" if any(chip) else None
            return "sev-snp", str(found.product), named, found.report.measurement
        case VerifiedIntelQuote() as found:
            body = found.quote.body
            measured = (getattr(body, name, None) for name in _MEASUREMENTS)
            return (
                found.quote.tee,
                found.pck.fmspc.hex(),
                f"intel:{found.pck.ppid.hex()}" if any(found.pck.ppid) else None,
                next((value for value in measured if isinstance(value, bytes)), None),
            )
        case _:
            return cpu.kind, None, None, None
