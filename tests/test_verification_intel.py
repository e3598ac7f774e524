"""TDX and SGX evidence as a whole: quote, collateral, binding, event log and freshness together."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from attest.checks import Check, Outcome
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate
from attest.errors import (
    AttestError,
    BindingError,
    ChainError,
    EndorsementError,
    EvidenceError,
    RevokedError,
    SignatureError,
    UnsupportedError,
    VerificationError,
)
from attest.evidence.binding import ExpectedBinding
from attest.evidence.envelope import MEDIA_EVENT_LOG
from attest.evidence.input_files import read_evidence
from attest.evidence.intel.claims import sgx_claim, tdx_claim
from attest.verification import ExpectedFreshness, Freshness, VerifiedEvidence
from attest_simulator.intel import MeasuredEvent, SimulatedPlatform, application_event, typical_boot
from attest_simulator.intel.collateral import current_period, default_tcb_info
from tests.samples import AT, NO_CRL, NONCE, binding, report_evidence, scene
from tests.samples_intel import (
    NO_TCB,
    ZEROS,
    bound_td,
    intel_scene,
    log_item,
    old_platform,
    quote_evidence,
    quote_of,
)

HONEST = intel_scene()
TD = HONEST.td
HOPPER = Path(__file__).resolve().parent.parent / "fixtures/nvidia/hopper/evidence.json"
STEPS = (
    "format",
    "pck_certificate",
    "qe_report_signature",
    "attestation_key",
    "quote_signature",
    "pck_chain",
    "revocation",
    "tcb_info",
    "qe_identity",
    "module",
    "tcb",
)


def ids(tee: str) -> list[str]:
    return [f"{tee}.{step}" for step in STEPS]


def outcomes(checks: tuple[Check, ...]) -> dict[str, Outcome]:
    return {check.id: check.outcome for check in checks}


def refused(run: Callable[[], VerifiedEvidence]) -> AttestError:
    with pytest.raises(AttestError) as caught:
        run()
    return caught.value


def told(checks: tuple[Check, ...], check_id: str) -> str:
    return next(check.got for check in checks if check.id == check_id)


# -- what verifies


@pytest.mark.parametrize(("version", "body_type"), [(4, 2), (5, 2), (5, 3), (5, 4)])
def test_a_td_verifies_and_lists_every_check(version: int, body_type: int) -> None:
    verified = HONEST.verify(TD.quote(ZEROS, version=version, body_type=body_type))
    assert [check.id for check in verified.checks] == ["freshness", *ids("tdx")]
    assert {check.outcome for check in verified.checks[1:]} == {Outcome.PASS}
    assert {check.item for check in verified.checks[1:]} == {"cpu"}
    assert all(check.expected and check.got and check.clause for check in verified.checks)
    assert verified.simulated
    (item,) = verified.items
    assert (item.kind, item.claims["mr_td"], item.claims["tcb_status"]) == ("tdx", TD.mr_td.hex(), "UpToDate")


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_enclave_verifies_and_lists_every_check(version: int) -> None:
    verified = HONEST.verify(HONEST.enclave.quote(ZEROS, version=version), endorsements=HONEST.endorsements("sgx"))
    assert [check.id for check in verified.checks] == ["freshness", *ids("sgx")]
    found = outcomes(verified.checks[1:])
    assert found.pop("sgx.module") is Outcome.NOT_EVALUATED  # SGX has none
    assert set(found.values()) == {Outcome.PASS}
    (item,) = verified.items
    assert (item.kind, item.claims["mr_enclave"]) == ("sgx", HONEST.enclave.mr_enclave.hex())


@pytest.mark.parametrize("place", ["initial_service_td_hash", "current_service_td_hash", "mr_service_td"])
def test_the_extended_report_says_in_three_places_that_a_service_td_is_bound(place: str) -> None:
    quote = TD.quote(ZEROS, version=5, body_type=4, override={place: b"\x01" * 48})
    claims = HONEST.verify(quote).items[0].claims
    assert (claims[place], claims["service_td_bound"]) == ("01" * 48, True)
    plain = HONEST.verify(TD.quote(ZEROS, version=5, body_type=4)).items[0].claims
    assert (plain["service_td_bound"], plain["td_id"], plain["vm_id"]) == (False, "00" * 32, 0)


def test_claims_say_who_speaks_and_are_complete() -> None:
    body_1_5 = HONEST.verify(TD.quote(ZEROS, version=5)).items[0].claims
    body_1_0 = HONEST.verify(TD.quote(ZEROS)).items[0].claims
    assert body_1_5.keys() - body_1_0.keys() == {"mr_service_td", "tee_tcb_svn_2", "tcb_status_current"}
    bound = replace(TD, mr_service_td=b"\x01" * 48)
    assert HONEST.verify(bound.quote(ZEROS, version=5)).items[0].claims["service_td_bound"] is True
    assert body_1_0["service_td_bound"] is False


def test_a_claim_of_the_other_kind_is_a_programming_error() -> None:
    td = quote_of(HONEST.verify(TD.quote(ZEROS)))
    enclave = quote_of(HONEST.verify(HONEST.enclave.quote(ZEROS), endorsements=HONEST.endorsements("sgx")))
    with pytest.raises(TypeError, match="another kind"):
        sgx_claim("mr_enclave").get(td)
    with pytest.raises(TypeError, match="another kind"):
        tdx_claim("mr_td").get(enclave)


def test_a_platform_that_is_behind_is_genuine_and_says_so() -> None:
    """A status is no failed verification but a claim for the policy; Revoked alone refuses."""
    old = intel_scene(old_platform())
    verified = old.verify(old.td.quote(ZEROS))
    claims = verified.items[0].claims
    assert claims["tcb_status"] == "OutOfDate"
    assert claims["advisory_ids"] == ["INTEL-SA-01036", "INTEL-SA-01079"]
    assert told(verified.checks, "tdx.tcb") == "OutOfDate, INTEL-SA-01036, INTEL-SA-01079"


def test_verified_quotes_remember_what_vouches_for_them() -> None:
    quote = quote_of(HONEST.verify(TD.quote(ZEROS)))
    assert quote.at == AT
    assert quote.anchor.simulated
    assert quote.pck.fmspc == HONEST.platform.sgx.fmspc
    assert quote.evaluation is not None


# -- binding and freshness


def expected_binding() -> ExpectedBinding:
    usual = binding()
    return ExpectedBinding(context=usual.context, role=usual.role, audience=usual.audience, nonce=usual.nonce)


@pytest.mark.parametrize("version", [4, 5])
def test_a_binding_in_reportdata_makes_a_quote_fresh(version: int) -> None:
    verified = HONEST.verify(bound_td(TD, binding(), version=version), expected=expected_binding())
    assert verified.freshness is Freshness.MATCHED
    assert verified.binding == binding()


def test_a_nonce_in_reportdata_makes_a_quote_fresh() -> None:
    quote = TD.quote(NONCE.ljust(64, b"\0"))
    assert HONEST.verify(quote, expected=ExpectedFreshness(nonce=NONCE)).freshness is Freshness.MATCHED


def test_a_binding_that_the_quote_does_not_commit_to_is_refused() -> None:
    evidence = bound_td(TD, binding())
    cpu = replace(evidence.items[0], value=TD.quote(ZEROS))
    error = refused(lambda: HONEST.verify(replace(evidence, items=(cpu, evidence.items[1]))))
    assert isinstance(error, BindingError)
    assert error.code == "binding-report-data-mismatch"


def test_a_wrong_nonce_speaks_before_missing_collateral() -> None:
    """Exit code 4 comes before 5, and the checks tell both."""
    error = refused(
        lambda: HONEST.verify(
            TD.quote(ZEROS), endorsements=Endorsements(), expected=ExpectedFreshness(nonce=b"\x01" * 32)
        )
    )
    assert isinstance(error, BindingError)
    assert (error.code, error.exit_code) == ("nonce-mismatch", 4)
    found = outcomes(error.checks)
    assert found["freshness"] is Outcome.FAIL
    assert found["tdx.revocation"] is Outcome.FAIL
    assert found["tdx.quote_signature"] is Outcome.PASS


# -- refusals, each with every check


def test_without_collateral_nothing_is_concluded() -> None:
    error = refused(lambda: HONEST.verify(TD.quote(ZEROS), endorsements=Endorsements()))
    assert isinstance(error, EndorsementError)
    assert (error.code, error.exit_code, error.check) == ("crl-missing", 5, "tdx.revocation")
    assert [check.id for check in error.checks] == ["freshness", *ids("tdx")]
    found = outcomes(error.checks)
    assert [step for step in STEPS if found[f"tdx.{step}"] is Outcome.FAIL] == ["revocation", "tcb_info", "qe_identity"]
    assert [step for step in STEPS if found[f"tdx.{step}"] is Outcome.PASS] == list(STEPS[:6])


@pytest.mark.parametrize("tee", ["tdx", "sgx"])
def test_each_piece_of_collateral_is_needed(tee: str) -> None:
    quote = TD.quote(ZEROS) if tee == "tdx" else HONEST.enclave.quote(ZEROS)
    whole = HONEST.endorsements("tdx" if tee == "tdx" else "sgx")
    assert HONEST.verify(quote, endorsements=whole).simulated
    without: tuple[tuple[Endorsements, str], ...] = (
        *((replace_crls(whole, without=i), "revocation") for i in range(2)),
        (without_documents(whole, "tcb-info"), "tcb_info"),
        (without_documents(whole, "qe-identity"), "qe_identity"),
    )
    for pool, step in without:
        error = refused(lambda pool=pool: HONEST.verify(quote, endorsements=pool))  # type: ignore[misc]
        assert (error.check, error.exit_code) == (f"{tee}.{step}", 5)


def without_documents(pool: Endorsements, kind: str) -> Endorsements:
    return replace(pool, documents=tuple(document for document in pool.documents if document.kind != kind))


def replace_crls(pool: Endorsements, *, without: int) -> Endorsements:
    kept = tuple(crl for i, crl in enumerate(pool.crls) if i != without)
    return Endorsements(certificates=pool.certificates, crls=kept, documents=pool.documents)


def test_the_vendors_anchors_take_nothing_of_the_simulator() -> None:
    quote = TD.quote(ZEROS)
    error = refused(lambda: HONEST.verify(quote, anchors=TrustAnchors.vendors()))
    assert isinstance(error, ChainError)
    assert (error.code, error.check) == ("simulated-root-refused", "tdx.pck_chain")
    found = outcomes(error.checks)
    assert [check.id for check in error.checks] == ["freshness", *ids("tdx")]
    assert found["tdx.quote_signature"] is Outcome.PASS
    assert found["tdx.revocation"] is Outcome.NOT_EVALUATED
    assert refused(lambda: HONEST.verify(quote, anchors=TrustAnchors(anchors=()))).exit_code == 4


def test_a_forged_measurement_is_called_false_although_collateral_is_missing() -> None:
    quote = bytearray(TD.quote(ZEROS))
    quote[48 + 136] ^= 1  # the first byte of MRTD
    error = refused(lambda: HONEST.verify(bytes(quote), endorsements=Endorsements()))
    assert isinstance(error, SignatureError)
    assert (error.code, error.check) == ("quote-signature-invalid", "tdx.quote_signature")
    found = outcomes(error.checks)
    assert found["tdx.pck_chain"] is Outcome.NOT_EVALUATED
    assert found["tdx.attestation_key"] is Outcome.PASS


def test_a_quote_of_a_key_that_the_quoting_enclave_did_not_make_is_refused() -> None:
    forged = replace(TD.quote_template(ZEROS), bound_key=bytes(64)).issue()
    error = refused(lambda: HONEST.verify(forged))
    assert (error.code, error.check) == ("attestation-key-mismatch", "tdx.attestation_key")


def test_a_revoked_pck_is_refused_although_everything_else_is_missing() -> None:
    serial = parse_certificate(HONEST.platform.pck_certificate()).serial
    pool = HONEST.platform.collateral("tdx", at=AT, revoked=(serial,)).endorsements()
    error = refused(lambda: HONEST.verify(TD.quote(ZEROS), endorsements=Endorsements(crls=pool.crls)))
    assert isinstance(error, RevokedError)
    assert error.check == "tdx.revocation"
    found = outcomes(error.checks)
    assert found["tdx.tcb_info"] is Outcome.NOT_EVALUATED


def test_a_stale_piece_does_not_hide_another_one_that_is_false() -> None:
    """The lists ended and the QE is none of Intel's: false (4) speaks before stale (5), and both are told."""
    scene_ = intel_scene(replace(SimulatedPlatform.of(), qe_isv_svn=0))
    later = AT - timedelta(days=62)
    stale = scene_.platform.collateral("tdx", at=later).endorsements()
    fresh = scene_.endorsements()
    pool = Endorsements(certificates=fresh.certificates, crls=stale.crls, documents=fresh.documents)
    template = scene_.td.quote_template(ZEROS)
    foreign = replace(template, qe_fields={**template.qe_fields, "mr_signer": bytes(32)})
    error = refused(lambda: scene_.verify(foreign.issue(), endorsements=pool))
    assert isinstance(error, VerificationError)
    assert (error.code, error.check) == ("qe-identity-mismatch", "tdx.qe_identity")
    found = outcomes(error.checks)
    assert found["tdx.revocation"] is Outcome.FAIL
    assert found["tdx.tcb_info"] is Outcome.NOT_EVALUATED


