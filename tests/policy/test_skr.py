"""Azure's release policies: grammar, comparison, evaluation, findings (specs/azure-skr.md, 2, 3, 12.4, 15, 16)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.policy.foreign.issuers import normalised_issuer
from attest.policy.foreign.skr import (
    LARGEST_INTEGER,
    MAX_CONDITIONS,
    MAX_LEVELS,
    MAX_SKR_BYTES,
    AllOf,
    AnyOf,
    ClaimTest,
    Operator,
    SkrAuthority,
    SkrPolicy,
    canonical_bytes,
    parse_skr,
    skr_digest,
    values_equal,
)
from attest.policy.foreign.skr_review import review_skr
from tests.policy.skr_documents import CLAIMS, CONDITIONS, CVM_CLAIMS, ISSUER, MEASUREMENT, TESTS, Json, equals, skr
from tests.policy.skr_evaluator import SkrDecision, evaluate_skr

TEE = "x-ms-isolation-tee"


def refused(data: bytes, **options: bool) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse_skr(data, **options)
    assert caught.value.code == "skr-policy-invalid"
    return caught.value


def judge(*conditions: Json, claims: Json = CVM_CLAIMS, group: str = "allOf") -> SkrDecision:
    return evaluate_skr(parse_skr(skr(*conditions, group=group), extended=True), claims)


def holds(test: Json, claims: Json = CVM_CLAIMS) -> bool:
    return judge(test, claims=claims).holds


# -- grammar


def test_a_policy_becomes_a_tree_of_three_kinds_of_node() -> None:
    policy = parse_skr(skr(equals("a.b", "x"), {"anyOf": [equals("c", True), {"allOf": [equals("d", 1)]}]}))
    a, c, d = (
        ClaimTest(path=path, operator=Operator.EQUALS, value=value)
        for path, value in (("a.b", "x"), ("c", True), ("d", 1))
    )
    tree = AllOf(conditions=(a, AnyOf(conditions=(c, AllOf(conditions=(d,))))))
    assert policy == SkrPolicy(authorities=(SkrAuthority(url=ISSUER, conditions=tree),))


def test_the_preview_form_is_read_and_written_in_the_new_form() -> None:
    old = skr({"claim": "a", "condition": "equals", "value": "x"})
    assert parse_skr(old) == parse_skr(skr(equals("a", "x")))
    assert b"condition" not in canonical_bytes(parse_skr(old))


VALID = {"version": "1.0.0", "anyOf": [{"authority": ISSUER, "allOf": [equals("a", "x")]}]}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "policy"),
        ({**VALID, "allOf": []}, "policy.allOf"),
        ({"version": "1.0.0", "allOf": VALID["anyOf"]}, "policy.allOf"),  # one of Microsoft's samples
        ({"anyOf": VALID["anyOf"]}, "version"),
        ({**VALID, "version": "1.0"}, "version"),
        ({**VALID, "version": 1}, "version"),
        ({**VALID, "b": 1, "a": 1, "c": 1}, "policy.a"),
        ({"version": "1.0.0"}, "anyOf"),
        ({**VALID, "anyOf": []}, "anyOf"),
        ({**VALID, "anyOf": {}}, "anyOf"),
        ({**VALID, "anyOf": ["x"]}, "anyOf[0]"),
        ({**VALID, "anyOf": [{"allOf": [equals("a", "x")]}]}, "anyOf[0].authority"),
        ({**VALID, "anyOf": [{"authority": ISSUER}]}, "anyOf[0]"),
        ({**VALID, "anyOf": [{"authority": ISSUER, "allOf": [], "anyOf": []}]}, "anyOf[0]"),
        ({**VALID, "anyOf": [{"authority": ISSUER, "allOf": []}]}, "anyOf[0].allOf"),
        ({**VALID, "anyOf": [{"authority": ISSUER, "allOf": [[]]}]}, "anyOf[0].allOf[0]"),
        ({**VALID, "anyOf": [{"authority": ISSUER, "allOf": [{}]}]}, "anyOf[0].allOf[0]"),
        ({**VALID, "anyOf": [{"authority": ISSUER, "allOf": [{"anyOf": []}]}]}, "anyOf[0].allOf[0].anyOf"),
        ({**VALID, "anyOf": [{"authority": ISSUER, "allOf": [{"not": []}]}]}, "anyOf[0].allOf[0].not"),
    ],
)
def test_what_the_grammar_does_not_say_is_refused_with_its_path(document: object, field: str) -> None:
    assert refused(json.dumps(document).encode()).field == field


@pytest.mark.parametrize(
    ("test", "member"),
    [
        ({"claim": "a"}, ""),
        ({"claim": "", "equals": "x"}, ".claim"),
        ({"claim": 1, "equals": "x"}, ".claim"),
        ({"claim": "a", "equals": "x", "notEquals": "y"}, ""),
        ({"claim": "a", "matches": "x"}, ".matches"),
        ({"claim": "a", "equals": "x", "comment": "no"}, ".comment"),
        ({"claim": "a", "equals": None}, ".equals"),
        ({"claim": "a", "equals": ["x"]}, ".equals"),
        ({"claim": "a", "equals": {"b": "x"}}, ".equals"),
        ({"claim": "a", "equals": 1.5}, ".equals"),
        ({"claim": "a", "equals": 1.0}, ".equals"),
        ({"claim": "a", "equals": LARGEST_INTEGER + 1}, ".equals"),
        ({"claim": "a", "equals": -LARGEST_INTEGER - 1}, ".equals"),
        ({"claim": "a", "exists": "yes"}, ".exists"),
        ({"claim": "a", "exists": 1}, ".exists"),
        ({"claim": "a", "condition": "equals"}, ""),
        ({"claim": "a", "value": "x"}, ""),
        ({"claim": "a", "condition": "like", "value": "x"}, ".condition"),
        ({"claim": "a", "condition": 1, "value": "x"}, ".condition"),
        ({"claim": "a", "condition": "equals", "value": "x", "equals": "x"}, ".equals"),
        ({"claim": "a", "allOf": [equals("b", "x")]}, ".allOf"),
    ],
)
def test_a_test_that_is_none_is_refused_with_its_path(test: Json, member: str) -> None:
    assert refused(skr(test), extended=True).field == f"anyOf[0].allOf[0]{member}"


def test_two_members_of_one_name_are_refused() -> None:
    refused(b'{"version":"1.0.0","version":"1.0.0","anyOf":[]}')
    refused(skr(equals("a", "x")).replace(b'"equals"', b'"equals": "y", "equals"'))


def test_a_number_that_a_reader_would_round_is_refused() -> None:
    refused(skr(equals("a", 1)).replace(b": 1}", b": 0.99999999999999999999}"))
    refused(skr(equals("a", 1)).replace(b": 1}", b": 1e0}"))
    assert parse_skr(skr(equals("a", LARGEST_INTEGER))).authorities


def test_operators_beside_equals_are_an_option_of_the_server() -> None:
    for operator in Operator:
        data = skr({"claim": "a", str(operator): "true"})
        if operator is not Operator.EQUALS:
            assert refused(data).field == f"anyOf[0].allOf[0].{operator}"
            assert review_skr(parse_skr(data, extended=True))[0].kind == "not-portable"
        assert parse_skr(data, extended=True).authorities


def nested(levels: int) -> bytes:
    condition = equals("a", "x")
    for _ in range(levels - 1):
        condition = {"anyOf": [condition]}
    return skr(condition)


def test_the_limits_are_the_last_that_is_accepted() -> None:
    assert parse_skr(nested(MAX_LEVELS)).authorities
    assert "levels" in refused(nested(MAX_LEVELS + 1)).message
    many = [equals("a", "x")] * MAX_CONDITIONS
    assert parse_skr(skr(*many)).authorities
    assert "conditions" in refused(skr(*many, equals("a", "x"))).message
    two = {"version": "1.0.0", "anyOf": [{"authority": ISSUER, "allOf": many[:501]}] * 2}
    refused(json.dumps(two).encode())
    data = skr(equals("a", "x"))
    assert parse_skr(data + b" " * (MAX_SKR_BYTES - len(data))).authorities
    refused(data + b" " * (MAX_SKR_BYTES - len(data) + 1))


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xef\xbb\xbf{}", b"{} {}", b"[" * 5000, b"null", b"NaN"])
def test_what_is_no_json_document_is_refused(data: bytes) -> None:
    refused(data)


# -- authorities


@pytest.mark.parametrize(
    "url",
    [
        "http://sharedeus.eus.attest.azure.net",
        "http://localhost",
        "ftp://a.example",
        "https://",
        "a.example",
        "https://user@a.example",
        "https://a.example?x=1",
        "https://a.example?",
        "https://a.example#",
        "https://a.example:",
        "https://a.example:999999",
        "https://a.example:65536",
        "https://a.example:0",
        "https://a.example:+443",
        "https://a.example:4x",
        "https:///path",
        "https://a.example/a b",
        "https://a.example/a\\b",
        "https://a%2eexample",
        "https://[::1]x",
        "https://[]",
        "https://[127.0.0.1]",
        "https://[v1.a]",
        "//a.example",
        "https:a.example",
        "https://[::1",
        "https://a.exam\u212ale",  # the Kelvin sign, whose lower case is an ASCII k
        "https://a .example",
        "https://a\t.example",
        "https:\\\\a.example",
        7,
        None,
    ],
)
def test_an_authority_that_is_no_https_issuer_is_refused(url: object) -> None:
    document = {**VALID, "anyOf": [{"authority": url, "allOf": [equals("a", "x")]}]}
    assert refused(json.dumps(document).encode()).field == "anyOf[0].authority"


def test_http_is_refused_on_the_loop_back_too() -> None:
    for host in ("localhost:8443", "127.0.0.1", "[::1]:80", "a.example"):
        assert refused(skr(equals("a", "x"), authority=f"http://{host}")).expected == "an https URL"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://A.Example/", "HTTPS://a.example", True),
        ("https://a.example:443/x/", "https://a.example/x", True),
        ("http://localhost:80", "http://localhost/", True),
        ("https://[::1]:443", "https://[::1]", True),
        ("https://a.example/x", "https://a.example/X", False),
        ("https://a.example//", "https://a.example", False),
        ("https://a.example:8443", "https://a.example", False),
        ("https://a.example:0443", "https://a.example:443", True),
        ("https://a.example:65535", "https://a.example:65535/", True),
        ("https://a.example:1", "https://a.example:01", True),
        ("http://a.example", "https://a.example", False),
        ("https://a.example/%78", "https://a.example/x", False),
    ],
)
def test_issuers_are_compared_after_normalisation_and_no_further(one: str, other: str, same: bool) -> None:
    assert (normalised_issuer(one) == normalised_issuer(other)) is same
    policy = parse_skr(skr({"claim": "gone", "exists": False}, authority="https://x.example"), extended=True)
    changed = SkrPolicy(authorities=(SkrAuthority(url=one, conditions=policy.authorities[0].conditions),))
    assert evaluate_skr(changed, {"iss": other}).holds is same


def test_a_token_of_another_issuer_opens_nothing() -> None:
    for issuer in ("https://evil.example", ISSUER + ".evil.example", "", None, 7, ISSUER[8:]):
        decision = judge({"claim": "gone", "exists": False}, claims={"iss": issuer})
        assert not decision.holds
        assert not decision.issuer_known
    assert not evaluate_skr(parse_skr(skr(equals("a", 1))), {}).holds


def test_any_matching_authority_is_enough_and_only_matching_ones_count() -> None:
    def policy(*authorities: tuple[str, int]) -> SkrPolicy:
        listed = [{"authority": url, "anyOf": [equals("a", value)]} for url, value in authorities]
        return parse_skr(json.dumps({"version": "1.0.0", "anyOf": listed}).encode())

    claims: Json = {"iss": ISSUER, "a": 1}
    assert evaluate_skr(policy((ISSUER, 2), (ISSUER + "/", 1)), claims).holds
    assert not evaluate_skr(policy((ISSUER, 2), ("https://other.example", 1)), claims).holds
    decision = evaluate_skr(policy((ISSUER, 2)), claims)
    assert decision.issuer_known
    assert not decision.holds


# -- the table of section 3, bit by bit

TABLE: list[tuple[Any, Any, bool]] = [
    ("abc", "abc", True),
    ("abc", "ABC", False),
    ("e\u0301", "\u00e9", False),
    ("", "", True),
    ("true", True, True),
    ("false", False, True),
    ("true", False, False),
    ("true", "true", True),
    (True, "true", True),
    (False, "false", True),
    (True, True, True),
    (True, False, False),
    (True, "false", False),
    (True, "True", False),
    (True, "TRUE", False),
    ("True", True, False),
    ("true", 1, False),
    (True, 1, False),
    (1, True, False),
    (0, False, False),
    ("1", True, False),
    (True, "1", False),
    ("0", 0, True),
    ("7", 7, True),
    ("7", 8, False),
    ("07", 7, False),
    ("+7", 7, False),
    ("-7", -7, False),
    (" 7", 7, False),
    ("7 ", 7, False),
    ("", 0, False),
    ("\u0667", 7, False),
    ("\u00b2", 2, False),
    ("1_0", 10, False),
    ("0x7", 7, False),
    ("7.0", 7, False),
    (0, "0", True),
    (7, "7", True),
    (7, "07", False),
    (-7, "-7", False),
    (7, "x", False),
    ("01", "1", False),
    ("1", "1", True),
    (7, 7, True),
    (7, 8, False),
    (-7, -7, True),
    (7, 7.0, False),
    (7, 7.5, False),
    ("7", 7.0, False),
    (LARGEST_INTEGER, LARGEST_INTEGER, True),
    (LARGEST_INTEGER + 1, LARGEST_INTEGER + 1, False),
    (str(LARGEST_INTEGER), LARGEST_INTEGER, True),
    (str(LARGEST_INTEGER + 1), LARGEST_INTEGER + 1, False),
    ("9" * 5000, 9, False),
    ("x", None, False),
    ("x", ["x"], False),
    (True, [True], False),
    (1, {"a": 1}, False),
]


@pytest.mark.parametrize(("wanted", "found", "equal"), TABLE)
def test_values_are_equal_by_the_table_and_by_nothing_else(wanted: Any, found: Any, equal: bool) -> None:  # noqa: ANN401
    assert values_equal(wanted, found) is equal
    if isinstance(wanted, int) and abs(wanted) > LARGEST_INTEGER:
        return
    assert holds(equals("v", wanted), {"iss": ISSUER, "v": found}) is equal


def test_not_equals_is_the_opposite_for_scalars_that_have_a_value() -> None:
    for wanted, found, equal in TABLE:
        if isinstance(wanted, int) and abs(wanted) > LARGEST_INTEGER:
            continue
        uncertain = isinstance(found, float) or (type(found) is int and abs(found) > LARGEST_INTEGER)
        scalar = isinstance(found, str | int) and not uncertain
        assert holds({"claim": "v", "notEquals": wanted}, {"iss": ISSUER, "v": found}) is (scalar and not equal)


@pytest.mark.parametrize("path", ["gone", "a.gone", "a.b.c.d", "a.null", "a.list", "a.list.0", "a", "", "jti.0"])
def test_what_is_missing_null_or_no_scalar_meets_no_comparison(path: str) -> None:
    if path:
        for word in (*Operator,):
            if word is not Operator.EXISTS:
                for value in ("", "null", 0, False):
                    assert not holds({"claim": path, str(word): value})
        assert not holds({"claim": path, "exists": True})


def test_existence_is_of_scalars_and_absence_of_members() -> None:
    assert holds({"claim": "jti", "exists": True})
    assert holds({"claim": "a.float", "exists": "true"})
    assert not holds({"claim": "jti", "exists": False})
    for path in ("gone", "a.gone", "a.b.c.d", "jti.x", "a.list.0"):
        assert holds({"claim": path, "exists": "false"})
    for path in ("a", "a.null", "a.list"):
        assert not holds({"claim": path, "exists": True})
        assert not holds({"claim": path, "exists": False})


def test_a_member_whose_name_is_the_rest_of_the_path_wins() -> None:
    assert holds(equals("a.b.d", 3))
    assert holds(equals("a.b.c", 2))  # 'a.b' is no whole rest here, so that 'a' is walked
    assert holds(equals("a.b", 5), {"iss": ISSUER, "a.b": 5, "a": {"b": 6}})
    assert holds(equals("a.b.c", 7), {"iss": ISSUER, "a": {"b.c": 7, "b": {"c": 8}}})
    assert not holds(equals("a.b.c", 1))


@pytest.mark.parametrize(
    ("operator", "below", "same", "above"),
    [
        ("less", True, False, False),
        ("lessOrEquals", True, True, False),
        ("greater", False, False, True),
        ("greaterOrEquals", False, True, True),
    ],
)
def test_only_integers_and_their_digits_have_an_order(operator: str, below: bool, same: bool, above: bool) -> None:
    # must-check 41: ordering only between integers; null, boolean and text never compare.
    for limit in (7, "7"):
        for number, expected in ((6, below), (7, same), (8, above), ("6", below), ("7", same), ("8", above)):
            assert holds({"claim": "v", operator: limit}, {"iss": ISSUER, "v": number}) is expected
        for other in (True, None, "x", "07", 7.0, 2**53 + 1, -(2**60), [7]):
            assert not holds({"claim": "v", operator: limit}, {"iss": ISSUER, "v": other})
    for value in (True, "true", "x", ""):
        assert not holds({"claim": "v", operator: value}, {"iss": ISSUER, "v": 7})


def test_both_kinds_of_list_are_false_when_empty() -> None:
    # The parser makes none; a caller who builds the tree gets a refusal all the same.
    for empty in (AllOf(conditions=()), AnyOf(conditions=())):
        policy = SkrPolicy(authorities=(SkrAuthority(url=ISSUER, conditions=empty),))
        assert not evaluate_skr(policy, CVM_CLAIMS).holds
    assert not evaluate_skr(SkrPolicy(authorities=()), CVM_CLAIMS).holds


# -- the trace


def test_the_trace_tells_what_one_403_does_not() -> None:
    # azure-skr.md 15: "one undifferentiated 403; no dry run".
    decision = judge(
        equals(f"{TEE}.x-ms-sevsnpvm-is-debuggable", "false"),
        {"anyOf": [equals(f"{TEE}.x-ms-sevsnpvm-vmpl", "1"), equals("gone", True)]},
    )
    assert [(node.path, node.holds) for node in decision.trace] == [
        ("anyOf[0].authority", True),
        ("anyOf[0].allOf", False),
        ("anyOf[0].allOf[0]", True),
        ("anyOf[0].allOf[1].anyOf", False),
        ("anyOf[0].allOf[1].anyOf[0]", False),
        ("anyOf[0].allOf[1].anyOf[1]", False),
    ]
    vmpl, gone = decision.trace[4:]
    assert (vmpl.expected, vmpl.found) == (f"{TEE}.x-ms-sevsnpvm-vmpl equals '1'", "0")
    assert (gone.expected, gone.found) == ("gone equals true", "nothing")


def test_a_trace_shows_no_whole_tokens_and_no_control_characters() -> None:
    # azure-skr.md 15: the container sidecar logged tokens and keys (issue 227).
    claims = {"iss": ISSUER, "long": "s" * 5000, "bell": "\a\x1b[2J", "o": {"k": 1}, "l": [1], "n": None, "f": 1.5}
    shown = {
        node.expected.split()[0]: node.found for node in judge(*(equals(k, "") for k in claims), claims=claims).trace
    }
    assert len(shown["long"]) < 300
    assert "\a" not in shown["bell"]
    assert (shown["o"], shown["l"], shown["n"]) == ("an object", "a list", "null")
    assert "certain" in shown["f"]
    assert "0123456789" not in judge(equals("v", 1), claims={"iss": ISSUER, "v": 10**6000}).trace[-1].found


def test_every_node_is_judged_even_when_the_issuer_is_a_stranger() -> None:
    claims = {**CVM_CLAIMS, "iss": "https://evil.example"}
    decision = judge(equals("secureboot", True), claims=claims)
    assert not decision.holds
    assert [node.holds for node in decision.trace] == [False, True, True]


# -- one spelling


def test_one_policy_has_one_canonical_form_however_a_service_rewrote_it() -> None:
    sent = parse_skr(skr(equals("b", True), equals("a", "é"), authority=ISSUER + "/"))
    # As Azure Key Vault stores it (azure-skr.md 2): compact, `true` as text, the slash gone; members in its order.
    vault = (
        f'{{"version":"1.0.0","anyOf":[{{"authority":"{ISSUER}","allOf":'
        '[{"claim":"b","equals":"true"},{"claim":"a","equals":"é"}]}]}'
    ).encode()
    # As a managed HSM stores it: order kept, booleans kept.
    hsm = (
        f'{{"anyOf":[{{"allOf":[{{"equals":true,"claim":"b"}},{{"equals":"\\u00e9","claim":"a"}}],'
        f'"authority":"{ISSUER}/"}}],"version":"1.0.0"}}'
    ).encode()
    assert canonical_bytes(sent) == canonical_bytes(parse_skr(vault)) == canonical_bytes(parse_skr(hsm)) == vault
    assert skr_digest(sent) == skr_digest(parse_skr(hsm))
    assert skr_digest(sent) != skr_digest(parse_skr(skr(equals("b", False), equals("a", "é"))))


def test_an_issuer_that_does_not_normalise_stays_as_it_is() -> None:
    assert SkrAuthority(url="no issuer", conditions=AllOf(conditions=())).issuer == "no issuer"


# -- findings


def kinds(*conditions: Json, group: str = "allOf") -> list[tuple[str, str]]:
    return [(f.kind, f.path) for f in review_skr(parse_skr(skr(*conditions, group=group), extended=True))]


def test_what_the_guest_chooses_never_authorises() -> None:
    # must-check 40; azure-skr.md 12.4.
    assert kinds(equals("x-ms-runtime.client-payload.nonce", "x")) == [
        ("guest-chosen", "x-ms-runtime.client-payload.nonce"),
        ("no-evidence", "anyOf[0]"),
    ]
    report = equals(f"{TEE}.x-ms-sevsnpvm-launchmeasurement", MEASUREMENT)
    assert kinds(report, equals("nonce", "x")) == [("guest-chosen", "nonce")]
    assert kinds(report, equals(f"{TEE}.x-ms-runtime.vm-configuration.secure-boot", True)) == []
    assert kinds(report) == []


def test_init_time_data_counts_only_beside_host_data() -> None:
    init, host = equals("x-ms-inittime.a", "x"), equals("x-ms-sevsnpvm-hostdata", "00" * 32)
    assert kinds(init) == [("unbound-init-data", "anyOf[0]")]
    assert kinds(init, host) == []
    assert kinds(init, {"anyOf": [host, equals("jti", "x")]}) == [("unbound-init-data", "anyOf[0]")]
    assert kinds(init, {"anyOf": [host, {"allOf": [host, equals("jti", "x")]}]}) == []
    assert kinds(init, host, group="anyOf") == [("unbound-init-data", "anyOf[0]")]
    assert kinds(init, {"claim": "x-ms-sevsnpvm-hostdata", "notEquals": "x"})[-1] == ("unbound-init-data", "anyOf[0]")


def test_what_can_never_hold_is_found() -> None:
    assert kinds(equals("a", "x"), equals("a", "y")) == [("never-holds", "a")]
    between = {"claim": "b", "notEquals": "z"}
    assert ("never-holds", "a") in kinds(equals("a", "x"), between, equals("a", "y"))
    assert kinds(equals("a", "x"), equals("a", "y"), group="anyOf") == []
    assert kinds(equals("a", "1"), equals("a", 1)) == []
    assert kinds({"allOf": [equals("a", True), equals("a", "true"), {"anyOf": [equals("a", "x")]}]}) == []
    assert ("never-holds", "a") in kinds({"claim": "a", "less": "x"})
    assert ("never-holds", "a") in kinds({"claim": "a", "greater": True})
    assert kinds({"claim": "a", "greater": "7"}) == [("not-portable", "a")]


# -- laws


def read(data: bytes) -> SkrPolicy | None:
    """A policy, or None after a documented refusal; anything else is raised."""
    try:
        return parse_skr(data, extended=True)
    except ConfigurationError as exc:
        if exc.code != "skr-policy-invalid":
            raise
        return None


@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_policy_or_a_documented_refusal(data: bytes) -> None:
    policy = read(data)
    assert policy is None or read(canonical_bytes(policy)) is not None


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(
            st.sampled_from(["version", "anyOf", "allOf", "authority", "claim", "equals", "condition", "value"]), below
        ),
    ),
    max_leaves=12,
)


@given(document=JSON)
def test_any_json_is_a_policy_or_a_documented_refusal(document: object) -> None:
    read(json.dumps(document).encode())


@given(text=st.text(max_size=40))
def test_normalising_an_issuer_twice_changes_no_more(text: str) -> None:
    for url in (text, f"https://{text}", f"https://a.example/{text}"):
        once = normalised_issuer(url)
        if once is not None and not once.endswith("/"):
            assert normalised_issuer(once) == once


def walk(node: object, rest: str) -> tuple[bool, Any]:
    """Follow a path: whether it leads somewhere, and where to."""
    if not isinstance(node, dict):
        return False, None
    if rest in node:
        return True, node[rest]
    head, dot, tail = rest.partition(".")
    return walk(node[head], tail) if dot and head in node else (False, None)


def meanings(value: object) -> tuple[set[bool], set[int]]:
    """The truth values and integers that the table lets a value stand for."""
    truths = {"true": {True}, "false": {False}}.get(value, set()) if isinstance(value, str) else set[bool]()
    numbers = {int(value)} if isinstance(value, str) and value in ("0", "1") else set[int]()
    if isinstance(value, bool):
        return {value}, set()
    return truths, {value} if isinstance(value, int) else numbers


def slow(condition: Json, claims: Json) -> bool:
    """Judge a condition by the words of the specification, without the code under test."""
    for name, combine in (("allOf", all), ("anyOf", any)):
        if name in condition:
            return combine(slow(below, claims) for below in condition[name])
    ((word, wanted),) = ((word, value) for word, value in condition.items() if word != "claim")
    there, found = walk(claims, condition["claim"])
    if word == "exists":
        return not there if wanted in (False, "false") else there and isinstance(found, str | int | float)
    if not there or not isinstance(found, str | int) or (type(found) is int and abs(found) > 2**53):
        return False
    one, other = meanings(wanted), meanings(found)
    text = isinstance(wanted, str) and isinstance(found, str)
    equal = wanted == found if text else bool(one[0] & other[0] or one[1] & other[1])
    if word in ("equals", "notEquals"):
        return equal is (word == "equals")
    signs = {"less": "<", "lessOrEquals": "<=", "greater": ">", "greaterOrEquals": ">="}
    return any(
        (number > limit) - (number < limit) in {"<": {-1}, "<=": {-1, 0}, ">": {1}, ">=": {0, 1}}[signs[word]]
        for limit in one[1]
        for number in other[1]
    )


@given(condition=CONDITIONS, claims=CLAIMS)
def test_an_independent_slow_reading_agrees(condition: Json, claims: Json) -> None:
    assert holds(condition, claims) is slow(condition, claims)


@given(condition=CONDITIONS, claims=CLAIMS)
def test_the_canonical_form_means_the_same(condition: Json, claims: Json) -> None:
    policy = parse_skr(skr(condition), extended=True)
    again = parse_skr(canonical_bytes(policy), extended=True)
    assert canonical_bytes(again) == canonical_bytes(policy)
    assert evaluate_skr(again, claims).holds is evaluate_skr(policy, claims).holds


@given(data=st.data(), conditions=st.lists(CONDITIONS, min_size=1, max_size=5), claims=CLAIMS)
def test_order_never_matters(data: st.DataObject, conditions: list[Json], claims: Json) -> None:
    shuffled = data.draw(st.permutations(conditions))
    for group in ("allOf", "anyOf"):
        one, other = judge(*conditions, claims=claims, group=group), judge(*shuffled, claims=claims, group=group)
        assert one.holds is other.holds
        assert sorted((n.expected, n.found, n.holds) for n in one.trace) == sorted(
            (n.expected, n.found, n.holds) for n in other.trace
        )


@given(conditions=st.lists(CONDITIONS, min_size=1, max_size=5), more=CONDITIONS, claims=CLAIMS)
def test_a_further_condition_narrows_all_of_and_widens_any_of(conditions: list[Json], more: Json, claims: Json) -> None:
    without, beside = judge(*conditions, claims=claims).holds, judge(*conditions, more, claims=claims).holds
    assert without or not beside
    without = judge(*conditions, claims=claims, group="anyOf").holds
    assert judge(*conditions, more, claims=claims, group="anyOf").holds or not without


@given(test=TESTS, claims=CLAIMS)
def test_equal_and_not_equal_never_hold_at_once(test: Json, claims: Json) -> None:
    path, value = test["claim"], next(value for word, value in test.items() if word != "claim")
    assert not (holds(equals(path, value), claims) and holds({"claim": path, "notEquals": value}, claims))


@given(condition=CONDITIONS)
def test_reviewing_any_policy_returns(condition: Json) -> None:
    for finding in review_skr(parse_skr(skr(condition), extended=True)):
        assert finding.message
