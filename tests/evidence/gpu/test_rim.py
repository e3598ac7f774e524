"""RIMs: what they say, who signed them, until when."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped]  # it ships no types

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.requests import NvidiaRimRequest
from attest.endorsements.rims import RimDocument, is_rim_id
from attest.endorsements.x509 import Extension, parse_certificate
from attest.errors import AttestError, ChainError, EndorsementError, EvidenceError, SignatureError, UnsupportedError
from attest.evidence.gpu.rim import (
    ParsedRim,
    VerifiedRim,
    driver_rim_id,
    find_signers,
    read_rim,
    require_window,
    rim_window,
    switch_bios_rim_id,
    vbios_rim_id,
    verify_rim_signature,
)
from attest_simulator import der
from attest_simulator.nvidia.products import PRODUCTS
from attest_simulator.nvidia.rims import driver_rim
from tests.endorsements.made import AUTHORITY, BEGINS, CA_CONSTRAINTS, CA_USAGE, ECDSA_SHA256, ENDS, MIDDLE, spki
from tests.evidence.gpu.made_rim import (
    CHAIN,
    DS,
    L2,
    NO_CA,
    OPAQUE_NAMESPACE,
    PINNED,
    SIGNER_EXTENSIONS,
    SIGNS_DATA,
    STRANGER_KEY,
    VALUES,
    body,
    held,
    l2_certificate,
    l3_certificate,
    made,
    raw_signature,
    resource,
    root_certificate,
    signer_certificate,
)

NVIDIA = TrustAnchors.vendors()
SECOND = timedelta(seconds=1)
DRIVER = "gh100-545.00/driver-rim.xml"
VBIOS = "gh100-545.00/vbios-rim.xml"
RIMS = (
    DRIVER,
    VBIOS,
    "gh100-535.86.09/driver-rim-tampered.xml",
    "gh100-535.86.09/vbios-rim-mismatch.xml",
    "gh100-535.86.09/vbios-rim.xml",
    "gh100-550.90.07/driver-rim-other-version.xml",
    "gh100-580.95.05-trailing-byte/vbios-rim-old-issue.xml",
    "negative-rims/other-root.xml",
    "negative-rims/signature-value-wrong.xml",
)


def recorded(vectors_dir: Path, name: str) -> ParsedRim:
    return read_rim(RimDocument(xml=(vectors_dir / "nvidia" / name).read_bytes()))


def accepted(xml: bytes, anchors: TrustAnchors = NVIDIA) -> ParsedRim:
    parsed = read_rim(RimDocument(xml=xml))
    verify_rim_signature(parsed)
    find_signers(parsed, anchors)
    return parsed


def refused(document: RimDocument, code: str = "rim-malformed") -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        read_rim(document)
    assert caught.value.code == code
    return caught.value


# -- recorded RIMs


@pytest.mark.parametrize("name", RIMS)
def test_a_recorded_rim_says_what_its_manifest_states(name: str, vectors_dir: Path) -> None:
    files = json.loads((vectors_dir / "nvidia/MANIFEST.json").read_text())["files"]
    facts: dict[str, Any] = next(file["facts"] for file in files if file["path"] == name)
    parsed = recorded(vectors_dir, name)
    stated = (facts["product"], facts["edition"], facts["colloquial_version"], facts["tag_id"])
    assert (parsed.product, parsed.edition, parsed.version, parsed.tag_id) == stated
    assert (parsed.signature == "valid") is facts["xml_signature_valid"]
    assert (parsed.signature == "signed-info-invalid") is not facts["signed_info_signature_valid"]
    assert (parsed.signature == "digest-mismatch") is not facts["xml_digest_valid"]
    assert len(parsed.certificates) == facts["embedded_certificates"]
    assert parsed.document.sha256.hex() == next(file["sha256"] for file in files if file["path"] == name)
    values = parsed.reference_values
    if facts["xml_signature_valid"]:
        assert sorted(values) == facts["active_indices"]
        several = {str(index): len(digests) for index, digests in values.items() if len(digests) > 1}
        assert several == facts["alternatives_more_than_one"]
        assert {len(digest) for digests in values.values() for digest in digests} == {48}
    else:
        assert not values


@pytest.mark.parametrize("name", RIMS[:-2] + RIMS[-1:])
def test_a_recorded_rim_leads_to_the_pinned_root_and_has_the_window_of_its_manifest(
    name: str, vectors_dir: Path
) -> None:
    files = json.loads((vectors_dir / "nvidia/MANIFEST.json").read_text())["files"]
    facts = next(file["facts"] for file in files if file["path"] == name)
    parsed = recorded(vectors_dir, name)
    signers, anchor = find_signers(parsed, NVIDIA)
    assert anchor.name == "NVIDIA CoRIM signing Root CA"
    assert signers == parsed.certificates[:3]
    window = tuple(str(moment) for moment in rim_window(parsed, signers, anchor))
    assert window == (facts["window_not_before"], facts["window_not_after"])


@pytest.mark.parametrize(
    ("name", "got"),
    [(RIMS[2], "digest-mismatch"), (RIMS[8], "signed-info-invalid")],
)
def test_a_recorded_rim_with_one_half_broken_is_refused(name: str, got: str, vectors_dir: Path) -> None:
    with pytest.raises(SignatureError) as caught:
        verify_rim_signature(recorded(vectors_dir, name))
    assert (caught.value.code, caught.value.got) == ("rim-signature-invalid", got)


def test_the_recorded_rim_of_another_root_has_two_certificates_and_is_refused_for_it(vectors_dir: Path) -> None:
    parsed = recorded(vectors_dir, "negative-rims/other-root.xml")
    verify_rim_signature(parsed)
    with pytest.raises(ChainError) as caught:
        find_signers(parsed, NVIDIA)
    assert (caught.value.code, caught.value.got) == ("rim-chain-length", "2")


@pytest.mark.parametrize(
    ("at", "code"),
    [
        ("2023-06-27T06:10:11+00:00", "rim-not-yet-valid"),
        ("2023-06-27T06:10:12+00:00", None),
        ("2025-06-26T06:10:12+00:00", None),
        ("2025-06-26T06:10:13+00:00", "rim-expired"),
    ],
)
def test_a_recorded_rim_counts_from_its_first_to_its_last_second(at: str, code: str | None, vectors_dir: Path) -> None:
    parsed = recorded(vectors_dir, DRIVER)
    signers, anchor = find_signers(parsed, NVIDIA)
    moment = datetime.fromisoformat(at)
    if code is None:
        not_before, not_after = require_window(parsed, signers=signers, anchor=anchor, at=moment)
        assert not_before <= moment <= not_after
        return
    with pytest.raises(EndorsementError) as caught:
        require_window(parsed, signers=signers, anchor=anchor, at=moment)
    assert (caught.value.code, caught.value.exit_code, caught.value.retryable) == (code, 5, True)


def test_the_embedded_root_of_a_recorded_rim_is_not_looked_at(vectors_dir: Path) -> None:
    parsed = recorded(vectors_dir, DRIVER)
    xml = parsed.document.xml
    last = xml.rindex(b"<ds:X509Certificate>")
    other_root = xml[:last] + xml[last:].replace(b"OKPzp5ei", b"OKPzp5ej")
    assert other_root != xml
    assert accepted(other_root).reference_values == parsed.reference_values


def test_an_empty_set_of_anchors_accepts_no_rim(vectors_dir: Path) -> None:
    with pytest.raises(ChainError) as caught:
        find_signers(recorded(vectors_dir, DRIVER), TrustAnchors(anchors=()))
    assert caught.value.code == "root-not-trusted"


# -- changes of a recorded RIM


def grants(xml: bytes) -> bool:
    try:
        return bool(accepted(xml).reference_values)
    except AttestError:
        return False


def attribute_changes(xml: bytes) -> Iterator[bytes]:
    """Every attribute of every element outside the signature, with another last character and without it."""
    count = sum(len(element.attrib) for element in etree.fromstring(xml).iter() if DS not in str(element.tag))
    for number in range(count):
        for change in ("change", "remove"):
            root = etree.fromstring(xml)
            places = [(e, name) for e in root.iter() if DS not in str(e.tag) for name in e.attrib]
            element, name = places[number]
            if change == "remove":
                del element.attrib[name]
            else:
                value = element.attrib[name]
                element.set(name, value[:-1] + ("1" if value[-1] != "1" else "0"))
            yield etree.tostring(root)


def test_a_recorded_rim_written_again_is_the_same_to_a_reader(vectors_dir: Path) -> None:
    # So that the refusals below are of the change, not of the writer.
    assert grants(etree.tostring(etree.fromstring((vectors_dir / "nvidia" / VBIOS).read_bytes())))


def test_every_attribute_of_a_recorded_rim_counts(vectors_dir: Path) -> None:
    xml = (vectors_dir / "nvidia" / VBIOS).read_bytes()
    attributes = [e for e in etree.fromstring(xml).iter() if DS not in str(e.tag) for _ in e.attrib]
    # The first and the last record, one with alternatives, and all that is not a record.
    wanted = {number for number, element in enumerate(attributes) if element.get("index", "0") in {"0", "12", "63"}}
    assert len(wanted) > 40
    changes = (changed for number, changed in enumerate(attribute_changes(xml)) if number // 2 in wanted)
    assert [changed for changed in changes if grants(changed)] == []


@pytest.mark.slow
def test_every_attribute_of_every_record_of_a_recorded_rim_counts(vectors_dir: Path) -> None:
    xml = (vectors_dir / "nvidia" / DRIVER).read_bytes()
    assert [number for number, changed in enumerate(attribute_changes(xml)) if grants(changed)] == []


def test_every_element_of_a_recorded_rim_counts_and_counts_once(vectors_dir: Path) -> None:
    xml = (vectors_dir / "nvidia" / VBIOS).read_bytes()
    elements = len(list(etree.fromstring(xml).iter()))
    survivors = []
    for number in range(1, elements):
        for twice in (False, True):
            root = etree.fromstring(xml)
            element = list(root.iter())[number]
            parent = element.getparent()
            assert parent is not None
            if twice:
                element.addnext(deepcopy(element))
            else:
                parent.remove(element)
            if grants(etree.tostring(root)):
                survivors.append((number, element.tag, twice))
    assert survivors == []


def flips(xml: bytes, step: int, start: int = 0) -> list[int]:
    signed = xml.index(b"<ds:KeyInfo>")
    return [at for at in range(start, signed, step) if grants(xml[:at] + bytes([xml[at] ^ 0x01]) + xml[at + 1 :])]


def test_a_flipped_bit_in_the_signed_part_refuses(vectors_dir: Path) -> None:
    xml = (vectors_dir / "nvidia" / DRIVER).read_bytes()
    assert flips(xml, 97) == []
    assert flips(xml, 1, start=xml.index(b"<ds:DigestMethod")) == []


@pytest.mark.slow
def test_every_flipped_byte_in_the_signed_part_refuses(vectors_dir: Path) -> None:
    assert flips((vectors_dir / "nvidia" / DRIVER).read_bytes(), 1) == []


def test_a_rim_cut_off_anywhere_refuses(vectors_dir: Path) -> None:
    xml = (vectors_dir / "nvidia" / DRIVER).read_bytes().rstrip()
    for length in range(0, len(xml), 211):
        refused(RimDocument(xml=xml[:length]))
    refused(RimDocument(xml=xml[:-1]))
    refused(RimDocument(xml=xml + b"x"))


# -- the document


def test_a_made_rim_is_read() -> None:
    parsed = read_rim(made())
    assert (parsed.product, parsed.edition, parsed.version, parsed.tag_id) == ("GH100", "GPU", "1.2.3", "ab")
    assert parsed.reference_values == VALUES
    assert parsed.signature == "valid"


def test_a_rim_of_a_switch_is_read() -> None:
    text = body({index: (bytes([index]) * 48,) for index in range(31)}, edition="SWITCH", product="LS10")
    parsed = read_rim(made(text))
    assert (parsed.edition, parsed.product, len(parsed.reference_values)) == ("SWITCH", "LS10", 31)


def test_reference_values_cannot_be_changed_and_are_empty_without_a_signature() -> None:
    values: Any = read_rim(made()).reference_values
    with pytest.raises(TypeError):
        values[0] = ()
    assert not read_rim(made(sign=lambda signed: raw_signature(signed, STRANGER_KEY))).reference_values


META = body().split("\n")[2]
SWAPS = [
    pytest.param("<SoftwareIdentity ", "<SoftwareIdentity extra='' ", id="an unknown attribute of the root"),
    pytest.param(' name="GH100" patch', ' name="GH200" patch', id="another name than product"),
    pytest.param('ns1:PlatformModel="GH100"', 'ns1:PlatformModel="GH200"', id="another PlatformModel"),
    pytest.param('corpus="false"', 'corpus="true"', id="a corpus tag"),
    pytest.param('patch="false"', 'patch="true"', id="a patch"),
    pytest.param('supplemental="false"', 'supplemental="true"', id="a supplement"),
    pytest.param(' version="1.0"', ' version="2.0"', id="another version of the tag"),
    pytest.param(' tagVersion="0"', ' tagVersion="1"', id="another tagVersion"),
    pytest.param(' tagId="ab"', "", id="no tagId"),
    pytest.param(' tagId="ab"', ' tagId=""', id="an empty tagId"),
    pytest.param('edition="GPU"', 'edition="DPU"', id="another edition"),
    pytest.param('PayloadType="direct"', 'PayloadType="indirect"', id="another PayloadType"),
    pytest.param('ns1:BindingSpec="RIMIM"', 'ns1:BindingSpec="x"', id="another BindingSpec"),
    pytest.param('SpecVersion="1.01"', 'SpecVersion="1.02"', id="another BindingSpecVersion"),
    pytest.param('PlatformManufacturerId="5703"', 'PlatformManufacturerId="5704"', id="another manufacturer"),
    pytest.param('FirmwareManufacturerId="5703"', 'FirmwareManufacturerId="311"', id="another firmware maker"),
    pytest.param('ns1:FirmwareManufacturerId="5703"', 'FirmwareManufacturerId="5703"', id="no namespace"),
    pytest.param('colloquialVersion="1.2.3"', 'colloquialVersion=""', id="no version"),
    pytest.param('colloquialVersion="1.2.3"', 'colloquialVersion="1 2"', id="a version with a space"),
    pytest.param('revision="r1"', 'revision="\u00e9"', id="text that is not ASCII"),
    pytest.param('role="softwareCreator tagCreator"', "", id="an entity without a role"),
    pytest.param("<ns0:Payload>\n", "<ns0:Payload>text\n", id="text in the payload"),
    pytest.param("<ns0:Payload>", "<ns0:Payload a=''>", id="an attribute of the payload"),
    pytest.param('creator"/>'.replace("c", "C"), 'Creator"><a/></ns0:Entity>', id="a child of the entity"),
    pytest.param(
        'FirmwareManufacturerId="5703"/>', 'FirmwareManufacturerId="5703"><a/></ns0:Meta>', id="a child of Meta"
    ),
    pytest.param(META, META + META, id="two Metas"),
    pytest.param(META, "", id="no Meta"),
    pytest.param(META, "<ns0:Link/>" + META, id="something else"),
    pytest.param(
        'xmlns:ns0="http://standards.iso.org/iso/19770/-2/2015', 'xmlns:ns0="http://x', id="another namespace"
    ),
    pytest.param(' xmlns="http://standards.iso.org/iso/19770/-2/2015', ' xmlns="http://x', id="another root namespace"),
    pytest.param(
        "<SoftwareIdentity ", '<SoftwareIdentity xmlns:ns3="urn:x" ns3:product="GH100" ', id="a foreign attribute"
    ),
]


@pytest.mark.parametrize(("old", "new"), SWAPS)
def test_a_rim_with_another_document_refuses_although_it_is_signed(old: str, new: str) -> None:
    text = body()
    assert old in text
    refused(made(text.replace(old, new, 1)))


RECORD = resource(1, VALUES[1])
FIRST, SECOND_HASH = (f'ns2:Hash{number}="{value.hex()}"' for number, value in enumerate(VALUES[1]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('type="Measurement"', 'type="File"', id="another type"),
        pytest.param(' type="Measurement"', "", id="no type"),
        pytest.param('index="1"', 'index="0"', id="an index twice"),
        pytest.param('index="1"', 'index="64"', id="an index beyond the last"),
        pytest.param('index="1"', 'index="01"', id="an index with a zero before it"),
        pytest.param('index="1"', 'index="-1"', id="a negative index"),
        pytest.param('index="1"', 'index="1.0"', id="a fraction"),
        pytest.param('index="1"', 'index="0x1"', id="a hexadecimal index"),
        pytest.param('index="1"', 'index="\u0661"', id="an Arabic digit"),
        pytest.param('index="1"', 'index="1 "', id="an index with a space"),
        pytest.param('active="True"', 'active="true"', id="active in another case"),
        pytest.param('active="True"', 'active="1"', id="active as a number"),
        pytest.param('active="True"', 'active=""', id="active and empty"),
        pytest.param(' active="True"', "", id="no active"),
        pytest.param('alternatives="2"', 'alternatives="1"', id="fewer alternatives"),
        pytest.param('alternatives="2"', 'alternatives="3"', id="more alternatives"),
        pytest.param('alternatives="2"', 'alternatives="0"', id="none"),
        pytest.param('alternatives="2"', 'alternatives="99"', id="beyond the limit"),
        pytest.param(SECOND_HASH, "", id="a hash less"),
        pytest.param(SECOND_HASH, SECOND_HASH.replace("Hash1", "Hash2"), id="a gap"),
        pytest.param(SECOND_HASH, SECOND_HASH.replace("Hash1", "Hash01"), id="another number"),
        pytest.param(SECOND_HASH, SECOND_HASH.replace("Hash1", "Hash"), id="no number"),
        pytest.param(SECOND_HASH, SECOND_HASH.replace("ns2:", ""), id="a hash without namespace"),
        pytest.param(FIRST, FIRST.replace("ns2:", 'xmlns:e="urn:x" e:'), id="Hash0 of another namespace"),
        pytest.param(
            FIRST, f'{FIRST} xmlns:e="urn:x" e:Hash0="{"00" * 48}"', id="Hash0 of another namespace beside it"
        ),
        pytest.param(FIRST, f'xmlns:ns2="urn:x" {FIRST}', id="the prefix bound anew"),
        pytest.param("a1a1", "A1a1", id="upper case"),
        pytest.param("a1a1", "a1a", id="a digit less"),
        pytest.param("a1a1", "a1a1a", id="a digit more"),
        pytest.param("a1a1", "a1 a", id="a space"),
        pytest.param("a1a1", "a1ag", id="no hex"),
        pytest.param('size="48"', 'size="32"', id="another size"),
        pytest.param(' size="48"', "", id="no size"),
        pytest.param('name="Measurement_1"', 'name=""', id="no name"),
        pytest.param("/>", ">text</ns0:Resource>", id="text"),
        pytest.param("/>", "><a/></ns0:Resource>", id="a child"),
        pytest.param("ns0:Resource", "ns0:File", id="another element"),
        pytest.param("ns0:Resource", "ns2:Resource", id="an element of another namespace"),
    ],
)
def test_a_rim_with_another_record_refuses_although_it_is_signed(old: str, new: str) -> None:
    assert old in RECORD
    text = body()
    changed = RECORD.replace(old, new, 1)
    refused(made(text.replace(RECORD, changed, 1)))


def test_a_record_has_at_most_64_alternatives() -> None:
    digests = tuple(number.to_bytes(48, "big") for number in range(65))
    assert read_rim(made(body({7: digests[:64]}))).reference_values[7] == digests[:64]
    refused(made(body({7: digests})))


def test_a_record_that_stands_twice_refuses() -> None:
    assert "twice" in refused(made(body().replace(RECORD, RECORD * 2))).message


@pytest.mark.parametrize("text", [body({}), body({}, indices=())])
def test_a_rim_without_an_active_record_refuses_because_nothing_would_differ(text: str) -> None:
    assert "active" in refused(made(text)).message


@pytest.mark.parametrize(
    "place",
    ["<ns0:Resource ", "<ns0:Payload", "<ns0:Meta ", "<SoftwareIdentity "],
    ids=["record", "payload", "meta", "root"],
)
def test_numeric_reference_values_are_recognised_and_not_supported(place: str) -> None:
    text = body().replace(place, f'{place} xmlns:ns3="{OPAQUE_NAMESPACE}" ns3:minimum="3" ', 1)
    exc = refused(made(text), "rim-unsupported")
    assert isinstance(exc, UnsupportedError)


def test_an_embedded_certificate_that_is_none_refuses() -> None:
    assert "certificate" in refused(made(certificates=(*CHAIN[:3], b"\x30\x00"))).message


def test_what_was_read_is_remembered_until_it_is_forgotten() -> None:
    read_rim.cache_clear()
    document = made()
    first = read_rim(document)
    assert read_rim(RimDocument(xml=bytes(bytearray(document.xml)))) is first
    read_rim.cache_clear()
    assert read_rim(document) is not first


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_with_a_documented_error(data: bytes) -> None:
    with pytest.raises(AttestError):
        read_rim(RimDocument(xml=data))


PLAIN = made().xml


@given(st.integers(0, len(PLAIN)), st.integers(0, 60), st.text(max_size=8).map(str.encode))
def test_any_change_of_a_rim_is_refused_or_changes_nothing(at: int, length: int, put: bytes) -> None:
    changed = PLAIN[:at] + put + PLAIN[at + length :]
    try:
        parsed = accepted(changed, PINNED)
    except AttestError:
        return
    assert parsed.reference_values == VALUES


# -- the signers


def signers_refused(anchors: TrustAnchors = PINNED, **changes: Any) -> ChainError:  # noqa: ANN401  parts of a RIM
    parsed = read_rim(made(**changes))
    with pytest.raises(ChainError) as caught:
        find_signers(parsed, anchors)
    return caught.value


@pytest.mark.parametrize("anchors", [PINNED, held(), held(None, None)], ids=["pinned", "held", "held without dates"])
def test_the_signers_lead_to_a_root_that_is_pinned_or_held(anchors: TrustAnchors) -> None:
    parsed = read_rim(made())
    signers, anchor = find_signers(parsed, anchors)
    assert signers == parsed.certificates[:3]
    window = require_window(parsed, signers=signers, anchor=anchor, at=MIDDLE)
    assert window == (BEGINS, ENDS)
    verified = VerifiedRim(parsed=parsed, signers=signers, anchor=anchor, not_before=window[0], not_after=window[1])
    assert verified.parsed.document is parsed.document


def test_an_anchor_of_another_role_vouches_for_no_rim() -> None:
    (anchor,) = held().anchors
    other = TrustAnchors(anchors=(replace(anchor, role="nvidia-device-root"),))
    assert signers_refused(other).code == "root-not-trusted"


def test_a_simulated_rim_is_called_so() -> None:
    product = next(product for product in PRODUCTS.values() if product.chip == "GH100")
    rim = driver_rim(product, "575.57.08", issued=datetime(2026, 1, 1, tzinfo=UTC))
    parsed = read_rim(rim.document())
    verify_rim_signature(parsed)
    assert parsed.reference_values == rim.values
    with pytest.raises(ChainError) as caught:
        find_signers(parsed, NVIDIA)
    assert caught.value.code == "simulated-root-refused"
    assert find_signers(parsed, TrustAnchors.simulation())[1].simulated


def test_the_three_signers_without_a_root_are_not_enough_even_when_it_is_held() -> None:
    # NOTE: the key is at hand, and yet another count of certificates is another kind of document.
    assert signers_refused(held(), certificates=CHAIN[:3]).code == "rim-chain-length"


P256 = ec.derive_private_key(9, ec.SECP256R1())
BROKEN_USAGE = Extension(oid="2.5.29.15", critical=True, value=b"\x03\x00")
CRITICAL = Extension(oid="1.2.3.4", critical=True, value=b"")
SIGNER, L3, L2_DER, ROOT = CHAIN


@pytest.mark.parametrize(
    ("certificates", "code"),
    [
        pytest.param((SIGNER, L2_DER, L3, ROOT), "issuer-name-mismatch", id="L3 and L2 exchanged"),
        pytest.param((SIGNER, L3, L3, ROOT), "issuer-name-mismatch", id="no L2"),
        pytest.param(
            (signer_certificate(signer=STRANGER_KEY), L3, L2_DER, ROOT),
            "certificate-signature-invalid",
            id="a signer that L3 did not sign",
        ),
        pytest.param(
            (SIGNER, l3_certificate(signer=STRANGER_KEY), L2_DER, ROOT),
            "certificate-signature-invalid",
            id="an L3 that L2 did not sign",
        ),
        pytest.param(
            (SIGNER, L3, l2_certificate(signer=STRANGER_KEY), ROOT),
            "certificate-signature-invalid",
            id="an L2 that the root did not sign",
        ),
        pytest.param(
            (SIGNER, L3, L2_DER, root_certificate(signer=STRANGER_KEY)),
            "certificate-signature-invalid",
            id="a root with the pinned key that did not sign itself",
        ),
        pytest.param(
            (SIGNER, L3, L2_DER, root_certificate(extensions=(CA_USAGE,))),
            "ca-flags-missing",
            id="a root that is no CA",
        ),
        pytest.param(
            (SIGNER, L3, L2_DER, root_certificate(key=STRANGER_KEY, signer=STRANGER_KEY)),
            "root-not-trusted",
            id="another root of the same name",
        ),
        pytest.param(
            (signer_certificate(extensions=AUTHORITY), L3, L2_DER, ROOT),
            "rim-signer-unexpected",
            id="a signer that is a CA",
        ),
        pytest.param(
            (signer_certificate(extensions=(CA_CONSTRAINTS, SIGNS_DATA)), L3, L2_DER, ROOT),
            "rim-signer-unexpected",
            id="a signer that says it is a CA",
        ),
        pytest.param(
            (signer_certificate(extensions=(NO_CA,)), L3, L2_DER, ROOT), "rim-signer-unexpected", id="no keyUsage"
        ),
        pytest.param(
            (signer_certificate(extensions=(NO_CA, CA_USAGE)), L3, L2_DER, ROOT),
            "rim-signer-unexpected",
            id="a keyUsage of CAs",
        ),
        pytest.param(
            (signer_certificate(extensions=(NO_CA, BROKEN_USAGE)), L3, L2_DER, ROOT),
            "rim-signer-unexpected",
            id="a keyUsage that cannot be read",
        ),
        pytest.param(
            (signer_certificate(extensions=(*SIGNER_EXTENSIONS, CRITICAL)), L3, L2_DER, ROOT),
            "critical-extension-unknown",
            id="a critical extension of the signer",
        ),
        pytest.param(
            (SIGNER, l3_certificate(extensions=SIGNER_EXTENSIONS), L2_DER, ROOT), "ca-flags-missing", id="L3 is no CA"
        ),
        pytest.param(
            (SIGNER, L3, l2_certificate(extensions=SIGNER_EXTENSIONS), ROOT), "ca-flags-missing", id="L2 is no CA"
        ),
        pytest.param(
            (signer_certificate(key=P256), L3, L2_DER, ROOT), "rim-signer-unexpected", id="a signer with P-256"
        ),
        pytest.param((SIGNER, l3_certificate(key=P256), L2_DER, ROOT), "rim-signer-unexpected", id="L3 with P-256"),
        pytest.param(
            (signer_certificate(inner=ECDSA_SHA256, outer=ECDSA_SHA256), L3, L2_DER, ROOT),
            "certificate-algorithm-unexpected",
            id="a signer signed with SHA-256",
        ),
    ],
)
def test_signers_that_do_not_fit_are_refused(certificates: tuple[bytes, ...], code: str) -> None:
    assert signers_refused(certificates=certificates).code == code


def test_a_signer_may_have_further_usages_beside_that_of_its_first_octet() -> None:
    """decipherOnly is the ninth bit, in an octet of its own."""
    ninth = Extension(oid="2.5.29.15", critical=True, value=der.bit_string(b"\x80\x80", unused_bits=7))
    signers = (signer_certificate(extensions=(NO_CA, ninth)), L3, L2_DER, ROOT)
    assert find_signers(read_rim(made(certificates=signers)), PINNED)[1] == PINNED.anchors[0]


def test_a_root_that_is_pinned_by_its_digest_has_a_key_of_p_384() -> None:
    """As the root of a device; the authority's own RIMs have no other."""
    root = root_certificate(key=P256, signer=P256)
    (anchor,) = PINNED.anchors
    pinned = TrustAnchors(anchors=(replace(anchor, spki_sha256=parse_certificate(root).spki_sha256),))
    signers = (SIGNER, L3, l2_certificate(signer=P256), root)
    assert signers_refused(pinned, certificates=signers).code == "public-key-invalid"


