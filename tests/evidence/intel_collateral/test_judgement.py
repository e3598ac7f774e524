"""T07 to T12 on collateral that can be made to say anything."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from attest.checks import Unchecked
from attest.endorsements.candidates import MAX_CANDIDATES
from attest.errors import AttestError, EndorsementError, RevokedError, SignatureError, VerificationError
from attest.evidence.intel.collateral import TCB_SIGNING_NAME
from attest.evidence.intel.evaluation import TcbEvaluation, find_module
from attest.evidence.intel.tcb_info import parse_tcb_info
from tests.evidence.intel_collateral import made_intel as made
from tests.evidence.intel_collateral.made_intel import (
    BEGINS,
    CA_KEY,
    ENDS,
    IDENTITY,
    INFO,
    LEAF,
    MIDDLE,
    OTHER_KEY,
    PCK_CRL,
    PLATFORM_CA,
    QE,
    ROOT_CRL,
    SECOND,
    SIGNING,
    SIGNING_KEY,
    Made,
    component_level,
    crl,
    info_document,
    platform_level,
    qe_document,
)

GOOD = Made()
NO_REVOCATION = Unchecked(check="revocation", reason="a test")
NO_TCB = Unchecked(check="tcb", reason="a test")


def refusal(scene: Made, *, code: str, check: str | None = None) -> AttestError:
    with pytest.raises(AttestError) as refused:
        scene.judge()
    assert refused.value.code == code
    assert check in (None, refused.value.check)
    return refused.value


def evaluation(scene: Made) -> TcbEvaluation:
    found = scene.judge().evaluation
    assert found is not None
    return found


# -- all in order


def test_a_platform_that_is_up_to_date_comes_out_with_everything_that_vouches_for_it() -> None:
    judged = GOOD.judge()
    assert judged.evaluation == TcbEvaluation(
        tcb_status=made_status("UpToDate"),
        platform_status=made_status("UpToDate"),
        tdx_module_status=made_status("UpToDate"),
        tcb_status_current=None,
        qe_status=made_status("UpToDate"),
        tcb_date=parse_tcb_info(INFO.body).levels[0].tcb_date,
        advisory_ids=(),
        tcb_evaluation_data_number=18,
        qe_identity_evaluation_data_number=17,
    )
    assert judged.tcb_info is not None
    assert judged.qe_identity is not None
    assert judged.crls is not None
    assert judged.tcb_info.signing is judged.qe_identity.signing is SIGNING
    assert (judged.crls.pck, judged.crls.root) == (PCK_CRL, ROOT_CRL)
    assert judged.unchecked == ()


def made_status(text: str) -> Any:  # noqa: ANN401  a member of whichever enum it is compared with
    from attest.evidence.intel.status import TcbStatus

    return TcbStatus(text)


# -- T07: revocation


@pytest.mark.parametrize("listing", [crl(made.CA, CA_KEY, revoked=(LEAF.serial,)), crl(revoked=(PLATFORM_CA.serial,))])
def test_a_listed_certificate_is_refused_whatever_is_left_unchecked(listing: Any) -> None:  # noqa: ANN401
    for crls in ((listing,), (*GOOD.crls, listing), (listing, *GOOD.crls)):
        for unchecked in ((), (NO_REVOCATION, NO_TCB)):
            assert isinstance(
                refusal(replace(GOOD, crls=crls, unchecked=unchecked), code="certificate-revoked"), RevokedError
            )


@pytest.mark.parametrize("dates", [(BEGINS - 9 * SECOND, BEGINS), (ENDS, ENDS + SECOND)], ids=["stale", "future"])
def test_a_listed_certificate_is_refused_also_by_a_list_out_of_its_dates(dates: Any) -> None:  # noqa: ANN401
    listing = crl(made.CA, CA_KEY, revoked=(LEAF.serial,), dates=dates)
    refusal(replace(GOOD, crls=(*GOOD.crls, listing)), code="certificate-revoked", check="tdx.revocation")


def test_a_forged_list_and_one_of_another_ca_revoke_nothing() -> None:
    forged = crl(made.CA, OTHER_KEY, revoked=(LEAF.serial,))
    processor = crl("Intel SGX PCK Processor CA", CA_KEY, revoked=(LEAF.serial,))
    replace(GOOD, crls=(forged, processor, *GOOD.crls)).judge()


@pytest.mark.parametrize(
    ("crls", "code"),
    [
        ((), "crl-missing"),
        ((PCK_CRL,), "crl-missing"),
        ((ROOT_CRL,), "crl-missing"),
        ((ROOT_CRL, crl("Intel SGX PCK Processor CA", CA_KEY)), "crl-missing"),
        ((ROOT_CRL, crl(made.CA, CA_KEY, dates=(BEGINS, MIDDLE - SECOND))), "crl-expired"),
        ((crl(dates=(MIDDLE + SECOND, ENDS)), PCK_CRL), "crl-not-yet-valid"),
        ((ROOT_CRL, crl(made.CA, OTHER_KEY)), "crl-signature-invalid"),
    ],
)
def test_without_current_lists_of_both_issuers_there_is_no_verdict(crls: Any, code: str) -> None:  # noqa: ANN401
    refused = refusal(replace(GOOD, crls=crls), code=code, check="tdx.revocation")
    tolerated = replace(GOOD, crls=crls, unchecked=(NO_REVOCATION,))
    if isinstance(refused, EndorsementError):
        assert refused.exit_code == 5
        assert refused.retryable
        judged = tolerated.judge()
        assert judged.crls is None
        assert judged.unchecked == (NO_REVOCATION,)
    else:
        refusal(tolerated, code=code)


def test_a_missing_list_is_told_with_those_that_are_there() -> None:
    refused = refusal(replace(GOOD, crls=(ROOT_CRL,)), code="crl-missing")
    assert refused.got == "lists of Intel SGX Root CA"
    assert refusal(replace(GOOD, crls=()), code="crl-missing").got == "none"


def test_a_list_counts_up_to_and_including_its_last_second() -> None:
    crls = (ROOT_CRL, crl(made.CA, CA_KEY, dates=(MIDDLE, MIDDLE + SECOND)))
    for at, code in ((-SECOND, "crl-not-yet-valid"), (2 * SECOND, "crl-expired")):
        refusal(replace(GOOD, crls=crls, at=MIDDLE + at), code=code)
    for at in (0 * SECOND, SECOND):
        replace(GOOD, crls=crls, at=MIDDLE + at).judge()


def test_of_several_lists_the_newest_current_one_is_taken() -> None:
    newer = crl(made.CA, CA_KEY, dates=(MIDDLE, ENDS))
    future = crl(made.CA, CA_KEY, dates=(MIDDLE + SECOND, ENDS))
    found = replace(GOOD, crls=(newer, future, *GOOD.crls)).judge().crls
    assert found is not None
    assert found.pck is newer


def test_what_is_tolerated_is_told_only_when_it_was_needed() -> None:
    judged = replace(GOOD, unchecked=(NO_REVOCATION,)).judge()
    assert judged.unchecked == ()
    assert judged.crls is not None


# -- T08, T09: documents and their signer


@pytest.mark.parametrize(
    ("documents", "code"),
    [
        ((IDENTITY,), "tcb-info-missing"),
        ((INFO,), "qe-identity-missing"),
        ((info_document(fmspc="50806F000001"), IDENTITY), "tcb-info-missing"),
        ((info_document(pceId="0001"), IDENTITY), "tcb-info-missing"),
        ((info_document(id="SGX"), IDENTITY), "tcb-info-missing"),
        ((info_document(version=2), IDENTITY), "tcb-info-missing"),
        ((INFO, qe_document(id="QE")), "qe-identity-missing"),
        ((INFO, qe_document(id="QVE")), "qe-identity-missing"),
        ((INFO, qe_document(version=1)), "qe-identity-missing"),
        ((info_document(issueDate="2026-01-15T00:00:01Z"), IDENTITY), "tcb-info-not-yet-valid"),
        ((info_document(nextUpdate="2026-01-14T23:59:59Z"), IDENTITY), "tcb-info-expired"),
        (
            (info_document(issueDate="2026-01-15T00:00:00Z", nextUpdate="2026-01-14T00:00:00Z"), IDENTITY),
            "tcb-info-expired",
        ),
        ((INFO, qe_document(issueDate="2026-01-15T00:00:01Z")), "qe-identity-not-yet-valid"),
        ((INFO, qe_document(nextUpdate="2026-01-14T23:59:59Z")), "qe-identity-expired"),
    ],
)
def test_a_document_that_is_missing_or_out_of_its_dates_is_to_be_fetched(documents: Any, code: str) -> None:  # noqa: ANN401
    refused = refusal(replace(GOOD, documents=documents), code=code)
    assert (refused.exit_code, refused.retryable) == (5, True)
    judged = replace(GOOD, documents=documents, unchecked=(NO_TCB,)).judge()
    assert (judged.tcb_info, judged.qe_identity, judged.evaluation) == (None, None, None)
    assert judged.unchecked == (NO_TCB,)


def test_what_was_found_instead_is_named() -> None:
    others = (info_document(fmspc="50806F000001"), info_document(id="SGX"), qe_document(id="QE"))
    refused = refusal(replace(GOOD, documents=others), code="tcb-info-missing", check="tdx.tcb_info")
    assert refused.got == "SGX FMSPC 50806f000000 PCEID 0000, TDX FMSPC 50806f000001 PCEID 0000"
    refused = refusal(replace(GOOD, documents=(INFO, *others)), code="qe-identity-missing", check="tdx.qe_identity")
    assert refused.got == "QE"


@pytest.mark.parametrize("key", ["issueDate", "nextUpdate"])
@pytest.mark.parametrize("make", [info_document, qe_document])
def test_a_document_counts_on_its_first_and_its_last_second(make: Callable[..., Any], key: str) -> None:
    document = make(**{key: made.text(MIDDLE)})
    documents = (document, IDENTITY) if make is info_document else (INFO, document)
    replace(GOOD, documents=documents).judge()


@pytest.mark.parametrize("make", [info_document, qe_document])
def test_a_document_that_another_key_signed_is_refused(make: Callable[..., Any]) -> None:
    document = make(key=OTHER_KEY)
    documents = (document, IDENTITY) if make is info_document else (INFO, document)
    refused = refusal(replace(GOOD, documents=documents), code="collateral-signature-invalid")
    assert isinstance(refused, SignatureError)
    # Genuine ones beside it count, in either order.
    replace(GOOD, documents=(*documents, INFO, IDENTITY)).judge()
    replace(GOOD, documents=(INFO, IDENTITY, *documents)).judge()


def test_of_several_the_highest_evaluation_number_counts_and_then_the_latest_issue() -> None:
    lower = info_document(tcbEvaluationDataNumber=17)
    later = info_document(issueDate="2026-01-02T00:00:00Z")
    stale = info_document(tcbEvaluationDataNumber=99, nextUpdate="2026-01-02T00:00:00Z")
    for documents in ((INFO, lower, later, stale), (stale, later, lower, INFO)):
        found = replace(GOOD, documents=(*documents, IDENTITY)).judge().tcb_info
        assert found is not None
        assert found.content == parse_tcb_info(later.body)


@pytest.mark.parametrize("bound", ["issueDate", "nextUpdate"])
def test_of_several_one_on_its_first_or_last_second_is_as_current_as_any(bound: str) -> None:
    changes: dict[str, Any] = {"tcbEvaluationDataNumber": 19, bound: made.text(MIDDLE)}
    on_bound = info_document(**changes)
    for documents in ((INFO, on_bound), (on_bound, INFO)):
        found = replace(GOOD, documents=(*documents, IDENTITY)).judge().tcb_info
        assert found is not None
        assert found.content == parse_tcb_info(on_bound.body)


def test_the_first_failure_is_reported_and_not_the_last() -> None:
    forged = info_document(tcbEvaluationDataNumber=99, key=OTHER_KEY)
    stale = info_document(tcbEvaluationDataNumber=17, nextUpdate="2026-01-02T00:00:00Z")
    refusal(replace(GOOD, documents=(stale, forged, IDENTITY)), code="collateral-signature-invalid")


def test_only_so_many_candidates_are_tried() -> None:
    forged = [info_document(tcbEvaluationDataNumber=20 + i, key=OTHER_KEY) for i in range(MAX_CANDIDATES)]
    replace(GOOD, documents=(*forged[1:], INFO, IDENTITY)).judge()
    refusal(replace(GOOD, documents=(*forged, INFO, IDENTITY)), code="collateral-signature-invalid")


def test_false_comes_before_stale() -> None:
    """A missing list is held back until nothing worse was found."""
    forged = replace(GOOD, crls=(), documents=(info_document(key=OTHER_KEY), IDENTITY))
    refusal(forged, code="collateral-signature-invalid", check="tdx.tcb_info")
    refusal(replace(GOOD, crls=(), qe=replace(QE, isv_prod_id=9)), code="qe-identity-mismatch")
    refusal(replace(GOOD, crls=(), documents=(INFO,)), code="crl-missing", check="tdx.revocation")


OUT_OF_DATE = (MIDDLE - 9 * SECOND, MIDDLE - SECOND)
FUTURE = (MIDDLE + SECOND, MIDDLE + 9 * SECOND)


def signing(*, common_name: str = TCB_SIGNING_NAME, **changes: Any) -> Any:  # noqa: ANN401
    return made.certificate(common_name, SIGNING_KEY, **changes)


@pytest.mark.parametrize(
    ("certificates", "code", "exit_code"),
    [
        ((), "tcb-signing-missing", 5),
        ((signing(common_name="Somebody"),), "tcb-signing-missing", 5),
        ((signing(dates=OUT_OF_DATE),), "tcb-signing-expired", 5),
        ((signing(dates=FUTURE),), "tcb-signing-not-yet-valid", 5),
        ((signing(signer=OTHER_KEY),), "certificate-signature-invalid", 4),
        ((signing(issuer=made.CA, signer=CA_KEY),), "issuer-name-mismatch", 4),
        ((made.certificate(TCB_SIGNING_NAME, OTHER_KEY),), "collateral-signature-invalid", 4),
    ],
)
def test_the_signer_is_intels_issued_by_the_same_root_and_valid(certificates: Any, code: str, exit_code: int) -> None:  # noqa: ANN401
    scene = replace(GOOD, certificates=certificates)
    assert refusal(scene, code=code, check="tdx.tcb_info").exit_code == exit_code
    # A genuine one beside it counts, in either order.
    replace(GOOD, certificates=(*certificates, SIGNING)).judge()
    replace(GOOD, certificates=(SIGNING, *certificates)).judge()


def test_a_signer_that_the_root_revoked_is_refused() -> None:
    listing = crl(revoked=(SIGNING.serial,))
    refused = refusal(replace(GOOD, crls=(listing, PCK_CRL)), code="certificate-revoked", check="tdx.tcb_info")
    assert isinstance(refused, RevokedError)
    again = signing(serial=31)
    replace(GOOD, crls=(listing, PCK_CRL), certificates=(SIGNING, again)).judge()


def test_a_signer_whose_key_cannot_be_read_signed_nothing() -> None:
    broken = replace(SIGNING, der=b"x", spki=b"nothing")
    replace(GOOD, certificates=(broken, SIGNING)).judge()
    refusal(replace(GOOD, certificates=(broken,)), code="collateral-signature-invalid")


def test_another_root_accepts_nothing() -> None:
    other = GOOD.root._replace(spki=made.spki(OTHER_KEY))
    refusal(replace(GOOD, root=other), code="crl-signature-invalid")
    crls = (crl(signer=OTHER_KEY), PCK_CRL)
    refusal(replace(GOOD, root=other, crls=crls), code="certificate-signature-invalid")


# -- T10: the quoting enclave


@pytest.mark.parametrize(
    "changes",
    [
        {"misc_select": 1},
        {"attributes": bytes.fromhex("1700000000000000e700000000000000")},
        {"attributes": bytes.fromhex("0500000000000000e700000000000000")},
        {"mr_signer": bytes(32)},
        {"isv_prod_id": 1},
    ],
)
def test_another_enclave_than_the_identity_describes_is_refused(changes: dict[str, Any]) -> None:
    refused = refusal(replace(GOOD, qe=replace(QE, **changes)), code="qe-identity-mismatch", check="tdx.qe_identity")
    assert type(refused) is VerificationError


@pytest.mark.parametrize(
    ("isv_svn", "status", "advisories"),
    [(9, "UpToDate", ()), (4, "UpToDate", ()), (3, "OutOfDate", ("Q-1",)), (2, "OutOfDate", ("Q-1",))],
)
def test_the_first_level_that_the_enclave_reaches_counts(isv_svn: int, status: str, advisories: Any) -> None:  # noqa: ANN401
    found = evaluation(replace(GOOD, qe=replace(QE, isv_svn=isv_svn)))
    assert (found.qe_status, found.tcb_status, found.advisory_ids) == (status, status, advisories)


def test_an_enclave_below_every_level_or_at_a_revoked_one_is_refused() -> None:
    refusal(replace(GOOD, qe=replace(QE, isv_svn=0)), code="tcb-not-supported", check="tdx.qe_identity")
    refused = refusal(replace(GOOD, qe=replace(QE, isv_svn=1)), code="tcb-revoked", check="tdx.tcb")
    assert refused.message == "Intel revoked the TCB of the QE"


# -- T11: the TDX module


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"mr_signer_seam": bytes(47) + b"\1"}, "tdx-module-mismatch"),
        ({"seam_attributes": bytes(7) + b"\1"}, "tdx-module-mismatch"),
        ({"tee_tcb_svn": bytes([5, 2, 5]).ljust(16, b"\0")}, "tdx-module-unknown"),
    ],
)
def test_another_module_than_the_tcb_info_describes_is_refused(changes: Any, code: str) -> None:  # noqa: ANN401
    refusal(GOOD.with_module(**changes), code=code, check="tdx.module")


def test_attributes_that_are_not_zero_are_refused_even_where_the_tcb_info_wants_them() -> None:
    strange = {**made.MODULE, "attributes": "0100000000000000"}
    identities = [{"id": "TDX_01", **strange, "tcbLevels": [component_level(1)]}]
    scene = GOOD.with_levels(tdxModuleIdentities=identities)
    refusal(scene, code="tdx-module-mismatch")
    asking = replace(scene, platform=GOOD.with_module(seam_attributes=b"\1" + bytes(7)).platform)
    refusal(asking, code="tdx-module-mismatch")


def test_without_identities_only_major_version_zero_is_known() -> None:
    choices: tuple[list[Any] | None, ...] = ([], None)
    for absent in choices:
        members = made.tcb_info(tdxModuleIdentities=absent)
        if absent is None:
            del members["tdxModuleIdentities"]
        scene = replace(GOOD, documents=(made.document("tcb-info", members), IDENTITY))
        refusal(scene, code="tdx-module-unknown")
        zero = replace(scene, platform=GOOD.with_module(tee_tcb_svn=bytes([5, 0, 5]).ljust(16, b"\0")).platform)
        assert refusal(zero, code="tcb-not-supported").check == "tdx.tcb"  # component 1 is compared as well


def test_module_ids_are_compared_without_regard_to_case() -> None:
    assert evaluation(GOOD.with_module(tee_tcb_svn=bytes([3, 10, 5]).ljust(16, b"\0"))).tdx_module_status == "UpToDate"


def test_a_tcb_info_of_sgx_describes_no_module() -> None:
    info = parse_tcb_info(made.raw(made.tcb_info(id="SGX")))
    assert (info.module, info.module_identities) == (None, ())
    with pytest.raises(VerificationError) as refused:
        find_module(info, replace(made.MODULE_FACTS, tee_tcb_svn=bytes(16)))
    assert refused.value.code == "tdx-module-mismatch"


# -- T12: levels

HIGH, LOW = platform_level(5, 11, 5, "UpToDate"), platform_level(3, 9, 3, "OutOfDate", "P-2", "P-1")


@pytest.mark.parametrize(
    ("svns", "pce", "tdx", "status"),
    [
        (5, 11, 5, "UpToDate"),
        (9, 99, 9, "UpToDate"),
        (4, 11, 5, "OutOfDate"),
        (5, 10, 5, "OutOfDate"),
        (5, 11, 4, "OutOfDate"),
        (3, 9, 3, "OutOfDate"),
        (2, 9, 3, None),
        (3, 8, 3, None),
        (3, 9, 2, None),
    ],
)
@pytest.mark.parametrize("levels", [(HIGH, LOW), (LOW, HIGH)])
def test_the_highest_level_that_every_number_reaches_counts(
    svns: int,
    pce: int,
    tdx: int,
    status: str | None,
    levels: Any,  # noqa: ANN401
) -> None:
    scene = GOOD.with_module(tee_tcb_svn=bytes([5, 1, tdx]).ljust(16, b"\0")).with_levels(*levels)
    platform = replace(scene.platform, component_svns=(svns, svns, *[0] * 14), pce_svn=pce)
    scene = replace(scene, platform=platform)
    if status is None:
        refusal(scene, code="tcb-not-supported", check="tdx.tcb")
    else:
        found = evaluation(scene)
        assert (found.platform_status, found.tcb_status) == (status, status)
        assert found.advisory_ids == (("P-1", "P-2") if status == "OutOfDate" else ())


def test_one_component_below_is_enough_to_miss_a_level() -> None:
    for i in range(16):
        components = [{"svn": 1}] * 16
        level = {**HIGH, "tcb": {**HIGH["tcb"], "sgxtcbcomponents": components}}
        svns = tuple(0 if j == i else 255 for j in range(16))
        scene = GOOD.with_levels(level)
        refusal(replace(scene, platform=replace(scene.platform, component_svns=svns)), code="tcb-not-supported")


def test_with_a_module_identity_its_own_two_components_are_not_compared_with_the_platforms() -> None:
    newer = platform_level(5, 11, 5)
    newer["tcb"]["tdxtcbcomponents"][0] = {"svn": 200}
    newer["tcb"]["tdxtcbcomponents"][1] = {"svn": 200}
    assert evaluation(GOOD.with_levels(newer)).tcb_status == "UpToDate"
    zero = GOOD.with_module(tee_tcb_svn=bytes([199, 0, 5]).ljust(16, b"\0"))
    refusal(replace(zero, documents=(info_document(newer), IDENTITY)), code="tcb-not-supported")


def test_major_version_zero_has_no_module_level_and_is_up_to_date() -> None:
    level = platform_level()
    level["tcb"]["tdxtcbcomponents"] = [{"svn": 3}, {"svn": 0}, {"svn": 5}] + [{"svn": 0}] * 13
    scene = GOOD.with_levels(level).with_module(tee_tcb_svn=bytes([3, 0, 5]).ljust(16, b"\0"))
    assert evaluation(scene).tdx_module_status == "UpToDate"


@pytest.mark.parametrize(
    ("platform", "svn", "expected"),
    [
        ("UpToDate", 2, "OutOfDate"),
        ("SWHardeningNeeded", 4, "OutOfDate"),
        ("ConfigurationNeeded", 2, "OutOfDateConfigurationNeeded"),
        ("ConfigurationNeeded", 5, "ConfigurationNeeded"),
        ("OutOfDate", 5, "OutOfDate"),
    ],
)
def test_platform_and_module_are_brought_together(platform: str, svn: int, expected: str) -> None:
    scene = GOOD.with_levels(platform_level(5, 11, 5, platform)).with_module(
        tee_tcb_svn=bytes([svn, 1, 5]).ljust(16, b"\0")
    )
    found = evaluation(scene)
    assert (found.platform_status, found.tcb_status) == (platform, expected)
    assert found.tdx_module_status == ("UpToDate" if svn == 5 else "OutOfDate")
    assert found.advisory_ids == (() if svn == 5 else ("M-1",))


def test_a_module_below_every_level_is_not_supported() -> None:
    refused = refusal(GOOD.with_module(tee_tcb_svn=bytes([1, 1, 5]).ljust(16, b"\0")), code="tcb-not-supported")
    assert refused.field == "TEE_TCB_SVN"


def test_a_revoked_level_refuses_also_with_the_tcb_unchecked() -> None:
    revoked = GOOD.with_levels(platform_level(5, 11, 5, "Revoked"))
    identities = [{"id": "TDX_01", **made.MODULE, "tcbLevels": [component_level(2, "Revoked")]}]
    for scene, part in ((revoked, "platform"), (GOOD.with_levels(tdxModuleIdentities=identities), "TDX module")):
        for unchecked in ((), (NO_TCB,)):
            refused = refusal(replace(scene, unchecked=unchecked), code="tcb-revoked", check="tdx.tcb")
            assert refused.message == f"Intel revoked the TCB of the {part}"


SGX_PLATFORM = replace(made.PLATFORM, tee="sgx", module=None)
SGX_QE = replace(
    QE, isv_prod_id=1, mr_signer=bytes.fromhex("8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff")
)
SGX = replace(
    GOOD,
    platform=SGX_PLATFORM,
    qe=SGX_QE,
    documents=(info_document(id="SGX"), qe_document(id="QE", isvprodid=1, mrsigner=SGX_QE.mr_signer.hex())),
)


def test_sgx_has_no_module_and_is_judged_by_its_own_documents() -> None:
    found = evaluation(SGX)
    assert (found.tcb_status, found.tdx_module_status) == ("UpToDate", None)
    refusal(replace(SGX, documents=GOOD.documents), code="tcb-info-missing", check="sgx.tcb_info")
    below = replace(SGX, platform=replace(SGX_PLATFORM, pce_svn=10))
    assert "TEE_TCB_SVN" not in refusal(below, code="tcb-not-supported", check="sgx.tcb").message
    replace(SGX, documents=(), unchecked=(NO_TCB,)).judge()
    replace(SGX, unchecked=(NO_TCB,)).judge()


# -- the TCB left unchecked


def test_with_the_tcb_unchecked_the_quoting_enclave_is_compared_with_constants() -> None:
    scene = replace(GOOD, documents=(), certificates=(), unchecked=(NO_TCB,))
    judged = scene.judge()
    assert (judged.evaluation, judged.unchecked) == (None, (NO_TCB,))
    for changes in ({"mr_signer": bytes(32)}, {"isv_prod_id": 1}, {"attributes": b"\x17" + bytes(15)}):
        refusal(
            replace(scene, qe=replace(QE, **changes)),
            code="qe-identity-mismatch",
            check="tdx.qe_identity",
        )


def test_with_both_unchecked_no_collateral_is_needed() -> None:
    judged = Made(certificates=(), crls=(), documents=(), unchecked=(NO_TCB, NO_REVOCATION)).judge()
    assert judged.unchecked == (NO_REVOCATION, NO_TCB)
    assert (judged.crls, judged.evaluation) == (None, None)


def test_with_the_tcb_unchecked_a_mismatch_at_hand_still_refuses_and_what_fits_nothing_does_not() -> None:
    refusal(
        replace(GOOD.with_module(mr_signer_seam=bytes(47) + b"\1"), unchecked=(NO_TCB,)), code="tdx-module-mismatch"
    )
    unsupported = replace(made.PLATFORM, component_svns=(0,) * 16)
    assert replace(GOOD, platform=unsupported, unchecked=(NO_TCB,)).judge().evaluation is None
    forged = (info_document(key=OTHER_KEY), IDENTITY)
    assert replace(GOOD, documents=forged, unchecked=(NO_TCB,)).judge().evaluation is None


OUTDATED: dict[str, Any] = {"nextUpdate": made.text(MIDDLE - SECOND)}
OTHER_MAJOR = GOOD.with_module(tee_tcb_svn=bytes([5, 7, 5]).ljust(16, b"\0"))


def revoked_documents(**dates: Any) -> dict[str, Any]:  # noqa: ANN401  members of a document
    """One document that revokes a part, by the part's name."""
    identities = [{"id": "TDX_01", **made.MODULE, "tcbLevels": [component_level(2, "Revoked")]}]
    return {
        "platform": info_document(platform_level(5, 11, 5, "Revoked"), **dates),
        "TDX module": info_document(tdxModuleIdentities=identities, **dates),
        "QE": qe_document(tcbLevels=[component_level(0, "Revoked")], **dates),
    }


