"""RIMs as an attacker would write them: signed with the simulator's public keys, or wrapped around what was signed."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from lxml import etree  # type: ignore[import-untyped]  # it ships no types

from attest_simulator.nvidia.authorities import reference_issuer
from attest_simulator.nvidia.rims import rim_signer_certificates, rim_signer_key, rim_signer_template, signed_in
from tests.evidence.gpu.made_rim import (
    C14N,
    DS,
    ENVELOPED,
    OPAQUE_NAMESPACE,
    SHA384,
    SIGNED_INFO,
    Made,
    raw_signature,
)
from tests.page.nvidia_devices import AT, GPU, rims

_KEY = rim_signer_key(GPU.product, signed_in(AT))
_CERTIFICATES = rim_signer_certificates(GPU.product, signed_in(AT))


_TEMPLATE = rim_signer_template(GPU.product, signed_in(AT))
_POINTLESS = _TEMPLATE.spki[:-96] + b"\1" * 96


def _signer(spki: bytes = _TEMPLATE.spki, **changes: object) -> bytes:
    """The signer's certificate with another key, or with other extensions."""
    template = replace(_TEMPLATE, spki=spki, **changes)  # type: ignore[arg-type]  # changes of any field
    return template.issue(reference_issuer(GPU.product).key)


@cache
def text() -> str:
    """The driver's RIM with a place for its signature."""
    signed = rims()[0].decode()
    head, rest = signed.split("<ds:Signature", 1)
    return head + "@SIGNATURE@" + rest.split("</ds:Signature>", 1)[1]


def _sign(signed: bytes) -> bytes:
    return raw_signature(signed, _KEY)


def _always(value: bytes) -> Callable[[bytes], bytes]:
    return lambda _: value


def rim(body: str | None = None, **changes: object) -> bytes:
    """A RIM that the simulator's signer signed, canonical form and digest by libxml2."""
    given: dict[str, object] = {"certificates": _CERTIFICATES, "sign": _sign, **changes}
    return Made(text=text() if body is None else body, **given).xml()  # type: ignore[arg-type]  # changes of any part


def with_info(old: str, new: str) -> bytes:
    assert old in SIGNED_INFO
    return rim(signed_info=SIGNED_INFO.replace(old, new))


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """A good document, and one with other values in its place."""

    signed: str
    evil: str

    @property
    def signature(self) -> str:
        return (
            "<ds:Signature" + self.signed.split("<ds:Signature", 1)[1].split("</ds:Signature>")[0] + "</ds:Signature>"
        )

    @property
    def original(self) -> str:
        return self.signed.replace(self.signature, "")

    def evil_with(self, what: str) -> str:
        return self.evil.replace("@SIGNATURE@", what)

    def inside(self, end: str, what: str) -> str:
        return self.signature.replace(end, what + end)


def signed_elsewhere(place: str = "<ns0:Entity", *, info: str = "") -> str:
    """A document whose own SignatureValue is nothing, with a SignedInfo and a value that fit each other before it."""
    info = info or f'<ds:SignedInfo xmlns:ds="{DS}"><ds:Reference URI=""/></ds:SignedInfo>'
    moved = f'{info}<ds:SignatureValue xmlns:ds="{DS}">@SIGNED@</ds:SignatureValue>'
    body = text().replace(place, moved + place, 1)
    found = etree.fromstring(body.replace("@SIGNATURE@", "").encode()).find(f".//{{{DS}}}SignedInfo")
    value = b64encode(_sign(etree.tostring(found, method="c14n", exclusive=False))).decode()
    return rim(body.replace("@SIGNED@", value), sign=_always(bytes(96))).decode()


def _genuine_info() -> str:
    """The SignedInfo of the genuine document, with its digest."""
    info = rims()[0].decode().split("<ds:SignedInfo", 1)[1].split("</ds:SignedInfo>")[0]
    return f'<ds:SignedInfo xmlns:ds="{DS}"{info}</ds:SignedInfo>'


