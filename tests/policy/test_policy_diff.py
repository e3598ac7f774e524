"""What the difference between two policies means."""

import copy
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.policy.authoring.comparison import Effect, Resolved, combined, shown
from attest.policy.authoring.demands import names_in_use, resolved_names
from attest.policy.authoring.policy_diff import diff_policies
from attest.policy.devices import Count
from attest.policy.document import read_document
from attest.policy.model import PolicyDocument, decode_policy
from tests.policy.documents import MEASUREMENT, STRICT, document
from tests.policy.gpu_documents import devices_document, gpu_document, switch_document
from tests.policy.intel_documents import sgx_document, tdx_document

Json = dict[str, Any]
OTHER = "ab" * 48
GENOA = {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 84}
TURIN = {"fmc": 1, "bootloader": 1, "tee": 1, "snp": 4, "microcode": 72}


def decoded(policy: Json) -> PolicyDocument:
    return decode_policy(read_document(json.dumps(policy).encode()))


def differences(old: Json, new: Json) -> list[tuple[str, str]]:
    """The paths and effects, without what is said of the version."""
    found = diff_policies(decoded(old), decoded(new)).changes
    return [(change.path, str(change.effect)) for change in found if change.path != "version"]


def effect(old: Json, new: Json) -> str | None:
    found = diff_policies(decoded(old), decoded(new)).effect
    return None if found is None else str(found)


def back(name: str) -> str:
    return str(Effect(name).reverse)


def test_a_policy_means_what_it_means() -> None:
    for policy in (STRICT, tdx_document(), sgx_document(), gpu_document(), devices_document(gpus=8)):
        found = diff_policies(decoded(policy), decoded(policy))
        assert (found.changes, found.effect, found.same_meaning) == ((), None, True)


def test_what_is_demanded_anyway_may_be_written_out() -> None:
    written = document(
        vmpl=[0], provisional_firmware=False, guest_policy={"debug": False}, signing_key=["vlek", "vcek"]
    )
    found = diff_policies(decoded(STRICT), decoded(written))
    assert found.same_meaning
    assert [change.path for change in found.changes] == []


SNP_CHANGES: list[tuple[Json, str, str]] = [
    ({"products": ["Genoa", "Turin"]}, "snp.products", "looser"),
    ({"products": ["Turin"]}, "snp.products", "changed"),
    ({"products": {"unchecked": "x"}}, "snp.products", "looser"),
    ({"minimum_tcb": {"Genoa": GENOA | {"snp": 28}}}, "snp.minimum_tcb", "stricter"),
    ({"minimum_tcb": {"Genoa": GENOA | {"snp": 26}}}, "snp.minimum_tcb", "looser"),
    ({"minimum_tcb": {"Genoa": GENOA | {"snp": 26, "microcode": 85}}}, "snp.minimum_tcb", "changed"),
    ({"minimum_tcb": {"Genoa": GENOA, "Turin": TURIN}}, "snp.minimum_tcb", "looser"),
    ({"minimum_tcb": {"unchecked": "x"}}, "snp.minimum_tcb", "looser"),
    ({"minimum_launch_tcb": {"Genoa": GENOA}}, "snp.minimum_launch_tcb", "stricter"),
    ({"minimum_launch_tcb": {"unchecked": "x"}}, "snp.minimum_launch_tcb", "label"),
    ({"exact_tcb": {"Genoa": [GENOA]}}, "snp.exact_tcb", "stricter"),
    ({"exact_tcb": {"unchecked": "x"}}, "snp.exact_tcb", "label"),
    ({"exact_committed_tcb": {"Genoa": [GENOA]}}, "snp.exact_committed_tcb", "stricter"),
    ({"vmpl": [0, 1]}, "snp.vmpl", "looser"),
    ({"signing_key": ["vcek"]}, "snp.signing_key", "stricter"),
    ({"guest_policy": {"smt": False}}, "snp.guest_policy.smt", "stricter"),
    ({"guest_policy": {"debug": {"unchecked": "x"}}}, "snp.guest_policy.debug", "looser"),
    ({"platform_info": {"tsme_en": True}}, "snp.platform_info.tsme_en", "stricter"),
    ({"chip_ids": ["ab" * 64]}, "snp.chip_ids", "stricter"),
    ({"denied_chip_ids": ["ab" * 64]}, "snp.denied_chip_ids", "stricter"),
    ({"host_data": ["ab" * 32]}, "snp.host_data", "stricter"),
    ({"minimum_guest_svn": 3}, "snp.minimum_guest_svn", "stricter"),
    ({"mitigations_now": 3}, "snp.mitigations_now", "stricter"),
    ({"minimum_abi": {"major": 1, "minor": 55}}, "snp.minimum_abi", "stricter"),
]


