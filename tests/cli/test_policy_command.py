"""`attest policy`."""

import dataclasses
from pathlib import Path

from attest.policy.devices import DeviceSetDemands
from attest.policy.eventlog import EventLogDemands
from attest.policy.gpu import GpuDemands, SwitchDemands
from attest.policy.intel import SgxDemands, TdxDemands
from attest.policy.intel_tcb import TcbDemands
from attest.policy.model import PolicyDocument
from attest.policy.snp import SnpDemands
from tests.cli.conftest import Attest, Document, Files
from tests.policy.documents import policy_of
from tests.policy.gpu_documents import devices_document, gpu_document, switch_document
from tests.policy.intel_documents import sgx_document, tdx_document
from tests.policy.mixed import azure, policy_with, snp

REPOSITORY = Path(__file__).resolve().parents[2]


def test_check_shows_every_rule(attest: Attest, files: Files) -> None:
    ran = attest("policy", "check", files.policy(), "--json")
    (policy,) = ran.document["policies"]
    assert ran.document["schema"] == "attest.policy-check/1"
    assert (policy["name"], policy["version"], len(policy["digest"])) == ("unit", 3, 64)
    assert policy["simulated"] == "UNCHECKED: a test on the simulator"
    assert policy["rules"]["policy.snp.guest_policy.debug"] == "false"
    page = attest("policy", "check", *sorted((REPOSITORY / "policies").glob("*[!s].yaml")))
    assert page.code == 0
    assert "snp-production" in page.out
    assert attest("policy", "check", files.policy(), "-q").out == ""


def test_a_policy_that_does_not_load(attest: Attest, files: Files) -> None:
    bad = files.write("bad.yaml", files.policy().read_bytes().replace(b"products", b"product"))
    ran = attest("policy", "check", bad)
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean 'products'" in ran.err or "snp.products" in ran.err


def test_the_schema_has_exactly_the_keys_of_the_model(attest: Attest) -> None:
    schema = attest("policy", "schema").document
    names = {field.name for field in dataclasses.fields(PolicyDocument)} | {"schema"}
    assert set(schema["properties"]) == names
    assert set(schema["properties"]["snp"]["properties"]) == {f.name for f in dataclasses.fields(SnpDemands)}
    shared = {f.name for f in dataclasses.fields(TcbDemands)}
    rtmrs = {f"rtmr{number}" for number in range(4)}
    tdx = schema["properties"]["tdx"]["properties"]
    assert set(tdx) == {f.name for f in dataclasses.fields(TdxDemands)} - {"tcb", "rtmrs"} | shared | rtmrs
    assert set(tdx["event_log"]["properties"]) == {f.name for f in dataclasses.fields(EventLogDemands)}
    sgx = {f.name for f in dataclasses.fields(SgxDemands)} - {"tcb"} | shared
    assert set(schema["properties"]["sgx"]["properties"]) == sgx
    for section, demands in (("gpu", GpuDemands), ("nvswitch", SwitchDemands), ("devices", DeviceSetDemands)):
        assert set(schema["properties"][section]["properties"]) == {f.name for f in dataclasses.fields(demands)}


def complies(schema: Document, value: object, whole: Document | None = None) -> bool:
    """As much of JSON Schema as the schema uses."""
    import re

    whole = whole or schema
    if "$ref" in schema:
        first, second = schema["$ref"].removeprefix("#/").split("/")
        return complies(whole[first][second], value, whole)
    for word, combine in (("allOf", all), ("anyOf", any)):
        if word in schema:
            parts = [complies(one, value, whole) for one in schema[word]]
            rest = {name: part for name, part in schema.items() if name != word}
            return combine(parts) and ("type" not in rest or complies(rest, value, whole))
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    match schema.get("type", "object"):
        case "object":
            known, other = schema.get("properties", {}), schema.get("additionalProperties")
            return (
                isinstance(value, dict)
                and set(schema.get("required", ())) <= set(value)
                and len(value) >= schema.get("minProperties", 0)
                and all(re.search(schema.get("propertyNames", {"pattern": ""})["pattern"], name) for name in value)
                and all(
                    complies(known[name], member, whole)
                    if name in known
                    else other is None or (isinstance(other, dict) and complies(other, member, whole))
                    for name, member in value.items()
                )
            )
        case "array":
            return (
                isinstance(value, list) and len(value) >= 1 and all(complies(schema["items"], v, whole) for v in value)
            )
        case "string":
            return isinstance(value, str) and re.search(schema.get("pattern", ""), value) is not None
        case "integer":
            return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
        case "boolean":
            return isinstance(value, bool)
    return False


def test_shipped_policies_comply_with_the_schema(attest: Attest) -> None:
    from ruamel.yaml import YAML

    schema = attest("policy", "schema").document
    for path in (REPOSITORY / "policies").glob("*[!s].yaml"):  # not the cases beside them, *.tests.yaml
        document = YAML(typ="safe", pure=True).load(path.read_bytes())
        assert complies(schema, document), path.name
        assert not complies(schema, document | {"unknown": 1})
        kinds = {"azure", "snp", "tdx", "sgx", "gpu", "nvswitch"}
        assert not complies(schema, {name: document[name] for name in document if name not in kinds})


