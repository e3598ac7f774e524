"""The check reference, `docs/checks.md`: each check with its demand, its clause and the remedy of a failure."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from attest.policy.authoring.rule_descriptions import FIXES, SENTENCES, longest_prefix
from documentation.check_texts import GROUPS, WORDS

ATTEST: Final = Path(__file__).resolve().parent.parent / "attest"
_INTEL: Final = ATTEST / "evidence" / "intel" / "verify.py"
_HEAD: Final = """\
# Checks

Every check that `attest` can report, with its demand, the document that defines it, and what to do when it fails.
`attest verify`, `attest appraise`, results, tokens and the page show the id of each check. [Errors](errors.md) lists
the codes.

`python -m documentation` writes this page.
"""
_INTEL_NOTE: Final = "A TDX quote has these ids with `tdx.` and an SGX quote with `sgx.` in place of `intel.`."


def clauses() -> dict[str, str]:
    """Return the clause of each check that the code writes out, by its id."""
    found: dict[str, str] = {}
    for path in sorted(ATTEST.rglob("*.py")):
        found |= {check_id: clause for check_id, clause in _of_module(path) if clause}
    return found


def _of_module(path: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Step"), args=[ast.Constant(value=str(name)), clause]):
                yield ("intel." if path == _INTEL else "") + name, _text(clause, names)
            case ast.Assign(targets=[ast.Name(id="_CLAUSES")], value=ast.Dict(keys=keys, values=values)):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant):
                        yield str(key.value), _text(value, names)
            case ast.Call(keywords=keywords):
                given = {keyword.arg: keyword.value for keyword in keywords}
                if isinstance(given.get("id"), ast.Constant) and "clause" in given:
                    yield _text(given["id"], names), _text(given["clause"], names)


def _text(node: ast.expr, names: Mapping[str, object]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return str(names.get(name, ""))
        case _:
            return ""


_TOPOLOGY: Final = "NVIDIA nvtrust, topology of protected PCIe"
EXTRA: Final = {
    "device.mode": _TOPOLOGY,
    "device.nonce": _TOPOLOGY,
    "device.unique": _TOPOLOGY,
    "evidence.format": "docs/forms.md",
    "topology": _TOPOLOGY,
    "committed_data.report_data": "docs/forms.md",
    "committed_data.host_data": "docs/forms.md",
    "token.signature": "RFC 7515, RFC 9052",
    "token.time": "RFC 7519, 4.1",
    "token.audience": "RFC 7519, section 4.1.3",
}
"""Clauses of checks whose ids the code composes."""


def _cited(clause: str) -> str:
    """Return a clause with links to the pages that it names."""
    parts = []
    for part in clause.split("; "):
        page = part.removeprefix("docs/").partition(",")[0]
        parts.append(f"[{page.removesuffix('.md')}]({page})" if part.startswith("docs/") else part)
    return "; ".join(parts)


def _row(check_id: str, cells: tuple[str, ...]) -> str:
    return f'| <a id="{check_id}"></a>`{check_id}` | {" | ".join(cells)} |'


_GENERAL = {
    "must be that of {expected}": "must be one of the policy's reference values",
    "must be {expected}": "must be accepted by the policy",
    ", {expected}": " that the policy accepts",
    "{expected}": "what the policy accepts",
    "{name}": "NAME",
}
"""Text for the values of a policy, by the part of the sentence; the first part that occurs is replaced first."""


def _general(sentence: str) -> str:
    """Return the demand of a rule without the values of one policy."""
    fact = sentence.removeprefix("That ").removesuffix(" must be {expected}.").rstrip(",")
    if sentence.startswith("That "):
        return f"It must be true, or false, as the policy demands: {fact}."
    for part, text in _GENERAL.items():
        sentence = sentence.replace(part, text)
    return sentence


def _policy_rows() -> Iterator[str]:
    for rule in sorted(SENTENCES):
        remedy = longest_prefix(FIXES, rule) or "See [the policy language](policy.md)."
        sentence = _general(SENTENCES[rule])
        shown = f"{rule}NAME" if rule.endswith(".") else rule
        yield _row(shown, (sentence, remedy.replace("{unchecked: reason}", "`{unchecked: reason}`")))


def page() -> str:
    """Return the page."""
    known = {**clauses(), **EXTRA}
    lines = [_HEAD]
    for group in GROUPS:
        lines += [f"## {group.title}", ""]
        if group.prefixes == ("intel.",):
            lines += [_INTEL_NOTE, ""]
        lines += ["| Check | Demand | Defined by | When it fails |", "| --- | --- | --- | --- |"]
        for check_id, words in WORDS.items():
            if check_id.startswith(group.prefixes):
                lines.append(_row(check_id, (words.demand, _cited(known[check_id]), words.remedy)))
        lines.append("")
    lines += [
        "## Policies",
        "",
        "[The policy language](policy.md) defines these checks; each has the name of its key.",
        "",
    ]
    lines += ["| Check | Demand | When it fails |", "| --- | --- | --- |", *_policy_rows(), ""]
    return "\n".join(lines)