def wrapped() -> Mapping[str, bytes]:
    """XML signature wrapping (must-check.md 3): the signed element is moved aside and another is read in its place."""
    signed = rims()[0].decode()
    parts = _Parts(signed=signed, evil=text().replace('active="True"', 'active="False"', 1))
    original, signature = parts.original, parts.signature
    holder = f'<ds:Object xmlns:ds="{DS}">{original}</ds:Object>'
    by_id = original.replace("<SoftwareIdentity ", '<SoftwareIdentity Id="a" ', 1)
    placements = {
        "the signature moved to another document": parts.evil_with(signature),
        "the signed document before the signature": parts.evil_with(original + signature),
        "the signed document with its signature": parts.evil_with(signed),
        "that, and the signature again": parts.evil_with(signed + signature),
        "the signed document in an Object": parts.evil_with(parts.inside("</ds:Signature>", holder)),
        "the signed document in KeyInfo": parts.evil_with(parts.inside("</ds:KeyInfo>", original)),
        "the signed document in a certificate": parts.evil_with(parts.inside("</ds:X509Certificate>", original)),
        "the signed document in the SignatureValue": parts.evil_with(parts.inside("</ds:SignatureValue>", original)),
        "the signature at the start": original.replace("<ns0:Entity", f"{signature}<ns0:Entity", 1),
        "the signature inside the payload": original.replace("</ns0:Payload>", f"{signature}</ns0:Payload>"),
        "the signed document as the only child": f"<evil>{signed}</evil>",
        "the signature as the root": parts.inside("</ds:Signature>", holder),
        "a reference by an id": by_id.replace(
            "</SoftwareIdentity>", signature.replace('URI=""', 'URI="#a"') + "</SoftwareIdentity>"
        ),
        "two references": parts.evil_with(
            by_id + signature.replace("</ds:Reference>", '</ds:Reference><ds:Reference URI="#a"/>')
        ),
        "two SignedInfos": parts.evil_with(
            signature.replace("<ds:SignatureValue>", "<ds:SignedInfo/><ds:SignatureValue>", 1)
        ),
        "two digests": signed.replace("<ds:DigestValue>", "<ds:DigestValue>AAAA</ds:DigestValue><ds:DigestValue>"),
        "signed parts elsewhere": signed_elsewhere(),
        "signed parts elsewhere, in the payload": signed_elsewhere("</ns0:Payload>"),
        "the signed parts of another document elsewhere": signed_elsewhere(info=_genuine_info()),
        "a comment in a digest": signed.replace("<ds:DigestValue>", "<ds:DigestValue><!---->"),
        "a comment in a value": signed.replace("<ns0:Entity", "<!-- --><ns0:Entity", 1),
        "another value": signed.replace('active="True"', 'active="False"', 1),
    }  # fmt: skip
    return {name: document.encode() for name, document in placements.items()}


