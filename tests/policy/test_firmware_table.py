"""The table of firmware floors: what it says of verified devices and of policies, and which table is taken."""

import copy
import json
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given

from attest.cli.firmware_options import built_in_table
from attest.cli.policy_init import source_of
from attest.errors import ConfigurationError, InvalidValueError, SignatureError
from attest.policy import read_floor_demand
from attest.policy.authoring.draft import choose, draft_policy
from attest.policy.authoring.lint import lint_policy
from attest.policy.firmware_findings import driver_finding, firmware_findings
from attest.policy.firmware_table import BUILT_IN_DIGEST, FirmwareTable, decode_firmware_table
from attest.policy.model import decode_policy
from attest.policy.signatures import identity_of, sign_policy
from attest.policy.signed_documents import read_signed_table
from attest_simulator.nvidia import SimulatedGpu
from tests.policy.documents import document as snp_document
from tests.policy.gpu_documents import SWITCH, gpu_document, verified
from tests.policy.intel_documents import verified_enclave, verified_td, without_tcb
from tests.policy.mixed import mixed, snp_cpu
from tests.policy.test_load import JSON
from tests.test_appraisal_intel import NO_TCB

AT = datetime(2026, 12, 1, tzinfo=UTC)
ENTRY: dict[str, Any] = {
    "product": "genoa",
    "component": "snp",
    "level": "30",
    "published": "2026-01-02",
    "advisory": "AMD-SB-1",
    "fixes": "a flaw",
    "source": "https://vendor.invalid/1",
    "read_in": "a test",
}
DOCUMENT: dict[str, Any] = {
    "schema": "attest.firmware-table/1",
    "name": "ours",
    "version": 30000101,
    "issued": "2026-01-02T00:00:00Z",
    "entries": [ENTRY],
}


def document(*entries: dict[str, Any], **top: object) -> dict[str, Any]:
    made = copy.deepcopy(DOCUMENT) | top
    if entries:
        made["entries"] = [ENTRY | entry for entry in entries]
    return made


def table(*entries: dict[str, Any]) -> FirmwareTable:
    return decode_firmware_table(document(*entries))


# -- which table


def test_the_built_in_table_is_the_one_whose_digest_the_library_names() -> None:
    built_in = built_in_table()
    assert built_in.digest.hex() == BUILT_IN_DIGEST
    assert all(one.source.startswith("https://") and one.read_in and one.fixes for one in built_in.entries)
    assert {one.demand.product for one in built_in.entries} >= {"milan", "genoa", "turin", "tdx", "sgx", "hopper"}


def signed(made: dict[str, Any], *, key: Ed25519PrivateKey) -> tuple[bytes, Any]:
    return json.dumps(made).encode(), sign_policy(made, key=key, at=AT)


def test_an_operators_table_is_taken_when_a_key_of_the_operator_signed_it() -> None:
    key, other = Ed25519PrivateKey.from_private_bytes(bytes(32)), Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
    data, signature = signed(document(), key=key)
    found = read_signed_table(
        data, signatures=[signature], keys=[key.public_key()], name="x", built_in=built_in_table()
    )
    assert found == table()
    assert identity_of(document()).name == "ours"
    for signatures, keys, code in (
        ([signature], [other.public_key()], "policy-signatures-missing"),
        ([], [key.public_key()], "policy-signatures-missing"),
        ([replace(signature, signature=bytes(64))], [key.public_key()], "policy-signature-invalid"),
    ):
        with pytest.raises(SignatureError) as refused:
            read_signed_table(data, signatures=signatures, keys=keys, name="x", built_in=built_in_table())
        assert refused.value.code == code
    with pytest.raises(ConfigurationError):
        read_signed_table(data, signatures=[signature], keys=[], name="x", built_in=built_in_table())


@pytest.mark.parametrize(("ahead", "taken"), [(1, True), (0, False), (-1, False)])
def test_a_table_that_is_not_newer_than_the_built_in_one_is_refused(ahead: int, taken: bool) -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    data, signature = signed(document(version=built_in_table().version + ahead), key=key)
    with nullcontext() if taken else pytest.raises(SignatureError, match="expected a version above"):
        read_signed_table(data, signatures=[signature], keys=[key.public_key()], name="x", built_in=built_in_table())


def test_a_table_that_cannot_be_read_names_its_file() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_signed_table(b'{"schema": 1}', signatures=[], keys=[], name="mine.json", built_in=built_in_table())
    assert "mine.json" in refused.value.message


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"product": "rome"}, "entries[0].product"),
        ({"component": "fmc"}, "entries[0].component"),
        ({"component": "nothing"}, "entries[0].component"),
        ({"product": "tdx", "component": "advisory", "level": "INTEL-SA-00001"}, "entries[0].component"),
        ({"product": "tdx", "component": "tcb_status", "level": "UpToDate"}, "entries[0].component"),
        ({"level": "256"}, "entries[0].level"),
        ({"level": 30}, "entries[0].level"),
        ({"from": "x"}, "entries[0].from"),
        ({"models": [1]}, "entries[0].models"),
        ({"models": [2, 1]}, "entries[0].models"),
        ({"stepping": 256}, "entries[0].stepping"),
        ({"published": "January"}, "entries[0].published"),
        ({"published": "2026-1"}, "entries[0].published"),
        ({"source": ""}, "entries[0].source"),
        ({"read_in": " "}, "entries[0].read_in"),
        ({"unknown": 1}, "entries[0].unknown"),
    ],
)
def test_an_entry_that_says_too_little_or_nonsense_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        decode_firmware_table(document(change))
    assert refused.value.field == path


