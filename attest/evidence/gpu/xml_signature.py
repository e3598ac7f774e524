"""The XML signature of a RIM: from bytes to the very tree that was signed (specs/nvidia-gpu.md, section 9.3).

XML signatures are broken by what they allow, so this profile allows one document shape: an enveloped signature, last
child of the root, over the whole document, with one algorithm at each place. Everything else is refused before any
signature is computed. ``signxml`` verifies, with the key that it is given and with its own choice of nothing; what is
read later comes from the tree that it reports as signed. This is the one module that touches ``lxml`` and
``signxml``, and it loads them on first use: they come with the extra ``gpu``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Literal, NamedTuple, Protocol, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import base64_bytes
from attest.endorsements.rims import MAX_RIM_BYTES
from attest.errors import ConfigurationError, EvidenceError

MAX_ELEMENTS = 256
"""A RIM of 64 records has 87 elements."""
MAX_DEPTH = 8
"""A RIM has 5 levels; without ``huge_tree`` the parser itself stops at 256."""
MAX_ATTRIBUTES = 80
"""Maximum of attributes of one element: a record has 6 besides its digests."""
MAX_NAMESPACES = 16
"""Maximum of namespaces in scope of one element; RIMs have 6. Canonicalisation compares all of them each time."""
MAX_CERTIFICATES = 8
"""A RIM carries 4."""
SIGNATURE_BYTES = 96
"""r and s of P-384, 48 bytes each."""
DIGEST_BYTES = 48
_XML_SPACE = " \t\r\n"
_NO_SPACE = str.maketrans("", "", _XML_SPACE)
_DECLARATION = re.compile(rb"""<\?xml version=(?:"1\.0"|'1\.0')(?: encoding=(?:"(?i:utf-8)"|'(?i:utf-8)'))? ?\?>""")
_XML_NAMESPACE = "{http://www.w3.org/XML/1998/namespace}"
_DS = "{http://www.w3.org/2000/09/xmldsig#}"
_CLAUSE = "W3C XML Signature"

SignatureState: TypeAlias = Literal["valid", "signed-info-invalid", "digest-mismatch", "unverifiable"]
"""``valid``: both halves hold. ``signed-info-invalid``: SignatureValue is not the first certificate's over SignedInfo.
``digest-mismatch``: SignedInfo is signed, the document is another. ``unverifiable``: the first certificate is invalid,
or has no P-384 key."""


class XmlElement(NamedTuple):
    """One element as plain data.

    Attributes:
        tag: ``{namespace}name``.
        attributes: by ``name`` or ``{namespace}name``; prefixes are gone.
        children: in document order.
        text: character data directly inside, wherever it stands.
    """

    tag: str
    attributes: Mapping[str, str]
    children: tuple[XmlElement, ...]
    text: str

    def is_blank(self) -> bool:
        """Return whether there is nothing but white space between the children."""
        return not self.text.strip(_XML_SPACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedXml:
    """A document and what its signature says.

    Attributes:
        root: without the Signature. When ``state`` is ``valid``, the tree of exactly the bytes that were signed;
            otherwise the tree as received, which is not signed.
        certificates: DER, in the order of KeyInfo; the first one's key is the one that verified.
    """

    root: XmlElement
    certificates: tuple[bytes, ...]
    state: SignatureState


class _Node(Protocol):
    """The used interface of an element of lxml, which ships no types."""

    tag: object
    text: str | None
    tail: str | None
    attrib: Mapping[str, str]
    nsmap: Mapping[str | None, str]

    def items(self) -> list[tuple[str, str]]: ...
    def __iter__(self) -> Iterator[_Node]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    """The two foreign libraries; attributes of a module are untyped."""

    etree: ModuleType
    signxml: ModuleType

    def parser(self) -> object:
        """Return a parser that resolves, loads and repairs nothing."""
        return self.etree.XMLParser(
            encoding="UTF-8",
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            dtd_validation=False,
            attribute_defaults=False,
            huge_tree=False,
            recover=False,
            remove_comments=False,
            remove_pis=False,
            strip_cdata=False,
            collect_ids=False,
        )


def read_signed_document(xml: bytes) -> SignedXml:
    """Read a document with an enveloped signature of the one accepted shape; verify the signature, not its signer.

    Args:
        xml: UTF-8, at most ``MAX_RIM_BYTES``; no document type, entity, processing instruction, comment or CDATA.

    Raises:
        EvidenceError: ``rim-malformed``, not such a document.
        ConfigurationError: ``rim-library-missing``.

    Spec: specs/nvidia-gpu.md, section 9.3; XML Signature 1.1; Canonical XML 1.1.
    """
    _require_plain(xml)
    library = _load()
    root = _parse(xml, library)
    tags = _require_limits(root, xml)
    certificates = _read_signature(root, tags)
    state, signed = _verify(xml, certificates[0], library)
    document = _element(root if signed is None else signed)
    if signed is None:  # the document as received, less its Signature
        document = document._replace(children=document.children[:-1])
    return SignedXml(root=document, certificates=certificates, state=state)


def malformed(
    problem: str, *, field: str | None = None, expected: str | None = None, got: str | None = None
) -> EvidenceError:
    """Make the refusal of a RIM that is not what the specification says."""
    return EvidenceError(
        f"RIM cannot be read: {problem}",
        code="rim-malformed",
        field=field,
        expected=expected,
        got=got,
        clause="TCG Reference Integrity Manifest; W3C XML Signature",
    )


def _load() -> _Library:
    try:
        return _Library(etree=import_module("lxml.etree"), signxml=import_module("signxml"))
    except ImportError as exc:
        raise ConfigurationError(
            "RIMs cannot be verified: lxml or signxml is not installed",
            code="rim-library-missing",
            expected="the extra 'gpu'",
            got=str(exc),
            hint="pip install 'attest-kms[gpu]'",
        ) from exc


# -- before and in parsing


def _require_plain(xml: bytes) -> None:
    """Refuse, before any parser sees it, what a RIM never has and parsers were broken with."""
    if len(xml) > MAX_RIM_BYTES:
        raise malformed(f"{len(xml)} bytes, more than {MAX_RIM_BYTES}")
    try:
        xml.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise malformed("not UTF-8") from exc
    declaration = _DECLARATION.match(xml)
    content = xml[declaration.end() :] if declaration else xml
    # In well-formed XML a bare < begins a tag, and with ! or ? behind it one of the things that are refused here.
    if b"<!" in content or b"<?" in content or b"\0" in content:
        raise malformed(
            "a document type, entity, comment, CDATA section, processing instruction or NUL, or another declaration "
            "than that of XML 1.0 in UTF-8"
        )


def _parse(xml: bytes, library: _Library) -> _Node:
    try:
        root: _Node = library.etree.fromstring(xml, library.parser())
    except library.etree.XMLSyntaxError as exc:
        raise malformed(f"not well-formed XML: {exc}") from exc
    return root


def _require_limits(root: _Node, xml: bytes) -> list[str]:
    """Bound the cost of the next steps, and return the tag of every element, in no order.

    ``xml:`` attributes are refused: canonical XML 1.0 and 1.1 differ there.
    """
    # A document that does not spell either word anywhere has neither; asking each element for its scope is slow.
    many_scopes, xml_attributes = xml.count(b"xmlns") > MAX_NAMESPACES, b"xml:" in xml
    waiting: list[tuple[_Node, int]] = [(root, 1)]
    tags: list[str] = []
    while waiting:
        node, depth = waiting.pop()
        tags.append(str(node.tag))
        attributes = node.attrib
        _require_at_most(len(tags) + len(waiting) + len(node), MAX_ELEMENTS, "elements")
        _require_at_most(depth, MAX_DEPTH, "levels")
        _require_at_most(len(attributes), MAX_ATTRIBUTES, "attributes of one element")
        if many_scopes:
            _require_at_most(len(node.nsmap), MAX_NAMESPACES, "namespaces in scope")
        if xml_attributes and any(name.startswith(_XML_NAMESPACE) for name in attributes):
            raise malformed("an attribute of the namespace xml:", field=tags[-1])
        waiting.extend((child, depth + 1) for child in node)
    return tags


def _require_at_most(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise malformed(f"{size} {what}, more than {limit}", got=str(size), expected=f"at most {limit}")


def _element(node: _Node) -> XmlElement:
    children = tuple(node)
    texts = [node.text, *[child.tail for child in children]]
    return XmlElement(str(node.tag), dict(node.items()), tuple(map(_element, children)), "".join(filter(None, texts)))


# -- the shape of the signature


@dataclass(frozen=True, slots=True)
class _Shape:
    """The required form of an element: its attributes, and either its children or, with none, what its text decodes to.

    Attributes:
        size: None for an element without text; otherwise the number of bytes in base64, 0 for any.
        repeated: maximum number of the last child.
    """

    name: str
    attributes: Mapping[str, str]
    children: tuple[_Shape, ...] = ()
    size: int | None = None
    repeated: int = 1


def _algorithm(name: str, identifier: str) -> _Shape:
    return _Shape(name, {"Algorithm": identifier})


_C14N = "http://www.w3.org/2006/12/xml-c14n11"
_ENVELOPED = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
_REFERENCE = _Shape(
    "Reference",
    {"URI": ""},
    (
        _Shape("Transforms", {}, (_algorithm("Transform", _ENVELOPED), _algorithm("Transform", _C14N))),
        _algorithm("DigestMethod", "http://www.w3.org/2001/04/xmldsig-more#sha384"),
        _Shape("DigestValue", {}, size=DIGEST_BYTES),
    ),
)
_SIGNED_INFO = _Shape(
    "SignedInfo",
    {},
    (
        _algorithm("CanonicalizationMethod", _C14N),
        _algorithm("SignatureMethod", "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384"),
        _REFERENCE,
    ),
)
_X509_DATA = _Shape("X509Data", {}, (_Shape("X509Certificate", {}, size=0),), repeated=MAX_CERTIFICATES)
_SIGNATURE = _Shape(
    "Signature",
    {},
    (_SIGNED_INFO, _Shape("SignatureValue", {}, size=SIGNATURE_BYTES), _Shape("KeyInfo", {}, (_X509_DATA,))),
)


def _read_signature(root: _Node, tags: list[str]) -> tuple[bytes, ...]:
    """Require the one Signature, last child of the root, to have the one shape; return its certificates."""
    children = list(root)
    wanted = _DS + _SIGNATURE.name
    if not children or children[-1].tag != wanted:
        raise malformed("the last child of the root is not its Signature", field="Signature")
    found = tags.count(wanted)
    if found != 1:
        raise malformed(f"{found} Signature elements", field="Signature", expected="1", got=str(found))
    if ((root.text or "") + "".join(child.tail or "" for child in children)).strip(_XML_SPACE):
        raise malformed("text between the children of the root", field=str(root.tag))
    signature = _element(children[-1])
    _require_shape(signature, _SIGNATURE, path=_SIGNATURE.name)
    return tuple(_base64(certificate, "X509Certificate") for certificate in signature.children[2].children[0].children)


def _require_shape(element: XmlElement, shape: _Shape, *, path: str) -> None:
    if element.tag != _DS + shape.name:
        raise malformed(f"{path}: another element", field=path, expected=_DS + shape.name, got=element.tag)
    if element.attributes != shape.attributes:
        raise malformed(
            f"{path}: other attributes than this verifier accepts",
            field=path,
            expected=_listed(shape.attributes),
            got=_listed(element.attributes),
        )
    if shape.size is not None:
        value = _base64(element, path)
        if shape.size and len(value) != shape.size:
            raise malformed(f"{path}: {len(value)} bytes, not {shape.size}", field=path)
    elif not element.is_blank():
        raise malformed(f"{path}: text where none is permitted", field=path)
    least = len(shape.children)
    most = least - 1 + shape.repeated if least else 0
    if not least <= len(element.children) <= most:
        names = ", ".join(child.name for child in shape.children)
        got = ", ".join(child.tag for child in element.children)
        raise malformed(f"{path}: other children than this verifier accepts", field=path, expected=names, got=got)
    for position, child in enumerate(element.children):
        expected = shape.children[min(position, least - 1)]
        _require_shape(child, expected, path=f"{path}/{expected.name}")


def _listed(attributes: Mapping[str, str]) -> str:
    return ", ".join(f'{name}="{value}"' for name, value in attributes.items()) or "none"


def _base64(element: XmlElement, path: str) -> bytes:
    """Decode strictly, white space aside: what signxml decodes leniently then has one meaning."""
    try:
        return base64_bytes(element.text.translate(_NO_SPACE), what=path)
    except EvidenceError as exc:
        raise malformed(exc.message, field=path) from exc


# -- the signature itself


def _verify(xml: bytes, signer: bytes, library: _Library) -> tuple[SignatureState, _Node | None]:
    """Verify with the key of one given certificate; return the tree that was signed, if it holds.

    The library gets the bytes and parses them with the same settings as above, so both look at one tree. It takes no
    key from the document and follows no chain; the certificate's dates are judged elsewhere, at the caller's time.
    """
    signxml = library.signxml
    try:
        certificate = x509.load_der_x509_certificate(signer)
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
            return "unverifiable", None
        signed: _Node | None = (
            signxml.XMLVerifier()
            .verify(
                xml,
                x509_cert=certificate,
                parser=library.parser(),
                validate_schema=False,  # the shape above is narrower, and the schema would be read from a file
                expect_config=signxml.SignatureConfiguration(
                    location="./",
                    expect_references=1,
                    signature_methods=frozenset({signxml.SignatureMethod.ECDSA_SHA384}),
                    digest_algorithms=frozenset({signxml.DigestAlgorithm.SHA384}),
                    verification_time=certificate.not_valid_before_utc,  # else the library would read the clock
                ),
            )
            .signed_xml
        )
    except signxml.InvalidDigest:
        return "digest-mismatch", None
    except signxml.InvalidSignature:
        return "signed-info-invalid", None
    except (ValueError, UnsupportedAlgorithm, UserWarning):  # of the certificate; warnings can be errors
        return "unverifiable", None
    except library.etree.LxmlError as exc:  # a relative namespace name, for one
        raise malformed(f"no canonical form: {exc}") from exc
    return ("valid", signed) if signed is not None else ("digest-mismatch", None)