def test_an_l2_that_only_bears_the_name_of_a_held_root_as_its_issuer_is_refused() -> None:
    stranger = (
        SIGNER,
        L3,
        l2_certificate(signer=STRANGER_KEY),
        root_certificate(key=STRANGER_KEY, signer=STRANGER_KEY),
    )
    assert signers_refused(held(), certificates=stranger).code == "certificate-signature-invalid"


def test_of_two_anchors_the_one_that_issued_counts() -> None:
    (anchor,) = held().anchors
    other = replace(anchor, name="other", spki=spki(STRANGER_KEY))
    parsed = read_rim(made())
    assert find_signers(parsed, TrustAnchors(anchors=(other, anchor)))[1] is anchor
    elsewhere = replace(anchor, name="elsewhere", subject=L2)
    assert find_signers(parsed, TrustAnchors(anchors=(elsewhere, anchor)))[1] is anchor


def test_the_simulators_der_writer_agrees_with_the_usage_that_is_read() -> None:
    assert SIGNS_DATA.value == der.bit_string(b"\x80", unused_bits=7)


# -- the window


SHORT_BEGIN, SHORT_END = BEGINS + timedelta(days=10), ENDS - timedelta(days=10)
DATES = {"begins": SHORT_BEGIN, "ends": SHORT_END}


