"""Intel evidence as the simulator makes it, honest and hostile, as questions for both verifiers."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from urllib.parse import quote as percent

from attest.encoding import rfc3339_text
from attest.endorsements.x509 import parse_certificate
from attest.evidence.envelope import Evidence, EvidenceItem
from attest.evidence.intel.quote import Tee
from attest_simulator.intel import MeasuredEvent, SimulatedPlatform, SimulatedTd, application_event, typical_boot
from attest_simulator.intel.certificates import authority_certificate
from attest_simulator.intel.collateral import IntelCollateral, Period, current_period, default_qe_identity
from attest_simulator.intel.crls import simulated_intel_crl
from attest_simulator.intel.keys import IntelAuthority
from attest_simulator.intel.tcb import SvnLevel, TcbInfo, TdxModule
from tests.page.browser import Question
from tests.samples import AT, NONCE, binding
from tests.samples_intel import ZEROS, bound_td, intel_scene, log_item, old_platform, quote_evidence

SCENE = intel_scene()
PLATFORM, TD, ENCLAVE = SCENE.platform, SCENE.td, SCENE.enclave
PERIOD = current_period(AT)
SECOND = timedelta(seconds=1)
NO_TCB = {"tcb": "a test"}
NO_LISTS = {"revocation": "a test"}
CONFIGURATION = "ConfigurationNeeded"
Files = Mapping[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question about simulated evidence, with the files that it names."""

    name: str
    evidence: Evidence
    files: Files
    at: datetime = AT
    anchors: str = "simulation"
    unchecked: Mapping[str, str] = field(default_factory=dict[str, str])
    nonce: str | None = None
    report_data: str | None = None

    @property
    def question(self) -> Question:
        """What is asked; file names bear the case's, since the page holds each name once."""
        return Question(
            input=[f"{self.name}/evidence"],
            at=rfc3339_text(self.at),
            endorsements=[f"{self.name}/{name}" for name in self.files],
            anchors=self.anchors,
            unchecked=self.unchecked,
            nonce=self.nonce,
            report_data=self.report_data,
        )

    @property
    def held(self) -> dict[str, bytes]:
        """The files by the names that the question uses."""
        named = {f"{self.name}/{name}": data for name, data in self.files.items()}
        return {f"{self.name}/evidence": self.evidence.to_json(), **named}


def collateral(tee: Tee = "tdx", *, platform: SimulatedPlatform = PLATFORM, at: datetime = AT) -> IntelCollateral:
    return platform.collateral(tee, at=at)


FILES = collateral().files()


def case(name: str, quote: bytes, files: Files | IntelCollateral = FILES, **given: object) -> Case:
    held = files.files() if isinstance(files, IntelCollateral) else files
    return Case(name=name, evidence=quote_evidence(quote), files=held, **given)  # type: ignore[arg-type]  # of Case


def without(*names: str) -> Files:
    return {name: data for name, data in FILES.items() if name not in names}


# -- what verifies


def honest() -> Iterator[Case]:
    yield case("TD, version 4", TD.quote(ZEROS))
    yield case("TD 1.0, version 5", TD.quote(ZEROS, version=5, body_type=2))
    yield case("TD 1.5 extended", TD.quote(ZEROS, version=5, body_type=4))
    yield case("TD 1.5, version 5", TD.quote(ZEROS, version=5))
    for version in (3, 4, 5):
        yield case(f"enclave, version {version}", ENCLAVE.quote(ZEROS, version=version), collateral("sgx"))
    processor = SimulatedPlatform.of(ca=IntelAuthority.PROCESSOR)
    yield case("Processor CA", SimulatedTd(platform=processor).quote(ZEROS), collateral(platform=processor))
    every = replace(TD, td_attributes=(1 << 64) - 1, xfam=1 << 40, mr_service_td=b"\x01" * 48)
    yield case("every attribute, a service TD", every.quote(ZEROS, version=5))
    yield case("padding", TD.quote(ZEROS) + b"\xff" * 70)
    yield case("nonce", TD.quote(NONCE.ljust(64, b"\0")), nonce=NONCE.hex())
    yield case("another nonce", TD.quote(ZEROS), nonce=NONCE.hex())
    yield Case(name="binding", evidence=bound_td(TD, binding()), files=FILES, nonce=NONCE.hex())
    yield case("the simulator under the vendors' roots", TD.quote(ZEROS), anchors="vendors")


# -- collateral, in all its forms and with pieces missing


