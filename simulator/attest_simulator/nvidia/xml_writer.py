"""A small XML writer: NVIDIA's text form, and the canonical form of the same elements.

The canonical form is made from the elements instead of the text, by explicit rules: inclusive
canonicalisation of a whole document, and of one element with its inherited namespaces. Without an
XML library, it is an independent check of the verifier's.

Spec: W3C, Canonical XML 1.1, sections 1.1, 2.2 and 2.3, as far as elements without ``xml:`` attributes, comments and
processing instructions need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Node: TypeAlias = "Element | str"

_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#xD;"})
_IN_VALUES = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#x9;", "\n": "&#xA;", "\r": "&#xD;"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An XML element.

    Attributes:
        tag: with its prefix.
        namespaces: declarations by prefix, the default one under the empty text.
        attributes: in document order; names with their prefixes.
        children: elements and text, unescaped.
    """

    tag: str
    namespaces: Mapping[str, str] = field(default_factory=dict[str, str])
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[Node, ...] = ()


def document_text(element: Element) -> str:
    """Return the element in NVIDIA's form: attributes in order, an empty element as one tag."""
    head = "".join((element.tag, *_declarations(element.namespaces), *_attributes(element.attributes)))
    if not element.children:
        return f"<{head}/>"
    inner = "".join(_text(child) if isinstance(child, str) else document_text(child) for child in element.children)
    return f"<{head}>{inner}</{element.tag}>"


def canonical_text(element: Element, *, inherited: Mapping[str, str] | None = None) -> str:
    """Return the canonical form: declarations by prefix, attributes by namespace and name, empty elements as two tags.

    Args:
        element: the document's root, or the only element to canonicalise.
        inherited: namespaces in scope around it, to be declared by the outermost element.
    """
    around = dict(inherited or {})
    outermost = Element(
        tag=element.tag,
        namespaces={**around, **element.namespaces},
        attributes=element.attributes,
        children=element.children,
    )
    return _canonical(outermost, {})


def _canonical(element: Element, scope: Mapping[str, str]) -> str:
    new = {prefix: uri for prefix, uri in element.namespaces.items() if scope.get(prefix) != uri}
    inside = {**scope, **new}
    ordered = sorted(element.attributes, key=lambda pair: _expanded(pair[0], inside))
    declared = dict(sorted(new.items()))
    head = "".join((element.tag, *_declarations(declared), *_attributes(ordered)))
    inner = "".join(_text(child) if isinstance(child, str) else _canonical(child, inside) for child in element.children)
    return f"<{head}>{inner}</{element.tag}>"


def _expanded(name: str, scope: Mapping[str, str]) -> tuple[str, str]:
    """Return namespace and local name; an attribute without a prefix has no namespace."""
    prefix, colon, local = name.rpartition(":")
    return (scope[prefix], local) if colon else ("", local)


def _declarations(namespaces: Mapping[str, str]) -> Iterable[str]:
    return (f' xmlns{":" if prefix else ""}{prefix}="{_quoted(uri)}"' for prefix, uri in namespaces.items())


def _attributes(attributes: Iterable[tuple[str, str]]) -> Iterable[str]:
    return (f' {name}="{_quoted(value)}"' for name, value in attributes)


def _text(text: str) -> str:
    return text.translate(_IN_TEXT)


def _quoted(value: str) -> str:
    return value.translate(_IN_VALUES)