def test_tcb_info_of_another_kind_of_machine_does_not_count() -> None:
    other = default_tcb_info("tdx", fmspc=b"OTHER\0", pce_id=bytes(2), period=current_period(AT))
    pool = HONEST.platform.collateral("tdx", at=AT, tcb_info=other).endorsements()
    error = refused(lambda: HONEST.verify(TD.quote(ZEROS), endorsements=pool))
    assert (error.exit_code, error.check) == (5, "tdx.tcb_info")


# -- what is left unchecked by name


def test_unchecked_revocation_is_told_and_tolerates_only_absence() -> None:
    pool = Endorsements(certificates=HONEST.endorsements().certificates, documents=HONEST.endorsements().documents)
    verified = HONEST.verify(TD.quote(ZEROS), endorsements=pool, unchecked=NO_CRL)
    assert outcomes(verified.checks)["tdx.revocation"] is Outcome.NOT_EVALUATED
    assert told(verified.checks, "tdx.revocation") == "unchecked: a test without a CRL"
    complete = HONEST.verify(TD.quote(ZEROS), unchecked=NO_CRL)
    assert outcomes(complete.checks)["tdx.revocation"] is Outcome.PASS


def test_an_unchecked_tcb_leaves_its_claims_out() -> None:
    pool = Endorsements(certificates=HONEST.endorsements().certificates, crls=HONEST.endorsements().crls)
    verified = HONEST.verify(TD.quote(ZEROS), endorsements=pool, unchecked=(NO_TCB,))
    found = outcomes(verified.checks)
    assert {found[f"tdx.{step}"] for step in ("tcb_info", "module", "tcb")} == {Outcome.NOT_EVALUATED}
    assert found["tdx.qe_identity"] is Outcome.PASS  # compared with constants
    claims = verified.items[0].claims
    assert not {"tcb_status", "advisory_ids", "tcb_date"} & claims.keys()
    assert claims["fmspc"] == HONEST.platform.sgx.fmspc.hex()