def forms() -> Iterator[Case]:
    whole = collateral()
    bundle = whole.to_json()
    yield case("bundle", TD.quote(ZEROS), {"bundle": bundle})
    yield case("bundle with a NUL", TD.quote(ZEROS), {"bundle": bundle + b"\0"})
    broken = bundle.replace(whole.root_ca_crl.hex().encode(), b"30")
    yield case("bundle with a broken part", TD.quote(ZEROS), {"bundle": broken})
    chains = {name: data for name, data in FILES.items() if name.endswith(".pem")}
    encoded = {name: percent(data, safe="").encode() for name, data in chains.items()}
    yield case("percent-encoded chains", TD.quote(ZEROS), {**FILES, **encoded})
    returned = {name: b"a carriage return\r" + data for name, data in chains.items()}
    yield case("chains that begin on no line", TD.quote(ZEROS), {**FILES, **returned})
    for count in (4095, 4096):
        blocks = {name: b"-----BEGIN NOTHING-----\n" * count + data for name, data in chains.items()}
        yield case(f"chains behind {count} blocks", TD.quote(ZEROS), {**FILES, **blocks})
    lists = {name: data.hex().encode() + b"\n" for name, data in FILES.items() if name.endswith(".der")}
    yield case("lists in hex", TD.quote(ZEROS), {**FILES, **lists})
    padded = {name: data + b"\0\r\n" for name, data in FILES.items() if name.endswith(".der")}
    yield case("lists with padding", TD.quote(ZEROS), {**FILES, **padded})
    yield from library_bundles(whole)
    for name, data in FILES.items():
        yield case(f"without {name}", TD.quote(ZEROS), without(name))
        yield case(f"{name} cut", TD.quote(ZEROS), {**FILES, name: data[:-3]})
    yield case("nothing", TD.quote(ZEROS), {})
    blank = FILES["tcb_info.json"].replace(b'"version":3', b'"version": 3')
    yield case("one blank more", TD.quote(ZEROS), {**FILES, "tcb_info.json": blank})
    around = (
        FILES["tcb_info.json"].replace(b'{"tcbInfo":', b' {\n"tcbInfo" :\t').replace(b',"signature"', b' , "signature"')
    )
    yield case("blanks around what is signed", TD.quote(ZEROS), {**FILES, "tcb_info.json": around})


def library_bundles(whole: IntelCollateral) -> Iterator[Case]:
    """Bundles in the manner of Intel's verification library: PEM lists, whole answers, texts that end with NUL."""
    names = ("pck_crl_issuer_chain", "tcb_info_issuer_chain", "qe_identity_issuer_chain")
    value = {
        **{name: getattr(whole, name) + "\0" for name in names},
        "root_ca_crl": pem_list(whole.root_ca_crl),
        "pck_crl": pem_list(whole.pck_crl) + "\n\0",
        "tcb_info": FILES["tcb_info.json"].decode(),
        "qe_identity": FILES["qe_identity.json"].decode() + "\0",
    }
    for name, changed in {
        "": {},
        ", two lists": {"pck_crl": 2 * value["pck_crl"]},
        ", a number": {"pck_crl": 5},
        ", an empty chain": {"pck_crl_issuer_chain": "", "more": 1},
        ", a chain of lists": {"tcb_info_issuer_chain": pem_list(whole.pck_crl)},
        ", no list": {"root_ca_crl": ""},
        ", an answer that is none": {"tcb_info": "[]"},
    }.items():
        yield case(f"library's bundle{name}", TD.quote(ZEROS), {"bundle": json.dumps(value | changed).encode()})
    yield case("names deeper inside", TD.quote(ZEROS), {"bundle": b'{"more":{"tcb_info":""}}', **FILES})


def pem_list(crl: bytes) -> str:
    return f"-----BEGIN X509 CRL-----\n{b64encode(crl).decode()}\n-----END X509 CRL-----\n"