@pytest.mark.parametrize("unchecked", [(), (NO_TCB,)], ids=["checked", "unchecked"])
@pytest.mark.parametrize("dates", [{}, OUTDATED], ids=["current", "out of date"])
@pytest.mark.parametrize("part", ["platform", "TDX module", "QE"])
def test_each_document_alone_refuses_what_it_revokes(
    part: str, dates: dict[str, Any], unchecked: tuple[Unchecked, ...]
) -> None:
    alone = replace(GOOD, documents=(revoked_documents(**dates)[part],), unchecked=unchecked)
    refused = refusal(alone, code="tcb-revoked", check="tdx.tcb")
    assert (refused.message, refused.exit_code) == (f"Intel revoked the TCB of the {part}", 4)


@pytest.mark.parametrize("part", ["platform", "TDX module", "QE"])
def test_a_current_document_counts_before_one_out_of_date(part: str) -> None:
    old = revoked_documents(**OUTDATED)[part]
    GOOD.with_documents(old).judge()
    replace(GOOD.with_documents(old), unchecked=(NO_TCB,)).judge()


def test_a_revoked_platform_is_refused_also_when_no_level_covers_its_module() -> None:
    identities = [{"id": "TDX_01", **made.MODULE, "tcbLevels": [component_level(9)]}]
    info = info_document(platform_level(5, 11, 5, "Revoked"), tdxModuleIdentities=identities)
    refusal(replace(GOOD, documents=(info,), unchecked=(NO_TCB,)), code="tcb-revoked")