# -- event log


def test_the_log_of_this_boot_replays_and_its_facts_are_claims() -> None:
    td = TD.extend(3, application_event("example.com", "load-model", "sha384:00"))
    verified = HONEST.verify(quote_evidence(td.quote(ZEROS), log=td.event_log()))
    assert [check.id for check in verified.composite_checks] == ["freshness", "eventlog.replay"]
    assert told(verified.checks, "eventlog.replay") == f"{len(td.log)} events replay"
    facts = verified.items[0].claims["eventlog"]
    assert isinstance(facts, dict)
    assert facts["event_count"] == len(td.log)
    assert "application_events" in facts
    assert verified.ignored == ()


def test_the_padded_log_area_is_the_same_log() -> None:
    assert HONEST.verify(quote_evidence(TD.quote(ZEROS), log=TD.event_log(size=65536))).simulated


def test_a_log_stands_beside_a_binding_without_being_a_device() -> None:
    evidence = bound_td(TD, binding(), log_item(TD.event_log()))
    verified = HONEST.verify(evidence, expected=expected_binding())
    assert {c.id for c in verified.composite_checks} == {
        "binding.report_data",
        "binding.devices",
        "freshness",
        "eventlog.replay",
    }


def test_the_log_of_another_boot_is_refused() -> None:
    other = replace(TD, log=typical_boot(command_line="/vmlinuz init=/bin/sh"))
    error = refused(lambda: HONEST.verify(quote_evidence(TD.quote(ZEROS), log=other.event_log())))
    assert isinstance(error, VerificationError)
    assert error.code == "eventlog-register-mismatch"
    assert outcomes(error.checks)["eventlog.replay"] is Outcome.FAIL