def dates() -> Iterator[Case]:
    quote = TD.quote(ZEROS)
    for moment in (PERIOD.start, PERIOD.end):
        for at in (moment - SECOND, moment, moment + SECOND):
            yield case(f"all of it at {at:%d %H:%M:%S}", quote, at=at)
    late = Period(AT - 3 * SECOND, AT - SECOND)
    early = Period(AT + SECOND, AT + 9 * SECOND)
    for word, period in (("stale", late), ("future", early)):
        crls = {
            "pck_crl.der": simulated_intel_crl(
                IntelAuthority.PLATFORM, this_update=period.start, next_update=period.end
            ),
            "root_ca_crl.der": simulated_intel_crl(
                IntelAuthority.ROOT, this_update=period.start, next_update=period.end
            ),
        }
        for name, crl in crls.items():
            yield case(f"{word} {name}", quote, {**FILES, name: crl})
        info = replace(PLATFORM.tcb_info("tdx", at=AT), issue_date=period.start, next_update=period.end)
        yield case(f"{word} TCB info", quote, {**FILES, "tcb_info.json": info.document()})
        identity = default_qe_identity("tdx", period=period)
        yield case(f"{word} QE identity", quote, {**FILES, "qe_identity.json": identity.document()})
        yield case(f"{word} TCB info beside a current one", quote, {"more": info.document(), **FILES})
    newer = replace(PLATFORM.tcb_info("tdx", at=AT), evaluation_data_number=19)
    yield case("the higher evaluation number", quote, {"more": newer.document(), **FILES})
    forged = newer.document()[:-3] + b'0"}'
    yield case("a forged document beside a genuine one", quote, {"more": forged, **FILES})
    yield case("before the chain", quote, at=datetime(2000, 1, 1, tzinfo=AT.tzinfo))


def revoked() -> Iterator[Case]:
    quote = TD.quote(ZEROS)
    serials = {
        name: parse_certificate(der).serial
        for name, der in (
            ("PCK", PLATFORM.pck_certificate()),
            ("CA", authority_certificate(IntelAuthority.PLATFORM)),
            ("TCB Signing", authority_certificate(IntelAuthority.TCB_SIGNING)),
        )
    }
    yield case("PCK revoked", quote, PLATFORM.collateral("tdx", at=AT, revoked=(1, serials["PCK"])))
    for name in ("CA", "TCB Signing"):
        yield case(f"{name} revoked", quote, PLATFORM.collateral("tdx", at=AT, root_revoked=(serials[name],)))
    old = PLATFORM.collateral("tdx", at=AT - timedelta(days=100), revoked=(serials["PCK"],))
    yield case("revoked by an old list", quote, {"old": old.pck_crl, **FILES})
    yield case("a list of the other CA", quote, {**FILES, "pck_crl.der": processor_list(serials["PCK"])})
    yield case("revoked, lists unchecked", quote, {"old": old.pck_crl}, unchecked=NO_LISTS | NO_TCB)


def processor_list(serial: int) -> bytes:
    start, end = PERIOD
    return simulated_intel_crl(IntelAuthority.PROCESSOR, this_update=start, next_update=end, revoked=(serial,))


def relaxed() -> Iterator[Case]:
    quote = TD.quote(ZEROS)
    yield case("lists unchecked and missing", quote, without("pck_crl.der"), unchecked=NO_LISTS)
    yield case("lists unchecked and there", quote, unchecked=NO_LISTS)
    yield case("TCB unchecked", quote, without("tcb_info.json", "qe_identity.json"), unchecked=NO_TCB)
    yield case("both unchecked, nothing there", quote, {}, unchecked=NO_LISTS | NO_TCB)
    enclave = ENCLAVE.quote(ZEROS)
    yield case("enclave, both unchecked", enclave, {}, unchecked=NO_LISTS | NO_TCB)
    for name, fields in (("signer", {"mr_signer": bytes(32)}), ("product", {"isv_prod_id": 9}), ("debug", DEBUG_QE)):
        yield case(f"TCB unchecked, foreign QE: {name}", with_qe(fields), {}, unchecked=NO_LISTS | NO_TCB)
    yield case("TCB unchecked, level revoked", quote, levels("Revoked"), unchecked=NO_TCB)
    yield case("TCB unchecked, level out of date", quote, levels("OutOfDate"), unchecked=NO_TCB)
    yield from each_on_its_own()


def each_on_its_own() -> Iterator[Case]:
    """Documents that revoke something, without the others, current and out of date, and with the TCB unchecked."""
    quote = TD.quote(ZEROS)
    revoked = levels("Revoked").files()
    identity = replace(
        default_qe_identity("tdx", period=PERIOD), levels=(SvnLevel(isv_svn=0, date=AT, status="Revoked"),)
    )
    alone = {
        "level": {name: data for name, data in revoked.items() if name != "qe_identity.json"},
        "QE": {**without("tcb_info.json"), "qe_identity.json": identity.document()},
    }
    for part, files in alone.items():
        for relaxed_by, unchecked in (("", {}), (", TCB unchecked", NO_TCB | NO_LISTS)):
            for when, at in (("current", AT), ("out of date", AT + timedelta(days=400))):
                name = f"only what revokes the {part}, {when}{relaxed_by}"
                yield case(name, quote, files, at=at, unchecked=unchecked)


