"""The procedure S01 to S13: each check refuses on its own, and the refusals come in the right order."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import Anchor, TrustAnchors
from attest.endorsements.candidates import MAX_CANDIDATES
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate, parse_crl
from attest.errors import (
    AttestError,
    BindingError,
    ChainError,
    EndorsementError,
    RevokedError,
    SignatureError,
)
from attest.evidence.snp.certificates import LeafKind
from attest.evidence.snp.evidence import ParsedSnpEvidence, parse_snp_evidence
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.evidence.snp.verify import SnpSteps, verify_snp_evidence
from attest_simulator import (
    CaRole,
    SimulatedChip,
    SimulatedGuest,
    ca_template,
    simulated_ca_key,
    simulated_chain,
    simulated_crl,
)
from tests.samples import AT, NO_CRL, Scene, scene
from tests.unknown_values import SPLS, extended_chip, spl_neighbours


def refused(outcome: pytest.ExceptionInfo[Any]) -> tuple[str, str | None]:
    """Code and check of a refusal."""
    return outcome.value.code, outcome.value.check


def test_the_procedure_has_one_step_for_each_check_and_no_id_twice() -> None:
    ids = [step.id for step in SnpSteps()]
    assert len(set(ids)) == len(ids)
    assert ids[-1] == "snp.revocation"


@pytest.mark.parametrize("product", list(SnpProduct))
@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("csp_id", [None, "CN=cloud.invalid"])
def test_every_version_product_and_key_kind_verifies(product: SnpProduct, version: int, csp_id: str | None) -> None:
    chip = SimulatedChip.of(product, report_version=version, csp_id=csp_id)
    verified = verify_snp_evidence(
        parse_snp_evidence(SimulatedGuest(chip=chip).report(bytes(64))),
        endorsements=chip.endorsements(at=AT),
        anchors=TrustAnchors.simulation(),
        at=AT,
    )
    assert verified.simulated
    assert verified.product is product
    assert verified.leaf.kind is chip.kind
    assert {check.outcome for check in verified.checks} <= {Outcome.PASS, Outcome.NOT_EVALUATED}


def test_mc_3_the_vendors_anchors_refuse_simulated_evidence() -> None:
    with pytest.raises(ChainError) as outcome:
        scene().verify(anchors=TrustAnchors.vendors())
    assert refused(outcome) == ("simulated-root-refused", "snp.root")


def test_an_empty_set_of_anchors_accepts_nobody() -> None:
    with pytest.raises(ChainError) as outcome:
        scene().verify(anchors=TrustAnchors(anchors=()))
    assert outcome.value.check == "snp.root"


@pytest.mark.parametrize("override", [{"key_info": 7 << 2}, {"key_info": 2}, {"key_info": 2 << 2}])
def test_a_report_that_nobody_signed_is_refused(override: dict[str, int]) -> None:
    honest = scene()
    with pytest.raises(SignatureError) as outcome:
        honest.verify(honest.guest.report(bytes(64), override=override))
    assert refused(outcome) == ("snp-report-unsigned", "snp.signing_key")
    (check,) = outcome.value.checks
    assert (check.id, check.outcome, check.got) == ("snp.signing_key", Outcome.FAIL, outcome.value.got)


def test_without_any_leaf_the_leaf_is_missing() -> None:
    honest = scene()
    with pytest.raises(EndorsementError) as outcome:
        honest.verify(endorsements=honest.without("SEV-VCEK"))
    assert refused(outcome) == ("snp-leaf-missing", "snp.leaf")


def test_mc_4_only_a_leaf_of_the_other_kind_is_a_mismatch() -> None:
    honest = scene()
    vlek = SimulatedChip.of(SnpProduct.GENOA, csp_id="CN=cloud.invalid")
    pool = honest.without("SEV-VCEK").with_certificates([parse_certificate(vlek.leaf_certificate())])
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=pool)
    assert refused(outcome) == ("snp-signer-kind-mismatch", "snp.leaf")
    evidence = parse_snp_evidence(honest.report)._replace(leaves=(vlek.leaf_certificate(),))
    with pytest.raises(ChainError) as outcome:
        honest.verify(evidence, endorsements=honest.without("SEV-VCEK"))
    assert refused(outcome) == ("snp-signer-kind-mismatch", "snp.leaf")


def test_an_unreadable_leaf_of_the_evidence_refuses_and_of_the_pool_is_another_candidate() -> None:
    honest = scene()
    broken = parse_snp_evidence(honest.report)._replace(leaves=(b"\x30\x00",))
    with pytest.raises(ChainError) as outcome:
        honest.verify(broken, endorsements=honest.without("SEV-VCEK"))
    assert refused(outcome) == ("certificate-malformed", "snp.leaf")
    assert honest.verify(broken).simulated  # a good one elsewhere still wins


def test_a_leaf_whose_extensions_cannot_be_read_is_refused_by_name() -> None:
    honest = scene()
    template = honest.guest.chip.leaf_template()
    short = replace(template, extensions=template.extensions[1:]).issue(simulated_ca_key(SnpProduct.GENOA, CaRole.ASK))
    pool = honest.without("SEV-VCEK").with_certificates([parse_certificate(short)])
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=pool)
    assert refused(outcome) == ("snp-leaf-malformed", "snp.leaf")


def test_the_best_fitting_of_several_leaves_is_tried_first_and_any_good_one_wins() -> None:
    honest = scene()
    strangers = [
        parse_certificate(SimulatedChip.of(SnpProduct.GENOA, name=f"chip {n}").leaf_certificate())
        for n in range(1, MAX_CANDIDATES + 2)
    ]
    assert len(strangers) > MAX_CANDIDATES
    crowd = Endorsements(certificates=(*strangers, *honest.endorsements.certificates), crls=honest.endorsements.crls)
    assert honest.verify(endorsements=crowd).leaf.hwid == honest.guest.chip.hwid


@pytest.mark.parametrize("bound", ["not_before", "not_after"])
def test_leaves_out_of_their_time_do_not_crowd_out_the_one_that_is_valid(bound: str) -> None:
    honest, key = scene(), simulated_ca_key(SnpProduct.GENOA, CaRole.ASK)
    template = honest.guest.chip.leaf_template()
    outside = AT + timedelta(days=1) if bound == "not_before" else AT - timedelta(days=1)
    changes: dict[str, Any] = {bound: outside}
    stale = [
        parse_certificate(replace(template, **{**changes, "serial": 1_000 + number}).issue(key))
        for number in range(MAX_CANDIDATES)
    ]
    crowd = Endorsements(certificates=(*stale, *honest.endorsements.certificates), crls=honest.endorsements.crls)
    assert honest.verify(endorsements=crowd).leaf.certificate.not_before <= AT


@pytest.mark.parametrize("name", ["SEV-VCEK", "SEV-Genoa", "ARK-Genoa"])
def test_damaged_copies_beside_the_good_certificate_decide_nothing(name: str) -> None:
    honest = scene()
    (good,) = (c for c in honest.endorsements.certificates if c.common_name == name)
    damaged = tuple(parse_certificate(good.der[:-1] + bytes([good.der[-1] ^ (1 + n)])) for n in range(20))
    crowd = honest.endorsements.with_certificates(damaged)
    assert honest.verify(endorsements=crowd).leaf.certificate.der == honest.verify().leaf.certificate.der
    alone = honest.without(name).with_certificates(damaged)
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=alone)
    assert outcome.value.code == "certificate-signature-invalid"


def extended(product: SnpProduct, spares: Mapping[str, int], *, csp_id: str | None = None) -> Scene:
    chip = extended_chip(SimulatedChip.of(product, csp_id=csp_id), spares)
    return Scene(guest=SimulatedGuest(chip=chip), endorsements=chip.endorsements(at=AT))


@pytest.mark.parametrize("level", [1, 7, 128, 255])
@pytest.mark.parametrize(
    ("product", "name"), [(p, n) for p in SnpProduct for n in SPLS if (p, n) != (SnpProduct.TURIN, "spl4")]
)
def test_a_level_of_no_known_meaning_passes_only_where_it_is_named_exactly(
    product: SnpProduct, name: str, level: int
) -> None:
    strange = extended(product, {name: level})
    for spls in ((), tuple(sorted(spl_neighbours(name, level)))):
        with pytest.raises(ChainError) as outcome:
            strange.verify(spls=spls)
        assert refused(outcome) == ("snp-leaf-malformed", "snp.leaf")
        assert "is not understood" not in (outcome.value.expected or "")
        assert outcome.value.got == f"{level}, which is not understood and therefore refused"
    verified = strange.verify(spls=("spl4:9", f"{name}:{level}"))
    assert [one.value for one in verified.accepted] == [f"{name}:{level}"]
    (check,) = (check for check in verified.checks if check.id == "snp.leaf")
    assert check.outcome is Outcome.WARNING
    assert check.got.endswith(f"not understood, and accepted: {name}:{level} (reason)")


def test_every_level_of_no_known_meaning_has_to_be_named_of_a_vlek_too() -> None:
    strange = extended(SnpProduct.MILAN, {"spl4": 1, "spl7": 2}, csp_id="CN=cloud.invalid")
    for spls in (("spl4:1",), ("spl7:2",)):
        with pytest.raises(ChainError):
            strange.verify(spls=spls)
    assert len(strange.verify(spls=("spl7:2", "spl4:1")).accepted) == 2
    assert scene().verify(spls=("spl7:2",)).accepted == ()


def test_naming_a_level_hides_nothing_else() -> None:
    """The certificate of another chip, and another TCB, are refused as before."""
    strange = extended(SnpProduct.GENOA, {"spl4": 1})
    report = SimulatedGuest(chip=SimulatedChip.of(SnpProduct.GENOA, name="another")).report(bytes(64))
    with pytest.raises(BindingError) as outcome:
        strange.verify(report, spls=("spl4:1",))
    assert refused(outcome) == ("snp-chip-id-mismatch", "snp.chip_id")


def test_a_certificate_that_is_understood_is_taken_before_one_that_is_not() -> None:
    strange, honest = extended(SnpProduct.GENOA, {"spl4": 1}), scene()
    (leaf,) = (one for one in strange.endorsements.certificates if one.common_name == "SEV-VCEK")
    known = honest.endorsements.certificates
    for certificates in ((leaf, *known), (*known, leaf)):
        pool = replace(honest.endorsements, certificates=certificates)
        assert honest.verify(endorsements=pool, spls=("spl4:1",)).accepted == ()


def test_of_several_certificates_the_one_that_gets_furthest_speaks() -> None:
    honest = scene()
    (vcek,) = (c for c in honest.endorsements.certificates if c.common_name == "SEV-VCEK")
    damaged = parse_certificate(vcek.der[:-1] + bytes([vcek.der[-1] ^ 1]))
    without_list = Endorsements(certificates=(damaged, *honest.endorsements.certificates))
    with pytest.raises(EndorsementError) as outcome:
        honest.verify(endorsements=without_list)
    assert refused(outcome) == ("crl-missing", "snp.revocation")


def test_mc_4_a_report_of_another_product_than_its_certificate_is_refused() -> None:
    genoa, milan = scene(SnpProduct.GENOA), scene(SnpProduct.MILAN)
    relabelled = milan.guest.report(bytes(64), override={"cpuid_mod_id": 0x11})
    with pytest.raises(ChainError) as outcome:
        milan.verify(relabelled)
    assert refused(outcome) == ("snp-product-mismatch", "snp.product")
    with pytest.raises(ChainError) as outcome:
        genoa.verify(endorsements=milan.endorsements)
    assert refused(outcome) == ("snp-product-mismatch", "snp.product")


def test_a_version_2_report_takes_the_layout_of_its_certificate() -> None:
    milan = scene(SnpProduct.MILAN, report_version=2)
    turin = scene(SnpProduct.TURIN, report_version=2)
    with pytest.raises(ChainError) as outcome:
        milan.verify(endorsements=turin.endorsements)
    assert refused(outcome) == ("snp-product-mismatch", "snp.product")


def test_mc_3_a_certificate_for_another_tcb_is_refused() -> None:
    honest = scene()
    newer = replace(honest.guest.chip, reported_tcb=SnpTcbVersion(bootloader=10, tee=0, snp=27, microcode=83))
    with pytest.raises(BindingError) as outcome:
        honest.verify(endorsements=newer.endorsements(at=AT))
    assert refused(outcome) == ("snp-tcb-mismatch", "snp.tcb")


def test_mc_3_a_certificate_of_another_chip_is_refused() -> None:
    honest, other = scene(), SimulatedChip.of(SnpProduct.GENOA, name="another")
    with pytest.raises(BindingError) as outcome:
        honest.verify(endorsements=other.endorsements(at=AT))
    assert refused(outcome) == ("snp-chip-id-mismatch", "snp.chip_id")


def test_a_turin_chip_id_with_a_ninth_byte_is_another_chip() -> None:
    turin = scene(SnpProduct.TURIN)
    longer = turin.guest.chip.chip_id[:8] + b"\x01" + bytes(55)
    with pytest.raises(BindingError) as outcome:
        turin.verify(turin.guest.report(bytes(64), override={"chip_id": longer}))
    assert refused(outcome) == ("snp-chip-id-mismatch", "snp.chip_id")


def test_a_masked_chip_id_is_not_evaluated_and_says_so() -> None:
    verified = scene(mask_chip_id=True).verify()
    (check,) = [check for check in verified.checks if check.id == "snp.chip_id"]
    assert check.outcome is Outcome.NOT_EVALUATED
    assert "masked" in check.got


@pytest.mark.parametrize(
    "change", [{"signature_r": bytes(72)}, {"signature_s": bytes(72)}, {"signature_r": b"\x01" * 48 + bytes(24)}]
)
def test_a_wrong_signature_is_refused(change: dict[str, int | bytes]) -> None:
    honest = scene()
    with pytest.raises(SignatureError) as outcome:
        honest.verify(honest.guest.report(bytes(64), override=change))
    assert refused(outcome) == ("snp-signature-invalid", "snp.signature")


@pytest.mark.parametrize("name", ["signature_r", "signature_s"])
def test_a_signature_longer_than_its_curve_is_refused(name: str) -> None:
    honest = scene()
    parsed = parse_snp_evidence(honest.report).report
    padded = getattr(parsed, name)[:71] + b"\x01"
    with pytest.raises(SignatureError):
        honest.verify(honest.guest.report(bytes(64), override={name: padded}))


@pytest.mark.parametrize("field", ["reported_tcb", "committed_tcb"])
def test_mc_5_a_tcb_above_the_current_one_is_refused(field: str) -> None:
    high = SnpTcbVersion(bootloader=10, tee=0, snp=28, microcode=84)
    dishonest = scene(**{field: high})  # type: ignore[arg-type]  # a field of the chip by name
    with pytest.raises(BindingError) as outcome:
        dishonest.verify()
    assert refused(outcome) == ("snp-tcb-inconsistent", "snp.tcb_order")


@pytest.mark.parametrize(
    ("moment", "code"),
    [
        (timedelta(seconds=-1), "certificate-not-yet-valid"),
        (timedelta(0), None),
    ],
)
def test_a_leaf_counts_from_its_first_second(moment: timedelta, code: str | None) -> None:
    honest = scene()
    at = honest.guest.chip.certified_from + moment
    pool = honest.guest.chip.endorsements(at=at)
    if code is None:
        assert honest.verify(endorsements=pool, at=at).at == at
        return
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=pool, at=at)
    assert refused(outcome) == (code, "snp.leaf_validity")


@pytest.mark.parametrize(("seconds", "valid"), [(-1, True), (0, True), (1, False)])
def test_a_leaf_counts_to_its_last_second_included(seconds: int, valid: bool) -> None:
    honest = scene()
    (leaf,) = honest.endorsements.with_common_name("SEV-VCEK")
    at = leaf.not_after + timedelta(seconds=seconds)
    pool = honest.guest.chip.endorsements(at=at)
    if valid:
        assert honest.verify(endorsements=pool, at=at).at == at
        return
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=pool, at=at)
    assert refused(outcome) == ("certificate-expired", "snp.leaf_validity")


def test_a_missing_intermediate_is_missing_and_not_a_broken_chain() -> None:
    honest = scene()
    with pytest.raises(EndorsementError) as outcome:
        honest.verify(endorsements=honest.without("SEV-Genoa"))
    assert refused(outcome) == ("snp-issuer-missing", "snp.chain")
    assert outcome.value.retryable


def test_an_intermediate_of_the_right_name_and_the_wrong_key_breaks_the_chain() -> None:
    honest = scene()
    imposter = ca_template(SnpProduct.GENOA, CaRole.ASK)
    wrong_key = replace(imposter, spki=ca_template(SnpProduct.GENOA, CaRole.ASVK).spki)
    forged = parse_certificate(wrong_key.issue(simulated_ca_key(SnpProduct.GENOA, CaRole.ARK)))
    pool = honest.without("SEV-Genoa").with_certificates([forged])
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=pool)
    assert refused(outcome) == ("certificate-signature-invalid", "snp.chain")
    good_too = honest.endorsements.with_certificates([forged])
    assert honest.verify(endorsements=good_too).simulated  # of two of one name, the one whose key verifies counts


def test_a_leaf_signed_by_the_wrong_intermediate_is_refused() -> None:
    honest = scene()
    forged = honest.guest.chip.leaf_template().issue(simulated_ca_key(SnpProduct.GENOA, CaRole.ASVK))
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=honest.without("SEV-VCEK").with_certificates([parse_certificate(forged)]))
    assert refused(outcome) == ("certificate-signature-invalid", "snp.chain")


def test_a_root_that_is_neither_held_nor_presented_is_missing() -> None:
    honest = scene()
    with pytest.raises(EndorsementError) as outcome:
        honest.verify(endorsements=honest.without("ARK-Genoa"))
    assert refused(outcome) == ("snp-root-missing", "snp.root")


def test_mc_3_a_root_that_is_no_anchor_is_refused_whoever_presents_it() -> None:
    honest = scene()
    with pytest.raises(ChainError) as outcome:
        honest.verify(anchors=TrustAnchors.simulation().without(["SIMULATED ARK-Genoa"]))
    assert outcome.value.check == "snp.root"
    stranger = TrustAnchors.vendors()
    with pytest.raises(ChainError) as outcome:
        honest.verify(anchors=stranger)
    assert outcome.value.hint is not None


def test_an_unknown_root_is_not_called_a_simulation() -> None:
    honest = scene()
    template = ca_template(SnpProduct.GENOA, CaRole.ARK)
    other = replace(template, spki=ca_template(SnpProduct.MILAN, CaRole.ASK).spki)
    unknown = parse_certificate(other.issue(simulated_ca_key(SnpProduct.MILAN, CaRole.ASK)))
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=honest.without("ARK-Genoa").with_certificates([unknown]))
    assert refused(outcome) == ("root-not-trusted", "snp.root")


def test_a_pinned_root_certificate_must_be_signed_by_itself() -> None:
    honest = scene()
    template = ca_template(SnpProduct.GENOA, CaRole.ARK)
    crooked = parse_certificate(template.issue(simulated_ca_key(SnpProduct.GENOA, CaRole.ASK)))
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=honest.without("ARK-Genoa").with_certificates([crooked]))
    assert refused(outcome) == ("certificate-signature-invalid", "snp.root")


def held(**changes: object) -> TrustAnchors:
    """An anchor whose key itself is held, as the vendors' are."""
    ark = parse_certificate(simulated_chain(SnpProduct.GENOA, kind=LeafKind.VCEK)[1])
    facts: dict[str, object] = {
        "name": "held ARK-Genoa",
        "role": "amd-ark",
        "product": "Genoa",
        "spki_sha256": ark.spki_sha256,
        "subject": ark.subject,
        "spki": ark.spki,
        "not_before": ark.not_before,
        "not_after": ark.not_after,
        "simulated": True,
    }
    return TrustAnchors(anchors=(Anchor(**(facts | changes)),))  # type: ignore[arg-type]