def test_a_signer_that_expired_still_revokes_and_one_of_another_root_does_not() -> None:
    document = revoked_documents()["platform"]
    expired = made.certificate(TCB_SIGNING_NAME, SIGNING_KEY, dates=(made.LONG[0], MIDDLE - SECOND))
    scene = replace(GOOD, documents=(document,), unchecked=(NO_TCB,))
    refusal(replace(scene, certificates=(expired,)), code="tcb-revoked")
    forged = info_document(platform_level(5, 11, 5, "Revoked"), key=OTHER_KEY)
    replace(scene, documents=(forged,)).judge()


def test_a_quoting_enclave_that_its_identity_does_not_know_is_refused_without_any_tcb_info() -> None:
    scene = replace(GOOD, documents=(qe_document(miscselect="00000001", miscselectMask="FFFFFFFF"),))
    refusal(replace(scene, unchecked=(NO_TCB,)), code="qe-identity-mismatch", check="tdx.tcb")


def test_a_module_that_is_newer_than_an_outdated_tcb_info_is_no_finding() -> None:
    old, current = replace(OTHER_MAJOR, documents=(info_document(**OUTDATED),)), replace(OTHER_MAJOR, documents=(INFO,))
    replace(old, unchecked=(NO_TCB,)).judge()
    refusal(replace(current, unchecked=(NO_TCB,)), code="tdx-module-unknown")