# -- what Intel says of the platform


DEBUG_QE = {"attributes": bytes.fromhex("1700000000000000e700000000000000")}


def with_qe(fields: Mapping[str, object]) -> bytes:
    template = TD.quote_template(ZEROS)
    return replace(template, qe_fields={**template.qe_fields, **fields}).issue()  # type: ignore[dict-item]  # by name


def with_info(info: TcbInfo) -> IntelCollateral:
    return PLATFORM.collateral("tdx", at=AT, tcb_info=info)


def levels(status: str) -> IntelCollateral:
    """The first level of the platform with another status."""
    info = PLATFORM.tcb_info("tdx", at=AT)
    first = replace(info.levels[0], status=status, advisory_ids=("INTEL-SA-99999",))
    return with_info(replace(info, levels=(first, *info.levels[1:])))


def with_module(*svns: int) -> SimulatedPlatform:
    return replace(PLATFORM, tee_tcb_svn=bytes(svns).ljust(16, b"\0"))


def judged() -> Iterator[Case]:
    quote = TD.quote(ZEROS)
    old = intel_scene(old_platform())
    yield case("out of date", old.td.quote(ZEROS), collateral(platform=old.platform))
    for status in ("SWHardeningNeeded", CONFIGURATION, "ConfigurationAndSWHardeningNeeded", "Revoked", "Excellent"):
        yield case(f"level {status}", quote, levels(status))
    below = SimulatedPlatform.of(components=(1,) * 16)
    yield case("no level", SimulatedTd(platform=below).quote(ZEROS), collateral(platform=below))
    info = PLATFORM.tcb_info("tdx", at=AT)
    yield case("levels in another order", quote, with_info(replace(info, levels=info.levels[::-1])))
    yield case("another FMSPC", quote, with_info(replace(info, fmspc="00" * 6)))
    yield case("another PCEID", quote, with_info(replace(info, pce_id="0001")))
    yield case("TCB info of SGX", quote, collateral("sgx"))
    yield case("version 2", quote, with_info(replace(info, version=2)))
    for svns in ((6, 0, 3), (6, 2, 3), (3, 3, 3), (5, 1, 3), (3, 1, 3), (6, 1, 1)):
        yield case(f"module {svns}", SimulatedTd(platform=with_module(*svns)).quote(ZEROS))
    for name, values in (("signer", {"mr_signer_seam": b"\x01" * 48}), ("attributes", {"seam_attributes": b"\1" * 8})):
        yield case(f"foreign module: {name}", TD.quote(ZEROS, override=values))
    foreign = replace(info, module=TdxModule(mr_signer=b"\x02" * 48))
    module_0 = SimulatedTd(platform=with_module(6, 0, 3))
    yield case("foreign module 0", module_0.quote(ZEROS), with_info(foreign))
    yield case("no identities", quote, with_info(replace(info, module_identities=None)))


def quoting_enclaves() -> Iterator[Case]:
    for name, fields in (
        ("signer", {"mr_signer": bytes(32)}),
        ("product", {"isv_prod_id": 1}),
        ("MISCSELECT", {"misc_select": 1}),
        ("debug", DEBUG_QE),
        ("SVN", {"isv_svn": 0}),
    ):
        yield case(f"foreign QE: {name}", with_qe(fields))
    for status in ("OutOfDate", "Revoked"):
        identity = default_qe_identity("tdx", period=PERIOD)
        level = SvnLevel(isv_svn=0, date=PERIOD.start, status=status, advisory_ids=("INTEL-SA-00001",))
        files = PLATFORM.collateral("tdx", at=AT, qe_identity=replace(identity, levels=(level,)))
        yield case(f"QE {status}", TD.quote(ZEROS), files)


def relaunched() -> Iterator[Case]:
    started = with_module(4, 1, 3)
    for name, now in (
        ("newest", (6, 1, 3)),
        ("module 3", (3, 3, 3)),
        ("old loader", (6, 1, 2)),
        ("module 0", (5, 0, 3)),
    ):
        td = SimulatedTd(platform=started, tee_tcb_svn_2=bytes(now).ljust(16, b"\0"))
        yield case(f"relaunch: {name}", td.quote(ZEROS, version=5))
        yield case(f"relaunch: {name}, {CONFIGURATION}", td.quote(ZEROS, version=5), levels(CONFIGURATION))
    unknown = SimulatedTd(platform=started, tee_tcb_svn_2=bytes((9, 9, 9)).ljust(16, b"\0"))
    yield case("relaunch: unknown module", unknown.quote(ZEROS, version=5))