@pytest.mark.parametrize(
    ("certificates", "anchors"),
    [
        pytest.param((signer_certificate(**DATES), L3, L2_DER, ROOT), held(), id="signer"),
        pytest.param((SIGNER, l3_certificate(**DATES), L2_DER, ROOT), held(), id="L3"),
        pytest.param((SIGNER, L3, l2_certificate(**DATES), ROOT), held(), id="L2"),
        pytest.param((SIGNER, L3, L2_DER, root_certificate(**DATES)), PINNED, id="pinned root"),
        pytest.param(CHAIN, held(SHORT_BEGIN, SHORT_END), id="held root"),
    ],
)
def test_each_of_the_four_bounds_the_window(certificates: tuple[bytes, ...], anchors: TrustAnchors) -> None:
    parsed = read_rim(made(certificates=certificates))
    signers, anchor = find_signers(parsed, anchors)
    for at in (SHORT_BEGIN, SHORT_END):
        assert require_window(parsed, signers=signers, anchor=anchor, at=at) == (SHORT_BEGIN, SHORT_END)
    for at, code in ((SHORT_BEGIN - SECOND, "rim-not-yet-valid"), (SHORT_END + SECOND, "rim-expired")):
        with pytest.raises(EndorsementError) as caught:
            require_window(parsed, signers=signers, anchor=anchor, at=at)
        assert caught.value.code == code