# -- TD relaunch

MODULE_OLD = bytes([2, 1, 5]).ljust(16, b"\0")


def svn(*numbers: int) -> bytes:
    return bytes(numbers).ljust(16, b"\0")


def relaunch(*, status: str = "UpToDate", started: bytes = MODULE_OLD, now: bytes | None, qe: int = 4) -> str:
    scene = GOOD.with_levels(platform_level(5, 11, 5, status))
    scene = replace(scene, qe=replace(QE, isv_svn=qe)).with_module(tee_tcb_svn=started, tee_tcb_svn_2=now)
    return evaluation(scene).tcb_status


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("UpToDate", "TDRelaunchAdvised"),
        ("SWHardeningNeeded", "TDRelaunchAdvised"),
        ("ConfigurationNeeded", "TDRelaunchAdvisedConfigurationNeeded"),
        ("ConfigurationAndSWHardeningNeeded", "TDRelaunchAdvisedConfigurationNeeded"),
        ("OutOfDate", "OutOfDate"),
        ("OutOfDateConfigurationNeeded", "OutOfDateConfigurationNeeded"),
    ],
)
def test_a_td_that_only_has_to_be_started_anew_is_told_so(status: str, expected: str) -> None:
    assert relaunch(status=status, now=svn(5, 1, 5)) == expected


