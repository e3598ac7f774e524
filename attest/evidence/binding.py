r"""The binding, to which a proof commits: purpose, roles, nonce, key and every device, in one hash.

::

    REPORT_DATA (64 bytes) = SHA-512( "attest binding v1\0" ‖ canonical CBOR of the binding )
    GPU nonce   (32 bytes) = SHA-256( "attest gpu nonce v1\0" ‖ canonical CBOR of (context, audience, nonce) )

Behind a virtual TPM (Azure) the guest has no REPORT_DATA of its own: the 64 bytes are the user data among the runtime
claims, and the first 48 of them extraData of the TPM's quote.

GPU evidence is collected first, under a nonce derived from the same challenge; then the CPU commits to it. So
one nonce, one key, one Relying Party and one set of devices stand or fall together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256, sha512

from attest.encoding import CborValue, cbor_bytes, cbor_value
from attest.errors import BindingError, EvidenceError
from attest.evidence.procedure import require_equal

NONCE_BYTES = 32
EXTRA_DATA_BYTES = 48
"""Some TPMs take 50 bytes and no more (azure-cvm.md 5)."""
MAX_BINDING_BYTES = 16 * 1024
MAX_DEVICES = 32
MAX_TEXT_CHARACTERS = 512
_DEVICE_DIGEST_BYTES = 48
_CLAUSE = "docs/protocol.md"
_DOMAIN = b"attest binding v1\0"
_GPU_DOMAIN = b"attest gpu nonce v1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The Attester's binding of its evidence. It holds for the hardware only after REPORT_DATA was compared.

    Attributes:
        context: purpose of the proof (``kms-release/v1``, ``channel/v1``); a proof for one purpose fails for another.
        role: role of the prover (``workload`` to a KMS, ``service`` to a client), so that a proof cannot be reflected.
        audience: identity of the Relying Party; for a KMS its verifier key text, which names origin and key.
        nonce: the 32 bytes that the Relying Party issued.
        key: the workload's public key: for ``kms-release/v1`` two bytes of HPKE KEM id, big-endian, and the key;
            for ``channel/v1`` the SHA-256 of the key configuration.
        devices: SHA-384 digest of each other device's evidence item, in the order of the items' names.
        init_data: digest of the workload's initialisation data, or None when there is none.
    """

    context: str
    role: str
    audience: str
    nonce: bytes
    key: bytes
    devices: tuple[bytes, ...] = ()
    init_data: bytes | None = None

    def to_bytes(self) -> bytes:
        """Return the canonical CBOR that is hashed and that travels as the item ``binding``."""
        return cbor_bytes(
            {
                "context": self.context,
                "role": self.role,
                "audience": self.audience,
                "nonce": self.nonce,
                "key": self.key,
                "devices": self.devices,
                "init_data": self.init_data,
            }
        )

    def report_data(self) -> bytes:
        """Return the 64 bytes that the CPU's report must carry."""
        return sha512(_DOMAIN + self.to_bytes()).digest()

    def extra_data(self) -> bytes:
        """Return the 48 bytes that a TPM's quote must carry as its nonce, where there is a quote.

        The required beginning of REPORT_DATA, or of the user data in its place: some TPMs take no more.
        """
        return self.report_data()[:EXTRA_DATA_BYTES]

    def gpu_nonce(self) -> bytes:
        """Return the 32 bytes under which the GPUs' evidence must have been collected."""
        return sha256(_GPU_DOMAIN + cbor_bytes((self.context, self.audience, self.nonce))).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedBinding:
    """The binding that a Relying Party expects; all of it is known before the evidence arrives."""

    context: str
    role: str
    audience: str
    nonce: bytes

    def require(self, binding: Binding) -> None:
        """Require that the binding was made for this purpose, this party and this challenge.

        Raises:
            BindingError: ``binding-context-mismatch``, ``binding-role-mismatch``, ``binding-audience-mismatch`` or
                ``nonce-mismatch``.
        """
        for field in ("context", "role", "audience"):
            expected, got = getattr(self, field), getattr(binding, field)
            if expected != got:
                raise BindingError(
                    f"the evidence is bound to the {field} {got!r}, expected {expected!r}",
                    code=f"binding-{field}-mismatch",
                    field=f"binding.{field}",
                    expected=expected,
                    got=got,
                    clause=_CLAUSE,
                )
        require_equal(
            self.nonce,
            binding.nonce,
            "the evidence is bound to another nonce",
            code="nonce-mismatch",
            field="binding.nonce",
            clause=_CLAUSE,
            hint="ask for a new challenge and collect new evidence under it",
        )


def parse_binding(data: bytes) -> Binding:
    """Read a binding; exactly these members, canonical CBOR, lengths as the format states.

    Raises:
        EvidenceError: ``binding-malformed`` or ``cbor-invalid``.
    """
    if len(data) > MAX_BINDING_BYTES:
        raise _malformed(f"{len(data)} bytes, more than {MAX_BINDING_BYTES}")
    document = cbor_value(data, what="binding")
    if not isinstance(document, Mapping):
        raise _malformed("expected a map")
    names = set(Binding.__dataclass_fields__)
    if set(document) != names:
        odd = ", ".join(map(repr, sorted(set(document) ^ names)))
        raise _malformed(f"expected exactly {', '.join(sorted(names))}; missing or unknown: {odd[:200]}")
    devices = document["devices"]
    if not isinstance(devices, list | tuple) or len(devices) > MAX_DEVICES:
        raise _malformed(f"devices: expected an array of at most {MAX_DEVICES} digests")
    return Binding(
        context=_text(document, "context"),
        role=_text(document, "role"),
        audience=_text(document, "audience"),
        nonce=_sized(document["nonce"], "nonce", range(NONCE_BYTES, NONCE_BYTES + 1)),
        key=_sized(document["key"], "key", range(1, 4097)),
        devices=tuple(_sized(d, "devices", range(_DEVICE_DIGEST_BYTES, _DEVICE_DIGEST_BYTES + 1)) for d in devices),
        init_data=None if document["init_data"] is None else _sized(document["init_data"], "init_data", range(32, 65)),
    )


def _text(document: Mapping[str, CborValue], name: str) -> str:
    value = document[name]
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT_CHARACTERS or not value.isprintable():
        raise _malformed(f"{name}: expected 1 to {MAX_TEXT_CHARACTERS} printable characters")
    return value


def _sized(value: CborValue, name: str, sizes: range) -> bytes:
    if not isinstance(value, bytes) or len(value) not in sizes:
        raise _malformed(f"{name}: expected a byte string of {sizes.start} to {sizes.stop - 1} bytes")
    return value


def _malformed(problem: str) -> EvidenceError:
    return EvidenceError(f"binding: {problem}", code="binding-malformed", field="binding", clause=_CLAUSE)
