"""Release policies that tests start from, and tokens' claims to judge by them."""

import json
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from typing import Any

from hypothesis import strategies as st

ISSUER = "https://sharedeus.eus.attest.azure.net"
MEASUREMENT = "ab" * 48
TEE = "x-ms-isolation-tee"
Json = dict[str, Any]  # Any: JSON


def skr(*conditions: Json, group: str = "allOf", authority: str = ISSUER) -> bytes:
    """A policy of one authority with these conditions."""
    return json.dumps({"version": "1.0.0", "anyOf": [{"authority": authority, group: list(conditions)}]}).encode()


def equals(path: str, value: object) -> Json:
    return {"claim": path, "equals": value}


# A token as Azure's Verifier writes it for a confidential VM (azure-skr.md, 12.2), cut to what the tests look at.
CVM_CLAIMS: Json = {
    "iss": ISSUER,
    "jti": "00ff",
    "nonce": "chosen-by-the-guest",
    "secureboot": True,
    "x-ms-attestation-type": "azurevm",
    "x-ms-runtime": {"client-payload": {"nonce": "Zm9v"}, "keys": [{"kid": "TpmEphemeralEncryptionKey"}]},
    "x-ms-isolation-tee": {
        "x-ms-attestation-type": "sevsnpvm",
        "x-ms-compliance-status": "azure-compliant-cvm",
        "x-ms-sevsnpvm-launchmeasurement": MEASUREMENT,
        "x-ms-sevsnpvm-hostdata": "00" * 32,
        "x-ms-sevsnpvm-is-debuggable": False,
        "x-ms-sevsnpvm-vmpl": 0,
        "x-ms-sevsnpvm-guestsvn": 7,
        "x-ms-sevsnpvm-snpfw-svn": 8,
    },
    "a.b": {"c": 1},
    "a": {"b": {"c": 2, "d": 3}, "null": None, "list": [1], "float": 1.0, "huge": 2**53 + 1},
}

_SNP_FACTS = {
    "launchmeasurement": "measurement",
    "hostdata": "host_data",
    "authorkeydigest": "author_key_digest",
    "idkeydigest": "id_key_digest",
    "familyId": "family_id",
    "imageId": "image_id",
    "vmpl": "vmpl",
    "guestsvn": "guest_svn",
    "bootloader-svn": "reported_tcb.bootloader",
    "tee-svn": "reported_tcb.tee",
    "snpfw-svn": "reported_tcb.snp",
    "microcode-svn": "reported_tcb.microcode",
    "is-debuggable": "policy.debug",
    "migration-allowed": "policy.migrate_ma",
    "smt-allowed": "policy.smt",
}
_TDX_FACTS = {
    "tdx_mrtd": "mr_td",
    **{f"tdx_rtmr{number}": f"rtmr{number}" for number in range(4)},
    "tdx_mrseam": "mr_seam",
    "tdx_mrconfigid": "mr_config_id",
    "tdx_mrowner": "mr_owner",
    "tdx_mrownerconfig": "mr_owner_config",
    "tdx_td_attributes_debug": "td_attributes.debug",
    "tdx_td_attributes_key_locker": "td_attributes.kl",
    "tdx_td_attributes_perfmon": "td_attributes.perfmon",
    "tdx_td_attributes_protection_keys": "td_attributes.pks",
    "tdx_td_attributes_septve_disable": "td_attributes.sept_ve_disable",
    "attester_tcb_status": "tcb_status",
}


def azure_claims(claims: Mapping[str, Any], *, tdx: bool = False) -> Json:
    """What Azure's Verifier would write about a machine of ours (azure-skr.md, 12.1 and 12.3)."""
    names = _TDX_FACTS if tdx else {f"x-ms-sevsnpvm-{name}": claim for name, claim in _SNP_FACTS.items()}
    tee = {name: reduce(getitem, claim.split("."), claims) for name, claim in names.items()}
    return {"iss": ISSUER, TEE: {**tee, "x-ms-attestation-type": "tdxvm" if tdx else "sevsnpvm"}}


# -- random policies and claims that often meet

_NAMES = st.sampled_from(["a", "b", "a.b", "x-ms-runtime", "nonce", ""])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(".".join).filter(bool)
_SCALARS = st.one_of(
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**53]),
    st.sampled_from(["true", "false", "0", "1", "01", "", "x", "-1"]),
)
OPERATORS = ("equals", "notEquals", "less", "lessOrEquals", "greater", "greaterOrEquals")
TESTS = st.one_of(
    st.builds(lambda path, word, value: {"claim": path, word: value}, _PATHS, st.sampled_from(OPERATORS), _SCALARS),
    st.builds(lambda path, value: {"claim": path, "exists": value}, _PATHS, st.booleans()),
)
CONDITIONS: st.SearchStrategy[Json] = st.recursive(
    TESTS,
    lambda below: st.builds(
        lambda name, members: {name: members},
        st.sampled_from(["allOf", "anyOf"]),
        st.lists(below, min_size=1, max_size=3),
    ),
    max_leaves=8,
)
CLAIMS: st.SearchStrategy[Json] = st.dictionaries(
    _NAMES,
    st.recursive(
        st.one_of(_SCALARS, st.none(), st.sampled_from([1.5, 1.0, 2**53 + 1])),
        lambda below: st.one_of(st.lists(below, max_size=2), st.dictionaries(_NAMES, below, max_size=3)),
        max_leaves=6,
    ),
).map(lambda claims: {**claims, "iss": ISSUER})
