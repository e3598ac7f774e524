"""What holds the items of one Attester together, without any format: names, digests, nonces."""

from __future__ import annotations

import pytest

from attest.checks import Outcome
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.composite import Composite, DeviceNonce, Presented, judge_composite
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, EvidenceItem
from attest.evidence.freshness import ExpectedFreshness, Freshness

NONCE = bytes(range(32))
GPUS = tuple(
    EvidenceItem(name=f"gpu{index}", media_type=MEDIA_NVIDIA_DEVICE, value=bytes([index])) for index in range(3)
)


def binding(devices: tuple[EvidenceItem, ...] = GPUS, nonce: bytes = NONCE) -> Binding:
    return Binding(
        context="kms-release/v1",
        role="workload",
        audience="kms.example+1+key",
        nonce=nonce,
        key=b"key",
        devices=tuple(device.digest for device in devices),
    )


EXPECTED = ExpectedBinding(context="kms-release/v1", role="workload", audience="kms.example+1+key", nonce=NONCE)


def presented(
    bound: Binding | None,
    *,
    others: tuple[EvidenceItem, ...] = GPUS,
    nonces: tuple[bytes, ...] | None = None,
    report_data: bytes | None = None,
) -> Presented:
    asked = NONCE if bound is None else bound.gpu_nonce()
    stated = (asked,) * len(others) if nonces is None else nonces
    committed = NONCE.ljust(64, b"\0") if bound is None else bound.report_data()
    return Presented(
        report_data=committed if report_data is None else report_data,
        binding=bound,
        others=others,
        device_nonces=tuple(DeviceNonce(item.name, nonce) for item, nonce in zip(others, stated, strict=True)),
    )


def codes(composite: Composite) -> list[str]:
    return [failure.code for failure in composite.failures]


def outcomes(composite: Composite) -> dict[str, Outcome]:
    return {check.id: check.outcome for check in composite.checks}


def test_one_challenge_one_key_and_one_set_of_devices_hold_together() -> None:
    found = judge_composite(presented(binding()), EXPECTED)
    assert found.freshness is Freshness.MATCHED
    assert outcomes(found) == dict.fromkeys(
        ("binding.report_data", "binding.devices", "binding.device_nonce", "freshness"), Outcome.PASS
    )


@pytest.mark.parametrize(
    "others",
    [GPUS[:2], GPUS[1:], (), (*GPUS, EvidenceItem(name="gpu3", media_type=MEDIA_NVIDIA_DEVICE, value=b"x"))],
    ids=["last missing", "first missing", "all missing", "one more"],
)
def test_a_device_that_is_missing_or_added_is_refused(others: tuple[EvidenceItem, ...]) -> None:
    assert codes(judge_composite(presented(binding(), others=others), EXPECTED)) == ["binding-devices-mismatch"]


def test_a_device_that_was_exchanged_renamed_or_repeated_is_refused() -> None:
    renamed = EvidenceItem(name="gpu9", media_type=GPUS[2].media_type, value=GPUS[2].value)
    changed = EvidenceItem(name="gpu2", media_type=GPUS[2].media_type, value=b"other")
    repeated = EvidenceItem(name="gpu2", media_type=GPUS[2].media_type, value=GPUS[0].value)
    retyped = EvidenceItem(name="gpu2", media_type="application/x-other", value=GPUS[2].value)
    for last in (renamed, changed, repeated, retyped):
        found = judge_composite(presented(binding(), others=(*GPUS[:2], last)), EXPECTED)
        assert codes(found) == ["binding-devices-mismatch"]


def test_a_device_asked_under_another_nonce_is_refused() -> None:
    bound = binding()
    for stale in (bytes(32), NONCE, binding(nonce=bytes(32)).gpu_nonce()):
        nonces = (bound.gpu_nonce(), stale, bound.gpu_nonce())
        found = judge_composite(presented(bound, nonces=nonces), EXPECTED)
        assert codes(found) == ["device-nonce-mismatch"]
        assert "gpu1" in found.failures[0].message


