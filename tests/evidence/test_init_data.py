"""Initialisation data: its text, its digest in the evidence of each kind, and what a token shows of it."""

import json
from hashlib import sha256, sha384, sha512
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes

from attest.encoding import JsonValue
from attest.errors import AttestError, BindingError, EvidenceError, UnsupportedError
from attest.evidence import InitData, parse_init_data, require_init_data
from attest.evidence.azure.structure import HclReportType
from attest.evidence.init_data import MAX_ENTRIES, MAX_INIT_DATA_BYTES, MAX_KEY_PARTS
from attest.evidence.tpm.structure import SHA256, PcrSelection, bitmap_of
from attest.verified_evidence import VerifiedItem
from tests.evidence.azure.made import PCRS, AzureVm, judged, quote
from tests.evidence.sample.test_sample import cpu, device, run, sample
from tests.policy.intel_documents import verified_enclave, verified_td
from tests.policy.mixed import hopper, mixed, snp_cpu

AGENT = """server_addr = "127.0.0.1:50000"
[token_configs.kbs]
url = "https://kbs.example"
retries = 3
weights = [1.5, true]
"""
POLICY = 'package agent_policy\ndefault AllowRequests := true\npolicy_data := {"containers": [{"name": "one"}]}\n'


def text(algorithm: str = "sha384", **files: str) -> str:
    stated = {"aa.toml": AGENT, "cdh.toml": "not = = toml", "policy.rego": POLICY, "other": "plain"} | files
    lines = [f"{json.dumps(name)} = '''\n{value}'''" for name, value in stated.items()]
    return "\n".join(['version = "0.1.0"', f'algorithm = "{algorithm}"', "[data]", *lines, ""])


def refused(given: str) -> AttestError:
    with pytest.raises(EvidenceError) as caught:
        parse_init_data(given)
    return caught.value


@pytest.mark.parametrize("hashed", [sha256, sha384, sha512])
def test_the_digest_is_over_the_text_as_given(hashed: Any) -> None:  # noqa: ANN401
    name = hashed().name
    given = text(name) + "# a comment that changes nothing but the digest\n"
    found = parse_init_data(given)
    assert (found.version, found.algorithm, found.digest) == ("0.1.0", name, hashed(given.encode()).digest())
    assert parse_init_data(text(name)).digest != found.digest
    assert found.data["aa.toml"] == AGENT


def test_sm3_is_taken_where_the_library_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = text("sm3")
    state = hashes.Hash(hashes.SM3())
    state.update(given.encode())
    assert parse_init_data(given).digest == state.finalize()

    def without(*_: object) -> None:
        raise UnsupportedAlgorithm("no sm3")

    monkeypatch.setattr(hashes, "Hash", without)
    error = refused(given)
    assert (error.code, error.field) == ("init-data-unsupported", "init-data.algorithm")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("", "init-data.version"),
        ("= x", "init-data"),
        ("a = \ud800", "init-data"),
        ("a = " + "9" * 5000, "init-data"),
        ("a = " + "[" * 5000, "init-data"),
        ("a = " + "{a = " * 5000, "init-data"),
        ("a" + ".a" * MAX_KEY_PARTS + " = 1", "init-data"),
        ('"a"' + ' . "a"' * MAX_KEY_PARTS + " = 1", "init-data"),
        ("#" * (MAX_INIT_DATA_BYTES + 1), "init-data"),
        ('version = 1\nalgorithm = "sha256"\n[data]', "init-data.version"),
        ('version = "0.1.0"\n[data]', "init-data.algorithm"),
        ('version = "0.1.0"\nalgorithm = "SHA256"\n[data]', "init-data.algorithm"),
        ('version = "0.1.0"\nalgorithm = "md5"\n[data]', "init-data.algorithm"),
        ('version = "0.1.0"\nalgorithm = "sha256"', "init-data.data"),
        ('version = "0.1.0"\nalgorithm = "sha256"\ndata = []', "init-data.data"),
        ('version = "0.1.0"\nalgorithm = "sha256"\n[data]\na = 1', "init-data.data.a"),
        ('version = "0.1.0"\nalgorithm = "sha256"\n[data]\n"" = "x"', "init-data.data"),
        ('version = "0.1.0"\nalgorithm = "sha256"\n[data]\n"a\\nb" = "x"', "init-data.data"),
        (f'version = "0.1.0"\nalgorithm = "sha256"\n[data]\n{"n" * 257} = "x"', "init-data.data"),
        (
            'version = "0.1.0"\nalgorithm = "sha256"\n[data]\n'
            + "".join(f'n{number} = "x"\n' for number in range(MAX_ENTRIES + 1)),
            "init-data.data",
        ),
    ],
)
def test_anything_else_is_malformed(given: str, field: str) -> None:
    error = refused(given)
    assert (error.code, error.field) == ("init-data-malformed", field)


def test_an_empty_table_and_the_longest_key_are_read() -> None:
    head = 'version = "0.1.0"\nalgorithm = "sha256"\n'
    assert parse_init_data(f"{head}[data]\n").data == {}
    assert parse_init_data(f"{head}a{'.a' * (MAX_KEY_PARTS - 1)} = 1\n[data]\n").data == {}


# -- the digest in evidence


def outcome(item: VerifiedItem, given: InitData) -> str:
    try:
        require_init_data(item, given)
    except (BindingError, UnsupportedError) as error:
        return f"{error.code} {error.field}"
    return "matches"