HIGH, LOW = GENOA | {"snp": 28}, GENOA | {"snp": 26}
TCB_PAIRS: list[tuple[Json, Json, str | None]] = [
    # A list in the place of a minimum: stricter, unless it has what the minimum refused.
    ({"minimum_tcb": {"Genoa": GENOA}}, {"exact_tcb": {"Genoa": [GENOA, HIGH]}}, "stricter"),
    ({"minimum_tcb": {"Genoa": GENOA}}, {"exact_tcb": {"Genoa": [GENOA, LOW]}}, "changed"),
    ({"minimum_tcb": {"Genoa": GENOA}}, {"exact_tcb": {"Genoa": [GENOA], "Turin": [TURIN]}}, "changed"),
    ({"minimum_tcb": {"Genoa": GENOA, "Turin": TURIN}}, {"exact_tcb": {"Genoa": [GENOA]}}, "stricter"),
    ({"minimum_tcb": {"unchecked": "x"}}, {"exact_tcb": {"Genoa": [GENOA]}}, "stricter"),
    ({"exact_tcb": {"unchecked": "x"}}, {"exact_tcb": {"Genoa": [GENOA]}}, "stricter"),
    ({"minimum_tcb": {"unchecked": "x"}}, {"exact_tcb": {"unchecked": "x"}}, "label"),
    # A list beside a minimum.
    ({"minimum_tcb": {"Genoa": GENOA}}, {"minimum_tcb": {"Genoa": GENOA}, "exact_tcb": {"Genoa": [HIGH]}}, "stricter"),
    ({"exact_tcb": {"Genoa": [HIGH]}}, {"minimum_tcb": {"Genoa": GENOA}, "exact_tcb": {"Genoa": [HIGH]}}, "label"),
    (
        {"minimum_tcb": {"Genoa": GENOA}, "exact_tcb": {"Genoa": [HIGH]}},
        {"minimum_tcb": {"Genoa": GENOA}, "exact_tcb": {"Genoa": [HIGH, LOW]}},
        "label",
    ),
    (
        {"minimum_tcb": {"Genoa": HIGH}, "exact_tcb": {"Genoa": [HIGH, GENOA]}},
        {"minimum_tcb": {"Genoa": GENOA}, "exact_tcb": {"Genoa": [HIGH, GENOA]}},
        "looser",
    ),
    (
        {"minimum_tcb": {"Turin": TURIN}, "exact_tcb": {"Genoa": [HIGH]}},
        {"minimum_tcb": {"Genoa": GENOA}, "exact_tcb": {"Genoa": [HIGH]}},
        "looser",
    ),
    # Lists.
    ({"exact_tcb": {"Genoa": [GENOA]}}, {"exact_tcb": {"Genoa": [GENOA, HIGH]}}, "looser"),
    ({"exact_tcb": {"Genoa": [GENOA]}}, {"exact_tcb": {"Genoa": [HIGH]}}, "changed"),
    ({"exact_tcb": {"Genoa": [GENOA, HIGH]}}, {"exact_tcb": {"Genoa": [HIGH, GENOA]}}, "label"),
    ({"exact_tcb": {"Genoa": [GENOA]}}, {"exact_tcb": {"Genoa": [GENOA]}}, None),
    ({"exact_tcb": {"Genoa": [GENOA]}}, {"exact_tcb": {"Genoa": [GENOA], "Turin": [TURIN]}}, "looser"),
]


@pytest.mark.parametrize(("old", "new", "expected"), TCB_PAIRS, ids=str)
def test_minimums_and_exact_tcbs_are_compared_by_what_they_let_through(old: Json, new: Json, expected: str) -> None:
    first, second = (document(**{"minimum_tcb": None} | one) for one in (old, new))
    assert effect(first, second) == expected
    assert effect(second, first) == (None if expected is None else back(expected))


