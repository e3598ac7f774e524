"""The simulated RIM service and responder: over HTTP's terms, and as a source of endorsements."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from attest.endorsements.ocsp_answers import OcspStatus, parse_ocsp, refusal_of
from attest.endorsements.requests import AmdCrlRequest, NvidiaOcspRequest, NvidiaRimRequest
from attest.endorsements.rims import parse_rim_answer
from attest.endorsements.x509 import Issuer
from attest.errors import EndorsementError
from attest_simulator.nvidia import Reason, SimulatedBoard, SimulatedGpu, SimulatedNvidiaService, SimulatedOcsp
from attest_simulator.nvidia.authorities import provisioner_authority

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
GPU = SimulatedGpu.of()
SERVICE = SimulatedNvidiaService.of(AT)
ISSUER = provisioner_authority(GPU.product)


def status(serial: int, issuer: Issuer | None = None) -> NvidiaOcspRequest:
    return NvidiaOcspRequest(name="a certificate", serial=serial, issuer=issuer or ISSUER.as_issuer())


@pytest.mark.parametrize("rim", [rim for _, device in SimulatedBoard.of(gpus=1).devices for rim in device.rims(at=AT)])
def test_a_rim_is_served_by_its_id(rim) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    found = SERVICE.answer(f"/v1/rim/{rim.id}")
    assert (found.status, found.content_type) == (200, "application/json")
    answer = parse_rim_answer(found.body)
    assert (answer.id, answer.document) == (rim.id, rim.document())


@pytest.mark.parametrize(
    "path", ["/", "/v1/rim/", "/v1/rim/ids", "/v2/rim/NV_GPU_DRIVER_GH100_550.90.07", "/v1/rim/a/b"]
)
def test_anything_else_is_not_found(path: str) -> None:
    found = SERVICE.answer(path)
    assert (found.status, json.loads(found.body)["code"]) == (404, "RIM_NOT_FOUND")


def test_a_rim_can_be_missing() -> None:
    driver, _ = (rim.id for rim in GPU.rims(at=AT))
    poor = replace(SERVICE, missing=frozenset({driver}))
    assert poor.answer(f"/v1/rim/{driver}").status == 404
    with pytest.raises(EndorsementError) as refusal:
        poor.get(NvidiaRimRequest(id=driver))
    assert refusal.value.code == "rim-not-found"


def test_the_responder_answers_whatever_it_is_sent() -> None:
    found = SERVICE.answer_ocsp(b"nonsense")
    assert (found.status, found.content_type) == (200, "application/ocsp-response")
    assert refusal_of(found.body) is not None


def test_typed_requests_are_answered_as_a_client_would() -> None:
    driver, _ = (rim.id for rim in GPU.rims(at=AT))
    assert parse_rim_answer(SERVICE.get(NvidiaRimRequest(id=driver))).id == driver
    serial = GPU.keys.device_template().serial
    assert parse_ocsp(SERVICE.get(status(serial))).status is OcspStatus.GOOD
    held = SimulatedNvidiaService.of(AT, ocsp=SimulatedOcsp.of(AT, revoked={serial: Reason.HOLD}))
    assert parse_ocsp(held.get(status(serial))).status is OcspStatus.REVOKED
    stranger = ISSUER.as_issuer()._replace(subject=b"another")
    assert refusal_of(SERVICE.get(status(serial, stranger))) is not None


def test_addresses_tell_requests_apart_and_other_vendors_are_none_of_its_business() -> None:
    urls = {SERVICE.url_of(found) for found in (NvidiaRimRequest(id="A"), status(1), status(2))}
    assert len(urls) == 3
    assert all(url.startswith(SERVICE.service) for url in urls)
    foreign = AmdCrlRequest(product="Milan", kind="vcek")
    with pytest.raises(TypeError):
        SERVICE.url_of(foreign)
    with pytest.raises(TypeError):
        SERVICE.get(foreign)
