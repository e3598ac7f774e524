"""Firmware that lacks a fix: the page finds what the library finds, by the same table."""

import json

import pytest

from attest.cli.firmware_options import built_in_table
from attest.evidence.gpu.format import GPU, SWITCH
from attest.evidence.snp.format import SNP
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy.firmware_findings import firmware_findings
from attest.verification import VerifiedItem
from attest_simulator.nvidia import SimulatedGpu
from tests.evidence.azure.made import AzureVm, judged
from tests.page.browser import BUNDLE, Verifier
from tests.policy.gpu_documents import SWITCH as SIMULATED_SWITCH
from tests.policy.gpu_documents import verified
from tests.policy.mixed import snp_cpu, td_cpu
from tests.samples import scene

pytestmark = pytest.mark.loopback
OLD = SnpTcbVersion(bootloader=1, tee=0, snp=8, microcode=24)
OLD_FIRMWARE = """
async (result) => {
    const { oldFirmware } = await import("/policy.js");
    return (await oldFirmware(result)).map((one) =>
        `${one.item}: this machine's ${one.component} ${one.found} is older than the fix of ${one.fixes}`);
}
"""


def _old_cpu(product: SnpProduct) -> VerifiedItem:
    old = scene(product, reported_tcb=OLD, committed_tcb=OLD)
    return VerifiedItem(name="cpu", format=SNP, verified=old.verify(old.guest.report(bytes(64))))


def _devices() -> list[VerifiedItem]:
    drivers = ("570.124.06", "580.95.05", "580.159.03")
    gpus = [verified(SimulatedGpu.of(f"with {driver}", driver=driver)) for driver in drivers]
    return [
        *(snp_cpu(product) for product in SnpProduct),
        *(_old_cpu(product) for product in (SnpProduct.MILAN, SnpProduct.GENOA)),
        td_cpu(),
        *judged(AzureVm()).items,
        *(VerifiedItem(name=f"gpu{number}", format=GPU, verified=gpu) for number, gpu in enumerate(gpus)),
        VerifiedItem(name="switch0", format=SWITCH, verified=verified(SIMULATED_SWITCH)),
    ]


def test_the_page_finds_the_same_old_firmware_as_the_library(in_browser: Verifier) -> None:
    components = set[str]()
    for item in _devices():
        findings = firmware_findings([(item.name, item.kind, item.silicon)], built_in_table())
        components |= {one.component for one in findings}
        result = {"items": [{"name": item.name, "kind": item.kind, "claims": item.claims}], "simulated": False}
        told = json.loads(json.dumps(result))
        assert in_browser.page.evaluate(OLD_FIRMWARE, told) == [str(one) for one in findings]
        assert in_browser.page.evaluate(OLD_FIRMWARE, told | {"simulated": True}) == []
    assert components >= {"snp", "microcode", "driver"}


def test_the_bundle_has_the_table_that_the_library_has() -> None:
    advisories = {one.advisory for one in built_in_table().entries}
    (table,) = [text for path in BUNDLE.glob("*.js") if (text := path.read_text()).count("advisory:") > 10]
    assert {one for one in advisories if one not in table} == set()


AGES = """
async ([result, kind]) => (await (await import("/policy.js")).firmwareAges(result, kind))
    .map(({ component, found, since, later }) => [component, found, since?.advisory, later.map((one) => one.advisory)])
"""


def test_the_page_says_how_old_firmware_is_and_what_later_levels_fixed(in_browser: Verifier) -> None:
    fixes = 0
    for item in (_old_cpu(SnpProduct.GENOA), snp_cpu(SnpProduct.GENOA), td_cpu()):
        told = {"items": [{"name": item.name, "kind": item.kind, "claims": item.claims}], "simulated": False}
        result = json.loads(json.dumps(told))
        ages: list[tuple[str, str, str | None, list[str]]] = in_browser.page.evaluate(AGES, [result, "snp|tdx"])
        old = firmware_findings([(item.name, item.kind, item.silicon)], built_in_table())
        assert {str(component) for component, _, _, later in ages if later} == {one.component for one in old}
        for component, found, since, later in ages:
            known = {one.advisory for one in built_in_table().entries if one.demand.component == component}
            assert {since, *later} - {None} <= known, (component, found)
            fixes += len(later)
        assert in_browser.page.evaluate(AGES, [result | {"simulated": True}, "snp|tdx"]) == []
    assert fixes > 2
