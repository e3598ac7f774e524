"""Choices of Azure's release policies as branches of ours: nothing gets weaker, and what we can say means the same."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.appraisal import AttestationResult, appraise
from attest.errors import ConfigurationError
from attest.policy import load_policy
from attest.policy.foreign.convert import Conversion, convert_skr, export_skr
from attest.policy.foreign.skr import claim_tests, parse_skr
from attest.policy.foreign.skr_carriers import WantedClaim, is_carriable
from attest.policy.model import MAX_BRANCHES, decode_policy
from attest.verification import VerifiedItem
from tests.policy.intel_documents import TD, verified_td
from tests.policy.mixed import GENOA_TCB, mixed, snp_cpu
from tests.policy.skr_documents import ISSUER, TEE, Json, azure_claims, equals, skr
from tests.policy.skr_evaluator import evaluate_skr

SNP, TDX = f"{TEE}.x-ms-sevsnpvm-", f"{TEE}.tdx_"
IS_SNP, IS_TDX = (equals(f"{TEE}.x-ms-attestation-type", kind) for kind in ("sevsnpvm", "tdxvm"))
COMPLIANT = equals(f"{TEE}.x-ms-compliance-status", "azure-compliant-cvm")
ACCEPT = {"authority": "we verify ourselves"}
LAB = {"unchecked": "the tests have no hardware"}
TCB_CLAIMS = {"bootloader": "bootloader-svn", "tee": "tee-svn", "snp": "snpfw-svn", "microcode": "microcode-svn"}


def converted(*conditions: Json, group: str = "allOf", accept: Mapping[str, str] = ACCEPT) -> Conversion:
    return convert_skr(parse_skr(skr(*conditions, group=group), extended=True), name="converted", accept=accept)


def all_accepted(*conditions: Json, group: str = "allOf") -> Conversion:
    open_losses = converted(*conditions, group=group).open_losses
    return converted(*conditions, group=group, accept={loss.name: "a test" for loss in open_losses} | ACCEPT)


def document_of(conversion: Conversion) -> Json:
    assert conversion.document is not None, conversion.open_losses
    load_policy(json.dumps(conversion.document).encode())
    return conversion.document


def sections(document: Json) -> list[Json]:
    """The sections of ``any_of``, without what stands there as not demanded."""
    found = []
    for branch in document["any_of"]:
        ((kind, section),) = branch.items()
        found.append({kind: {key: value for key, value in section.items() if "unchecked" not in value}})
    return found


def losses(conversion: Conversion) -> list[str]:
    return [loss.name for loss in conversion.losses if loss.name != "authority"]


def of(name: str, *members: Json) -> Json:
    return {name: list(members)}


def host(byte: int) -> Json:
    return equals(f"{SNP}hostdata", f"{byte:02x}" * 32)


def vmpl(level: int) -> Json:
    return equals(f"{SNP}vmpl", level)


SMT = equals(f"{SNP}smt-allowed", True)


# -- machines, and what Azure says of them


@cache
def machines() -> tuple[tuple[VerifiedItem, Json], ...]:
    snps = [
        snp_cpu(),
        snp_cpu(vmpl=1),
        snp_cpu(host_data=b"\x01" * 32, guest_svn=3),
        snp_cpu(host_data=b"\x02" * 32, policy=0x20000),
        snp_cpu(policy=0xB0000),
        snp_cpu(measurement=bytes(48), host_data=b"\x01" * 32),
    ]
    tds = [
        verified_td().items[0],
        verified_td(replace(TD, mr_config_id=b"\x01" * 48)).items[0],
        verified_td(replace(TD, mr_owner=b"\x02" * 48, td_attributes=TD.td_attributes | 1)).items[0],
    ]
    return (
        *((item, azure_claims(item.claims)) for item in snps),
        *((item, azure_claims(item.claims, tdx=True)) for item in tds),
    )


def judged(document: Json, item: VerifiedItem) -> AttestationResult:
    evidence = mixed(item)
    policy = load_policy(json.dumps({**document, "simulated": LAB}).encode())
    return appraise(evidence, policy=policy, at=evidence.at)


def released(policy: bytes, claims: Json) -> bool:
    return evaluate_skr(parse_skr(policy, extended=True), claims).holds


@cache
def strict(kind: str) -> tuple[bool, ...]:
    """Whether each machine meets what we demand of ourselves."""
    head = {"schema": "attest.policy/1", "name": "strict", "version": 1}
    keys = {"snp": ("products", "measurement", "minimum_tcb"), "tdx": ("mr_td", "rtmr1")}[kind]
    section = {key: {"unchecked": "x"} for key in keys}
    return tuple(judged({**head, kind: section}, item).affirmed for item, _ in machines())


# -- what becomes of a choice


def test_a_choice_between_kinds_of_machines_becomes_branches() -> None:
    conversion = converted(
        of("allOf", IS_SNP, host(1), SMT), of("allOf", IS_TDX, equals(f"{TDX}mrconfigid", "00" * 48)), group="anyOf"
    )
    assert losses(conversion) == []
    assert sections(document_of(conversion)) == [
        {"snp": {"host_data": ["01" * 32], "guest_policy": {"smt": True}}},
        {"tdx": {"mr_config_id": ["00" * 48]}},
    ]
    assert [judged(document_of(conversion), item).affirmed for item, _ in machines()] == [
        *(False, False, True, False, False, True),
        *(True, False, False),
    ]
    strictly = "\n".join(conversion.stricter)
    assert "snp.firmware_rollback_protected: true" in strictly
    assert "tdx.service_td: false" in strictly


def test_the_profile_of_azures_tokens_about_tds_names_the_kind_of_machine() -> None:
    profile = equals("eat_profile", "https://aka.ms/maa-eat-profile-tdxvm")
    assert {"tdx"} == set(document_of(converted(profile))) & {"snp", "tdx"}


def test_what_lies_around_a_choice_is_demanded_in_every_branch() -> None:
    conversion = converted(IS_SNP, SMT, of("anyOf", host(1), of("allOf", vmpl(1), host(0))))
    assert losses(conversion) == []
    assert sections(document_of(conversion)) == [
        {"snp": {"host_data": ["01" * 32], "guest_policy": {"smt": True}}},
        {"snp": {"host_data": ["00" * 32], "vmpl": [1], "guest_policy": {"smt": True}}},
    ]
    inner = converted(host(1), of("anyOf", vmpl(0), SMT, of("allOf", host(2), SMT)))
    assert [list(branch["snp"]) for branch in sections(document_of(inner))] == [
        ["host_data", "vmpl"],
        ["host_data", "guest_policy"],
    ]  # the third contradicts what lies around it


def test_values_of_one_claim_stay_a_list_within_a_choice() -> None:
    conversion = converted(IS_SNP, of("anyOf", host(1), SMT, of("anyOf", host(2), of("allOf", host(1)))))
    assert sections(document_of(conversion)) == [
        {"snp": {"host_data": ["01" * 32, "02" * 32]}},
        {"snp": {"guest_policy": {"smt": True}}},
    ]
    kinds = converted(of("anyOf", IS_SNP, IS_TDX))
    assert losses(kinds) == []
    assert [list(branch) for branch in document_of(kinds)["any_of"]] == [["snp"], ["tdx"]]
    same = converted(IS_SNP, of("anyOf", SMT, of("allOf", SMT, SMT)))
    assert document_of(same)["snp"]["guest_policy"] == {"smt": True}


def test_choices_in_choices_become_one() -> None:
    nested = of("allOf", IS_SNP, of("anyOf", host(1), SMT), of("anyOf", vmpl(1), of("allOf", host(2), vmpl(0))))
    document = document_of(converted(of("anyOf", nested, IS_TDX), group="anyOf"))
    assert sections(document) == [
        {"snp": {"host_data": ["01" * 32], "vmpl": [1]}},
        {"snp": {"vmpl": [1], "guest_policy": {"smt": True}}},
        {"snp": {"host_data": ["02" * 32], "vmpl": [0], "guest_policy": {"smt": True}}},
        {"tdx": {}},
    ]


def test_values_of_several_branches_have_names_of_their_own() -> None:
    def image(byte: str) -> Json:
        return equals(f"{SNP}launchmeasurement", byte * 48)

    conversion = converted(
        of("allOf", image("aa"), host(1)),
        of("allOf", image("bb"), host(2)),
        of("allOf", image("aa"), SMT),
        group="anyOf",
    )
    document = document_of(conversion)
    assert [branch["snp"]["measurement"] for branch in document["any_of"]] == [
        ["converted-measurement"],
        ["converted-measurement-2"],
        ["converted-measurement"],
    ]
    values = {name: entry["values"] for name, entry in document["reference_values"].items()}
    assert values == {"converted-measurement": ["aa" * 48], "converted-measurement-2": ["bb" * 48]}


# -- what cannot be carried


def test_a_demand_that_is_lost_in_an_alternative_is_named_and_the_alternative_stays() -> None:
    conditions = of("allOf", IS_SNP, host(1), COMPLIANT), of("allOf", IS_TDX, COMPLIANT)
    conversion = converted(*conditions, group="anyOf")
    assert conversion.document is None
    assert losses(conversion) == [COMPLIANT["claim"]]  # told once
    assert sections(document_of(all_accepted(*conditions, group="anyOf"))) == [
        {"snp": {"host_data": ["01" * 32]}},
        {"tdx": {}},
    ]


def test_an_alternative_of_which_nothing_is_left_does_not_count_as_met() -> None:
    for choice in (
        of("anyOf", COMPLIANT, host(1)),
        of("anyOf", {"claim": f"{SNP}vmpl", "notEquals": 1}, host(1)),
        of("anyOf", host(1), equals(f"{SNP}hostdata", "AB" * 32)),
    ):
        conversion = all_accepted(IS_SNP, choice)
        assert len(losses(conversion)) == 1
        assert document_of(conversion)["snp"]["host_data"] == ["01" * 32]
        assert "an alternative without a demand that can be carried is left out" in conversion.stricter[0]
    within = of("allOf", IS_SNP, of("anyOf", COMPLIANT, host(1)))
    assert sections(document_of(all_accepted(within, IS_TDX, group="anyOf")))[0] == {"snp": {"host_data": ["01" * 32]}}


def test_a_choice_of_which_nothing_can_be_carried_is_lost_claim_by_claim() -> None:
    secure = equals("secureboot", True)
    conversion = all_accepted(IS_SNP, of("anyOf", COMPLIANT, secure, of("allOf", host(1), host(2))))
    assert losses(conversion) == [COMPLIANT["claim"], secure["claim"]]
    assert list(document_of(conversion)) == ["schema", "name", "version", "description", "snp"]
    with pytest.raises(ConfigurationError) as caught:
        converted(COMPLIANT, secure, group="anyOf")
    assert caught.value.code == "policy-conversion-impossible"


def test_alternatives_that_never_hold_are_left_out_and_told() -> None:
    never = of("allOf", host(1), host(2), equals(f"{SNP}guestsvn", 3))
    conversion = converted(IS_SNP, of("anyOf", never, vmpl(0)))
    assert losses(conversion) == []
    assert document_of(conversion)["snp"]["vmpl"] == [0]
    told = {one.source: one.target for one in conversion.carried}
    assert "never be met" in told[f"{SNP}guestsvn"]
    for conditions in (
        [of("anyOf", never, of("allOf", IS_SNP, IS_TDX))],
        [host(1), of("anyOf", of("allOf", host(2), SMT), IS_TDX)],
        [of("anyOf", of("allOf", never, of("anyOf", SMT, vmpl(0))))],
    ):
        with pytest.raises(ConfigurationError) as caught:
            converted(*conditions)
        assert caught.value.code == "policy-conversion-impossible"
        assert "never be met" in caught.value.message


def test_of_several_contradictions_the_first_is_told() -> None:
    hosts, kinds = of("allOf", host(1), host(2)), of("allOf", IS_SNP, IS_TDX)
    within = of("anyOf", host(2), IS_TDX)
    for conditions, problem in (
        ([of("anyOf", hosts, kinds)], "no value of snp.host_data is left"),
        ([of("anyOf", kinds, hosts)], "it demands two kinds of machine at once"),
        ([of("anyOf", of("allOf", IS_SNP, host(1), within))], "no value of snp.host_data is left"),
        ([IS_SNP, host(1), within], "no value of snp.host_data is left"),
        ([IS_SNP, host(1), of("anyOf", IS_TDX, host(2))], "it demands two kinds of machine at once"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            converted(*conditions)
        assert caught.value.message == f"policy cannot be converted: {problem}: the source can never be met"


# -- exact firmware


def tcb(levels: Mapping[str, int]) -> list[Json]:
    return [equals(SNP + TCB_CLAIMS[part], level) for part, level in levels.items()]


def test_all_parts_of_a_tcb_exactly_are_an_exact_tcb() -> None:
    conversion = converted(*tcb(GENOA_TCB))
    snp = document_of(conversion)["snp"]
    assert losses(conversion) == []
    assert snp["exact_tcb"] == {"Milan": [GENOA_TCB], "Genoa": [GENOA_TCB]}
    assert "minimum_tcb" not in snp
    assert "snp.exact_tcb: Turin is refused" in conversion.stricter[0]
    roll_out = converted(of("anyOf", of("allOf", *tcb(GENOA_TCB)), of("allOf", *tcb(GENOA_TCB | {"snp": 28}))))
    assert [branch["snp"]["exact_tcb"]["Genoa"][0]["snp"] for branch in document_of(roll_out)["any_of"]] == [27, 28]
    parts = tcb(GENOA_TCB)
    floor = {"claim": f"{SNP}snpfw-svn", "greater": 27}
    two = of("anyOf", *(equals(f"{SNP}snpfw-svn", level) for level in (27, "28", 28)))
    both = document_of(converted(*parts[:2], two, parts[3]))["snp"]["exact_tcb"]["Genoa"]
    assert [one["snp"] for one in both] == [27, 28]
    (newer,) = document_of(converted(*parts[:2], two, parts[3], floor))["snp"]["exact_tcb"]["Genoa"]
    assert newer == GENOA_TCB | {"snp": 28}
    for wrong in (floor, parts[0] | {"equals": 11}):
        with pytest.raises(ConfigurationError, check=lambda exc: exc.code == "policy-conversion-impossible"):
            converted(*parts, wrong)


def test_parts_of_a_tcb_become_minimums_which_is_a_loss() -> None:
    few = tcb(GENOA_TCB)[1:]
    assert losses(converted(*few)) == [one["claim"] for one in few]
    level = document_of(all_accepted(*few))["snp"]["minimum_tcb"]["Genoa"]
    assert level == {"bootloader": 0, "tee": 0, "snp": 27, "microcode": 84}
    wrong = equals(f"{SNP}bootloader-svn", 300)
    assert losses(converted(*few, wrong)) == [*(one["claim"] for one in few), wrong["claim"]]
    many = of("anyOf", *(equals(f"{SNP}tee-svn", level) for level in range(65)))
    parts = tcb(GENOA_TCB)
    assert len(losses(converted(parts[0], many, *parts[2:]))) == 4


# -- many alternatives


def choice(claim: str, count: int) -> Json:
    """Alternatives that no list can say, since each demands something more."""
    return of("anyOf", *(of("allOf", equals(f"{SNP}{claim}", f"{one:032x}"), host(one % 3)) for one in range(count)))


def agree(conversion: Conversion, policy: bytes) -> None:
    document = document_of(conversion)
    for item, claims in machines():
        assert released(policy, claims) or not judged(document, item).affirmed


def test_too_many_combinations_stay_choices_side_by_side() -> None:
    exact = converted(choice("familyId", 8), choice("imageId", 8))
    assert len(document_of(exact)["any_of"]) == len([1 for a in range(8) for b in range(8) if a % 3 == b % 3])
    assert "all_of" not in document_of(exact)
    conditions = (SMT, choice("familyId", 9), choice("imageId", 8))
    beside = converted(*conditions)
    document = document_of(beside)
    assert losses(beside) == []
    assert [len(document["any_of"]), len(document["all_of"][0]["any_of"])] == [9, 8]
    assert all(b["snp"]["guest_policy"] == {"smt": True} for b in document["all_of"][0]["any_of"])
    assert "demanded by the branches of any_of" in document["all_of"][0]["any_of"][0]["snp"]["vmpl"]["unchecked"]
    agree(beside, skr(*conditions))
    affirmed = [item for item, _ in machines() if judged(document, item).affirmed]
    assert (
        affirmed == [item for item, claims in machines() if released(skr(*conditions), claims)][:1]
    )  # the other: VMPL


def test_choices_beyond_the_number_of_branches_are_lost_by_their_place() -> None:
    conditions = (IS_SNP, choice("familyId", 9), choice("imageId", 60), choice("familyId", 54))
    conversion = converted(*conditions)
    assert conversion.document is None
    assert losses(conversion) == ["anyOf[0].allOf[2].anyOf"]
    assert "64 branches" in conversion.open_losses[0].why
    accepted = document_of(all_accepted(*conditions))
    assert [len(accepted["any_of"]), len(accepted["all_of"][0]["any_of"])] == [9, 54]
    # Each choice but the first takes a branch more: 9 + 28 + 27 are 64.
    assert losses(converted(*conditions[:2], choice("imageId", 27), choice("familyId", 26))) == []
    assert losses(converted(*conditions[:2], choice("imageId", 27), choice("familyId", 27))) == [
        "anyOf[0].allOf[3].anyOf"
    ]
    for single in (choice("familyId", 65), of("anyOf", SMT, of("allOf", choice("familyId", 9), choice("imageId", 9)))):
        assert losses(converted(IS_SNP, COMPLIANT, single)) == ["anyOf[0].allOf[2].anyOf", COMPLIANT["claim"]]
        assert set(document_of(all_accepted(IS_SNP, single))) >= {"snp"}
    assert len(document_of(converted(IS_SNP, choice("familyId", MAX_BRANCHES)))["any_of"]) == MAX_BRANCHES


@pytest.mark.parametrize(("count", "exact"), [(8, True), (9, False)])
def test_exact_levels_are_combined_up_to_sixty_four(count: int, *, exact: bool) -> None:
    def levels(part: str, number: int) -> Json:
        return of("anyOf", *(equals(SNP + TCB_CLAIMS[part], GENOA_TCB[part] + more) for more in range(number)))

    parts = [
        levels("bootloader", 8),
        levels("snp", count),
        *tcb({name: GENOA_TCB[name] for name in ("tee", "microcode")}),
    ]
    found = converted(IS_SNP, *parts)
    assert ("snp.exact_tcb" in {one.target for one in found.carried}) is exact


def test_what_never_holds_within_a_lost_choice_is_lost_with_it() -> None:
    never = of("allOf", vmpl(0), vmpl(1))

    def refused(count: int) -> set[str]:
        conversion = converted(IS_SNP, COMPLIANT, of("anyOf", *choice("familyId", count)["anyOf"], never))
        return {one.source for one in conversion.carried if one.target.startswith("refused")}

    assert refused(MAX_BRANCHES) == {f"{SNP}vmpl"}
    assert refused(MAX_BRANCHES + 1) == set()


def test_of_a_lost_choice_the_first_thousand_characters_are_shown() -> None:
    claims = [f"claim-{number:03}" for number in range(MAX_BRANCHES + 1)]
    many = [of("allOf", host(number), equals(claim * 2, 1)) for number, claim in enumerate(claims)]
    (lost,) = [loss for loss in converted(IS_SNP, of("anyOf", *many)).losses if loss.name.endswith(".anyOf")]
    assert lost.demand.startswith(f"one of {MAX_BRANCHES + 1} conditions on ")
    assert claims[0] * 2 in lost.demand
    assert len(lost.demand) == 1000


def test_repetitions_of_an_alternative_are_one() -> None:
    again = of("allOf", SMT, vmpl(1))
    document = document_of(converted(IS_SNP, of("anyOf", *[again] * (MAX_BRANCHES + 1), of("allOf", vmpl(1), SMT))))
    assert (document["snp"]["vmpl"], document["snp"]["guest_policy"]) == ([1], {"smt": True})
    # 1 is no truth value: what is told apart in a policy is told apart here.
    odd = of("anyOf", of("allOf", SMT, vmpl(1)), of("allOf", SMT, equals(f"{SNP}vmpl", value=True)))
    assert losses(converted(IS_SNP, odd)) == [f"{SNP}vmpl"]


def test_a_source_of_which_the_only_choice_is_lost_says_why_nothing_is_left() -> None:
    with pytest.raises(ConfigurationError) as caught:
        converted(choice("familyId", MAX_BRANCHES + 1))
    assert caught.value.code == "policy-conversion-impossible"
    assert "64 branches" in str(caught.value.hint)


# -- several authorities


def test_authorities_with_conditions_of_their_own_become_branches_once_that_is_accepted() -> None:
    east, west = "https://east.example", "https://west.example"
    listed = [
        {"authority": url, "allOf": list(conditions)} for url, *conditions in ((east, IS_SNP, SMT), (west, IS_TDX))
    ]
    policy = parse_skr(json.dumps({"version": "1.0.0", "anyOf": [*listed, listed[0]]}).encode())
    conversion = convert_skr(policy, name="x", accept=ACCEPT)
    assert [loss.name for loss in conversion.open_losses] == ["authorities"]
    assert conversion.losses[0].demand == f"a token of {east} or {west}"
    both = convert_skr(policy, name="x", accept={**ACCEPT, "authorities": "both are ours"})
    assert [list(branch) for branch in document_of(both)["any_of"]] == [["snp"], ["tdx"]]
    assert "snp" in document_of(convert_skr(policy, name="x", accept=ACCEPT, authority=f"{east}/"))


# -- laws


def values_of(path: str) -> list[object]:
    """What machines have there, and what none has."""
    found = [claims[TEE][path] for _, claims in machines() if path in claims[TEE]]
    return [*found, *("11" * (len(one) // 2) for one in found if isinstance(one, str)), "x"]


PATHS = sorted({path for _, claims in machines() for path in claims[TEE]})
NUMBERS = ("guestsvn", *TCB_CLAIMS.values())
EQUALITIES = st.sampled_from([path for path in PATHS if not path.endswith(("-svn", "guestsvn"))]).flatmap(
    lambda path: st.builds(lambda value: equals(f"{TEE}.{path}", value), st.sampled_from(values_of(path)))
)
MINIMUMS = st.builds(
    lambda name, word, number: {"claim": SNP + name, word: number},
    st.sampled_from(NUMBERS),
    st.sampled_from(["greater", "greaterOrEquals"]),
    st.sampled_from([0, 3, 10, 26, 27, 84]),
)
EXACT = st.builds(
    lambda changed, by: of("allOf", *tcb(GENOA_TCB | {changed: GENOA_TCB[changed] + by})),
    st.sampled_from(sorted(GENOA_TCB)),
    st.integers(0, 1),
)
ODD = st.one_of(
    st.builds(lambda name, number: equals(SNP + name, number), st.sampled_from(NUMBERS), st.integers(0, 90)),
    st.sampled_from([COMPLIANT, {"claim": f"{SNP}vmpl", "notEquals": 1}, equals("secureboot", True)]),
)


def trees(leaves: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.recursive(
        leaves,
        lambda below: st.builds(
            lambda name, members: of(name, *members),
            st.sampled_from(["allOf", "anyOf", "anyOf"]),
            st.lists(below, min_size=1, max_size=3),
        ),
        max_leaves=9,
    )


def as_if_met(condition: Json, lost: set[str]) -> Json:
    """The condition as it is when every demand that is lost is met."""
    if "claim" in condition:
        return equals("iss", ISSUER) if condition["claim"] in lost else condition
    return {name: [as_if_met(below, lost) for below in members] for name, members in condition.items()}


def impossible_or(conditions: list[Json], group: str, accept: Mapping[str, str]) -> Conversion | None:
    """The conversion; None for a source of which nothing is left, which then holds of no machine either."""
    policy = skr(*conditions, group=group)
    try:
        return converted(*conditions, group=group, accept=accept)
    except ConfigurationError as exc:
        if exc.code != "policy-conversion-impossible":
            raise
        tests = claim_tests(parse_skr(policy, extended=True).authorities[0].conditions)
        if all(is_carriable(WantedClaim(path=t.path, operator=t.operator, values=(t.value,))) for t in tests):
            assert not any(released(policy, claims) for _, claims in machines())
        return None


GROUPS = st.sampled_from(["allOf", "anyOf"])


@given(conditions=st.lists(trees(EQUALITIES | MINIMUMS | EXACT), min_size=1, max_size=3), group=GROUPS)
def test_what_is_carried_whole_means_the_same(conditions: list[Json], group: str) -> None:
    conversion = impossible_or(conditions, group, ACCEPT)
    if conversion is None or conversion.document is None:
        return
    policy, document = skr(*conditions, group=group), document_of(conversion)
    for index, (item, claims) in enumerate(machines()):
        wanted, found = released(policy, claims), judged(document, item).affirmed
        assert wanted or not found
        if strict("snp")[index] or strict("tdx")[index]:
            assert found is wanted


@given(conditions=st.lists(trees(EQUALITIES | MINIMUMS | EXACT | ODD), min_size=1, max_size=3), group=GROUPS)
def test_what_is_lost_and_accepted_makes_nothing_weaker_than_its_own_absence(
    conditions: list[Json], group: str
) -> None:
    first = impossible_or(conditions, group, ACCEPT)
    if first is None:
        return
    conversion = all_accepted(*conditions, group=group)
    lost = {loss.name for loss in conversion.losses}
    tests = claim_tests(parse_skr(skr(*conditions, group=group), extended=True).authorities[0].conditions)
    assert {test.path for test in tests} <= lost | {one.source for one in conversion.carried}
    source = skr(*(as_if_met(one, lost) for one in conditions), group=group)
    for item, claims in machines():
        assert released(source, claims) or not judged(document_of(conversion), item).affirmed


@given(conditions=st.lists(trees(EQUALITIES | MINIMUMS | EXACT), min_size=1, max_size=3), group=GROUPS)
def test_what_was_converted_and_is_exported_again_decides_alike(conditions: list[Json], group: str) -> None:
    conversion = impossible_or(conditions, group, ACCEPT)
    if conversion is None or conversion.document is None:
        return
    source, document = skr(*conditions, group=group), document_of(conversion)
    back = exported(document)
    for index, (item, claims) in enumerate(machines()):
        found, again = judged(document, item).affirmed, released(back, claims)
        assert again or not found
        if strict("snp")[index] or strict("tdx")[index]:
            assert again is found is released(source, claims)


def exported(document: Json) -> bytes:
    policy = decode_policy(document)
    lost = {loss.name: "a test" for loss in export_skr(policy, authority=ISSUER, extended=True).losses}
    return json.dumps(export_skr(policy, authority=ISSUER, extended=True, accept=lost).document).encode()


def test_choices_side_by_side_are_exported_as_such() -> None:
    conditions = (SMT, choice("familyId", 9), choice("imageId", 8))
    document = document_of(converted(*conditions))
    back = json.loads(exported(document))["anyOf"][0]["allOf"]
    assert [len(one["anyOf"]) for one in back] == [9, 8]
    for item, claims in machines():
        assert released(exported(document), claims) or not judged(document, item).affirmed


def test_what_cannot_be_said_is_not_called_impossible_in_the_source() -> None:
    level = {"claim": f"{SNP}bootloader-svn", "less": 11}
    asked = {"anyOf": [equals(f"{SNP}vmpl", 0)]}, {"anyOf": [level, equals(f"{SNP}vmpl", 1)]}
    with pytest.raises(ConfigurationError) as refused:
        converted(IS_SNP, *asked)
    assert "the demands that can be carried can never be met" in refused.value.message
    assert "anyOf[0]" in (refused.value.hint or "")