def test_a_list_of_exact_tcbs_is_told_by_product_line() -> None:
    (change,) = [
        change
        for change in diff_policies(decoded(STRICT), decoded(document(exact_tcb={"Genoa": [HIGH, LOW]}))).changes
        if change.path != "version"
    ]
    assert change.path == "snp.exact_tcb"
    assert change.text == (
        "Genoa: at least bootloader 10 tee 0 snp 27 microcode 84, now exactly bootloader 10 tee 0 snp 28 microcode 84"
    )
    gone = diff_policies(decoded(document(exact_launch_tcb={"Genoa": [HIGH]})), decoded(STRICT)).changes[-1]
    assert gone.text == "exactly bootloader 10 tee 0 snp 28 microcode 84 on Genoa, now not demanded"
    none = diff_policies(decoded(document(exact_tcb={"Genoa": [LOW]})), decoded(STRICT)).changes[-1]
    assert none.text == "Genoa: none, now at least bootloader 10 tee 0 snp 27 microcode 84"


SMALL = st.builds(lambda one, two: GENOA | {"bootloader": one, "snp": two}, st.integers(0, 2), st.integers(0, 2))
LINES = st.sampled_from(["Genoa", "Milan"])
FLOORS = st.dictionaries(LINES, SMALL, min_size=1)
LISTS = st.dictionaries(LINES, st.lists(SMALL, min_size=1, max_size=3, unique_by=str), min_size=1)
PAIRS = st.fixed_dictionaries({}, optional={"minimum_tcb": FLOORS, "exact_tcb": LISTS}).filter(bool)


def let_through(pair: Json) -> set[tuple[str, int, int]]:
    """Every TCB that meets both demands, counted out."""
    return {
        (line, one, two)
        for line in ("Genoa", "Milan", "Turin")
        for one in range(4)
        for two in range(4)
        for floor in [pair.get("minimum_tcb", {line: GENOA | {"bootloader": 0, "snp": 0}}).get(line)]
        if floor is not None and one >= floor["bootloader"] and two >= floor["snp"]
        if "exact_tcb" not in pair or GENOA | {"bootloader": one, "snp": two} in pair["exact_tcb"].get(line, [])
    }


@given(PAIRS, PAIRS)
def test_the_effect_of_demands_on_tcbs_is_that_on_the_tcbs_let_through(old: Json, new: Json) -> None:
    before, after = let_through(old), let_through(new)
    found = effect(*(document(**{"minimum_tcb": None} | pair) for pair in (old, new)))
    if before == after:
        assert found in {None, "label"}
    else:
        assert found == ("stricter" if after < before else "looser" if before < after else "changed")


@pytest.mark.parametrize(("change", "path", "expected"), SNP_CHANGES, ids=str)
def test_a_change_of_snp_and_the_way_back(change: Json, path: str, expected: str) -> None:
    new = document(**change)
    assert {found[0] for found in differences(STRICT, new)} == {path}
    assert effect(STRICT, new) == expected
    assert effect(new, STRICT) == back(expected)


def test_a_demand_on_both_sides() -> None:
    for name, low, high in (
        ("minimum_guest_svn", 3, 4),
        ("mitigations_now", 1, 3),
        ("minimum_abi", {"major": 1, "minor": 55}, {"major": 2, "minor": 0}),
        ("minimum_launch_tcb", {"Genoa": GENOA}, {"Genoa": GENOA | {"tee": 1}}),
    ):
        assert effect(document(**{name: low}), document(**{name: high})) == "stricter"
        assert effect(document(**{name: high}), document(**{name: low})) == "looser"
    assert effect(document(mitigations_now=1), document(mitigations_now=2)) == "changed"
    assert effect(document(guest_policy={"smt": False}), document(guest_policy={"smt": True})) == "changed"
    relaxed = [document(products={"unchecked": reason}) for reason in ("x", "y")]
    assert effect(*relaxed) == "label"


# -- reference values


def with_references(names: list[str], **references: Json) -> Json:
    return document(measurement=names) | {"reference_values": references}


IMAGE: Json = {"origin": "build", "values": [MEASUREMENT]}
ENDING = IMAGE | {"expires": "2027-01-01T00:00:00Z"}


def test_another_name_for_the_same_value_is_no_difference() -> None:
    old, new = with_references(["a"], a=IMAGE), with_references(["b"], b=IMAGE)
    assert differences(old, new) == []
    assert effect(old, new) is None


