"""The canonical form that the simulator writes is the one that a library finds in the text."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped]  # it has no types

from attest_simulator.nvidia.xml_writer import Element, Node, canonical_text, document_text

NAMES = st.sampled_from(["a", "b", "Z", "ns:a", "ns:z", "other:b"])
NAMESPACES = {"": "urn:default", "ns": "urn:z", "other": "urn:a"}
TEXT = st.text(st.sampled_from("ab&<>\"'\t\n\r \u00e9"), max_size=6)
ATTRIBUTES = st.dictionaries(NAMES, TEXT, max_size=4).map(lambda found: tuple(found.items()))
LOCAL: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    [{}, {"ns": "urn:z"}, {"ns": "urn:other"}, {"": "urn:inner"}, {"new": "urn:new"}]
)


def elements(names: st.SearchStrategy[str], children: st.SearchStrategy[list[Node]]) -> st.SearchStrategy[Element]:
    return st.builds(
        lambda tag, namespaces, attributes, inner: Element(
            tag=tag, namespaces=namespaces, attributes=attributes, children=tuple(inner)
        ),
        names,
        LOCAL,
        ATTRIBUTES,
        children,
    )


def trees(names: st.SearchStrategy[str]) -> st.SearchStrategy[Element]:
    leaf = elements(names, st.just([]))
    return st.recursive(
        leaf, lambda below: elements(names, st.lists(TEXT.filter(bool) | below, max_size=4)), max_leaves=8
    )


def parsed(text: str) -> Any:  # noqa: ANN401  lxml has no types
    return etree.fromstring(text.encode("utf-8"), etree.XMLParser(resolve_entities=False, no_network=True))


def canonical(element: Any) -> str:  # noqa: ANN401  likewise
    return str(etree.tostring(element, method="c14n", exclusive=False, with_comments=False), "utf-8")


@given(trees(NAMES))
def test_the_canonical_form_is_what_a_library_makes_of_the_text(inner: Element) -> None:
    root = Element(tag="root", namespaces=NAMESPACES, children=(inner, "\n"))
    assert canonical_text(root) == canonical(parsed(document_text(root)))


@given(trees(NAMES.filter(lambda name: ":" in name)))
def test_a_part_declares_the_namespaces_that_it_inherits(inner: Element) -> None:
    # Elements with prefixes alone, as SignedInfo has them: of others the library writes a stray xmlns="" into a part.
    root = Element(tag="root", namespaces=NAMESPACES, children=(inner,))
    part = parsed(document_text(root))[0]
    # Of a part, the library also writes a prefix that an inner element declares again; of a whole document it does not.
    assert canonical_text(inner, inherited=NAMESPACES) == canonical(parsed(canonical(part)))


def test_an_empty_element_is_one_tag_as_written_and_two_in_the_canonical_form() -> None:
    element = Element(tag="a", namespaces={"b": "urn:b"}, attributes=(("z", "1"), ("b:a", "2"), ("c", "3")))
    assert document_text(element) == '<a xmlns:b="urn:b" z="1" b:a="2" c="3"/>'
    assert canonical_text(element) == '<a xmlns:b="urn:b" c="3" z="1" b:a="2"></a>'
