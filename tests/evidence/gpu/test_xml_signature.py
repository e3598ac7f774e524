"""The XML signature of a RIM: one shape is read, both halves are verified, everything else refuses cheaply."""

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.rims import MAX_RIM_BYTES
from attest.errors import AttestError, ConfigurationError, EvidenceError
from attest.evidence.gpu.xml_signature import (
    MAX_ATTRIBUTES,
    MAX_CERTIFICATES,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_NAMESPACES,
    read_signed_document,
)
from tests.endorsements.made import BEGINS, ECDSA_SHA256, ENDS
from tests.evidence.gpu.made_rim import (
    C14N,
    CHAIN,
    DS,
    ENVELOPED,
    L3,
    SHA384,
    SIGNED_INFO,
    SIGNER_EXTENSIONS,
    SIGNER_KEY,
    STRANGER_KEY,
    Made,
    body,
    hmac_with,
    raw_signature,
    signer_certificate,
)

SECONDS = 2.0
KIBIBYTES = 64 * 1024
RIMS = {
    "gh100-535.86.09/driver-rim-tampered.xml": "digest-mismatch",
    "gh100-535.86.09/vbios-rim-mismatch.xml": "valid",
    "gh100-535.86.09/vbios-rim.xml": "valid",
    "gh100-545.00/driver-rim.xml": "valid",
    "gh100-545.00/vbios-rim.xml": "valid",
    "gh100-550.90.07/driver-rim-other-version.xml": "valid",
    "gh100-580.95.05-trailing-byte/vbios-rim-old-issue.xml": "valid",
    "negative-rims/other-root.xml": "valid",
    "negative-rims/signature-value-wrong.xml": "signed-info-invalid",
}


def refused(xml: bytes) -> EvidenceError:
    """Refuse, in bounded time and memory."""
    memory, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time()
    with pytest.raises(EvidenceError) as caught:
        read_signed_document(xml)
    assert process_time() - began < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < KIBIBYTES
    assert caught.value.code == "rim-malformed"
    return caught.value


def plain() -> bytes:
    return Made().xml()


# -- what is accepted


@pytest.mark.parametrize(("name", "state"), RIMS.items())
def test_a_recorded_rim_has_the_signature_that_its_manifest_states(name: str, state: str, vectors_dir: Path) -> None:
    document = read_signed_document((vectors_dir / "nvidia" / name).read_bytes())
    assert document.state == state
    assert len(document.root.children) == 3


def test_a_made_rim_verifies_and_its_signature_is_not_in_the_tree() -> None:
    document = read_signed_document(plain())
    assert document.state == "valid"
    assert [child.tag.rpartition("}")[2] for child in document.root.children] == ["Entity", "Meta", "Payload"]
    assert document.certificates == CHAIN


@pytest.mark.parametrize(
    "declaration",
    ['<?xml version="1.0"?>', "<?xml version='1.0' encoding='UTF-8'?>\n", '<?xml version="1.0" encoding="utf-8" ?>'],
)
def test_a_declaration_of_xml_1_0_in_utf_8_may_stand_before_it(declaration: str) -> None:
    assert read_signed_document(declaration.encode() + plain()).state == "valid"


def test_white_space_in_base64_of_the_unsigned_part_changes_nothing() -> None:
    spaced = plain().replace(b"<ds:X509Certificate>MII", b"<ds:X509Certificate>\n M\tI\r\nI")
    assert read_signed_document(spaced).certificates == CHAIN


def test_two_prefixes_for_one_namespace_are_one_namespace() -> None:
    text = body().replace("<ns0:Entity ", f'<x:Entity xmlns:x="{body().split(chr(34))[1]}" ')
    document = read_signed_document(Made(text=text).xml())
    assert document.state == "valid"
    assert document.root.children[0].tag.endswith("}Entity")


# -- the two halves


def test_changed_content_under_a_good_signed_info_is_a_digest_mismatch() -> None:
    document = read_signed_document(plain().replace(b'revision="r1"', b'revision="r2"'))
    assert document.state == "digest-mismatch"
    assert document.root.children[1].attributes["revision"] == "r2"


