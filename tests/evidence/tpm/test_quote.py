"""What makes a quote genuine: the key, the bank, and every value that it is over."""

from dataclasses import replace
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from attest.errors import BindingError, SignatureError
from attest.evidence.tpm.quote import require_bank, require_pcr_values, require_signed
from attest.evidence.tpm.structure import SHA256, ParsedTpmQuote, PcrSelection, bitmap_of

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
VALUES = (b"a" * 32, b"b" * 32)
QUOTE = ParsedTpmQuote(
    raw=b"",
    qualified_signer=b"",
    extra_data=b"",
    clock=0,
    reset_count=0,
    restart_count=0,
    safe=True,
    firmware_version=0,
    selections=(PcrSelection(algorithm=SHA256, bitmap=bitmap_of((4, 11))),),
    pcr_digest=sha256(b"".join(VALUES)).digest(),
)


def test_a_message_is_signed_by_the_key_and_no_other() -> None:
    signature = KEY.sign(b"message", padding.PKCS1v15(), hashes.SHA256())
    require_signed(b"message", signature, KEY.public_key())
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    for message, signed, key in (
        (b"Message", signature, KEY.public_key()),
        (b"message", signature[:-1], KEY.public_key()),
        (b"message", b"", KEY.public_key()),
        (b"message", b"\0" + signature, KEY.public_key()),
        (b"message", signature, other),
    ):
        with pytest.raises(SignatureError) as outcome:
            require_signed(message, signed, key)
        assert outcome.value.code == "tpm-signature-invalid"


@pytest.mark.parametrize("scheme", [padding.PSS(padding.MGF1(hashes.SHA256()), 32), padding.PKCS1v15()])
@pytest.mark.parametrize("hashed", [hashes.SHA1(), hashes.SHA256(), hashes.SHA384()])  # noqa: S303
def test_one_scheme_with_one_hash_counts(scheme: object, hashed: hashes.HashAlgorithm) -> None:
    signature = KEY.sign(b"message", scheme, hashed)  # type: ignore[arg-type]
    if isinstance(scheme, padding.PKCS1v15) and hashed.name == "sha256":
        require_signed(b"message", signature, KEY.public_key())
    else:
        with pytest.raises(SignatureError):
            require_signed(b"message", signature, KEY.public_key())


def test_values_are_told_by_their_registers() -> None:
    assert require_pcr_values(QUOTE, VALUES) == ((4, VALUES[0]), (11, VALUES[1]))


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (VALUES[::-1], "tpm-pcr-digest-mismatch"),
        ((VALUES[0], b"c" * 32), "tpm-pcr-digest-mismatch"),
        (VALUES[:1], "tpm-pcr-count-mismatch"),
        ((*VALUES, b"c" * 32), "tpm-pcr-count-mismatch"),
        ((), "tpm-pcr-count-mismatch"),
    ],
)
def test_other_values_than_those_quoted_are_refused(values: tuple[bytes, ...], code: str) -> None:
    with pytest.raises(BindingError) as outcome:
        require_pcr_values(QUOTE, values)
    assert outcome.value.code == code


@pytest.mark.parametrize(
    "selections",
    [
        (),
        (PcrSelection(algorithm=0x0004, bitmap=bitmap_of((4, 11))),),
        (PcrSelection(algorithm=0x000C, bitmap=bitmap_of((4, 11))),),
        (PcrSelection(algorithm=SHA256, bitmap=bytes(3)),),
        QUOTE.selections * 2,
        (*QUOTE.selections, PcrSelection(algorithm=0x0004, bitmap=bytes(3))),
    ],
)
def test_a_quote_is_over_the_sha256_bank_and_nothing_else(selections: tuple[PcrSelection, ...]) -> None:
    with pytest.raises(BindingError) as outcome:
        require_bank(replace(QUOTE, selections=selections))
    assert outcome.value.code == "tpm-pcr-bank-unexpected"
    with pytest.raises(BindingError):
        require_pcr_values(replace(QUOTE, selections=selections, pcr_digest=sha256(b"").digest()), ())