def test_a_binding_that_no_cpu_commits_to_proves_nothing() -> None:
    bound = binding()
    alone = Presented(
        report_data=None,
        binding=bound,
        others=GPUS,
        device_nonces=tuple(DeviceNonce(item.name, bound.gpu_nonce()) for item in GPUS),
    )
    found = judge_composite(alone, EXPECTED)
    assert codes(found) == ["binding-uncommitted"]
    assert judge_composite(presented(bound, report_data=bytes(64)), EXPECTED).failures[0].code == (
        "binding-report-data-mismatch"
    )


def test_several_refusals_are_all_told() -> None:
    found = judge_composite(
        presented(binding(), others=GPUS[:1], nonces=(bytes(32),), report_data=bytes(64)),
        ExpectedBinding(context="other", role="workload", audience="kms.example+1+key", nonce=NONCE),
    )
    assert codes(found) == [
        "binding-report-data-mismatch",
        "binding-devices-mismatch",
        "device-nonce-mismatch",
        "binding-context-mismatch",
    ]
    assert found.freshness is Freshness.MISMATCHED
    told = [(check.expected, check.got) for check in found.checks if check.outcome is Outcome.FAIL]
    assert told == [(failure.expected, failure.got) for failure in found.failures]
    assert all(expected and got for expected, got in told)


def test_without_a_binding_nothing_ties_the_devices_and_the_check_says_so() -> None:
    found = judge_composite(presented(None), ExpectedFreshness(nonce=NONCE))
    assert outcomes(found) == {"binding.devices": Outcome.NOT_EVALUATED, "freshness": Outcome.PASS}
    assert found.freshness is Freshness.MATCHED


def test_without_a_binding_every_report_answers_the_nonce_itself() -> None:
    for nonces in ((bytes(32), NONCE, NONCE), (NONCE, NONCE, bytes(32))):
        found = judge_composite(presented(None, nonces=nonces), ExpectedFreshness(nonce=NONCE))
        assert codes(found) == ["nonce-mismatch"]
        assert found.freshness is Freshness.MISMATCHED
    found = judge_composite(presented(None, report_data=bytes(64)), ExpectedFreshness(nonce=NONCE))
    assert codes(found) == ["nonce-mismatch"]


def test_devices_alone_answer_a_nonce() -> None:
    alone = Presented(report_data=None, binding=None, others=GPUS, device_nonces=(DeviceNonce("gpu0", NONCE),))
    assert judge_composite(alone, ExpectedFreshness(nonce=NONCE)).freshness is Freshness.MATCHED
    assert judge_composite(alone, ExpectedFreshness(nonce=bytes(32))).freshness is Freshness.MISMATCHED
    assert judge_composite(alone, None).freshness is Freshness.NOT_EVALUATED


def test_report_data_alone_says_nothing_of_unbound_devices() -> None:
    data = NONCE.ljust(64, b"\0")
    found = judge_composite(presented(None), ExpectedFreshness(report_data=data))
    assert found.freshness is Freshness.NOT_EVALUATED
    assert judge_composite(presented(None, others=()), ExpectedFreshness(report_data=data)).freshness is (
        Freshness.MATCHED
    )
    both = ExpectedFreshness(nonce=NONCE, report_data=data)
    assert judge_composite(presented(None), both).freshness is Freshness.MATCHED


def test_bound_devices_are_as_fresh_as_the_report_that_binds_them() -> None:
    bound = binding()
    found = judge_composite(presented(bound), ExpectedFreshness(report_data=bound.report_data()))
    assert found.freshness is Freshness.MATCHED
    assert judge_composite(presented(bound), ExpectedFreshness(nonce=NONCE)).freshness is Freshness.MATCHED
    assert codes(judge_composite(presented(None), EXPECTED)) == ["binding-missing"]


def test_a_question_that_this_evidence_cannot_answer_is_a_mistake_of_the_caller() -> None:
    alone = Presented(report_data=None, binding=None, others=GPUS, device_nonces=(DeviceNonce("gpu0", NONCE),))
    with pytest.raises(ValueError, match="32 bytes"):
        judge_composite(alone, ExpectedFreshness(nonce=b"short"))
    with pytest.raises(ValueError, match="report data"):
        judge_composite(alone, ExpectedFreshness(report_data=bytes(64)))
    # With a binding the nonce is the binding's, whose length its format fixes.
    assert codes(judge_composite(presented(binding()), ExpectedFreshness(nonce=b"short"))) == ["nonce-mismatch"]