def test_the_dates_of_an_embedded_root_do_not_widen_or_narrow_those_of_a_held_one() -> None:
    parsed = read_rim(made(certificates=(*CHAIN[:3], root_certificate(**DATES))))
    signers, anchor = find_signers(parsed, held())
    assert rim_window(parsed, signers, anchor) == (BEGINS, ENDS)


# -- ids


def test_ids_are_those_of_the_rim_service() -> None:
    assert driver_rim_id("GH100", "550.144.03") == "NV_GPU_DRIVER_GH100_550.144.03"
    assert driver_rim_id("GB100", "590.12") == "NV_GPU_CC_DRIVER_GB100_590.12"
    assert vbios_rim_id("1010", "0200", "882", "96.00.5E.00.01") == "NV_GPU_VBIOS_1010_0200_882_96005E0001"
    assert vbios_rim_id("g520", "0200", "885", "96.00.a5.00.01") == "NV_GPU_VBIOS_G520_0200_885_9600A50001"
    assert switch_bios_rim_id("96.10.55.00.01") == "NV_SWITCH_BIOS_5612_0002_890_9610550001"


@pytest.mark.parametrize("text", ["", ".", "..", "../x", "a/b", "a?b", "a b", "a\n", "a_b", "\u0661", "x" * 25, "%2e"])
def test_what_cannot_stand_in_an_id_refuses(text: str) -> None:
    builds: tuple[Callable[[], str], ...] = (
        lambda: driver_rim_id("GH100", text),
        lambda: driver_rim_id(text, "1.0"),
        lambda: vbios_rim_id(text, "1", "1", "1"),
        lambda: vbios_rim_id("1", text, "1", "1"),
        lambda: vbios_rim_id("1", "1", text, "1"),
        lambda: vbios_rim_id("1", "1", "1", text),
        lambda: switch_bios_rim_id(text),
    )
    for build in builds:
        with pytest.raises(EvidenceError) as caught:
            build()
        assert caught.value.code == "rim-id-invalid"


def test_the_longest_id_can_be_asked_for() -> None:
    longest = vbios_rim_id(*["x" * 24] * 4)
    assert is_rim_id(NvidiaRimRequest(id=longest).id)
