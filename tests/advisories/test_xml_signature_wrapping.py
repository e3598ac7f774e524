"""XML signature wrapping: the signed element is moved aside and another one is read in its place.

The attack of McIntosh and Austel (2005) and of "On Breaking SAML" (2012), found again in most SAML libraries since
(CVE-2024-45409, CVE-2025-25291 and others). Each placement is built in full from a RIM whose
signature is good, with other reference values where the reader looks. Here one shape is read, and the values come from
the tree that was verified.
"""

from pathlib import Path

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.rims import RimDocument
from attest.errors import AttestError
from attest.evidence.gpu.rim import find_signers, read_rim, verify_rim_signature
from tests.evidence.gpu.made_rim import DS, PINNED, STRANGER_KEY, Made, body, raw_signature

EVIL_VALUES = {0: (b"\xee" * 48,)}
SIGNED = Made().xml().decode()
EVIL = body(EVIL_VALUES)
HEAD, REST = SIGNED.split("<ds:Signature", 1)
SIGNATURE = "<ds:Signature" + REST.removesuffix("</SoftwareIdentity>")
ORIGINAL = HEAD + "</SoftwareIdentity>"
OBJECT = f'<ds:Object xmlns:ds="{DS}">@</ds:Object>'


def with_id(document: str) -> str:
    return document.replace("<SoftwareIdentity ", '<SoftwareIdentity Id="a" ', 1)


def evil_with(signature: str) -> str:
    return EVIL.replace("@SIGNATURE@", signature)


def inside(signature: str, end: str, what: str) -> str:
    return signature.replace(end, what + end)


PLACEMENTS = {
    "the signature moved to another document": evil_with(SIGNATURE),
    "the signed document as a child before the signature": evil_with(ORIGINAL + SIGNATURE),
    "the signed document with its signature as a child": evil_with(SIGNED),
    "the signed document with its signature, and the signature again": evil_with(SIGNED + SIGNATURE),
    "the signed document in an Object of the signature": evil_with(
        inside(SIGNATURE, "</ds:Signature>", OBJECT.replace("@", ORIGINAL))
    ),
    "the signed document in KeyInfo": evil_with(inside(SIGNATURE, "</ds:KeyInfo>", ORIGINAL)),
    "the signed document in a certificate": evil_with(inside(SIGNATURE, "</ds:X509Certificate>", ORIGINAL)),
    "the signed document in the SignatureValue": evil_with(inside(SIGNATURE, "</ds:SignatureValue>", ORIGINAL)),
    "other records behind the signature": HEAD
    + SIGNATURE
    + EVIL[EVIL.index("<ns0:Payload>") : EVIL.index("@SIGNATURE@")]
    + "</SoftwareIdentity>",
    "the signature at the start": SIGNED.replace(SIGNATURE, "").replace("<ns0:Entity", SIGNATURE + "<ns0:Entity", 1),
    "the signature inside the payload": SIGNED.replace(SIGNATURE, "").replace(
        "</ns0:Payload>", SIGNATURE + "</ns0:Payload>"
    ),
    "the signed document as the root's only child": f"<evil>{SIGNED}</evil>",
    "the signature as the root": SIGNATURE.replace(
        "</ds:Signature>", OBJECT.replace("@", ORIGINAL) + "</ds:Signature>"
    ),
    "a reference to the signed document by its id": with_id(ORIGINAL).replace(
        "</SoftwareIdentity>", SIGNATURE.replace('URI=""', 'URI="#a"') + "</SoftwareIdentity>"
    ),
    "two references, one to each document": evil_with(
        with_id(ORIGINAL) + SIGNATURE.replace("</ds:Reference>", '</ds:Reference><ds:Reference URI="#a"/>')
    ),
    "a second SignedInfo": evil_with(
        SIGNATURE.replace("<ds:SignatureValue>", "<ds:SignedInfo/><ds:SignatureValue>", 1)
    ),
    "the good signature first, a stranger's last": Made(
        text=body(EVIL_VALUES).replace("@SIGNATURE@", SIGNATURE + "@SIGNATURE@"),
        sign=lambda signed: raw_signature(signed, STRANGER_KEY),
    )
    .xml()
    .decode(),
}


def granted(xml: str, anchors: TrustAnchors = PINNED) -> dict[int, tuple[bytes, ...]]:
    """Go the whole way; return what may be compared."""
    parsed = read_rim(RimDocument(xml=xml.encode()))
    verify_rim_signature(parsed)
    find_signers(parsed, anchors)
    return dict(parsed.reference_values)


def test_the_document_that_is_wrapped_is_good() -> None:
    assert granted(SIGNED)
    assert EVIL_VALUES[0] not in granted(SIGNED).values()


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_wrapped_signature_grants_nothing(placement: str) -> None:
    with pytest.raises(AttestError) as caught:
        granted(PLACEMENTS[placement])
    assert caught.value.code in {"rim-malformed", "rim-signature-invalid"}


def test_a_comment_inside_a_value_cannot_cut_it(vectors_dir: Path) -> None:
    # CVE-2017-11427 and its siblings: canonicalisation drops the comment, the reader stops at it.
    real = (vectors_dir / "nvidia/gh100-545.00/driver-rim.xml").read_text()
    assert granted(real, TrustAnchors.vendors())
    for old in ("<ds:DigestValue>Dc2C", "<ds:SignatureValue>/Bgn", "<ds:X509Certificate>MII", "    <ns0:Meta"):
        assert old in real
        with pytest.raises(AttestError, match="comment"):
            granted(real.replace(old, old[:-1] + "<!---->" + old[-1], 1), TrustAnchors.vendors())


def test_a_digest_value_split_in_two_is_not_read_as_one() -> None:
    # CVE-2025-29775: a comment inside DigestValue of a signed SignedInfo, and an unsigned digest before it.
    with pytest.raises(AttestError):
        granted(SIGNED.replace("<ds:DigestValue>", "<ds:DigestValue>AAAA</ds:DigestValue><ds:DigestValue>"))
    with pytest.raises(AttestError):
        granted(SIGNED.replace("<ds:DigestValue>", "<ds:DigestValue><ds:DigestValue>AAAA</ds:DigestValue>"))