def test_a_held_key_needs_no_root_certificate() -> None:
    honest = scene()
    assert honest.verify(endorsements=honest.without("ARK-Genoa"), anchors=held()).anchor.name == "held ARK-Genoa"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"not_after": AT - timedelta(seconds=1)}, "certificate-expired"),
        ({"not_before": AT + timedelta(seconds=1)}, "certificate-not-yet-valid"),
        ({"not_after": AT, "not_before": AT}, None),
    ],
)
def test_a_held_key_counts_within_its_dates(change: dict[str, datetime], code: str | None) -> None:
    honest = scene()
    pool = honest.without("ARK-Genoa")
    if code is None:
        assert honest.verify(endorsements=pool, anchors=held(**change)).at == AT
        return
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=pool, anchors=held(**change))
    assert refused(outcome) == (code, "snp.chain_validity")


def test_an_anchor_of_another_product_line_does_not_vouch() -> None:
    honest = scene()
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=honest.without("ARK-Genoa"), anchors=held(product="Milan"))
    assert refused(outcome) == ("snp-product-mismatch", "snp.root")


def test_an_expired_intermediate_is_refused() -> None:
    honest = scene()
    template = ca_template(SnpProduct.GENOA, CaRole.ASK)
    old = replace(template, not_after=AT - timedelta(seconds=1))
    expired = parse_certificate(old.issue(simulated_ca_key(SnpProduct.GENOA, CaRole.ARK)))
    with pytest.raises(ChainError) as outcome:
        honest.verify(endorsements=honest.without("SEV-Genoa").with_certificates([expired]))
    assert refused(outcome) == ("certificate-expired", "snp.chain_validity")


