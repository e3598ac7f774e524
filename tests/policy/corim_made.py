"""A writer of CoRIM, signed and unsigned, with cbor2."""

from typing import Any

import cbor2
from cbor2 import CBORTag

from attest.policy.reference_values.corim_import import AMD_PROFILE, INTEL_PROFILE
from tests.endorsements.cose_made import CosePrivateKey, cose_sign

AMD = CBORTag(32, AMD_PROFILE)
INTEL = CBORTag(111, INTEL_PROFILE)
CLASS: dict[int, Any] = {0: {0: CBORTag(111, b"\x2b"), 1: "AMD", 2: "SEV-SNP"}}
TDX: dict[int, Any] = {0: {1: "Intel", 2: "TDX"}}


def comid(*triples: Any, others: dict[int, Any] | None = None, name: Any = "image", **extra: Any) -> bytes:  # noqa: ANN401  any CBOR
    """Encode a CoMID of reference triples."""
    members = {1: {0: name, 1: 0}, 4: {0: list(triples), **(others or {})}}
    return cbor2.dumps(CBORTag(506, members | extra.get("members", {})))


def corim(*tags: Any, profile: Any = AMD, **members: Any) -> bytes:  # noqa: ANN401  any CBOR
    """Encode a CoRIM."""
    numbers = {"dependent": 2, "validity": 4, "id": 0}
    inner = {0: "test", 1: list(tags), 3: profile} | {numbers[name]: value for name, value in members.items()}
    return cbor2.dumps(CBORTag(501, {number: value for number, value in inner.items() if value is not None}))


def amd(*measurements: Any, environment: Any = CLASS) -> bytes:  # noqa: ANN401  any CBOR
    """Encode a CoRIM of one triple under AMD's profile."""
    return corim(comid([environment, list(measurements)]))


def intel(values: Any, environment: Any = TDX) -> bytes:  # noqa: ANN401  any CBOR
    """Encode a CoRIM of one measurement under Intel's profile."""
    return corim(comid([environment, [{1: values}]]), profile=INTEL)


def launch_measurement(digest: bytes) -> dict[int, Any]:
    """Return a launch measurement under AMD's profile, SHA-384."""
    return {0: 641, 1: {2: [[7, digest]]}}


def signed_corim(content: bytes, key: CosePrivateKey, header: dict[int, Any]) -> bytes:
    """Sign a CoRIM under any protected header."""
    protected = cbor2.dumps(header)
    signature = cose_sign(key, protected=protected, payload=content)
    return cbor2.dumps(CBORTag(18, [protected, {}, content, signature]))