@pytest.mark.parametrize(
    ("now", "advised"),
    [
        (svn(5, 1, 5), True),
        (svn(6, 1, 6), True),
        (svn(4, 1, 5), False),
        (svn(5, 1, 4), False),
        (svn(3, 10, 5), True),
        (svn(2, 10, 5), False),
        (svn(5, 0, 5), True),
        (svn(4, 0, 5), False),
        (svn(5, 0, 4), False),
        (None, False),
    ],
)
def test_the_module_that_runs_now_has_to_be_the_newest(now: bytes | None, advised: bool) -> None:
    assert relaunch(now=now) == ("TDRelaunchAdvised" if advised else "OutOfDate")


def test_a_module_that_runs_now_and_is_unknown_is_refused() -> None:
    scene = GOOD.with_levels(platform_level()).with_module(tee_tcb_svn=MODULE_OLD, tee_tcb_svn_2=svn(9, 7, 9))
    refusal(scene, code="tdx-module-unknown", check="tdx.tcb")


def test_nothing_else_is_taken_for_a_relaunch() -> None:
    assert relaunch(now=svn(5, 1, 5), qe=2) == "OutOfDate"
    assert relaunch(now=svn(5, 1, 5), started=svn(5, 1, 5)) == "UpToDate"
    # The platform is behind and the module is not.
    scene = GOOD.with_levels(HIGH, LOW).with_module(tee_tcb_svn=svn(5, 1, 3), tee_tcb_svn_2=svn(5, 1, 5))
    assert evaluation(scene).tcb_status == "OutOfDate"