def test_values_that_come_and_go() -> None:
    old = with_references(["a"], a=IMAGE)
    more = with_references(["a"], a=IMAGE | {"values": [MEASUREMENT, OTHER]})
    other = with_references(["a"], a=IMAGE | {"values": [OTHER]})
    assert differences(old, more) == [("snp.measurement", "looser")]
    assert differences(more, old) == [("snp.measurement", "stricter")]
    assert effect(old, other) == "changed"
    (change,) = [c for c in diff_policies(decoded(old), decoded(more)).changes if c.path == "snp.measurement"]
    assert change.text == f"added a {OTHER}"
    ending = with_references(["a", "b"], a=IMAGE, b=ENDING | {"values": [OTHER]})
    added = diff_policies(decoded(old), decoded(ending)).changes[-1]
    assert added.text == f"added b {OTHER}, until 2027-01-01T00:00:00Z"


def test_ends_that_come_nearer_or_go_further() -> None:
    old, ending = with_references(["a"], a=IMAGE), with_references(["a"], a=ENDING)
    later = with_references(["a"], a=IMAGE | {"expires": "2028-01-01T00:00:00Z"})
    assert effect(old, ending) == "stricter"
    assert effect(ending, old) == "looser"
    assert effect(ending, later) == "looser"
    assert effect(later, ending) == "stricter"


def test_origins_and_unused_values_are_labels() -> None:
    old = with_references(["a"], a=IMAGE)
    new = with_references(["a"], a=IMAGE | {"origin": "another build"}, unused=ENDING | {"values": [OTHER]})
    assert differences(old, new) == [("reference_values.a", "label"), ("reference_values.unused", "label")]
    assert diff_policies(decoded(old), decoded(new)).same_meaning
    assert differences(new, old) == [("reference_values.a", "label"), ("reference_values.unused", "label")]
    for one, other, word in ((old, new, "added"), (new, old, "removed")):
        assert diff_policies(decoded(one), decoded(other)).changes[-1].text == f"{word}; no demand refers to it"


def test_a_relaxed_measurement() -> None:
    assert effect(STRICT, document(measurement={"unchecked": "x"})) == "looser"
    assert effect(document(measurement={"unchecked": "x"}), STRICT) == "stricter"


def test_names_of_other_documents_are_compared_as_names() -> None:
    found = resolved_names("measurement", ("elsewhere",), {})
    assert found == ("elsewhere",)
    assert names_in_use(decoded(document(measurement={"unchecked": "x"}))) == frozenset()
    old, new = Resolved(ends={}, names={}, elsewhere=("a",)), Resolved(ends={}, names={}, elsewhere=("b",))
    from attest.policy.authoring.comparison import compare_values

    assert [str(one.effect) for one in compare_values("measurement", old, new)] == ["looser", "stricter"]
    assert shown(old) == "a"


# -- the top


def test_versions() -> None:
    def told(old: int, new: int, **change: Any) -> list[tuple[str, str]]:  # noqa: ANN401
        found = diff_policies(decoded(STRICT | {"version": old}), decoded(STRICT | {"version": new} | change))
        return [(change.path, str(change.effect)) for change in found.changes]

    assert told(3, 2) == [("version", "changed")]
    assert told(2, 3) == [("version", "label")]
    assert told(2, 2) == []
    assert told(2, 2, description="x") == [("version", "label"), ("description", "label")]


