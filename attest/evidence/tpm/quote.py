"""Verification of a TPM's quote and of the values that it covers: three steps, each of which raises.

The caller checks the owner of the key and the nonce: a quote cannot authenticate its own key.
"""

from __future__ import annotations

from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from attest.errors import BindingError, SignatureError
from attest.evidence.procedure import require_equal
from attest.evidence.tpm.structure import SHA256, ParsedTpmQuote, PcrSelection

_CLAUSE = "TPM 2.0 Library, part 2, TPMS_QUOTE_INFO"


def require_signed(message: bytes, signature: bytes, key: rsa.RSAPublicKey) -> None:
    """Require that a key signed a message: RSASSA-PKCS1-v1_5 with SHA-256, over every byte of it.

    Raises:
        SignatureError: ``tpm-signature-invalid``.
    """
    try:
        key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature as exc:
        raise SignatureError(
            "the TPM's quote is not signed by the attestation key",
            code="tpm-signature-invalid",
            field="signature",
            expected=f"RSASSA-PKCS1-v1_5 with SHA-256 over {len(message)} bytes",
            got="a signature that does not verify",
            clause="TPM 2.0 Library, part 1, signing; RFC 8017, 8.2.2",
        ) from exc


def require_bank(quote: ParsedTpmQuote) -> PcrSelection:
    """Return the one selection of a quote, which must be of the SHA-256 bank and name a register.

    Raises:
        BindingError: ``tpm-pcr-bank-unexpected``: another bank, several, or no register at all.
    """
    wanted = tuple(s for s in quote.selections if s.algorithm == SHA256 and s.indices)
    if len(quote.selections) == 1 and wanted:
        return wanted[0]
    banks = "; ".join(f"{s.algorithm:#06x}: {len(s.indices)} registers" for s in quote.selections) or "none"
    raise BindingError(
        "the quote is not over registers of the SHA-256 bank alone",
        code="tpm-pcr-bank-unexpected",
        field="selections",
        expected=f"one selection, of bank {SHA256:#06x} (SHA-256), with at least one register",
        got=banks,
        clause=_CLAUSE,
    )


def require_pcr_values(quote: ParsedTpmQuote, values: tuple[bytes, ...]) -> tuple[tuple[int, bytes], ...]:
    """Return the registers that the quote covers, with their values; any others are unsigned.

    Args:
        quote: a quote whose signature has been verified.
        values: 32 bytes for each register that the quote selects, in ascending order of the registers.

    Raises:
        BindingError: ``tpm-pcr-bank-unexpected``, ``tpm-pcr-count-mismatch`` (more or fewer values than the quote
            selects), or ``tpm-pcr-digest-mismatch``.
    """
    indices = require_bank(quote).indices
    if len(values) != len(indices):
        raise BindingError(
            f"{len(values)} PCR values came with a quote of {len(indices)} registers",
            code="tpm-pcr-count-mismatch",
            field="pcrs",
            expected=f"{len(indices)} values, of the registers {', '.join(map(str, indices))}",
            got=f"{len(values)}",
            clause=_CLAUSE,
        )
    digest = sha256(b"".join(values)).digest()
    problem, code = "the PCR values are not those that the quote is over", "tpm-pcr-digest-mismatch"
    require_equal(quote.pcr_digest, digest, problem, code=code, field="pcrDigest", clause=_CLAUSE)
    return tuple(zip(indices, values, strict=True))