def test_the_sgx_level_counts_for_a_relaunch_and_not_the_tdx_level() -> None:
    behind = platform_level(3, 9, 3, "OutOfDateConfigurationNeeded")
    scene = GOOD.with_levels(HIGH, behind).with_module(tee_tcb_svn=svn(2, 1, 3), tee_tcb_svn_2=svn(5, 1, 5))
    assert evaluation(scene).tcb_status == "TDRelaunchAdvisedConfigurationNeeded"
    below = replace(scene, platform=replace(scene.platform, pce_svn=9))
    assert evaluation(below).tcb_status == "OutOfDateConfigurationNeeded"


# -- the module that runs now


def test_the_status_by_the_module_that_runs_now_is_a_fact_of_its_own() -> None:
    assert relaunch_scene(now=svn(2, 1, 5), started=svn(5, 1, 5)).tcb_status == "UpToDate"
    assert relaunch_scene(now=svn(2, 1, 5), started=svn(5, 1, 5)).tcb_status_current == "OutOfDate"
    assert relaunch_scene(now=svn(5, 1, 5), started=svn(2, 1, 5)).tcb_status_current == "UpToDate"
    assert relaunch_scene(now=svn(5, 1, 3), started=svn(5, 1, 5)).tcb_status_current == "OutOfDate"
    assert relaunch_scene(now=None, started=svn(5, 1, 5)).tcb_status_current is None