def test_labels_simulation_and_what_is_unchecked() -> None:
    strict = {name: value for name, value in STRICT.items() if name != "simulated"}
    assert differences(STRICT, STRICT | {"name": "other"}) == [("name", "label")]
    assert differences(STRICT, strict) == [("simulated", "stricter")]
    assert differences(strict, STRICT) == [("simulated", "looser")]
    loose, other = STRICT | {"unchecked": {"revocation": "x"}}, STRICT | {"unchecked": {"revocation": "y"}}
    assert differences(STRICT, loose) == [("unchecked", "looser")]
    assert differences(loose, STRICT) == [("unchecked", "stricter")]
    assert differences(loose, other) == [("unchecked", "label")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaterDocument(PolicyDocument):
    """A document of a later version of the language."""

    novelty: tuple[str, ...]


def test_a_key_that_is_not_known_here_is_a_change() -> None:
    document = decoded(STRICT)
    known = {field.name: getattr(document, field.name) for field in dataclasses.fields(document)}
    old, new = (LaterDocument(**known, novelty=(word,)) for word in ("a", "b"))
    (change,) = [one for one in diff_policies(old, new).changes if one.path != "version"]
    assert (change.path, change.effect, change.text) == ("novelty", Effect.CHANGED, "a, now b")


# -- Intel

ADVISORY = {"INTEL-SA-00837": {"reason": "x", "expires": "2027-01-01T00:00:00Z"}}
LATER = {"INTEL-SA-00837": {"reason": "y", "expires": "2028-01-01T00:00:00Z"}}
TDX_CHANGES: list[tuple[Json, str, str]] = [
    ({"tcb_status": ["UpToDate", "OutOfDate"]}, "tdx.tcb_status", "looser"),
    ({"accepted_advisories": ADVISORY}, "tdx.accepted_advisories", "looser"),
    ({"minimum_tcb_evaluation_data_number": 18}, "tdx.minimum_tcb_evaluation_data_number", "stricter"),
    ({"minimum_tdx_module_svn": {"1": 6}}, "tdx.minimum_tdx_module_svn", "stricter"),
    ({"td_attributes": {"debug": {"unchecked": "x"}}}, "tdx.td_attributes.debug", "looser"),
    ({"platform": {"cached_keys": False}}, "tdx.platform.cached_keys", "stricter"),
    ({"event_log": {}}, "tdx.event_log", "stricter"),
]


@pytest.mark.parametrize(("change", "path", "expected"), TDX_CHANGES, ids=str)
def test_a_change_of_tdx_and_the_way_back(change: Json, path: str, expected: str) -> None:
    old, new = tdx_document(), tdx_document(**change)
    assert differences(old, new) == [(path, expected)]
    assert differences(new, old) == [(path, back(expected))]


def test_dates_of_tcb_levels() -> None:
    first, second = (tdx_document(minimum_tcb_date=f"202{year}-01-01T00:00:00Z") for year in (5, 6))
    assert differences(first, second) == [("tdx.minimum_tcb_date", "stricter")]
    assert effect(second, first) == "looser"
    assert effect(tdx_document(), first) == "stricter"


def test_registers_are_compared_by_their_values() -> None:
    old = tdx_document()
    name = old["tdx"]["mr_td"][0]
    assert differences(old, tdx_document(rtmr3=[name])) == [("tdx.rtmr3", "stricter")]


def test_advisories_and_module_versions() -> None:
    first, second = tdx_document(accepted_advisories=ADVISORY), tdx_document(accepted_advisories=LATER)
    assert differences(first, second) == [("tdx.accepted_advisories", "looser"), ("tdx.accepted_advisories", "label")]
    assert effect(second, first) == "stricter"
    modules = [tdx_document(minimum_tdx_module_svn=svns) for svns in ({"1": 6}, {"1": 7}, {"1": 6, "3": 0})]
    assert effect(modules[0], modules[1]) == "stricter"
    assert effect(modules[0], modules[2]) == "looser"


def test_event_logs() -> None:
    def log(**log_: Any) -> Json:  # noqa: ANN401
        return tdx_document(event_log=log_)

    assert differences(log(), log(secure_boot=True)) == [("tdx.event_log.secure_boot", "stricter")]
    one, two = log(kernel_command_lines=["a"]), log(kernel_command_lines=["a", "b"])
    assert differences(one, two) == [("tdx.event_log.kernel_command_lines", "looser")]
    assert {found[1] for found in differences(log(), one)} == {"stricter"}
    grub = log(grub_commands=["a"])
    assert set(differences(one, grub)) == {
        ("tdx.event_log.kernel_command_lines", "changed"),
        ("tdx.event_log.grub_commands", "changed"),
    }
    stores = log(signature_stores={"db": ["00" * 48]})
    assert differences(log(), stores) == [("tdx.event_log.signature_stores.db", "stricter")]
    events = [{"domain": "a", "operation": "b"}, {"domain": "c", "operation": "d", "contents": ["e"]}]
    few, many = log(application_events=events[:1]), log(application_events=events)
    assert differences(few, many) == [("tdx.event_log.application_events", "changed")]
    assert differences(many, log(application_events=events[::-1])) == []


def test_enclaves() -> None:
    assert differences(sgx_document(), sgx_document(minimum_isv_svn=2)) == [("sgx.minimum_isv_svn", "stricter")]
    assert differences(sgx_document(isv_prod_id=[1]), sgx_document(isv_prod_id=[2])) == [
        ("sgx.isv_prod_id", "looser"),
        ("sgx.isv_prod_id", "stricter"),
    ]


# -- NVIDIA


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"at_least": "570"}, {"at_least": "570.0"}, None),
        ({"at_least": "570"}, {"at_least": "575"}, "stricter"),
        ({"at_least": "570"}, {"at_least": "570", "below": "580"}, "stricter"),
        (
            {"at_least": "570", "below": "580"},
            [{"at_least": "570", "below": "575"}, {"at_least": "575", "below": "580"}],
            None,
        ),
        ({"at_least": "570", "below": "580"}, [{"at_least": "570", "below": "575"}, {"exactly": "579"}], "stricter"),
        ({"below": "580"}, {"at_least": "0.0", "below": "580"}, None),
        ({"exactly": "570.1"}, {"exactly": "570.2"}, "changed"),
        ({"exactly": "570.1"}, {"at_least": "570"}, "looser"),
    ],
    ids=str,
)
def test_versions_are_compared_by_what_is_in_the_ranges(old: Any, new: Any, expected: str | None) -> None:  # noqa: ANN401
    first, second = gpu_document(driver_versions=old), gpu_document(driver_versions=new)
    assert effect(first, second) == expected
    assert effect(second, first) == (None if expected is None else back(expected))