def test_another_signature_value_over_the_right_digest_is_an_invalid_signed_info() -> None:
    forged = Made(sign=lambda signed: raw_signature(signed, STRANGER_KEY)).xml()
    assert read_signed_document(forged).state == "signed-info-invalid"


@pytest.mark.parametrize("value", [bytes(96), b"\xff" * 96])
def test_r_and_s_outside_their_range_do_not_verify(value: bytes) -> None:
    assert read_signed_document(Made(sign=lambda _: value).xml()).state == "signed-info-invalid"


def test_the_key_of_another_certificate_first_does_not_verify() -> None:
    assert (
        read_signed_document(Made(certificates=(CHAIN[1], CHAIN[0], *CHAIN[2:])).xml()).state == "signed-info-invalid"
    )


def p256_signer() -> bytes:
    return signer_certificate(key=ec.derive_private_key(5, ec.SECP256R1()))


@pytest.mark.parametrize(
    "signer",
    [
        pytest.param(b"\x30\x00", id="no certificate"),
        pytest.param(p256_signer(), id="P-256"),
        pytest.param(signer_certificate(serial=0), id="a serial that cryptography warns of"),
    ],
)
def test_a_first_certificate_that_cannot_sign_a_rim_verifies_nothing(signer: bytes) -> None:
    assert read_signed_document(Made(certificates=(signer, *CHAIN[1:])).xml()).state == "unverifiable"


def test_the_dates_of_the_certificate_and_the_clock_are_not_looked_at() -> None:
    long_ago = signer_certificate(begins=BEGINS.replace(year=1999), ends=ENDS.replace(year=2000))
    assert read_signed_document(Made(certificates=(long_ago, *CHAIN[1:])).xml()).state == "valid"


# -- the shape


def info(old: str, new: str) -> Made:
    assert old in SIGNED_INFO
    return Made(signed_info=SIGNED_INFO.replace(old, new))


