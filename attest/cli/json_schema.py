"""Building blocks of JSON Schemas: objects, lists, integers, hex text, and demands that may be relaxed."""

from __future__ import annotations

from attest.encoding import JsonValue

JsonSchema = dict[str, JsonValue]
_REASON: JsonSchema = {
    "type": "object",
    "description": "not demanded, and why; shown in every result",
    "properties": {"unchecked": {"type": "string", "minLength": 1}},
    "required": ["unchecked"],
    "additionalProperties": False,
}


def mapping(properties: dict[str, JsonSchema], *, required: list[str]) -> JsonSchema:
    """Return the schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": {**properties},
        "required": [*required],
        "additionalProperties": False,
    }


def table(properties: dict[str, JsonSchema]) -> JsonSchema:
    """Return the schema of an object with at least one of these members."""
    return {"type": "object", "properties": {**properties}, "minProperties": 1, "additionalProperties": False}


def named_table(grammar: str, value: JsonSchema, description: str = "") -> JsonSchema:
    """Return the schema of an object with at least one member, whose names have a grammar."""
    names: JsonSchema = {"pattern": f"^{grammar}$"}
    found: JsonSchema = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": names,
        "additionalProperties": value,
    }
    return {**found, "description": description} if description else found


def bit_table(bits: tuple[tuple[str, int], ...], description: str) -> JsonSchema:
    """Return the schema of named bits, each true, false or relaxed."""
    flag: JsonSchema = {"anyOf": [{"type": "boolean"}, _REASON]}
    return {**table({name: flag for name, _ in bits}), "description": description}


def demanded(value: JsonSchema, description: str) -> JsonSchema:
    """Return the schema of a value, or of the reason why it is not demanded."""
    return {"anyOf": [value, _REASON], "description": description}


def array(item: JsonSchema) -> JsonSchema:
    """Return the schema of a list with at least one member."""
    return {"type": "array", "items": item, "minItems": 1}


def hex_text(length: int) -> JsonSchema:
    """Return the schema of hex text for this many bytes."""
    return {"type": "string", "pattern": f"^[0-9a-fA-F]{{{2 * length}}}$"}


def integer(low: int, high: int, description: str = "") -> JsonSchema:
    """Return the schema of an integer; both bounds are included."""
    bounds: JsonSchema = {"type": "integer", "minimum": low, "maximum": high}
    return {**bounds, "description": description} if description else bounds