def test_the_quoting_enclave_lowers_the_current_status_too() -> None:
    scene = GOOD.with_module(tee_tcb_svn_2=svn(5, 1, 5))
    behind = replace(scene, documents=(scene.documents[0], qe_document(tcbLevels=[component_level(0, "OutOfDate")])))
    assert evaluation(behind).tcb_status_current == "OutOfDate"


@pytest.mark.parametrize("now", [svn(0, 1, 5), svn(5, 9, 5), svn(5, 1, 0)], ids=["below", "unknown", "not covered"])
def test_a_module_that_no_level_covers_has_no_current_status(now: bytes) -> None:
    identities = [{"id": "TDX_01", **made.MODULE, "tcbLevels": [component_level(2)]}]
    scene = GOOD.with_levels(HIGH, tdxModuleIdentities=identities).with_module(
        tee_tcb_svn=svn(5, 1, 5), tee_tcb_svn_2=now
    )
    assert evaluation(scene).tcb_status_current is None
    assert replace(scene, unchecked=(NO_TCB,)).judge().evaluation is None


def test_a_module_of_major_version_0_is_judged_by_the_level_alone() -> None:
    scene = GOOD.with_levels(platform_level(5, 11, 5)).with_module(tee_tcb_svn_2=svn(5, 0, 5))
    assert evaluation(scene).tcb_status_current in {"UpToDate", None}
    replace(scene, unchecked=(NO_TCB,)).judge()


@pytest.mark.parametrize("unchecked", [(), (NO_TCB,)], ids=["checked", "unchecked"])
def test_a_module_that_runs_now_and_is_revoked_refuses(unchecked: tuple[Unchecked, ...]) -> None:
    identities = [{"id": "TDX_01", **made.MODULE, "tcbLevels": [component_level(4), component_level(2, "Revoked")]}]
    scene = GOOD.with_levels(HIGH, tdxModuleIdentities=identities)
    scene = scene.with_module(tee_tcb_svn=svn(5, 1, 5), tee_tcb_svn_2=svn(2, 1, 5))
    refused = refusal(replace(scene, unchecked=unchecked), code="tcb-revoked", check="tdx.tcb")
    assert refused.message == "Intel revoked the TCB of the TDX module that runs now"


def relaunch_scene(*, now: bytes | None, started: bytes) -> TcbEvaluation:
    identities = [{"id": "TDX_01", **made.MODULE, "tcbLevels": [component_level(4), component_level(2, "OutOfDate")]}]
    scene = GOOD.with_levels(HIGH, LOW, tdxModuleIdentities=identities)
    return evaluation(scene.with_module(tee_tcb_svn=started, tee_tcb_svn_2=now))