def test_mc_3_revocation_is_not_optional() -> None:
    honest = scene()
    pool = Endorsements(certificates=honest.endorsements.certificates)
    with pytest.raises(EndorsementError) as outcome:
        honest.verify(endorsements=pool)
    assert refused(outcome) == ("crl-missing", "snp.revocation")
    verified = honest.verify(endorsements=pool, unchecked=NO_CRL)
    assert verified.crl is None
    assert verified.unchecked == NO_CRL
    (check,) = [check for check in verified.checks if check.id == "snp.revocation"]
    assert check.outcome is Outcome.NOT_EVALUATED
    assert NO_CRL[0].reason in check.got


def test_only_the_relaxation_of_revocation_relaxes_revocation() -> None:
    honest = scene()
    pool = Endorsements(certificates=honest.endorsements.certificates)
    with pytest.raises(EndorsementError):
        honest.verify(endorsements=pool, unchecked=(Unchecked(check="tcb", reason="something else"),))


def test_a_relaxation_that_was_not_needed_is_not_used() -> None:
    assert scene().verify(unchecked=NO_CRL).unchecked == ()


@pytest.mark.parametrize("unchecked", [(), NO_CRL])
def test_a_revoked_intermediate_is_refused_whatever_is_relaxed(unchecked: tuple[Unchecked, ...]) -> None:
    honest = scene()
    (ask,) = honest.endorsements.with_common_name("SEV-Genoa")
    pool = honest.guest.chip.endorsements(at=AT, revoked=(ask.serial,))
    with pytest.raises(RevokedError) as outcome:
        honest.verify(endorsements=pool, unchecked=unchecked)
    assert refused(outcome) == ("certificate-revoked", "snp.revocation")


