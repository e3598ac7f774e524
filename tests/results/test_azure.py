"""What a result says of an Azure VM rests on the CPU's report within: its endorsements and the state of its TCB."""

from dataclasses import replace

from attest.appraisal import appraise
from attest.evidence.azure.structure import HclReportType
from attest.policy.loader import Policy
from attest.policy.rule_tree import AllBranch
from attest.results.ear import VerifierId
from attest.results.ear_build import build_ear
from attest.results.relied_on import relied_on, tcb_states
from tests.evidence.azure.made import NONCE, AzureVm, judged
from tests.samples import AT

SNP, TDX = (AzureVm(kind=kind) for kind in HclReportType)


def test_the_endorsements_of_the_cpus_report_are_those_relied_on() -> None:
    snp, tdx = judged(SNP), judged(TDX)
    assert {"vcek", "intermediate", "crl"} <= {entry.kind for entry in relied_on(snp)}
    assert {"pck", "pck-ca", "tcb-info", "qe-identity"} <= {entry.kind for entry in relied_on(tdx)}
    assert tcb_states(snp) == ()
    assert [state.status for state in tcb_states(tdx)] == ["UpToDate"]
    assert snp.items[0].silicon is not snp.items[0].verified


def test_an_ear_says_which_nonce_the_quote_answered() -> None:
    nobody = replace(Policy.baseline(), tree=AllBranch(path="", members=()))
    for vm in (SNP, TDX):
        result = appraise(judged(vm), policy=nobody, at=AT)
        ear = build_ear([result], verifier=VerifierId(developer="a test", build="1"))
        (appraisal,) = ear.submods.values()
        assert appraisal.nonce == (NONCE,)
        assert not result.affirmed