def test_what_a_policy_says_of_gpus() -> None:
    base = gpu_document()
    assert effect(base, gpu_document(waived_measurements={"7": "x"})) == "looser"
    assert effect(gpu_document(waived_measurements={"7": "y"}), gpu_document(waived_measurements={"7": "x"})) == "label"
    assert effect(base, gpu_document(held_rim_signers={"unchecked": "x"})) == "looser"
    assert effect(base, gpu_document(accepted_opaque={"36:0300": "x"})) == "looser"
    assert effect(gpu_document(accepted_opaque={"36:0300": "x"}), base) == "stricter"
    assert effect(base, gpu_document(denied_device_identities=["41" + "00" * 8])) == "stricter"
    assert effect(switch_document(), switch_document(locked={"unchecked": "x"})) == "looser"


def test_how_many_devices() -> None:
    def counts(old: Any, new: Any) -> str | None:  # noqa: ANN401
        return effect(devices_document(gpus=old), devices_document(gpus=new))

    assert counts({"at_least": 1}, {"at_least": 1, "at_most": 8}) == "stricter"
    assert counts({"at_least": 1, "at_most": 8}, {"at_least": 1, "at_most": 4}) == "stricter"
    assert counts({"at_least": 1, "at_most": 4}, {"at_least": 1, "at_most": 8}) == "looser"
    assert counts({"at_least": 1, "at_most": 4}, {"at_least": 1}) == "looser"
    assert counts(8, 4) == "changed"


# -- kinds


def test_a_kind_that_a_policy_did_not_speak_of_was_refused() -> None:
    both = copy.deepcopy(STRICT) | {"tdx": tdx_document()["tdx"]}
    both["reference_values"] = STRICT["reference_values"] | tdx_document()["reference_values"]
    assert ("tdx", "looser") in differences(STRICT, both)
    assert ("tdx", "stricter") in differences(both, STRICT)


def test_devices_and_the_cpu_that_must_come_with_them() -> None:
    gpus = {name: value for name, value in gpu_document().items() if name != "nvswitch"}
    with_cpu = copy.deepcopy(STRICT) | {"gpu": gpus["gpu"]}
    assert differences(STRICT, with_cpu) == [("gpu", "looser"), ("devices", "stricter")]
    without_references = gpus | {"reference_values": STRICT["reference_values"]}
    assert ("devices.cpu", "stricter") in differences(without_references, with_cpu)
    assert ("devices.cpu", "looser") in differences(with_cpu, without_references)
    for old, new, said in (
        (without_references, with_cpu, "a CPU is now required"),
        (with_cpu, without_references, "a CPU is no longer required"),
    ):
        assert said in {
            one.text for one in diff_policies(decoded(old), decoded(new)).changes if one.path == "devices.cpu"
        }


# -- branches


def branches(*snp: Json, key: str = "any_of", **top: Any) -> Json:  # noqa: ANN401
    base = {name: value for name, value in STRICT.items() if name != "snp"}
    return base | {key: list(snp)} | top


def branch(name: str = "", **snp: Any) -> Json:  # noqa: ANN401
    return ({"name": name} if name else {}) | {"snp": document(**snp)["snp"]}


VMPL_1 = branch(vmpl=[1])
SMT = branch(guest_policy={"smt": False})


def test_the_order_of_branches_means_nothing() -> None:
    assert differences(branches(branch(), VMPL_1), branches(VMPL_1, branch())) == []
    assert differences(branches(branch("a"), VMPL_1), branches(VMPL_1, branch("a"))) == []