def test_a_stale_list_that_names_the_intermediate_still_revokes() -> None:
    honest = scene()
    (ask,) = honest.endorsements.with_common_name("SEV-Genoa")
    stale = parse_crl(simulated_crl(SnpProduct.GENOA, at=AT - timedelta(days=800), revoked=(ask.serial,)))
    both = Endorsements(certificates=honest.endorsements.certificates, crls=(*honest.endorsements.crls, stale))
    with pytest.raises(RevokedError):
        honest.verify(endorsements=both, unchecked=NO_CRL)


def test_the_list_of_another_product_does_not_count() -> None:
    honest = scene()
    milan = parse_crl(simulated_crl(SnpProduct.MILAN, at=AT))
    with pytest.raises(EndorsementError) as outcome:
        honest.verify(endorsements=Endorsements(certificates=honest.endorsements.certificates, crls=(milan,)))
    assert refused(outcome) == ("crl-missing", "snp.revocation")


def test_a_false_report_is_called_false_even_when_endorsements_are_missing_too() -> None:
    """Exit codes: 4 comes before 5."""
    honest = scene()
    forged = bytearray(honest.report)
    forged[0x90] ^= 1
    with pytest.raises(SignatureError):
        honest.verify(bytes(forged), endorsements=Endorsements(certificates=honest.without("SEV-Genoa").certificates))


