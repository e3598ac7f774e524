"""Numbers of a policy: the first and the last that each key takes, and their neighbours that it refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.policy.model import decode_policy
from attest.policy.reference_values.accepted_documents import decode_accepted_document
from tests.policy.documents import STRICT
from tests.policy.documents import document as snp_document
from tests.policy.gpu_documents import devices_document
from tests.policy.intel_documents import sgx_document, tdx_document
from tests.policy.mixed import azure, policy_with, snp

TCB = {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 84}
SIGNERS = [f"{number:02x}" * 32 for number in range(1, 66)]
EXACT = 2**53 - 1
NUMBERS: dict[str, tuple[Callable[[int], Any], int, int]] = {
    "version": (lambda n: STRICT | {"version": n}, 1, 2**31),
    "snp.vmpl": (lambda n: snp_document(vmpl=[n]), 0, 3),
    "snp.minimum_guest_svn": (lambda n: snp_document(minimum_guest_svn=n), 0, 2**32 - 1),
    "snp.mitigations_at_launch": (lambda n: snp_document(mitigations_at_launch=n), 1, EXACT),
    "snp.mitigations_now": (lambda n: snp_document(mitigations_now=n), 1, EXACT),
    "snp.minimum_abi.major": (lambda n: snp_document(minimum_abi={"major": n, "minor": 0}), 0, 255),
    "snp.minimum_abi.minor": (lambda n: snp_document(minimum_abi={"major": 0, "minor": n}), 0, 255),
    "snp.minimum_tcb": (lambda n: snp_document(minimum_tcb={"Genoa": TCB | {"tee": n}}), 0, 255),
    "tdx.minimum_tdx_module_svn": (lambda n: tdx_document(minimum_tdx_module_svn={"1": n}), 0, 255),
    "tdx.minimum_tcb_evaluation_data_number": (
        lambda n: tdx_document(minimum_tcb_evaluation_data_number=n),
        1,
        2**31,
    ),
    "sgx.isv_prod_id": (lambda n: sgx_document(isv_prod_id=[n]), 0, 0xFFFF),
    "sgx.minimum_isv_svn": (lambda n: sgx_document(minimum_isv_svn=n), 0, 0xFFFF),
    "azure.maximum_restart_count": (
        lambda n: policy_with(azure=azure(maximum_restart_count=n), snp=snp()),
        0,
        2**32 - 1,
    ),
    "devices.gpus.at_most": (lambda n: devices_document(gpus={"at_least": 0, "at_most": n}), 0, 64),
}


@pytest.mark.parametrize("key", NUMBERS)
def test_the_last_number_that_is_taken_and_the_first_that_is_not(key: str) -> None:
    with_number, low, high = NUMBERS[key]
    for number in (low, high):
        decode_policy(with_number(number))
    for number in (low - 1, high + 1):
        with pytest.raises(ConfigurationError) as caught:
            decode_policy(with_number(number))
        assert caught.value.code == "policy-invalid"
        assert f"{low} to {high}" in str(caught.value.expected)


def test_as_many_signers_as_can_be_demanded_of_a_document() -> None:
    def row(count: int) -> JsonValue:
        return {"document": "kata", "signers": [*SIGNERS], "at_least": count}

    assert decode_accepted_document(row(64), "references[0]").at_least == 64
    assert decode_accepted_document({"document": "kata", "signers": [*SIGNERS]}, "references[0]").at_least == 1
    for count in (0, 65):
        with pytest.raises(ConfigurationError) as caught:
            decode_accepted_document(row(count), "references[0]")
        assert "1 to 64" in str(caught.value.expected)