@pytest.mark.parametrize(("key", "added"), [("any_of", "looser"), ("all_of", "stricter")])
def test_a_branch_more(key: str, added: str) -> None:
    old, new = branches(branch("a"), key=key), branches(branch("a"), branch("b", vmpl=[1]), key=key)
    assert differences(old, new) == [(f"{key}[1]", added)]
    assert differences(new, old) == [(f"{key}[1]", back(added))]


def test_a_branch_of_a_new_kind() -> None:
    tdx = {"tdx": tdx_document()["tdx"]}
    references = {"reference_values": STRICT["reference_values"] | tdx_document()["reference_values"]}
    old, new = branches(branch("a"), **references), branches(branch("a"), {"name": "b"} | tdx, **references)
    assert differences(old, new) == [("any_of[1]", "looser")]
    old, new = (branches(branch("a"), *more, key="all_of", **references) for more in ((), ({"name": "b"} | tdx,)))
    assert differences(old, new) == [("all_of[1]", "changed")]
    assert differences(new, old) == [("all_of[1]", "changed")]


def said(old: Json, new: Json) -> dict[str, str]:
    """The words about each path."""
    return {one.path: one.text for one in diff_policies(decoded(old), decoded(new)).changes}


def test_branches_of_two_names_are_two_branches() -> None:
    found = said(branches(branch("a"), SMT), branches(branch("b", vmpl=[1]), SMT))
    assert found["any_of[0]"] in ("branch added: b", "branch removed: a")
    changes = diff_policies(decoded(branches(branch("a"), SMT)), decoded(branches(branch("b", vmpl=[1]), SMT))).changes
    assert [(one.path, one.text) for one in changes if one.path != "version"] == [
        ("any_of[0]", "branch added: b"),
        ("any_of[0]", "branch removed: a"),
    ]


def test_a_branch_without_a_name_may_get_one() -> None:
    for old, new, text in (
        (branch(), branch("a", vmpl=[0, 1]), "'', now 'a'"),
        (branch("a"), branch(vmpl=[0, 1]), "'a', now ''"),
    ):
        assert set(said(branches(old), branches(new))) == {"any_of[0].snp.vmpl", "any_of[0].name", "version"}
        assert said(branches(old), branches(new))["any_of[0].name"] == text


def test_the_words_about_branches() -> None:
    chosen = copy.deepcopy(STRICT) | {"any_of": [branch("a"), branch(vmpl=[1])]}
    assert said(STRICT, chosen)["any_of"] == "now demanded: a, branch 1"
    assert said(chosen, STRICT)["any_of"] == "no longer demanded: a, branch 1"
    assert said(branches(SMT), branches(SMT, VMPL_1))["any_of[1]"] == "branch added"


def test_the_words_about_versions_and_names() -> None:
    older, newer = STRICT | {"version": 2}, STRICT | {"version": 3}
    assert said(older, newer) == {"version": "from 2 to 3"}
    assert said(newer, older) == {"version": "went back from 3 to 2"}
    assert said(STRICT, STRICT | {"name": "other"}) == {
        "name": "'test', now 'other'",
        "version": "still 1, though the document differs: raise it with every change",
    }


def test_the_words_about_sections_and_demands() -> None:
    gpus = {name: value for name, value in gpu_document().items() if name != "nvswitch"}
    with_gpu = copy.deepcopy(STRICT) | {"gpu": gpus["gpu"]}
    assert said(STRICT, with_gpu)["gpu"] == "evidence of this kind is now accepted, under the demands here"
    assert said(with_gpu, STRICT)["gpu"] == "evidence of this kind is now refused"
    counted = with_gpu | {"devices": {"gpus": 8}}
    assert said(with_gpu, counted)["devices.gpus"] == "at most any number, now at most 8"
    relaxed, other = (document(vmpl={"unchecked": reason}) for reason in ("x", "y"))
    assert said(document(vmpl=[0]), relaxed)["snp.vmpl"] == "0, now unchecked (x)"
    assert said(relaxed, document(vmpl=[0]))["snp.vmpl"] == "unchecked (x), now 0"
    assert said(relaxed, other)["snp.vmpl"] == "reason 'x', now 'y'"
    assert said(document(), document(host_data=["00" * 32]))["snp.host_data"] == f"not demanded, now {'00' * 32}"
    waived = document(host_data={"unchecked": "x"})
    assert said(document(), waived)["snp.host_data"] == "not demanded, now unchecked (x)"


