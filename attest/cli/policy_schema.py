"""The JSON Schema of policy documents, made from the names that the policy model uses.

It serves editors and readers. ``attest.policy.load_policy`` decides; a test compares the keys of both.
"""

from __future__ import annotations

from attest.checks import Unchecked
from attest.cli.json_schema import JsonSchema, array, demanded, hex_text, integer, mapping, table
from attest.cli.policy_schema_sections import (
    AZURE,
    DEVICES,
    DSTACK,
    GPU,
    NVSWITCH,
    SAMPLE,
    SGX,
    SNP,
    TD_BOOT_JUDGED,
    TDX,
)
from attest.policy.model import MAX_BRANCHES, SCHEMA
from attest.policy.verifiers import LARGEST_STATED, LONGEST_AGE


def policy_schema() -> JsonSchema:
    """Return the schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Appraisal policy of attest",
        **mapping(
            {
                "schema": {"const": SCHEMA},
                "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"},
                "version": integer(1, 2**31, "only grows"),
                "description": {"type": "string"},
                "simulated": demanded({"const": "refuse"}, "evidence of the simulator; refused when left out"),
                "unchecked": table({name: {"type": "string", "minLength": 1} for name in Unchecked.NAMES}),
                "verifiers": {
                    "type": "array",
                    "minItems": 1,
                    "description": "Verifiers whose tokens are accepted in place of evidence; none when left out",
                    "items": _verifier(),
                },
                "references": {
                    "type": "array",
                    "minItems": 1,
                    "description": "documents of reference values that are accepted, by digest or by signer",
                    "items": _accepted_document(),
                },
                "reference_values": {
                    "type": "object",
                    "minProperties": 1,
                    "description": "expected measurements by name",
                    "additionalProperties": _reference(),
                },
                "azure": AZURE,
                "snp": SNP,
                "tdx": TDX,
                "dstack": DSTACK,
                "sgx": SGX,
                "gpu": GPU,
                "nvswitch": NVSWITCH,
                "sample": SAMPLE,
                "devices": DEVICES,
                **_combinators(),
            },
            required=["schema", "name", "version"],
        ),
        **_BODY,
        "$defs": {"branch": _branch()},
    }


_SECTIONS = ("azure", "snp", "tdx", "dstack", "sgx", "gpu", "nvswitch", "sample")
_SOMETHING: JsonSchema = {"anyOf": [{"required": [name]} for name in (*_SECTIONS, "any_of", "all_of", "at_least")]}
"""A policy, and each branch of it, demands something."""
_BOOT_JUDGED: JsonSchema = {"anyOf": [{"required": ["azure"]}, {"properties": {"tdx": TD_BOOT_JUDGED}}]}
"""The boot of a TD is demanded, or relaxed by name; for an Azure VM, the section ``azure`` has these demands."""
_BODY: JsonSchema = {"allOf": [_SOMETHING, _BOOT_JUDGED]}


def _branch() -> JsonSchema:
    """Describe a branch: the sections of a policy, and branches again."""
    sections: dict[str, JsonSchema] = {name: {"$ref": f"#/properties/{name}"} for name in (*_SECTIONS, "devices")}
    name: JsonSchema = {"type": "string", "pattern": "^(?![0-9]+$)[a-z0-9][a-z0-9._-]{0,63}$"}
    return {**mapping({"name": name, **sections, **_combinators()}, required=[]), **_BODY}


def _combinators() -> dict[str, JsonSchema]:
    branches = array({"$ref": "#/$defs/branch"})
    some = mapping({"count": integer(1, MAX_BRANCHES), "of": branches}, required=["count", "of"])
    return {
        "any_of": {**branches, "description": "branches, one of which must hold"},
        "all_of": {**branches, "description": "branches, all of which must hold"},
        "at_least": {**some, "description": "branches, this many of which must hold"},
    }


def _verifier() -> JsonSchema:
    texts = array({"type": "string", "minLength": 1})
    return mapping(
        {
            "issuer": {"type": "string", "minLength": 1, "description": "as its tokens name it (iss)"},
            "maximum_age": integer(1, LONGEST_AGE, "seconds since a token was issued; 300 when left out"),
            "policy_ids": demanded(texts, "policies of its own, one of which it must have applied"),
            "statements": {
                "type": "object",
                "minProperties": 1,
                "description": "statements that a token must make beyond any report: name to the accepted values",
                "additionalProperties": array(
                    {"anyOf": [{"type": "string"}, {"type": "boolean"}, integer(0, LARGEST_STATED)]}
                ),
            },
        },
        required=["issuer"],
    )


def _accepted_document() -> JsonSchema:
    digest: JsonSchema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    positive: JsonSchema = {"type": "integer", "minimum": 1}
    return {
        "type": "object",
        "required": ["document"],
        "properties": {
            "document": {"type": "string", "minLength": 1},
            "sha256": digest,
            "signers": {"type": "array", "minItems": 1, "items": digest},
            "at_least": positive,
            "minimum_version": positive,
        },
        "additionalProperties": False,
    }


def _reference() -> JsonSchema:
    return mapping(
        {
            "values": {
                "anyOf": [array(hex_text(48)), array(hex_text(32))],
                "description": "all SHA-384, or all SHA-256",
            },
            "origin": {"type": "string", "minLength": 1, "description": "where the values come from"},
            "expires": {"type": "string", "format": "date-time", "description": "last valid moment"},
        },
        required=["values", "origin"],
    )