def test_what_a_policy_can_say_of_intel_complies_with_the_schema(attest: Attest) -> None:
    schema = attest("policy", "schema").document
    for change in (
        {"accepted_advisories": {"INTEL-SA-00837": {"reason": "x", "expires": "2027-01-01T00:00:00Z"}}},
        {"minimum_tdx_module_svn": {"1": 6}, "rtmr3": ["other"], "platform": {"cached_keys": False}},
        {"event_log": {"application_events": [{"domain": "a", "operation": "b", "contents": ["c d"]}]}},
        {"event_log": {"initrds": ["00" * 48], "grub_commands": {"unchecked": "x"}}},
    ):
        assert complies(schema, tdx_document(**change)), change
        assert policy_of(tdx_document(**change)).rules
    assert complies(schema, sgx_document(isv_prod_id=[1], tcb_status=["OutOfDate"]))
    assert not complies(schema, tdx_document(accepted_advisories={"SA-00837": {"reason": "x", "expires": "x"}}))
    assert not complies(schema, tdx_document(event_log={"required": False}))


def test_what_a_policy_can_say_of_nvidia_devices_complies_with_the_schema(attest: Attest) -> None:
    schema = attest("policy", "schema").document
    for document in (
        gpu_document(driver_versions=[{"exactly": "580.95.05"}, {"at_least": "580", "below": "581"}]),
        gpu_document(waived_measurements={"7": "x"}, held_rim_signers={"unchecked": "x"}, modes=["protected-pcie"]),
        gpu_document(environment={"unchecked": "x"}, device_identities=["41" + "00" * 8], fwids=["00" * 48]),
        switch_document(locked={"unchecked": "x"}, waived_measurements={"30": "x"}),
        devices_document(gpus=8, switches={"at_least": 2, "at_most": 4}, bound={"unchecked": "x"}),
    ):
        assert complies(schema, document), document
        assert policy_of(document).rules
    for document in (
        gpu_document(driver_versions=[]),
        gpu_document(driver_versions={"at_least": "96.00.A5.00.01"}),
        gpu_document(dev_tools_mode=True),
        gpu_document(waived_measurements={"64": "x"}),
        switch_document(driver_versions={"at_least": "570"}),
        devices_document(gpus={"at_most": 8}),
        devices_document(bound=False),
    ):
        assert not complies(schema, document), document


def test_check_shows_the_rules_over_all_devices_too(attest: Attest) -> None:
    ran = attest("policy", "check", REPOSITORY / "policies/snp-h100.yaml", "--json")
    rules = ran.document["policies"][0]["rules"]
    assert rules["policy.gpu.dev_tools_mode"] == "false"
    assert rules["policy.devices.gpus"] == "exactly 1"
    assert rules["policy.devices.cpu"] == "one of sev-snp"


def test_branches_comply_with_the_schema(attest: Attest) -> None:
    from tests.policy.mixed import gpu, policy_with, snp, tdx

    schema = attest("policy", "schema").document
    amd: Document = {"name": "amd", "snp": snp()}
    good: tuple[Document, ...] = (
        {"any_of": [amd, {"tdx": tdx()}]},
        {"gpu": gpu(), "all_of": [amd, {"any_of": [{"at_least": {"count": 1, "of": [amd]}}]}]},
        {"at_least": {"count": 2, "of": [amd, amd | {"name": "other", "gpu": gpu(), "devices": {"gpus": 1}}]}},
    )
    for parts in good:
        document = policy_with(**parts)
        assert complies(schema, document), document
        assert policy_of(document).kinds
    wrong: tuple[Document, ...] = (
        {},
        {"any_of": []},
        {"any_of": [{}]},
        {"any_of": [{"name": "empty"}]},
        {"any_of": [amd | {"name": "7"}]},
        {"any_of": [amd | {"version": 1}]},
        {"any_of": [{"snp": snp(vmpl=[])}]},
        {"at_least": {"of": [amd]}},
        {"at_least": {"count": 0, "of": [amd]}},
        {"all_of": {"count": 1, "of": [amd]}},
    )
    for parts in wrong:
        assert not complies(schema, policy_with(**parts)), parts


def test_cases_beside_policies_are_passed_over(attest: Attest) -> None:
    policies = sorted((REPOSITORY / "policies").glob("*.yaml"))
    assert any(path.name.endswith(".tests.yaml") for path in policies)
    for command in ("check", "lint"):
        assert attest("policy", command, *policies, "--quiet").code == 0
        ran = attest("policy", command, *(path for path in policies if path.name.endswith(".tests.yaml")))
        assert ran.code == 2
        assert "attest policy test" in ran.err


def test_what_a_policy_can_say_of_azure_complies_with_the_schema(attest: Attest) -> None:
    schema = attest("policy", "schema").document
    whole = policy_with(azure=azure(vm_configuration={"console_enabled": {"unchecked": "x"}}), snp=snp())
    assert complies(schema, whole)
    assert not complies(schema, policy_with(azure={"vm_unique_ids": ["x"]}, snp=snp()))
    assert complies(schema, whole | {"verifiers": [{"issuer": "https://a.invalid", "policy_ids": ["x"]}]})
    assert not complies(schema, whole | {"verifiers": [{"maximum_age": 300}]})