def test_a_refusal_tells_what_passed_before_it_and_what_was_not_reached() -> None:
    honest = scene()
    with pytest.raises(AttestError) as outcome:
        honest.verify(endorsements=honest.without("SEV-Genoa"))
    told = {check.id: check.outcome for check in outcome.value.checks}
    assert told["snp.signature"] is Outcome.PASS
    assert told["snp.chain"] is Outcome.FAIL
    assert told["snp.revocation"] is Outcome.NOT_EVALUATED
    assert list(told) == [step.id for step in SnpSteps()]


def test_certificates_that_came_with_the_evidence_count_like_any_others() -> None:
    honest = scene()
    extended = parse_snp_evidence(honest.guest.extended_report(bytes(64), crl=honest.endorsements.crls[0].der))
    assert honest.verify(extended, endorsements=Endorsements()).crl is not None


def test_provisional_firmware_is_seen_in_tcb_and_in_version() -> None:
    low = SnpTcbVersion(bootloader=10, tee=0, snp=27, microcode=83)
    assert scene(committed_tcb=low, reported_tcb=low).verify().provisional_firmware
    assert scene(committed_firmware=(1, 55, 48)).verify().provisional_firmware
    assert not scene().verify().provisional_firmware


def test_verification_changes_none_of_its_arguments() -> None:
    honest = scene()
    evidence = parse_snp_evidence(honest.report)
    before = (evidence, honest.endorsements.certificates, honest.endorsements.crls)
    honest.verify(evidence)
    assert (evidence, honest.endorsements.certificates, honest.endorsements.crls) == before