def shaped() -> Mapping[str, bytes]:
    """Signatures of another shape than the one that is read; all of them are signed."""
    reference = SIGNED_INFO[SIGNED_INFO.index("<ds:Reference") : SIGNED_INFO.index("</ds:SignedInfo>")]
    transforms = f'<ds:Transform Algorithm="{ENVELOPED}"/><ds:Transform Algorithm="{C14N}"/>'
    last = f'<ds:Transform Algorithm="{C14N}"/>'
    return {
        "HMAC": with_info("#ecdsa-sha384", "#hmac-sha384"),
        "SHA-256": with_info(SHA384, "http://www.w3.org/2001/04/xmlenc#sha256"),
        "a reference elsewhere": with_info('URI=""', 'URI="https://example.com/"'),
        "no URI": with_info(' URI=""', ""),
        "a typed reference": with_info('URI=""', 'URI="" Type="x"'),
        "two references": with_info(reference, reference * 2),
        "no reference": with_info(reference, ""),
        "not enveloped": with_info(transforms, last * 2),
        "no canonicalisation": with_info(transforms, f'<ds:Transform Algorithm="{ENVELOPED}"/>'),
        "four transforms": with_info(transforms, transforms * 2),
        "XSLT": with_info(transforms, transforms.replace(C14N, "http://www.w3.org/TR/1999/REC-xslt-19991116")),
        "a transform with parameters": with_info(
            last, f'<ds:Transform Algorithm="{C14N}"><x xmlns=""/></ds:Transform>'
        ),
        "with comments": with_info(f'Method Algorithm="{C14N}"', f'Method Algorithm="{C14N}#WithComments"'),
        "an id": with_info("<ds:SignedInfo>", '<ds:SignedInfo Id="a">'),
        "text in SignedInfo": with_info("<ds:SignedInfo>", "<ds:SignedInfo>text"),
        "a short digest": with_info("@DIGEST@", "AAAA"),
        "a digest in loose base64": with_info("@DIGEST@", "@DIGEST@="),
        "no KeyInfo": rim(key_info=""),
        "an empty KeyInfo": rim(key_info="<ds:KeyInfo/>"),
        "nine certificates": rim(certificates=(*_CERTIFICATES, *_CERTIFICATES, _CERTIFICATES[0])),
        "three certificates": rim(certificates=_CERTIFICATES[:3]),
        "certificates in another order": rim(certificates=(_CERTIFICATES[1], _CERTIFICATES[0], *_CERTIFICATES[2:])),
        "a first certificate that is none": rim(certificates=(b"\x30\0", *_CERTIFICATES[1:])),
        "a signer whose key is no point": rim(certificates=(_signer(_POINTLESS), *_CERTIFICATES[1:])),
        "a signer without a usage": rim(certificates=(_signer(extensions=()), *_CERTIFICATES[1:])),
        "another signature": rim(sign=_always(b"\1" * 96)),
        "a signature of zeros": rim(sign=_always(bytes(96))),
        "something behind KeyInfo": rim(after="<ds:Object/>"),
    }


def _replaced(old: str, new: str) -> bytes:
    assert old in text()
    return rim(text().replace(old, new, 1))


def written() -> Mapping[str, bytes]:
    """Other ways to write the same document, signed as they stand: canonical form has to be libxml2's."""
    signed = rims()[0]
    entity, payload, meta = '<ns0:Entity name="', "<ns0:Payload", 'revision="r1"'
    swid = text().split('xmlns="', 1)[1].split('"', 1)[0]
    return {
        "as it is": signed,
        "a declaration": b'<?xml version="1.0" encoding="UTF-8"?>\n' + signed,
        "a byte-order mark": b"\xef\xbb\xbf" + signed,
        "white space around it": b"\n " + signed + b"\n\n",
        "a character reference": _replaced(meta, 'revision="&#114;&#x31;"'),
        "entities in a value": _replaced(meta, 'revision="r&lt;&gt;&amp;&quot;&apos;1"'),
        "a quote of the other kind": _replaced(meta, "revision='r\"1'"),
        "a tab and a line feed in a value": _replaced(meta, 'revision="r\t1\n2"'),
        "carriage returns": rim(text().replace("\n", "\r\n")),
        "white space by reference": _replaced("</ns0:Payload>", "&#13;&#9;&#10;&#x20;</ns0:Payload>"),
        "attributes in another order": _replaced(meta + ' PayloadType="direct"', 'PayloadType="direct" ' + meta),
        "a second prefix": _replaced(entity, f'<x:Entity xmlns:x="{swid}" name="'),
        "the default namespace": _replaced(entity, '<Entity name="'),
        "a prefix that is declared again": _replaced(payload, f'{payload} xmlns:ns0="{swid}"'),
        "a namespace that nobody uses": _replaced(payload, f'{payload} xmlns:unused="urn:unused"'),
        "the default namespace taken away": _replaced(payload, f'{payload} xmlns=""'),
        "white space in tags": _replaced(entity, '<ns0:Entity\n\tname = "'),
    }  # fmt: skip


def bounded() -> Mapping[str, bytes]:
    """More and more namespaces in scope of one element, up to the limit and beyond."""
    more = (" ".join(f'xmlns:n{number}="urn:n{number}"' for number in range(count)) for count in range(9, 17))
    return {f"{9 + count} more": _replaced("<ns0:Payload", f"<ns0:Payload {names}") for count, names in enumerate(more)}


