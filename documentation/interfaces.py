"""The reference pages of the two HTTP interfaces and of the policy schema, from their documents."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_Object = Mapping[str, Any]  # a JSON document as parsed


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page: its path under docs/, and its text."""
    yield "interfaces/release.md", _routes("The release interface", "openapi.json")
    yield from _administration("openapi-admin.json")
    yield "interfaces/policy-schema.md", _schema("attest-policy.schema.json")


def _load(name: str) -> _Object:
    found: _Object = json.loads((DOCS / name).read_text(encoding="utf-8"))
    return found


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def _administration(name: str) -> Iterator[tuple[str, str]]:
    """Yield a page for each noun of the interface, and the list of them."""
    nouns: dict[str, dict[str, _Object]] = {}
    for path, methods in _load(name)["paths"].items():
        nouns.setdefault(path.split("/")[2], {})[path] = methods
    lines = ["# The administration interface", "", f"Its routes, from [the OpenAPI document](../{name}).", ""]
    for noun, paths in sorted(nouns.items()):
        page = f"administration-{noun}.md"
        lines.append(f"* [`/v1/{noun}`]({page}): {len(paths)} paths")
        yield f"interfaces/{page}", _routes(f"`/v1/{noun}`", name, paths)
    yield "interfaces/administration.md", "\n".join([*lines, ""])


def _routes(title: str, name: str, paths: Mapping[str, _Object] | None = None) -> str:
    lines = [f"# {title}", "", f"Every route, from [the OpenAPI document](../{name}).", ""]
    for path, methods in (paths or _load(name)["paths"]).items():
        for method in _METHODS:
            if method in methods:
                lines += _route(method, path, methods[method])
    return "\n".join(lines)


def _route(method: str, path: str, route: _Object) -> Iterator[str]:
    yield from (f"## `{method.upper()} {path}`", "")
    yield from (_cell(route.get("description") or route.get("summary", "")), "")
    if parameters := route.get("parameters", ()):
        yield from ("| Parameter | In | Required | Type |", "| --- | --- | --- | --- |")
        for one in parameters:
            required = "yes" if one.get("required") else "no"
            yield f"| `{one['name']}` | {one['in']} | {required} | {_type(one.get('schema', {}))} |"
        yield ""
    answers = route["responses"]
    good = [f"{status} ({_cell(answers[status].get('description', ''))})" for status in answers if status < "300"]
    refused = [status for status in answers if status >= "300"]
    yield from (f"Status {', '.join(good)}." + (f" Refusals: {', '.join(refused)}." if refused else ""), "")


def _type(schema: _Object) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(sorted({_type(one) for one in schema[word]}))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _schema(name: str) -> str:
    document = _load(name)
    lines = ["# The policy schema", "", f"Every key of a policy, from [the JSON schema](../{name}).", ""]
    lines += ["[The policy language](../policy.md) explains them.", ""]
    lines += _keys("The document", document)
    for title, part in document.get("$defs", {}).items():
        lines += _keys(f"`{title}`", part)
    return "\n".join(lines)


def _keys(title: str, schema: _Object) -> Iterator[str]:
    properties = schema.get("properties")
    yield from (f"## {title}", "")
    if not properties:
        yield from (_cell(schema.get("description", "")) or f"Type: {_type(schema)}.", "")
        return
    required = schema.get("required", ())
    yield from ("| Key | Type | Required | Meaning |", "| --- | --- | --- | --- |")
    for key, one in properties.items():
        needed = "yes" if key in required else "no"
        yield f"| `{key}` | {_type(one)} | {needed} | {_cell(one.get('description', ''))} |"
    yield ""