TRANSFORMS = f'<ds:Transform Algorithm="{ENVELOPED}"/><ds:Transform Algorithm="{C14N}"/>'
REFERENCE = SIGNED_INFO[SIGNED_INFO.index("<ds:Reference") : SIGNED_INFO.index("</ds:SignedInfo>")]
KEY_VALUE = '<ds:KeyValue><e:ECKeyValue xmlns:e="http://www.w3.org/2009/xmldsig11#"/></ds:KeyValue>'
EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(info("#ecdsa-sha384", "#hmac-sha384"), id="HMAC"),
        pytest.param(info("#ecdsa-sha384", "#rsa-sha384"), id="RSA"),
        pytest.param(info("#ecdsa-sha384", "#ecdsa-sha1"), id="ECDSA with SHA-1"),
        pytest.param(info("#ecdsa-sha384", "#ecdsa-sha256"), id="ECDSA with SHA-256"),
        pytest.param(info(SHA384, f"{DS}sha1"), id="digest SHA-1"),
        pytest.param(info(SHA384, "http://www.w3.org/2001/04/xmlenc#sha256"), id="digest SHA-256"),
        pytest.param(info('URI=""', 'URI="#a"'), id="URI to an id"),
        pytest.param(info('URI=""', 'URI="https://example.com/"'), id="URI elsewhere"),
        pytest.param(info('URI=""', 'URI="#xpointer(/)"'), id="URI with xpointer"),
        pytest.param(info(' URI=""', ""), id="no URI"),
        pytest.param(info('URI=""', 'URI="" Type="x"'), id="a typed reference"),
        pytest.param(info(REFERENCE, REFERENCE * 2), id="two references"),
        pytest.param(info(REFERENCE, ""), id="no reference"),
        pytest.param(info(TRANSFORMS, f'<ds:Transform Algorithm="{C14N}"/>' * 2), id="not enveloped"),
        pytest.param(info(TRANSFORMS, f'<ds:Transform Algorithm="{ENVELOPED}"/>'), id="no canonicalisation"),
        pytest.param(info(TRANSFORMS, TRANSFORMS * 2), id="four transforms"),
        pytest.param(
            info(TRANSFORMS, f'<ds:Transform Algorithm="{C14N}"/><ds:Transform Algorithm="{ENVELOPED}"/>'),
            id="other order",
        ),
        pytest.param(info(TRANSFORMS, TRANSFORMS.replace(C14N, EXCLUSIVE)), id="exclusive canonicalisation"),
        pytest.param(info(TRANSFORMS, TRANSFORMS.replace(C14N, f"{DS}base64")), id="base64 transform"),
        pytest.param(
            info(TRANSFORMS, TRANSFORMS.replace(C14N, "http://www.w3.org/TR/1999/REC-xslt-19991116")), id="XSLT"
        ),
        pytest.param(
            info(TRANSFORMS, TRANSFORMS.replace(C14N, "http://www.w3.org/TR/1999/REC-xpath-19991116")), id="XPath"
        ),
        pytest.param(
            info(
                f'<ds:Transform Algorithm="{C14N}"/>', f'<ds:Transform Algorithm="{C14N}"><x xmlns=""/></ds:Transform>'
            ),
            id="a transform with parameters",
        ),
        pytest.param(info(f'Method Algorithm="{C14N}"', f'Method Algorithm="{C14N}#WithComments"'), id="with comments"),
        pytest.param(info("<ds:SignedInfo>", '<ds:SignedInfo Id="a">'), id="an id on SignedInfo"),
        pytest.param(info("<ds:SignedInfo>", "<ds:SignedInfo>text"), id="text in SignedInfo"),
        pytest.param(info("@DIGEST@", "AAAA"), id="a digest of three bytes"),
        pytest.param(info("@DIGEST@", "@DIGEST@="), id="base64 that is not strict"),
        pytest.param(Made(key_info=""), id="no KeyInfo"),
        pytest.param(Made(key_info="<ds:KeyInfo/>"), id="an empty KeyInfo"),
        pytest.param(Made(key_info=f"<ds:KeyInfo>{KEY_VALUE}</ds:KeyInfo>"), id="KeyValue alone"),
        pytest.param(
            Made(key_info=f"<ds:KeyInfo><ds:X509Data>@CERTIFICATES@</ds:X509Data>{KEY_VALUE}</ds:KeyInfo>"),
            id="KeyValue beside X509Data",
        ),
        pytest.param(
            Made(
                key_info="<ds:KeyInfo><ds:X509Data>@CERTIFICATES@<ds:X509SKI>AAAA</ds:X509SKI></ds:X509Data></ds:KeyInfo>"
            ),
            id="something else in X509Data",
        ),
        pytest.param(Made(certificates=()), id="no certificate"),
        pytest.param(Made(certificates=CHAIN * (MAX_CERTIFICATES // 4) + CHAIN[:1]), id="too many certificates"),
        pytest.param(Made(after="<ds:Object/>"), id="an Object"),
        pytest.param(Made(sign=lambda _: b"short"), id="a SignatureValue of another length"),
        pytest.param(Made(text=body().replace("</SoftwareIdentity>", "text</SoftwareIdentity>")), id="text behind it"),
        pytest.param(Made(text=body().replace("@SIGNATURE@", "@SIGNATURE@<late/>")), id="an element behind it"),
    ],
)
def test_a_signature_of_another_shape_refuses_although_it_is_well_made(broken: Made) -> None:
    refused(broken.xml())


@pytest.mark.parametrize(
    "other",
    ["@SIGNATURE@", f'<Signature xmlns="{DS}"/>', f'<Payload><Signature xmlns="{DS}"/></Payload>'],
    ids=["the same again", "an empty one", "a nested one"],
)
def test_a_second_signature_before_the_last_one_refuses_although_that_holds(other: str) -> None:
    text = body().replace("@SIGNATURE@", f"{other}@SIGNATURE@")
    assert "2 Signature elements" in refused(Made(text=text).xml()).message


@pytest.mark.parametrize(
    ("broken", "expected", "got"),
    [
        (info(' URI=""', ""), 'URI=""', "none"),
        (info('URI=""', 'URI="#a" Type="b"'), 'URI=""', 'URI="#a", Type="b"'),
        (info("<ds:SignedInfo>", '<ds:SignedInfo Id="a">'), "none", 'Id="a"'),
    ],
)
def test_other_attributes_are_shown_beside_the_expected_ones(broken: Made, expected: str, got: str) -> None:
    error = refused(broken.xml())
    assert (error.expected, error.got) == (expected, got)


def test_an_hmac_with_the_public_key_as_secret_refuses() -> None:
    public = SIGNER_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    refused(Made(signed_info=SIGNED_INFO.replace("#ecdsa-sha384", "#hmac-sha384"), sign=hmac_with(public)).xml())
    padded = Made(sign=lambda signed: hmac_with(public)(signed) * 2).xml()
    assert read_signed_document(padded).state == "signed-info-invalid"


def test_a_signature_with_another_hash_refuses_although_it_names_the_right_one() -> None:
    def with_sha256(signed: bytes) -> bytes:
        pair = decode_dss_signature(SIGNER_KEY.sign(signed, ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(48, "big") for number in pair)

    assert read_signed_document(Made(sign=with_sha256).xml()).state == "signed-info-invalid"


@pytest.mark.parametrize("xml", [b"<a/>", b"<a><b/></a>", f'<Signature xmlns="{DS}"/>'.encode()])
def test_a_document_without_a_signature_at_its_end_refuses(xml: bytes) -> None:
    assert "last child" in refused(xml).message


def test_the_signature_of_a_certificate_with_another_algorithm_identifier_is_read_as_it_is() -> None:
    # Links are judged by the chain rules; here only the key of the first certificate counts.
    odd = signer_certificate(issuer=L3, extensions=SIGNER_EXTENSIONS, inner=ECDSA_SHA256, outer=ECDSA_SHA256)
    assert read_signed_document(Made(certificates=(odd, *CHAIN[1:])).xml()).state == "valid"


# -- what no parser gets to see, and what it costs

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(f'<!DOCTYPE a [<!ENTITY l0 "lol">{LAUGHS}]>', id="billion laughs"),
        pytest.param('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>', id="external entity, file"),
        pytest.param('<!DOCTYPE a [<!ENTITY x SYSTEM "http://192.0.2.1/x">]>', id="external entity, http"),
        pytest.param('<!DOCTYPE a [<!ENTITY % p SYSTEM "http://192.0.2.1/x">%p;]>', id="parameter entity"),
        pytest.param('<!DOCTYPE a SYSTEM "http://192.0.2.1/x.dtd">', id="external DTD"),
        pytest.param("<!DOCTYPE a>", id="an empty DOCTYPE"),
        pytest.param('<?xml-stylesheet href="x"?>', id="a processing instruction"),
        pytest.param("<!-- -->", id="a comment"),
        pytest.param('<?xml version="1.1"?>', id="XML 1.1"),
        pytest.param('<?xml version="1.0" encoding="UTF-7"?>', id="UTF-7"),
        pytest.param('<?xml version="1.0" encoding="ISO-8859-1"?>', id="Latin 1"),
        pytest.param('<?xml version="1.0" standalone="no"?>', id="a standalone declaration"),
        pytest.param('\n<?xml version="1.0"?>', id="a declaration behind white space"),
        pytest.param("\0", id="NUL"),
    ],
)
def test_what_parsers_were_broken_with_is_refused_before_the_root(before: str) -> None:
    refused(before.encode() + plain())