def test_a_log_whose_text_is_not_what_was_measured_is_refused() -> None:
    """The digest still replays; what the log tells about it is a lie."""
    honest = typical_boot(secure_boot=False)
    variable = next(entry for entry in honest if b"S\0e\0c\0u\0r\0e\0B\0o\0o\0t\0" in entry.event.data)
    claimed = MeasuredEvent(
        kind=variable.event.kind, data=variable.event.data[:-1] + b"\x01", measured=variable.event.data
    )
    log = tuple(replace(entry, event=claimed) if entry is variable else entry for entry in honest)
    liar = replace(TD, log=log)
    assert liar.rtmrs == replace(TD, log=honest).rtmrs
    error = refused(lambda: HONEST.verify(quote_evidence(liar.quote(ZEROS), log=liar.event_log())))
    assert error.code == "eventlog-data-mismatch"
    assert outcomes(error.checks)["eventlog.replay"] is Outcome.FAIL


def test_a_log_and_a_quote_that_both_fail_are_both_told() -> None:
    quote = bytearray(TD.quote(ZEROS))
    quote[48 + 136] ^= 1
    other = replace(TD, log=typical_boot(secure_boot=False))
    error = refused(lambda: HONEST.verify(quote_evidence(bytes(quote), log=other.event_log())))
    assert error.code == "quote-signature-invalid"
    failed = {check.id for check in error.checks if check.outcome is Outcome.FAIL}
    assert failed == {"tdx.quote_signature", "eventlog.replay"}


