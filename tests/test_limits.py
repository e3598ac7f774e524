"""The limits of the core, each with its value: one that is changed is changed here too, on purpose.

How each of them is held is the matter of the tests beside what it bounds; they try the limit and one more.
"""

import ast
import importlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.constants import LIMIT

REPOSITORY = Path(__file__).resolve().parent.parent
CORE = ("attest/evidence", "attest/endorsements", "attest/policy")
LIMITS: dict[str, dict[str, object]] = {
    "attest.endorsements.bundle_records": {
        "MAX_BUNDLE_BYTES": 16_777_216,
        "MAX_ENTRIES": 8192,
        "MAX_SIGNATURES": 16,
        "MAX_SOURCE_CHARACTERS": 2048,
        "MAX_CHAIN_CERTIFICATES": 8,
    },
    "attest.endorsements.intel": {
        "MAX_DOCUMENT_BYTES": 262_144,
    },
    "attest.endorsements.intel_answers": {
        "MAX_CHAIN_BYTES": 65_536,
        "MAX_CHAIN_CERTIFICATES": 8,
        "MAX_DOCUMENT_ANSWER_BYTES": 327_744,
        "MAX_CRL_ANSWER_BYTES": 1_114_176,
    },
    "attest.endorsements.ocsp_answers": {
        "MAX_OCSP_BYTES": 16_384,
        "MAX_CERTIFICATES": 4,
        "MAX_AGE": timedelta(hours=24),
    },
    "attest.endorsements.rims": {
        "MAX_RIM_BYTES": 262_144,
        "MAX_RIM_ANSWER_BYTES": 357_716,
    },
    "attest.endorsements.x509": {
        "MAX_CERTIFICATE_BYTES": 16_384,
        "MAX_CRL_BYTES": 1_048_576,
        "MAX_EXTENSIONS": 64,
    },
    "attest.evidence.azure.forms": {
        "_MAX_SIGNATURE_BYTES": 512,
        "_MAX_MESSAGE_BYTES": 1024,
        "_MAX_CERTIFICATES": 8,
    },
    "attest.evidence.azure.runtime": {
        "_MAX_KEYS": 16,
    },
    "attest.evidence.azure.structure": {
        "MAX_RUNTIME_BYTES": 65_536,
        "MAX_HCL_BYTES": 131_072,
    },
    "attest.evidence.binding": {
        "MAX_BINDING_BYTES": 16_384,
        "MAX_DEVICES": 32,
        "MAX_TEXT_CHARACTERS": 512,
    },
    "attest.endorsements.candidates": {
        "MAX_CANDIDATES": 32,
    },
    "attest.evidence.dstack.statements": {
        "MAX_STATEMENT_BYTES": 1_048_576,
    },
    "attest.evidence.dstack.structure": {
        "_MAX_MARKS": 524_288,
    },
    "attest.evidence.endorsement_files": {
        "MAX_FILE_BYTES": 16_777_216,
        "MAX_FILES": 16_384,
        "MAX_ENDORSEMENTS": 16_384,
        "MAX_PEM_BLOCKS": 4096,
    },
    "attest.evidence.envelope": {
        "MAX_ENVELOPE_BYTES": 8_388_608,
        "MAX_ITEM_BYTES": 2_097_152,
        "MAX_ITEMS": 64,
        "MAX_DEPTH": 4,
        "MAX_VALUES": 4096,
        "MAX_NAME_CHARACTERS": 64,
        "MAX_MEDIA_TYPE_CHARACTERS": 512,
        "MAX_INDICATOR": 4_294_967_295,
    },
    "attest.evidence.eventlog.structure": {
        "MAX_EVENTS": 65_536,
        "MAX_LOG_BYTES": 16_777_216,
        "MAX_ALGORITHMS": 16,
    },
    "attest.evidence.init_data": {
        "MAX_INIT_DATA_BYTES": 524_288,
        "MAX_ENTRIES": 64,
        "MAX_NAME_CHARACTERS": 256,
        "MAX_KEY_PARTS": 32,
        "_LARGEST_INTEGER": 9_223_372_036_854_775_807,
    },
    "attest.evidence.input_files": {
        "MAX_FILES": 64,
    },
    "attest.evidence.gpu.chain": {
        "MAX_LEAVES": 64,
    },
    "attest.evidence.gpu.evidence": {
        "MAX_DEVICE_BYTES": 65_536,
        "MAX_CHAIN_CERTIFICATES": 8,
        "MAX_DEVICES": 32,
    },
    "attest.evidence.gpu.mismatches": {
        "MAX_OTHER_RIMS": 64,
    },
    "attest.evidence.gpu.opaque": {
        "MAX_OPAQUE_VERSION": 1,
    },
    "attest.evidence.gpu.references": {
        "MAX_ISSUES": 32,
    },
    "attest.evidence.gpu.rim_document": {
        "MAX_ALTERNATIVES": 64,
    },
    "attest.evidence.gpu.structure": {
        "MAX_REPORT_BYTES": 8192,
    },
    "attest.evidence.tolerances": {
        "MAX_MEASUREMENT_INDEX": 63,
    },
    "attest.evidence.gpu.xml_signature": {
        "MAX_ELEMENTS": 256,
        "MAX_DEPTH": 8,
        "MAX_ATTRIBUTES": 80,
        "MAX_NAMESPACES": 16,
        "MAX_CERTIFICATES": 8,
    },
    "attest.evidence.intel.chain": {
        "MAX_CHAIN_CERTIFICATES": 8,
    },
    "attest.evidence.intel.collateral_forms": {
        "MAX_COLLATERAL_BYTES": 4_194_304,
        "MAX_CHAIN_CERTIFICATES": 16,
    },
    "attest.evidence.intel.json_members": {
        "MAX_TEXTS": 256,
    },
    "attest.evidence.intel.pck": {
        "_MAX_SVN": 255,
    },
    "attest.evidence.intel.quote": {
        "MAX_QUOTE_BYTES": 65_536,
    },
    "attest.evidence.intel.tcb_info": {
        "MAX_LEVELS": 256,
        "MAX_MODULE_IDENTITIES": 256,
        "MAX_EVALUATION_NUMBER": 4_294_967_295,
        "_MAX_SVN": 255,
        "_MAX_WIDE_SVN": 65_535,
    },
    "attest.evidence.input_file": {
        "MAX_FILE_BYTES": 16_777_216,
        "MAX_CERTIFICATES": 64,
    },
    "attest.evidence.recognition": {
        "_SHORTEST_ENCODED_CHARACTERS": 64,
    },
    "attest.evidence.recognition_binary": {
        "_SHORTEST_LIST_BYTES": 48,
    },
    "attest.evidence.providers.chutes": {
        "MAX_INSTANCES": 64,
    },
    "attest.evidence.providers.compose_manager": {
        "MAX_ACTIONS": 4096,
    },
    "attest.evidence.providers.document": {
        "MAX_MACHINES": 16,
        "MAX_NAME_CHARACTERS": 48,
    },
    "attest.evidence.providers.families": {
        "MAX_DOCUMENT_BYTES": 2_097_152,
    },
    "attest.evidence.providers.tinfoil": {
        "MAX_REPORT_BYTES": 65_536,
    },
    "attest.evidence.providers.values": {
        "MAX_CERTIFICATES": 8,
    },
    "attest.evidence.sample.structure": {
        "MAX_SVN_CHARACTERS": 64,
    },
    "attest.evidence.snp.certificate_table": {
        "MAX_ENTRIES": 32,
        "MAX_TABLE_BYTES": 1_048_576,
    },
    "attest.evidence.snp.certificates": {
        "_MAX_SPL": 255,
    },
    "attest.evidence.snp.evidence": {
        "SHORTEST_TABLE_BYTES": 24,
    },
    "attest.evidence.snp.peer_forms": {
        "MAX_CERTIFICATES_BYTES": 524_288,
    },
    "attest.evidence.snp.peer_protobuf": {
        "MAX_PROTOBUF_BYTES": 528_384,
        "MAX_PROTOBUF_FIELDS": 256,
    },
    "attest.evidence.tpm.structure": {
        "MAX_PCRS": 24,
        "_MAX_SELECTIONS": 16,
        "_MAX_NAME_BYTES": 68,
        "_MAX_DATA_BYTES": 66,
        "_MAX_DIGEST_BYTES": 64,
        "_MAX_SIGNATURE_BYTES": 512,
    },
    "attest.policy.authoring.compose_services": {
        "MAX_COMPOSE_BYTES": 1_048_576,
        "MAX_COMPOSE_EVENTS": 50_000,
        "MAX_MERGES": 100,
    },
    "attest.policy.authoring.draft_sections": {
        "_LARGEST_EXACT": 9_007_199_254_740_991,
    },
    "attest.policy.authoring.lint_tcbs": {
        "MANY_TCBS": 4,
    },
    "attest.policy.firmware_table": {
        "MAX_TABLE_BYTES": 1_048_576,
        "_HIGHEST_VERSION": 9_007_199_254_740_991,
    },
    "attest.policy.signatures": {
        "MAX_SIGNATURE_BYTES": 16_384,
        "MAX_SIGNATURES": 64,
        "MAX_KEYS": 64,
        "_HIGHEST_VERSION": 9_007_199_254_740_991,
    },
    "attest.policy.authoring.policy_cases": {
        "_LONGEST_NONCE": 64,
    },
    "attest.policy.azure": {
        "_LARGEST_COUNT": 4_294_967_295,
    },
    "attest.policy.decoder": {
        "MAX_TEXT_CHARACTERS": 4096,
    },
    "attest.policy.devices": {
        "MAX_DEVICES": 64,
    },
    "attest.policy.document": {
        "MAX_POLICY_BYTES": 1_048_576,
        "MAX_POLICY_NODES": 20_000,
    },
    "attest.policy.foreign.conversion": {
        "_LONGEST_DESCRIPTION": 4096,
    },
    "attest.policy.foreign.issuers": {
        "_HIGHEST_PORT": 65_535,
    },
    "attest.policy.foreign.nvidia_json": {
        "MAX_NVIDIA_BYTES": 65_536,
        "MAX_LEAVES": 1000,
        "_LARGEST_EXACT": 9_007_199_254_740_991,
    },
    "attest.policy.foreign.skr": {
        "MAX_SKR_BYTES": 65_536,
        "MAX_LEVELS": 10,
        "MAX_CONDITIONS": 1000,
        "LARGEST_INTEGER": 9_007_199_254_740_992,
        "_LONGEST_INTEGER": 16,
    },
    "attest.policy.foreign.skr_carriers": {
        "MAX_EXACT_TCBS": 64,
        "HIGHEST_LEVEL": 255,
        "_LONGEST_DEMAND": 1000,
    },
    "attest.policy.model": {
        "MAX_NESTING": 4,
        "MAX_BRANCHES": 64,
    },
    "attest.policy.reference_values.corim": {
        "MAX_CORIM_BYTES": 4_194_304,
        "_LATEST_SECONDS": 253_402_300_799,
    },
    "attest.policy.reference_values.corim_import": {
        "MAX_TRIPLES": 5000,
    },
    "attest.policy.reference_values.reference_documents": {
        "MAX_REFERENCE_BYTES": 1_048_576,
        "MAX_VERSION": 9_007_199_254_740_991,
    },
    "attest.endorsements.tagged_cbor": {
        "MAX_DEPTH": 24,
        "MAX_ITEMS": 200_000,
    },
    "attest.evidence.attachment.committed_data": {
        "MAX_COMMITTED_BYTES": 1_048_576,
    },
    "attest.evidence.attachment.uvm_endorsement": {
        "MAX_UVM_ENDORSEMENT_BYTES": 65_536,
        "MAX_CHAIN": 8,
        "MAX_TEXT_CHARACTERS": 4096,
    },
    "attest.evidence.quote_forms": {
        "MAX_CERTIFICATES": 8,
    },
    "attest.policy.snp": {
        "_HIGHEST_VMPL": 3,
        "_LARGEST_EXACT": 9_007_199_254_740_991,
    },
    "attest.policy.verifiers": {
        "LARGEST_STATED": 9_007_199_254_740_991,
        "LONGEST_AGE": 86_400,
    },
    "attest.policy.versions": {
        "MAX_COMPONENTS": 6,
    },
}


@pytest.mark.parametrize("module", LIMITS)
def test_a_limit_has_the_value_that_is_written_down(module: str) -> None:
    found = importlib.import_module(module)
    assert {name: getattr(found, name) for name in LIMITS[module]} == LIMITS[module]


def stated(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and LIMIT.match(target.id):
            yield target.id


def test_every_limit_of_the_core_is_written_down() -> None:
    found = {
        (".".join(path.relative_to(REPOSITORY).with_suffix("").parts), name)
        for folder in CORE
        for path in (REPOSITORY / folder).rglob("*.py")
        for name in stated(ast.parse(path.read_text()))
    }
    assert found == {(module, name) for module, names in LIMITS.items() for name in names}
