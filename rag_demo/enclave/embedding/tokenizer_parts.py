"""The parts of ``tokenizer.json``, each checked by name, whatever the kind of tokeniser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attest.encoding import JsonValue
from rag_demo.enclave.embedding.refusals import TOKENIZER, brief, unsuitable

TOKENIZER_NAME: Final = "tokenizer.json"
MEMBERS: Final = frozenset(
    {
        "version",
        "truncation",
        "padding",
        "added_tokens",
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
    }
)


def part_of(
    document: Mapping[str, JsonValue], name: str, *, kind: str, members: frozenset[str]
) -> dict[str, JsonValue]:
    """Return a part of a kind, with exactly these members."""
    part = document.get(name)
    if not isinstance(part, dict) or part.get("type") != kind:
        raise refuse(name, expected=kind, got=part.get("type") if isinstance(part, dict) else part)
    require_members(part, members, where=f"{name}.")
    return part


def require_members(part: Mapping[str, JsonValue], members: frozenset[str], *, where: str) -> None:
    """Require exactly these members: the meaning of any other is unknown."""
    for name in sorted(part.keys() ^ members):
        there = name in part
        raise refuse(
            f"{where}{name[:100]}",
            expected="no such member: its meaning is unknown" if there else "it to be there",
            got="it" if there else "nothing",
        )


def require(part: Mapping[str, JsonValue], path: str, values: tuple[JsonValue, ...]) -> JsonValue:
    """Return a member that has one of these values, of the same type."""
    value = part.get(path.rpartition(".")[2])
    if not any(type(value) is type(one) and value == one for one in values):
        raise refuse(path, expected=" or ".join(map(brief, values)), got=value)
    return value


def require_known(added: JsonValue, numbers: Mapping[str, int]) -> None:
    """Require that what the file adds is marks of the vocabulary: anything else would have to be found in texts."""
    tokens = added if isinstance(added, list) else [added]
    for at, token in enumerate(tokens):
        field = f"added_tokens[{at}]"
        if not isinstance(token, dict) or token.get("special") is not True:
            raise refuse(field, expected="a mark (special: true)", got=token)
        content = token.get("content")
        if not isinstance(content, str) or numbers.get(content) != token.get("id"):
            raise refuse(field, expected="a token of the vocabulary, with its number", got=content)


def marks(processor: JsonValue, numbers: Mapping[str, int]) -> tuple[int, int]:
    """Return the marks around one text. How two texts are put together is not looked at: there is always one."""
    single = processor.get("single") if isinstance(processor, dict) else None
    if not isinstance(processor, dict) or processor.get("type") != "TemplateProcessing":
        raise refuse("post_processor", expected="TemplateProcessing", got=processor)
    if not isinstance(single, list) or len(single) != 3 or single[1] != {"Sequence": {"id": "A", "type_id": 0}}:
        raise refuse("post_processor.single", expected="a mark, the text, a mark", got=single)
    return _mark(processor, single[0], numbers), _mark(processor, single[2], numbers)


def _mark(processor: Mapping[str, JsonValue], piece: JsonValue, numbers: Mapping[str, int]) -> int:
    special = piece.get("SpecialToken") if isinstance(piece, dict) else None
    name = special.get("id") if isinstance(special, dict) else None
    if not isinstance(special, dict) or not isinstance(name, str) or special.get("type_id") != 0 or name not in numbers:
        raise refuse("post_processor.single", expected="marks of the vocabulary, of type 0", got=piece)
    table = processor.get("special_tokens")
    meant = table.get(name) if isinstance(table, dict) else None
    if not isinstance(meant, dict) or meant.get("ids") != [numbers[name]]:
        raise refuse(f"post_processor.special_tokens.{name[:100]}", expected=f"ids [{numbers[name]}]", got=meant)
    return numbers[name]


def refuse(path: str, *, expected: str, got: JsonValue) -> Exception:
    """Return the refusal of a member."""
    return unsuitable(TOKENIZER, f"{TOKENIZER_NAME}: {path}", expected=expected, got=brief(got))