def test_the_differences_stand_in_the_order_of_the_new_branches() -> None:
    old = branches(branch("a"), branch("b", vmpl=[1]))
    new = branches(branch("b", vmpl=[0, 1]), branch("a", vmpl=[0, 1]))
    assert differences(old, new) == [("any_of[0].snp.vmpl", "looser"), ("any_of[1].snp.vmpl", "looser")]


def test_within_a_branch() -> None:
    assert differences(branches(branch("a")), branches(branch("a", vmpl=[0, 1]))) == [("any_of[0].snp.vmpl", "looser")]
    assert differences(branches(branch()), branches(SMT)) == [("any_of[0].snp.guest_policy.smt", "stricter")]
    assert differences(branches(branch()), branches(branch("a"))) == [("any_of[0].name", "label")]


def test_a_choice_that_comes_and_goes() -> None:
    chosen = copy.deepcopy(STRICT) | {"any_of": [branch("a"), branch(vmpl=[1])]}
    assert differences(STRICT, chosen) == [("any_of", "stricter")]
    assert differences(chosen, STRICT) == [("any_of", "looser")]
    some = copy.deepcopy(STRICT) | {"at_least": {"count": 1, "of": [branch("a"), branch(vmpl=[1])]}}
    assert differences(STRICT, some) == [("at_least", "stricter")]
    assert differences(some, STRICT) == [("at_least", "looser")]
    references = {"reference_values": STRICT["reference_values"] | tdx_document()["reference_values"]}
    other = STRICT | references | {"any_of": [{"tdx": tdx_document()["tdx"]}]}
    assert differences(STRICT | references, other) == [("any_of", "changed")]


def test_how_many_branches() -> None:
    def some(count: int, *of: Json) -> Json:
        return {name: v for name, v in STRICT.items() if name != "snp"} | {"at_least": {"count": count, "of": list(of)}}

    assert differences(some(1, branch("a"), SMT), some(2, branch("a"), SMT)) == [("at_least.count", "stricter")]
    assert differences(some(1, branch("a")), some(1, branch("a"), SMT)) == [("at_least.of[1]", "looser")]


def test_sections_that_come_and_go_beside_branches() -> None:
    tdx = tdx_document()
    references = {"reference_values": STRICT["reference_values"] | tdx["reference_values"]}
    one = branches(branch("a"), **references)
    both = branches(branch("a") | {"tdx": tdx["tdx"]}, **references)
    assert differences(one, both) == [("any_of[0].tdx", "looser")]
    assert differences(both, one) == [("any_of[0].tdx", "stricter")]
    gpus = gpu_document()["gpu"]
    device = branches(branch("a") | {"gpu": gpus}, **references)
    assert differences(one, device) == [("any_of[0].gpu", "changed"), ("any_of[0].devices", "stricter")]
    root = one | {"gpu": gpus}
    root_and_branch = device | {"gpu": gpus}
    assert ("any_of[0].gpu", "stricter") in differences(root, root_and_branch)
    assert differences(one, one | {"snp": STRICT["snp"]}) == [("snp", "stricter")]
    assert differences(one, one | {"tdx": tdx["tdx"]}) == [("tdx", "changed")]


# -- laws


def test_effects_combine() -> None:
    assert combined([]) is None
    assert combined([Effect.LABEL]) is Effect.LABEL
    assert combined([Effect.LABEL, Effect.LOOSER]) is Effect.LOOSER
    assert combined([Effect.STRICTER, Effect.LOOSER]) is Effect.CHANGED
    assert Effect.CHANGED.reverse is Effect.CHANGED
    assert shown(()) == shown({}) == "none"
    assert shown(Count(at_least=1, at_most=1)) == "exactly 1"


LEVELS = st.fixed_dictionaries({name: st.integers(0, 3) for name in GENOA})


@given(LEVELS, LEVELS)
def test_more_tcb_is_never_looser(first: Json, second: Json) -> None:
    old, new = (document(minimum_tcb={"Genoa": levels}) for levels in (first, second))
    pairs = [(first[name], second[name]) for name in first]
    expected = {"stricter" if b > a else "looser" for a, b in pairs if a != b}
    assert effect(old, new) == (None if not expected else "changed" if len(expected) > 1 else expected.pop())


@given(st.lists(st.sampled_from([c[0] for c in SNP_CHANGES]), max_size=4))
def test_the_way_back_has_the_reverse_effect(changes: list[Json]) -> None:
    merged: Json = {}
    for change in changes:
        merged |= change
    new = document(**merged)
    there, back_again = effect(STRICT, new), effect(new, STRICT)
    assert back_again == (None if there is None else back(there))