@pytest.mark.parametrize("inside", ["<!---->", "<?x?>", "<![CDATA[x]]>", "&x;", "&#0;", "\0"])
def test_it_is_refused_inside_too(inside: str) -> None:
    for old in ("<ns0:Payload>", "<ds:DigestValue>", "<ds:SignatureValue>", "<ds:X509Certificate>"):
        refused(plain().replace(old.encode(), (old + inside).encode(), 1))


def test_an_entity_used_and_never_declared_refuses() -> None:
    refused(plain().replace(b'revision="r1"', b'revision="&l9;"'))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp037"])
def test_other_encodings_than_utf_8_refuse(encoding: str) -> None:
    refused(plain().decode().encode(encoding))


def test_invalid_utf_8_refuses() -> None:
    assert "UTF-8" in refused(plain().replace(b"r1", b"r\xff")).message


def test_a_document_of_the_largest_size_is_read_and_one_byte_more_refuses() -> None:
    xml = plain()
    largest = xml + b"\n" * (MAX_RIM_BYTES - len(xml))
    assert read_signed_document(largest).state == "valid"
    assert "bytes" in refused(largest + b"\n").message


def many_attributes(count: int) -> bytes:
    return b"<a" + b"".join(b' b%d=""' % number for number in range(count)) + b"/>"