def vm(digest: bytes | None, kind: HclReportType = HclReportType.SNP) -> VerifiedItem:
    """A VM whose PCR 8 was extended by a digest, or is not quoted."""
    values = list(PCRS)
    if digest is not None:
        values[8] = sha256(bytes(32) + digest).digest()
    chosen = [index for index in range(24) if index != 8 or digest is not None]
    pcrs = tuple(values[index] for index in chosen)
    selection = PcrSelection(algorithm=SHA256, bitmap=bitmap_of(tuple(chosen)))
    stated = quote(selections=(selection,), pcr_digest=sha256(b"".join(pcrs)).digest())
    return judged(AzureVm(kind=kind, tpm=stated, pcrs=pcrs)).items[0]


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_each_kind_carries_the_digest_in_its_field(algorithm: str) -> None:
    given = parse_init_data(text(algorithm))
    fields = {size: given.digest.ljust(size, b"\0")[:size] for size in (32, 48, 64)}
    assert outcome(snp_cpu(host_data=fields[32]), given) == "matches"
    assert outcome(verified_td(mr_config_id=fields[48]).items[0], given) == "matches"
    assert outcome(verified_enclave(config_id=fields[64]).items[0], given) == "matches"


@pytest.mark.parametrize("position", [0, 255])
def test_a_flipped_bit_of_the_field_is_refused(position: int) -> None:
    given = parse_init_data(text("sha256"))

    def flipped(size: int) -> bytes:
        field = bytearray(given.digest.ljust(size, b"\0"))
        field[position // 8] ^= 1 << position % 8
        return bytes(field)

    assert outcome(snp_cpu(host_data=flipped(32)), given) == "init-data-mismatch HOST_DATA"
    assert outcome(verified_td(mr_config_id=flipped(48)).items[0], given) == "init-data-mismatch MRCONFIGID"
    assert outcome(verified_enclave(config_id=flipped(64)).items[0], given) == "init-data-mismatch CONFIGID"


def test_bytes_after_the_digest_are_refused() -> None:
    given = parse_init_data(text("sha256"))
    trailing = given.digest.ljust(47, b"\0") + b"\1"
    assert outcome(verified_td(mr_config_id=trailing).items[0], given) == "init-data-mismatch MRCONFIGID"


@pytest.mark.parametrize("kind", list(HclReportType))
def test_a_vm_on_azure_carries_it_in_pcr_8(kind: HclReportType) -> None:
    given = parse_init_data(text("sha256"))
    assert outcome(vm(given.digest, kind), given) == "matches"
    assert outcome(vm(bytes(32), kind), given) == "init-data-mismatch PCR8"
    assert outcome(vm(None, kind), given) == "init-data-unbound init-data"
    longer = parse_init_data(text("sha384"))
    assert outcome(vm(longer.digest, kind), longer) == "init-data-unbound init-data"


def test_sample_evidence_is_not_compared_and_a_device_has_no_field() -> None:
    given = parse_init_data(text())
    first, second = run(cpu(sample()), device(sample())).items
    assert outcome(first, given) == "matches"
    assert outcome(second, given) == "init-data-unbound init-data"
    assert outcome(mixed(hopper()).items[0], given) == "init-data-unbound init-data"


# -- what a token shows


def test_a_token_shows_configuration_as_objects_and_the_data_of_the_agents_policy() -> None:
    assert parse_init_data(text()).claims == {
        "aa.toml": {
            "server_addr": "127.0.0.1:50000",
            "token_configs": {"kbs": {"url": "https://kbs.example", "retries": 3, "weights": [1.5, True]}},
        },
        "cdh.toml": "not = = toml",
        "other": "plain",
        "agent_policy_claims": {"containers": [{"name": "one"}]},
    }


@pytest.mark.parametrize(
    "policy",
    ["package agent_policy\n", "policy_data := {", "policy_data := {}\nmore := 1\n", "policy_data := [1]\n"],
)
def test_an_agents_policy_without_data_at_its_end_stays_text(policy: str) -> None:
    claims = parse_init_data(text(**{"policy.rego": policy})).claims
    assert claims["policy.rego"] == policy
    assert "agent_policy_claims" not in claims


@pytest.mark.parametrize(
    "value",
    [
        "inf",
        "nan",
        str(2**63),
        "1979-05-27",
        "[" * 70 + "]" * 70,
        "[" * 5000,
    ],
)
def test_a_value_that_json_does_not_have_leaves_its_file_a_text(value: str) -> None:
    claims = parse_init_data(text(**{"aa.toml": f"value = {value}\n"})).claims
    assert claims["aa.toml"] == f"value = {value}\n"


def test_a_key_of_many_parts_behind_escapes_leaves_its_file_a_text() -> None:
    hidden = "a\\u002e" * MAX_KEY_PARTS
    given = f'version = "0.1.0"\nalgorithm = "sha256"\n[data]\n"aa.toml" = "{hidden}a = 1"\n'
    assert parse_init_data(given).claims["aa.toml"] == "a." * MAX_KEY_PARTS + "a = 1"


def test_files_that_are_not_there_are_not_in_the_claims() -> None:
    found = parse_init_data('version = "0.1.0"\nalgorithm = "sha256"\n[data]\n"x" = "y"\n')
    expected: dict[str, JsonValue] = {"x": "y"}
    assert found.claims == expected