def test_a_log_beside_a_machine_without_registers_proves_nothing_and_is_refused() -> None:
    item = log_item(TD.event_log())
    snp = report_evidence(scene().report)
    for evidence in (
        replace(snp, items=(*snp.items, item)),
        quote_evidence(HONEST.enclave.quote(ZEROS), log=TD.event_log()),
    ):
        error = refused(lambda evidence=evidence: HONEST.verify(evidence))  # type: ignore[misc]
        assert isinstance(error, UnsupportedError)
        assert error.code == "eventlog-without-registers"


def test_a_log_beside_devices_alone_proves_nothing_and_is_refused() -> None:
    devices = read_evidence([(HOPPER.name, HOPPER.read_bytes())]).evidence
    evidence = replace(devices, items=(*devices.items, log_item(TD.event_log())))
    error = refused(lambda: HONEST.verify(evidence))
    assert (error.code, error.got) == ("eventlog-without-registers", "evidence without a CPU report")


def test_two_logs_are_ambiguous_and_a_cut_one_is_malformed() -> None:
    evidence = quote_evidence(TD.quote(ZEROS), log=TD.event_log())
    doubled = replace(evidence, items=(*evidence.items, replace(evidence.items[1], name="eventlog2")))
    error = refused(lambda: HONEST.verify(doubled))
    assert isinstance(error, EvidenceError)
    assert error.code == "evidence-ambiguous"
    cut = replace(evidence.items[1], value=TD.event_log()[:-1], media_type=MEDIA_EVENT_LOG.upper())
    assert refused(lambda: HONEST.verify(replace(evidence, items=(evidence.items[0], cut)))).exit_code == 3