def many_namespaces(count: int) -> bytes:
    return b"<a" + b"".join(b' xmlns:b%d="x"' % number for number in range(count)) + b"/>"


@pytest.mark.parametrize(
    ("build", "limit", "words"),
    [
        (lambda n: b"<a>" + b"<b/>" * (n - 1) + b"</a>", MAX_ELEMENTS, "elements"),
        (lambda n: b"<a>" * n + b"</a>" * n, MAX_DEPTH, "levels"),
        (many_attributes, MAX_ATTRIBUTES, "attributes"),
        (many_namespaces, MAX_NAMESPACES, "namespaces"),
    ],
)
def test_each_limit_is_met_by_its_number_and_broken_by_one_more(
    build: Callable[[int], bytes], limit: int, words: str
) -> None:
    assert "Signature" in refused(build(limit)).message
    assert words in refused(build(limit + 1)).message


@pytest.mark.parametrize(
    "xml",
    [
        pytest.param(b"<a>" * 60_000, id="very deep, never closed"),
        pytest.param(b"<a>" * 37_000 + b"</a>" * 37_000, id="very deep"),
        pytest.param(b"<a>" * 200 + b"</a>" * 200, id="deep"),
        pytest.param(many_attributes(30_000), id="very many attributes"),
        pytest.param(many_namespaces(15_000), id="very many namespaces"),
        pytest.param(b"<a>" + b"<b/>" * 60_000 + b"</a>", id="very many elements"),
        pytest.param(b"<a>" + b"x" * 260_000 + b"</a>", id="very much text"),
        pytest.param(b"<a>" + b"&#x41;" * 43_000 + b"</a>", id="very many character references"),
        pytest.param(b'<a b="' + b"&lt;" * 65_000 + b'"/>', id="a very long value"),
        pytest.param(b"<" + b"a" * 260_000 + b"/>", id="a very long name"),
        pytest.param(b"<" * 260_000, id="brackets"),
    ],
)
def test_a_document_made_to_be_expensive_is_refused_cheaply(xml: bytes) -> None:
    refused(xml)


def test_an_attribute_of_the_xml_namespace_refuses_although_it_is_signed() -> None:
    for attribute in ('xml:lang="en"', 'xml:space="preserve"', 'xml:base="x"', 'xml:id="a"'):
        refused(Made(text=body().replace("<ns0:Payload>", f"<ns0:Payload {attribute}>")).xml())
        refused(info("<ds:SignedInfo>", f"<ds:SignedInfo {attribute}>").xml())


def test_a_document_that_has_no_canonical_form_refuses() -> None:
    assert "canonical" in refused(plain().replace(b"<ns0:Payload>", b'<ns0:Payload xmlns:x="relative">')).message


@pytest.mark.parametrize("module", ["lxml.etree", "signxml"])
def test_without_the_libraries_the_refusal_names_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    xml = plain()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError) as caught:
        read_signed_document(xml)
    assert caught.value.code == "rim-library-missing"
    assert caught.value.hint is not None
    assert "gpu" in caught.value.hint


# -- any bytes at all


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_refused_with_a_documented_error(data: bytes) -> None:
    with pytest.raises(AttestError):
        read_signed_document(data)


PLAIN = plain()


@given(
    st.integers(0, len(PLAIN)),
    st.integers(0, 40),
    st.one_of(st.binary(max_size=40), st.sampled_from([b"<a>", b"&", b'"', b"xmlns:"])),
)
def test_any_change_of_a_rim_is_read_or_refused_with_a_documented_error(at: int, length: int, put: bytes) -> None:
    changed = PLAIN[:at] + put + PLAIN[at + length :]
    code = ""
    certificates: tuple[bytes, ...] = ()
    try:
        certificates = read_signed_document(changed).certificates
    except AttestError as exc:
        code = exc.code
    assert code == "rim-malformed" or certificates
