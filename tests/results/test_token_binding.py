"""Commitment to a key: the places of each service's token that a machine signs, and no other."""

import base64
from hashlib import sha256
from typing import Any

import pytest

from attest.results import commits_to, verify_service_token
from tests.results.services import (
    AT,
    GOOGLE,
    ITA,
    MAA,
    SERVICE,
    b64url,
    google,
    gpu,
    ita_section,
    ita_tdx,
    maa_guest,
    maa_sgx,
    maa_snp,
    maa_tdx,
    snp,
    without,
)

KEY = b"the keys of a workload"
DIGEST = sha256(KEY).digest()
REPORT = (DIGEST + bytes(32)).hex()
DIRTY = (DIGEST + bytes(31) + b"\1").hex()
TRUSTED = {iss: SERVICE.keys() for iss in (MAA, ITA, GOOGLE)}


def container(**more: object) -> dict[str, Any]:
    return without(maa_snp(**more), "x-ms-runtime")


def standard(data: bytes) -> str:
    return base64.b64encode(data).decode()


def committed(claims: dict[str, Any], data: bytes = KEY) -> bool:
    token = verify_service_token(
        SERVICE.sign(claims), trusted=TRUSTED, at=AT, audience="https://kms.example", audience_optional=True
    )
    return commits_to(token, data)


@pytest.mark.parametrize(
    "claims",
    [
        container(**{"x-ms-sevsnpvm-reportdata": REPORT}),
        maa_tdx(tdx_report_data=REPORT),
        maa_snp(**{"x-ms-runtime": {"user-data": REPORT}}),
        maa_guest(snp(**{"x-ms-runtime": {"user-data": REPORT}})),
        maa_sgx(**{"x-ms-sgx-ehd": b64url(KEY)}),
        maa_sgx(**{"x-ms-sgx-ehd": b64url(DIGEST)}),
        ita_tdx(ita_section(attester_held_data=standard(DIGEST))),
        ita_tdx(ita_section(attester_held_data=standard(KEY))),
        google(eat_nonce=DIGEST.hex()),
        google(eat_nonce=["another nonce", b64url(DIGEST)]),
    ],
)
def test_a_commitment_is_found_where_the_machine_makes_it(claims: dict[str, Any]) -> None:
    assert committed(claims)
    assert not committed(claims, b"other keys")


@pytest.mark.parametrize(
    "claims",
    [
        container(nonce=DIGEST.hex()),
        container(**{"x-ms-sevsnpvm-reportdata": DIRTY}),
        maa_snp(**{"x-ms-sevsnpvm-reportdata": REPORT, "x-ms-runtime": {"user-data": DIRTY}}),
        maa_tdx(tdx_report_data=DIRTY, nonce=DIGEST.hex()),
        maa_guest(**{"x-ms-runtime": {"client-payload": {"nonce": standard(DIGEST)}, "user-data": REPORT}}),
        maa_guest() | {"x-ms-sevsnpvm-reportdata": REPORT},
        without(maa_guest(**{"x-ms-runtime": {"user-data": REPORT}}), "x-ms-isolation-tee"),
        ita_tdx(without(ita_section(tdx_report_data=REPORT), "attester_held_data")),
        ita_tdx(ita_section(verifier_nonce={"val": standard(DIGEST)})),
        ita_tdx(nvgpu=gpu(attester_held_data=standard(DIGEST))),
        google(eat_nonce=["another nonce"]),
    ],
)
def test_a_value_that_the_sender_could_choose_is_no_commitment(claims: dict[str, Any]) -> None:
    assert not committed(claims)