@pytest.mark.parametrize("name", ENTRY)
def test_an_entry_without_level_date_source_advisory_or_what_it_fixes_is_refused(name: str) -> None:
    made = document()
    del made["entries"][0][name]
    with pytest.raises(InvalidValueError) as refused:
        decode_firmware_table(made)
    assert refused.value.field == f"entries[0].{name}"


@pytest.mark.parametrize("published", ["2026", "2026-01", "2026-01-02"])
def test_a_date_is_as_exact_as_its_source(published: str) -> None:
    assert table({"published": published}).entries[0].published == published


@given(JSON)
def test_any_document_gives_a_table_or_a_documented_error(value: Any) -> None:  # noqa: ANN401
    for made in (value, document() | {"entries": [value]}, document(version=value)):
        with suppress(InvalidValueError):
            decode_firmware_table(made)


# -- levels


def test_of_several_bulletins_the_one_with_the_highest_level_comes_first() -> None:
    found = table({"level": "5"}, {"level": "9", "advisory": "B"}, {"level": "7"}, {"level": "9", "advisory": "C"})
    unmet = found.unmet(read_floor_demand("genoa", "snp", "6"))
    assert [(one.demand.text, one.advisory) for one in unmet] == [("9", "B"), ("9", "C"), ("7", "AMD-SB-1")]
    assert found.unmet(read_floor_demand("genoa", "snp", "9")) == ()
    assert found.unmet(read_floor_demand("milan", "snp", "1")) == ()


@pytest.mark.parametrize(
    ("cpuid", "judged"),
    [
        ({"family": 25, "model": 17, "stepping": 1}, True),
        ({"family": 25, "model": 16, "stepping": 1}, True),
        ({"family": 25, "model": 31, "stepping": 1}, True),
        ({"family": 25, "model": 15, "stepping": 1}, False),
        ({"family": 25, "model": 32, "stepping": 1}, False),
        ({"family": 25, "model": 17, "stepping": 2}, False),
        (None, False),
    ],
)
def test_an_entry_about_a_line_judges_no_other_processor(cpuid: dict[str, int] | None, judged: bool) -> None:
    lines = table({"component": "microcode", "level": "84", "models": [16, 31], "stepping": 1})
    found = read_floor_demand("genoa", "microcode", "83")
    assert bool(lines.unmet(found, cpuid=cpuid)) is judged
    stepping = table({"component": "microcode", "level": "84", "stepping": 1})
    assert bool(stepping.unmet(found, cpuid=cpuid)) is (cpuid is not None and cpuid["stepping"] == 1)


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("580.95.05", True),
        ("580.159.02", True),
        ("580.159.03", False),
        ("570.200", False),
        ("595.1", False),
        ("x", False),
    ],
)
def test_an_entry_about_a_branch_judges_that_branch_alone(version: str, old: bool) -> None:
    branch = table({"product": "hopper", "component": "driver", "level": "580.159.03", "from": "580"})
    assert bool(driver_finding("hopper", "hopper", version, branch)) is old
    assert driver_finding("ampere", "ampere", version, branch) == ()


def test_every_device_of_evidence_is_judged_by_what_it_states() -> None:
    everything = table(
        {"level": "255"},
        {"component": "microcode", "level": "255", "models": [0, 255]},
        {"product": "tdx", "component": "tcb_date", "level": "2099-01-01T00:00:00Z"},
        {"product": "sgx", "component": "tcb_date", "level": "2099-01-01T00:00:00Z"},
        {"product": "hopper", "component": "driver", "level": "999"},
        {"product": "hopper", "component": "vbios", "level": "FF"},
        {"product": "ls10", "component": "vbios", "level": "FF"},
    )

    def found(*devices: tuple[str, str, object]) -> set[tuple[str, str, str]]:
        return {(one.item, one.section, one.component) for one in firmware_findings(devices, everything)}

    snp, td = snp_cpu().verified, verified_td().items[0].verified
    enclave = verified_enclave().items[0].verified
    amd = {("cpu", "snp", "snp"), ("cpu", "snp", "microcode")}
    assert found(("cpu", "sev-snp", snp)) == found(("cpu", "azure-snp", snp)) == amd
    assert found(("cpu", "tdx", td)) == found(("cpu", "azure-tdx", td)) == {("cpu", "tdx", "tcb_date")}
    assert found(("cpu", "sgx", enclave)) == {("cpu", "sgx", "tcb_date")}
    gpu = verified(SimulatedGpu.of("gpu"))
    assert found(("gpu0", "nvidia-gpu", gpu)) == {("gpu0", "gpu", "driver"), ("gpu0", "gpu", "vbios")}
    assert found(("s0", "nvidia-switch", verified(SWITCH))) == {("s0", "nvswitch", "vbios")}
    assert found(("x", "another-kind", object())) == set()
    unjudged = verified_td(endorsements=without_tcb("tdx"), unchecked=NO_TCB).items[0].verified
    assert found(("cpu", "tdx", unjudged)) == set()
    assert firmware_findings([("cpu", "sev-snp", snp)], table({"level": "1"})) == ()