# -- forged and malformed quotes


def forged() -> Iterator[Case]:
    template = TD.quote_template(ZEROS)
    yield case("another attestation key", replace(template, bound_key=bytes(64)).issue(), {})
    other = SimulatedPlatform.of("another")
    yield case("another PCK", replace(template, pck_key=other.pck_key()).issue(), {})
    nowhere = replace(template, bound_key=b"\xff" * 64).issue()
    yield case("no point", nowhere[: 632 + 4 + 64] + b"\xff" * 64 + nowhere[632 + 4 + 128 :], {})
    for offset in (0, 2, 4, 12, 48 + 136, 632, 632 + 4, 632 + 4 + 128, 632 + 4 + 130, 632 + 4 + 582):
        yield case(f"byte {offset}", changed_at(offset, bytes([TD.quote(ZEROS)[offset] ^ 0x41])), {})
    for size in (0, 47, 48, 631, 636, 1000, len(TD.quote(ZEROS)) - 1):
        yield case(f"{size} bytes", TD.quote(ZEROS)[:size], {})
    yield case("too large", TD.quote(ZEROS).ljust(65537, b"\0"), {})
    described = TD.quote(ZEROS, version=5)
    yield case("body type", described[:48] + b"\1" + described[49:], {})
    yield case("body size", described[:50] + b"\1" + described[51:], {})
    for kind in (1, 2, 3, 4):
        bare = replace(template, certification_type=kind, certification_data=PLATFORM.certification_data(kind)).issue()
        yield case(f"certification data {kind}", bare)
        yield case(f"certification data {kind} and the chain", bare, {"chain": PLATFORM.pck_chain().encode(), **FILES})
        foreign = {"chain": other.pck_chain().encode(), **FILES}
        yield case(f"certification data {kind} and another chain", bare, foreign)
    for kind, data in ((2, bytes(36)), (5, b""), (5, PLATFORM.certification_data(4)), (6, b""), (7, b"")):
        made = replace(template, certification_type=kind, certification_data=data)
        yield case(f"certification data {kind} of {len(data)} bytes", made.issue(), {})


def changed_at(offset: int, data: bytes) -> bytes:
    quote = TD.quote(ZEROS)
    return quote[:offset] + data + quote[offset + len(data) :]


# -- event logs


def logs() -> Iterator[Case]:
    boot = TD.extend(3, application_event("example.com", "load-model", "sha384:00 and more"))
    yield logged("log", boot)
    yield logged("log area", boot, boot.event_log(size=65536))
    yield logged("log of another boot", TD, replace(TD, log=typical_boot(command_line="init=/bin/sh")).event_log())
    log = boot.event_log()
    yield logged("log without its end", boot, log[: len(log) - 7])
    yield logged("empty log", TD, b"")
    yield logged("log with a foreign signature", TD, log.replace(b"Spec ID Event03", b"Spec ID Event02"))
    yield logged("log that lies about Secure Boot", *liar())
    yield Case(name="log of an enclave", evidence=quote_evidence(ENCLAVE.quote(ZEROS), log=log), files={})
    both = quote_evidence(boot.quote(ZEROS), log=log)
    yield Case(name="two logs", evidence=replace(both, items=(*both.items, renamed_log(log))), files=FILES)


def logged(name: str, td: SimulatedTd, log: bytes | None = None) -> Case:
    evidence = quote_evidence(td.quote(ZEROS), log=td.event_log() if log is None else log)
    return Case(name=name, evidence=evidence, files=FILES)


def renamed_log(log: bytes) -> EvidenceItem:
    return replace(log_item(log), name="another")


def liar() -> tuple[SimulatedTd, bytes]:
    """A log whose digests replay, and whose text says that Secure Boot was on."""
    boot = typical_boot(secure_boot=False)
    variable = next(entry for entry in boot if "SecureBoot".encode("utf-16-le") in entry.event.data)
    event = variable.event
    claimed = MeasuredEvent(kind=event.kind, data=event.data[:-1] + b"\x01", measured=event.data)
    log = tuple(replace(entry, event=claimed) if entry is variable else entry for entry in boot)
    td = replace(TD, log=log)
    return td, td.event_log()


def all_cases() -> list[Case]:
    """Every case, each under a name of its own."""
    topics = (honest, forms, dates, revoked, relaxed, judged, quoting_enclaves, relaunched, forged, logs)
    return list(chain.from_iterable(topic() for topic in topics))