def broken() -> Mapping[str, bytes]:
    """What is no RIM, or not well formed, or has something that no RIM has."""
    good, record = rims()[0].decode(), "<ns0:Resource"
    declared = '<!DOCTYPE a [<!ENTITY e "x">]>'
    changes: Mapping[str, Callable[[str], str]] = {
        "a document type": lambda s: declared + s,
        "a document type inside": lambda s: s.replace("<ns0:Payload", declared + "<ns0:Payload", 1),
        "an unknown entity": lambda s: s.replace('revision="r1"', 'revision="&e;"'),
        "a comment": lambda s: s.replace("<ns0:Payload", "<!-- --><ns0:Payload", 1),
        "a processing instruction": lambda s: s.replace("<ns0:Payload", "<?x?><ns0:Payload", 1),
        "CDATA": lambda s: s.replace("</ns0:Payload>", "<![CDATA[ ]]></ns0:Payload>"),
        "the end of CDATA": lambda s: s.replace("</ns0:Payload>", "]]></ns0:Payload>"),
        "an attribute twice": lambda s: s.replace('revision="r1"', 'revision="r1" revision="r1"'),
        "a namespace twice": lambda s: s.replace("<ns0:Payload", '<ns0:Payload xmlns:a="urn:a" xmlns:a="urn:a"', 1),
        "a prefix that is not declared": lambda s: s.replace("<ns0:Entity", "<nope:Entity", 1),
        "xml:space": lambda s: s.replace("<ns0:Payload", '<ns0:Payload xml:space="preserve"', 1),
        "a relative namespace": lambda s: s.replace("<ns0:Payload", '<ns0:Payload xmlns:x="relative"', 1),
        "a prefix taken away": lambda s: s.replace("<ns0:Payload", '<ns0:Payload xmlns:x=""', 1),
        "the prefix xmlns": lambda s: s.replace("<ns0:Payload", '<ns0:Payload xmlns:xmlns="urn:a"', 1),
        "a bare ampersand": lambda s: s.replace('revision="r1"', 'revision="r&1"'),
        "a reference to no character": lambda s: s.replace('revision="r1"', 'revision="&#0;"'),
        "a reference beyond Unicode": lambda s: s.replace('revision="r1"', 'revision="&#x110000;"'),
        "no quotes": lambda s: s.replace('revision="r1"', "revision=r1"),
        "tags that cross": lambda s: s.replace("</ns0:Payload>", "</ns0:Meta>"),
        "no end": lambda s: s.rstrip()[:-1],
        "something behind the end": lambda s: s + "x",
        "a second root": lambda s: s + "<a/>",
        "another encoding": lambda s: '<?xml version="1.0" encoding="latin1"?>' + s,
        "XML 1.1": lambda s: '<?xml version="1.1"?>' + s,
        "an index twice": lambda s: s.replace('index="1"', 'index="0"', 1),
        "very deep": lambda s: s.replace("</ns0:Payload>", "<a>" * 5000 + "</a>" * 5000 + "</ns0:Payload>"),
        "very many elements": lambda s: s.replace("</ns0:Payload>", "<a/>" * 20000 + "</ns0:Payload>"),
        "very many references": lambda s: s.replace('revision="r1"', f'revision="{"&#65;" * 40_000}"'),
        "very many bare ampersands": lambda s: s.replace('revision="r1"', f'revision="{"&a" * 100_000}"'),
        "a very long name": lambda s: s.replace("<ns0:Entity", "<ns0:" + "E" * 200_000, 1),
    }
    return {name: change(good).encode() for name, change in changes.items()} | {
        "numeric values": rim(text().replace(record, f'{record} xmlns:o="{OPAQUE_NAMESPACE}" o:a="1"', 1)),
        "an unknown attribute, signed": rim(text().replace(record, f'{record} evil="1"', 1)),
        "an attribute named toString, signed": rim(text().replace(record, f'{record} toString="1"', 1)),
        "every record off, signed": rim(text().replace('active="True"', 'active="False"')),
        "another product, signed": rim(text().replace("GH100", "GH200")),
        "not UTF-8": good.encode().replace(b'revision="r1"', b'revision="\xff"'),
        "a NUL": good.encode().replace(b'revision="r1"', b'revision="\0"'),
        "too long": good.encode() + b" " * (256 * 1024),
    }