def test_a_finding_says_what_is_old_and_which_fix_it_lacks() -> None:
    (finding,) = firmware_findings([("cpu", "sev-snp", snp_cpu().verified)], table())
    level = finding.found
    assert str(finding) == (f"cpu: this machine's snp {level} is older than the fix of AMD-SB-1 (30, 2026-01-02)")


# -- drafts and lint


def test_a_draft_never_blesses_old_firmware_in_silence() -> None:
    source = source_of(mixed(snp_cpu()))
    chosen = choose(["sev-snp"])
    devices = [("cpu", "sev-snp", snp_cpu().verified)]
    findings = firmware_findings(devices, table({}, {"component": "microcode", "level": "255"}))
    for choice in (chosen, chosen | {"snp.tcb": "exactly"}):
        quiet = draft_policy(source, name="x", reference="r", chosen=choice)
        draft = draft_policy(source, name="x", reference="r", chosen=choice, old_firmware=findings)
        key = "snp.exact_tcb" if choice["snp.tcb"] == "exactly" else "snp.minimum_tcb"
        assert set(dict(draft.weak)) - set(dict(quiet.weak)) == {key}
        assert all(str(finding) in dict(draft.weak)[key] for finding in findings)
        assert draft.yaml.count("OLD FIRMWARE") == len(findings) == 2
        assert draft.policy.digest == quiet.policy.digest


def linted(policy: dict[str, Any], *entries: dict[str, Any]) -> set[tuple[str, str]]:
    found = lint_policy(decode_policy(policy), at=AT, firmware=table(*entries))
    return {(str(one.severity), one.path) for one in found if one.rule == "firmware-below-bulletin"}


def test_lint_finds_a_minimum_that_accepts_firmware_without_a_fix() -> None:
    policy = {name: value for name, value in snp_document().items() if name != "simulated"}
    least = policy["snp"]["minimum_tcb"]["Genoa"]["snp"]
    path = "snp.minimum_tcb.Genoa.snp"
    assert linted(policy, {"level": str(least + 1)}) == {("warning", path)}
    assert linted(policy, {"level": str(least)}) == set()
    assert linted(snp_document(), {"level": str(least + 1)}) == set()
    inner = policy | {"all_of": [{"snp": policy["snp"]}]}
    assert ("warning", f"all_of[0].{path}") in linted(inner, {"level": str(least + 1)})
    exact = copy.deepcopy(policy)
    exact["snp"]["exact_tcb"] = {"Genoa": [exact["snp"].pop("minimum_tcb")["Genoa"]]}
    assert linted(exact, {"level": str(least + 1)}) == {("warning", "snp.exact_tcb.Genoa[0].snp")}


def test_of_a_bulletin_about_lines_of_a_processor_the_lowest_level_counts_and_is_a_note() -> None:
    policy = {name: value for name, value in snp_document().items() if name != "simulated"}
    least = policy["snp"]["minimum_tcb"]["Genoa"]["microcode"]
    line = {"component": "microcode", "models": [16, 31]}
    high, low = line | {"level": str(least + 1)}, line | {"level": str(least), "models": [160, 175]}
    assert linted(policy, high) == {("note", "snp.minimum_tcb.Genoa.microcode")}
    assert linted(policy, high, low) == set()


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ({"at_least": "580"}, {"gpu.driver_versions[0]"}),
        ({"below": "580.2"}, {"gpu.driver_versions[0]"}),
        ({"at_least": "580.159.03"}, set()),
        ({"at_least": "570", "below": "580"}, set()),
        ([{"exactly": "580.100"}, {"exactly": "580.159.03"}], {"gpu.driver_versions[0]"}),
        ({"exactly": "570.1"}, set()),
        ({"unchecked": "any"}, set()),
    ],
)
def test_lint_finds_a_range_of_drivers_that_lack_a_fix(ranges: Any, found: set[str]) -> None:  # noqa: ANN401
    policy = {n: v for n, v in gpu_document(driver_versions=ranges).items() if n not in ("simulated", "nvswitch")}
    entry = {"product": "hopper", "component": "driver", "level": "580.159.03", "from": "580"}
    assert {path for _, path in linted(policy, entry)} == found


def test_without_a_table_lint_says_nothing_of_bulletins() -> None:
    policy = decode_policy(snp_document())
    assert "firmware-below-bulletin" not in {one.rule for one in lint_policy(policy, at=AT)}
