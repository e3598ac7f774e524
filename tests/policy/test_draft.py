"""Drafts of policies: what verifies is affirmed by its draft, and by nothing that differs from it."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from attest.appraisal import appraise
from attest.checks import Check
from attest.cli.policy_init import source_of
from attest.encoding import JsonValue
from attest.endorsements.anchors import TrustAnchors
from attest.errors import AttestError, ConfigurationError
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.input_files import read_evidence
from attest.policy import load_policy
from attest.policy.authoring.draft import FIELDS, DraftSource, choose, draft_policy, fields_of
from attest.policy.authoring.yaml_text import comment_lines, yaml_text
from attest.policy.versions import Numbering, in_ranges, ranges_of
from attest.verification import VerifiedEvidence, verify
from tests.evidence.intel.recorded import RECORDED, Recorded
from tests.policy.drafts import CASES, Drafted, drafted, unchecked_of, verified_fixture

EXACT = ("milan-v5-extended", "genoa-v5-vcek", "turin-v5-vcek", "td-v4", "td-v5-1.5", "enclave-v3")
DEVICES = ("nvidia-snp-with-hopper", "nvidia-board", "nvidia-blackwell")


def affirms(found: Drafted) -> None:
    """The draft loads from its text, is what was drafted, and affirms its source."""
    policy = load_policy(found.draft.yaml.encode())
    assert policy.digest == found.draft.policy.digest
    result = appraise(found.verified, policy=policy, at=found.verified.at)
    assert result.affirmed, result.failed


@pytest.mark.parametrize("case", CASES)
def test_a_draft_affirms_what_it_was_drafted_from(case: str) -> None:
    verified = verified_fixture(case)
    affirms(drafted(verified))
    affirms(drafted(verified, default="or-newer"))


@pytest.mark.parametrize(
    ("case", "seen"), [("milan-v5-extended", "1 sev-snp"), ("nvidia-board", "8 nvidia-gpu, 4 nvidia-switch")]
)
def test_a_draft_says_what_it_was_drafted_from(case: str, seen: str) -> None:
    assert f"Drafted from one machine ({seen})" in drafted(verified_fixture(case)).draft.yaml


def machines(case: str) -> list[str]:
    return [field.name for field in fields_of(item.kind for item in verified_fixture(case).items)]


@pytest.mark.parametrize("case", [*EXACT, *DEVICES, "nvidia-switch"])
def test_single_machines_are_demanded_only_where_that_was_chosen(case: str) -> None:
    verified = verified_fixture(case)
    named = [name for name in machines(case) if FIELDS[name].choices[0] == "any"]
    usual, exactly = drafted(verified), drafted(verified, exactly=named)
    affirms(exactly)
    for key in ("chip_ids", "ppids", "device_identities"):
        demanded = [
            section for section in exactly.draft.document.values() if isinstance(section, dict) and key in section
        ]
        shown = key in usual.draft.yaml
        assert bool(demanded) is shown
        assert f"\n  {key}:" not in usual.draft.yaml


# -- one value changed turns it red


def changes(value: JsonValue, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], JsonValue]]:
    """Every version, number and digest of a section, each made into one that the machine does not have."""
    if isinstance(value, dict):
        if "unchecked" in value or "reason" in value:
            return
        for name, member in value.items():
            yield from changes(member, (*path, name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from changes(member, (*path, index))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield path, value ^ 1 if "vmpl" in path else value + 1
    elif isinstance(value, str) and path[-1] in {"exactly", "at_least"}:
        last = value[-1]
        yield path, value[:-1] + ("A" if last == "9" else str(int(last) + 1))  # hex, where a fixture ends in 9
    elif isinstance(value, str) and len(value) >= 12 and set(value) <= set("0123456789abcdef"):
        yield path, f"{int(value[0], 16) ^ 1:x}{value[1:]}"


def put(document: Any, path: tuple[str | int, ...], value: JsonValue) -> None:  # noqa: ANN401  a tree of JSON
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


def key_words(path: tuple[str | int, ...]) -> str:
    return str(next(step for step in path[1:] if isinstance(step, str)))


@pytest.mark.parametrize("case", [case for case in EXACT if "v5-" in case and not case.startswith("td-")])
def test_firmware_is_demanded_exactly_where_that_was_chosen(case: str) -> None:
    found = drafted(verified_fixture(case), exactly=["snp.tcb"])
    affirms(found)
    section: Any = found.draft.document["snp"]
    keys = {"exact_tcb", "exact_committed_tcb", "exact_launch_tcb"}
    assert {key for key in section if key.endswith("_tcb")} == keys
    for key, part in ((key, part) for key in keys for part in ("bootloader", "tee", "snp", "microcode")):
        for step in (-1, 1):
            document: Any = copy.deepcopy(dict(found.draft.document))
            ((tcb,),) = document["snp"][key].values()
            tcb[part] += step
            if 0 <= tcb[part] <= 255:
                policy = load_policy(json.dumps(document).encode())
                failed = appraise(found.verified, policy=policy, at=found.verified.at).failed
                assert [check.id for check in failed] == [f"policy.snp.{key}"]


@pytest.mark.parametrize("default", ["exactly", "or-newer"])
@pytest.mark.parametrize("case", [*EXACT, *DEVICES])
def test_any_one_version_or_measurement_changed_turns_it_red_and_is_named(case: str, default: str) -> None:
    found = drafted(verified_fixture(case), default=default)
    tried = 0
    for path, value in changes(dict(found.draft.document)):
        if path[0] == "version":
            continue
        document = copy.deepcopy(dict(found.draft.document))
        put(document, path, value)
        try:
            policy = load_policy(json.dumps(document).encode())
        except ConfigurationError:
            continue  # a number that no machine can have: refused at load
        failed = appraise(found.verified, policy=policy, at=found.verified.at).failed
        assert failed, path
        assert all(check.expected and check.got and check.expected != check.got for check in failed), failed
        assert any(about(check, path, document) for check in failed), (path, failed)
        tried += 1
    assert tried >= 3


def about(check: Check, path: tuple[str | int, ...], document: dict[str, JsonValue]) -> bool:
    """Whether a failed check names the component that was changed."""
    if path[0] == "reference_values":
        wanted = str(value) if isinstance(value := _at(document, path), str) else ""
        return wanted in check.expected
    stem = key_words(path)
    singular = stem.removesuffix("s")
    known = {"mitigations_at_launch": "launch_mit_vector", "mitigations_now": "current_mit_vector"}
    return known.get(stem, singular).removeprefix("minimum_") in check.id


def _at(document: JsonValue, path: tuple[str | int, ...]) -> JsonValue:
    value: Any = document
    for step in path:
        value = value[step]
    found: JsonValue = value
    return found


# -- recorded evidence


@pytest.mark.parametrize("vector", RECORDED, ids=lambda vector: vector.id)
def test_recorded_quotes_are_affirmed_by_their_drafts(vectors_dir: Path, vector: Recorded) -> None:
    tried = 0
    for evaluation in vector.facts["evaluations"]:
        at = datetime.fromisoformat(evaluation["verify_time"])
        bundle = vectors_dir / "collateral" / evaluation["collateral"]
        for files, relaxed in (([(bundle.name, bundle.read_bytes())], []), ([], ["tcb", "revocation"])):
            try:
                verified = verify(
                    read_evidence([("quote", vector.read(vectors_dir))]).evidence,
                    endorsements=read_endorsements(files, at=at).endorsements,
                    anchors=TrustAnchors.vendors(),
                    at=at,
                    unchecked=unchecked_of(relaxed),
                )
            except AttestError:
                continue
            found = drafted(verified)
            affirms(found)
            assert "simulated" not in found.draft.document
            tried += 1
    assert tried or not vector.facts["evaluations"]


def recorded_snp(root: Path, vector: dict[str, Any]) -> VerifiedEvidence:
    line, kind = vector["product_line"].lower(), vector["endorsement_role"]
    names = [vector["endorsement_cert"], f"certs/{line}/{'ask' if kind == 'VCEK' else 'asvk'}.der"]
    at = datetime.fromisoformat(vector["verify_time"])
    return verify(
        read_evidence([("report", (root / vector["report"]).read_bytes())]).evidence,
        endorsements=read_endorsements([(n, (root / n).read_bytes()) for n in names], at=at).endorsements,
        anchors=TrustAnchors.vendors(),
        at=at,
        unchecked=unchecked_of(["revocation"]),
    )


def test_recorded_reports_are_affirmed_by_their_drafts(vectors_dir: Path) -> None:
    root = vectors_dir / "sev-snp"
    manifest = json.loads((root / "MANIFEST.json").read_text())
    tried = 0
    for vector in manifest["vectors"]:
        if vector["report"] is None:
            continue
        affirms(drafted(recorded_snp(root, vector), exactly=["snp.tcb"]))
        found = drafted(recorded_snp(root, vector))
        affirms(found)
        assert ("WEAKER" in found.draft.yaml) is bool(found.draft.weak)
        tried += 1
    assert tried >= 4


def test_a_masked_chip_cannot_be_demanded(vectors_dir: Path) -> None:
    root = vectors_dir / "sev-snp"
    manifest = json.loads((root / "MANIFEST.json").read_text())
    vector = next(v for v in manifest["vectors"] if v["endorsement_role"] == "VLEK")
    verified = recorded_snp(root, vector)
    if verified.items[0].claims["chip_id_masked"] is not True:
        pytest.skip("this report shows its chip")
    with pytest.raises(ConfigurationError) as refused:
        drafted(verified, exactly=["snp.chip"])
    assert refused.value.code == "policy-draft-field"


def recorded_nvidia(vectors_dir: Path, name: str, case: dict[str, Any]) -> VerifiedEvidence:
    root = vectors_dir / "nvidia"
    at = datetime.fromisoformat(case["at"])
    files = [(n, (root / n).read_bytes()) for n in case["files"].values()]
    inputs = [file for file in files if "report" in file[0] or "evidence" in file[0]]
    return verify(
        read_evidence(inputs).evidence,
        endorsements=read_endorsements([f for f in files if f not in inputs], at=at).endorsements,
        anchors=TrustAnchors.vendors(),
        at=at,
        unchecked=unchecked_of(["revocation", *(() if name.startswith("hopper-545") else ("rim",))]),
    )


@pytest.mark.parametrize("name", ["hopper-545-complete-pass", "ppcie-hgx"])
def test_recorded_devices_are_affirmed_by_their_drafts(vectors_dir: Path, name: str) -> None:
    manifest = json.loads((vectors_dir / "nvidia/MANIFEST.json").read_text())
    case = next(case for case in manifest["cases"] if case["id"] == name)
    verified = recorded_nvidia(vectors_dir, name, case)
    for default in ("exactly", "or-newer"):
        found = drafted(verified, default=default)
        affirms(found)
        assert "devices.bound" in dict(found.draft.weak)


# -- what is chosen, and how it is written


def test_simulated_evidence_says_so_loudly() -> None:
    found = drafted(verified_fixture("genoa-v5-vcek"))
    document = found.draft.document
    assert document["simulated"] == {
        "unchecked": "drafted from SIMULATED evidence, which proves nothing about hardware"
    }
    assert found.draft.yaml.count("SIMULATED") >= 4
    assert found.draft.yaml.startswith("# yaml-language-server: $schema=")
    assert found.source.origin.startswith("SIMULATED: from evidence ")
    assert found.source.origin.endswith(" on 2026-06-01")


_HEAD_KEYS = "reference_values simulated version"
_OF_A_TD = "minimum_tcb_evaluation_data_number minimum_tdx_module_svn mr_seam mr_td rtmr0"
_OF_A_DEVICE = "driver_versions fwids vbios_versions"


@pytest.mark.parametrize(
    ("case", "head", "sections"),
    [
        ("genoa-v3-vlek", _HEAD_KEYS, {"snp": "measurement minimum_tcb"}),
        ("genoa-v5-vcek", f"{_HEAD_KEYS} snp", {"snp": "measurement minimum_tcb"}),
        ("milan-v5-masked-chip-id", _HEAD_KEYS, {"snp": "masked_chip_id measurement minimum_tcb products"}),
        ("td-v4", f"{_HEAD_KEYS} tdx", {"tdx": _OF_A_TD}),
        ("td-v4-out-of-date", f"{_HEAD_KEYS} tdx", {"tdx": f"{_OF_A_TD} accepted_advisories tcb_status"}),
        ("enclave-v3", f"{_HEAD_KEYS} sgx", {"sgx": "minimum_tcb_evaluation_data_number mr_enclave"}),
        (
            "nvidia-board",
            "simulated version gpu nvswitch",
            {"devices": "bound", "gpu": _OF_A_DEVICE, "nvswitch": "fwids vbios_versions"},
        ),
        ("azure-tdx-v2", f"{_HEAD_KEYS} tdx azure", {"tdx": _OF_A_TD.removesuffix(" rtmr0")}),
    ],
)
def test_a_comment_stands_above_each_key_that_a_person_has_to_look_at(
    case: str, head: str, sections: dict[str, str]
) -> None:
    comments = drafted(verified_fixture(case)).draft.comments
    expected = {(key,) for key in head.split()} | {(of, key) for of, keys in sections.items() for key in keys.split()}
    assert {path for path in comments if len(path) < 3} == expected
    assert all(paragraphs and all(paragraphs) for paragraphs in comments.values())


@pytest.mark.parametrize("case", ["nvidia-snp-with-hopper", "nvidia-blackwell", "nvidia-switch"])
def test_a_newer_vbios_is_one_of_the_same_family_of_chips(case: str) -> None:
    verified = verified_fixture(case)
    found = drafted(verified, default="or-newer")
    for name in ("gpu", "nvswitch"):
        section: Any = found.draft.document.get(name)
        if section is None:
            continue
        holds = in_ranges(Numbering.HEX, ranges_of(Numbering.HEX)(section["vbios_versions"], name))
        ((least, below),) = ((row["at_least"], row["below"]) for row in section["vbios_versions"])
        family, *rest = (int(part, 16) for part in least.split("."))
        assert int(below, 16) == family + 1
        assert holds(least, verified.at)
        assert holds(f"{family:X}.FF.FF.FF.FF", verified.at)
        assert not holds(f"{family:X}.{'.'.join('00' for _ in rest)}", verified.at)
        assert not holds(f"{family + 1:X}.00.00.00.00", verified.at)
        assert not holds(f"{family + 1:X}.00.00.00.01", verified.at)


def test_what_the_machine_does_not_meet_is_relaxed_with_its_reason() -> None:
    found = drafted(verified_fixture("milan-v5-debug"))
    assert found.draft.weak == (("snp.guest_policy.debug", "this machine does not meet it: expected false, got true"),)
    assert "WEAKER than a strict policy: snp.guest_policy.debug; each is marked." in found.draft.yaml
    (result,) = [rule for rule in found.draft.policy.all_rules() if rule.rule.id == "policy.snp.guest_policy.debug"]
    assert result.rule.relaxed == found.draft.weak[0][1]
    out_of_date = drafted(verified_fixture("td-v4-out-of-date")).draft
    assert "tcb_status: [UpToDate]" not in out_of_date.yaml
    assert [key for key, _ in out_of_date.weak] == ["tdx.tcb_status", "tdx.accepted_advisories"]
    assert "INTEL-SA-" in out_of_date.yaml


def with_gpu(**changes: str) -> DraftSource:
    """A source whose GPU states something else."""
    source = source_of(verified_fixture("nvidia-hopper"))
    (gpu,) = source.devices.gpus
    assert isinstance(gpu, VerifiedGpu)
    odd = replace(gpu, **changes)  # type: ignore[arg-type]  # text alone
    items = tuple(replace(item, verified=odd) for item in source.items)
    return replace(source, items=items, devices=replace(source.devices, gpus=(odd,)))


def test_a_version_that_nobody_can_read_is_relaxed_with_its_reason() -> None:
    source = with_gpu(driver_version="unknown")
    draft = draft_policy(source, name="odd", reference="seen", chosen=choose(["nvidia-gpu"]))
    assert "gpu.driver_versions" in dict(draft.weak)
    assert "unknown" in dict(draft.weak)["gpu.driver_versions"]
    endless = draft_policy(with_gpu(driver_version="u" * 600), name="odd", reference="s", chosen=choose(["nvidia-gpu"]))
    assert len(dict(endless.weak)["gpu.driver_versions"]) == 500


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("FE.01.02.03.04", {"at_least": "FE.01.02.03.04", "below": "FF"}),
        ("FF.01.02.03.04", {"at_least": "FF.01.02.03.04"}),  # there is no family above the last
        ("00.00.00.00.01", {"at_least": "00.00.00.00.01", "below": "1"}),
        ("00.00.00.00.00", {"at_least": "00.00.00.00.00", "below": "1"}),
    ],
)
def test_the_first_and_the_last_family_of_chips_have_drafts_too(version: str, expected: JsonValue) -> None:
    source = with_gpu(vbios_version=version)
    chosen = choose(["nvidia-gpu"], default="or-newer")
    document: Any = draft_policy(source, name="odd", reference="seen", chosen=chosen).document
    assert document["gpu"]["vbios_versions"] == [expected]


def test_newer_enclaves_are_accepted_by_their_signer() -> None:
    found = drafted(verified_fixture("enclave-v3"), or_newer=["sgx.enclave"])
    affirms(found)
    assert "reference_values" not in found.draft.document
    assert "minimum_isv_svn" in found.draft.yaml


@pytest.mark.parametrize(
    ("exactly", "or_newer"),
    [
        (["snp.colour"], []),
        (["gpu.driver"], []),
        (["snp.tcb"], ["snp.tcb"]),
        (["tdx.module"], []),
        (["snp.chip"], ["snp.chip"]),
        ([], ["snp.chip"]),
    ],
)
def test_a_choice_that_cannot_be_is_refused(exactly: list[str], or_newer: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        choose(["sev-snp"], exactly=exactly, or_newer=or_newer)
    assert refused.value.code == "policy-draft-field"


@pytest.mark.parametrize(
    ("exactly", "or_newer", "expected", "got"),
    [
        (["snp.colour"], [], "one of snp.tcb, snp.chip", "no known field"),
        (["gpu.driver"], [], "one of snp.tcb, snp.chip", "a device that the evidence does not have"),
        (["snp.tcb"], ["snp.tcb"], "one choice", "exactly and or-newer"),
        ([], ["snp.chip"], "any or exactly", "or-newer"),
    ],
)
def test_a_choice_that_cannot_be_is_told_beside_those_that_can(
    exactly: list[str], or_newer: list[str], expected: str, got: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        choose(["sev-snp"], exactly=exactly, or_newer=or_newer)
    assert (refused.value.expected, refused.value.got) == (expected, got)


def test_a_kind_that_the_language_has_no_key_for_gives_no_draft() -> None:
    with pytest.raises(ConfigurationError) as refused:
        choose(["tpm"])
    assert refused.value.code == "policy-draft-kind"


def test_choices_follow_the_default_only_where_versions_are_meant() -> None:
    assert choose(["nvidia-gpu"], default="or-newer", exactly=["gpu.vbios"]) == {
        "gpu.driver": "or-newer",
        "gpu.vbios": "exactly",
        "gpu.device": "any",
    }
    assert choose(["sgx"], default="or-newer")["sgx.enclave"] == "exactly"


def test_what_fits_a_line_stands_on_one_and_what_does_not_on_many() -> None:
    def lines(length: int) -> list[str]:
        return yaml_text({"top": {"list": ["aa", "b" * length]}}, {}).strip().splitlines()

    room = 110 - len('  list: [aa, ""]')
    assert lines(room) == ["top:", f'  list: [aa, "{"b" * room}"]']
    assert lines(room + 1) == ["top:", "  list:", "    - aa", f'    - "{"b" * (room + 1)}"']
    assert yaml_text({"top": ["aa"]}, {}).strip().splitlines() == ["top:", "  - aa"]
    commented = yaml_text({"top": {"one": {"two": 3}}}, {("top", "one", "two"): ("why",)})
    assert commented.strip().splitlines() == ["top:", "  one:", "    # why", "    two: 3"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [("ab", True), ("a", False), ("a" * 40, True), ("a" * 41, False), ("1a", False), ("a b", False)]
    + [(word, False) for word in ("true", "False", "YES", "no", "on", "off", "null")],
)
def test_only_words_that_yaml_reads_as_text_stand_without_quotes(text: str, plain: bool) -> None:
    assert yaml_text({"key": text}, {}) == (f"key: {text}\n" if plain else f'key: "{text}"\n')


def test_what_a_stranger_wrote_cannot_leave_its_quotes_or_its_comment() -> None:
    hostile = 'a"\\ \n# b: c\u2028\U0001f600'
    document: dict[str, JsonValue] = {"simple": {hostile: hostile, "null": ["no", "1"], "n": 3}, "plain": "word"}
    text = yaml_text(document, {("simple",): (hostile,), ("simple", "n"): ("a number",)})
    from ruamel.yaml import YAML

    assert YAML(typ="safe", pure=True).load(text) == document
    assert text.isascii()
    assert yaml_text({"n": " ~\x7f\uffff\U00010000"}, {}).endswith('"n": " ~\\u007f\\uffff\\U00010000"\n')
    assert list(comment_lines("")) == ["#"]
    assert list(comment_lines(f"{'a' * 50} {'b' * 49}")) == [f"# {'a' * 50} {'b' * 49}"]
    assert list(comment_lines(f"{'a' * 50} {'b' * 50}")) == [f"# {'a' * 50}", f"# {'b' * 50}"]
    long = list(comment_lines("word " * 60))
    assert all(line.startswith("# word") and len(line) <= 102 for line in long)
    assert len(long) > 2