# -- real evidence


def real_pool(root: Path, *files: str) -> Endorsements:
    """The certificates and lists of some real files."""
    certificates = [parse_certificate((root / name).read_bytes()) for name in files if "crl" not in name]
    return Endorsements(
        certificates=tuple(certificates), crls=tuple(parse_crl((root / f).read_bytes()) for f in files if "crl" in f)
    )


def test_real_reports_verify_under_the_vendors_anchors_and_state_the_recorded_fields(vectors_dir: Path) -> None:
    root = vectors_dir / "sev-snp"
    vectors = [v for v in json.loads((root / "MANIFEST.json").read_text())["vectors"] if v["report"]]
    assert len(vectors) >= 4
    for vector in vectors:
        line, kind = vector["product_line"].lower(), vector["endorsement_role"]
        issuer = "ask" if kind == "VCEK" else "asvk"
        verified = verify_snp_evidence(
            parse_snp_evidence((root / vector["report"]).read_bytes()),
            endorsements=real_pool(root, vector["endorsement_cert"], f"certs/{line}/{issuer}.der"),
            anchors=TrustAnchors.vendors(),
            at=datetime.fromisoformat(vector["verify_time"]),
            unchecked=NO_CRL,
        )
        assert verified.report.measurement.hex() == vector["fields"]["measurement"]
        assert not verified.simulated
        assert verified.leaf.kind.upper() == kind


def test_a_real_report_with_its_real_crl_leaves_nothing_unchecked(vectors_dir: Path) -> None:
    root = vectors_dir / "sev-snp"
    verified = verify_snp_evidence(
        parse_snp_evidence((root / "milan-v2-vcek/report.bin").read_bytes()),
        endorsements=real_pool(root, "milan-v2-vcek/vcek.der", "certs/milan/ask.der", "crl/milan-2022-05.der"),
        anchors=TrustAnchors.vendors(),
        at=datetime(2023, 3, 1, tzinfo=UTC),
    )
    assert {check.outcome for check in verified.checks} == {Outcome.PASS}


def test_parsed_evidence_of_a_bare_report_carries_nothing_else() -> None:
    assert parse_snp_evidence(scene().report) == ParsedSnpEvidence(report=parse_snp_evidence(scene().report).report)
