"""Intel evidence that is signed as it should be and made as it should not: certificates, documents and event logs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.x509 import Extension
from attest.errors import EvidenceError
from attest.evidence.eventlog.replay import replay
from attest.evidence.eventlog.structure import parse_event_log
from attest_simulator import der
from attest_simulator.intel.certificates import authority_certificate, simulated_name
from attest_simulator.intel.collateral import default_qe_identity
from attest_simulator.intel.crls import intel_crl_template
from attest_simulator.intel.keys import IntelAuthority, authority_key
from attest_simulator.intel.tcb import compact_json, signature_of, signed_document
from tests.evidence.eventlog import writer
from tests.evidence.intel import made_quotes
from tests.evidence.intel.made_quotes import AUTHORITY, members, pem, sgx_members, tcb_members
from tests.page.intel_cases import FILES, PERIOD, PLATFORM, TD, Case, case
from tests.samples import AT
from tests.samples_intel import ZEROS, quote_evidence

CA, ROOT = (authority_certificate(name) for name in (IntelAuthority.PLATFORM, IntelAuthority.ROOT))
QUOTE = TD.quote(ZEROS)

# -- certificates


def pck(value: bytes | None = None, **given: Any) -> bytes:  # noqa: ANN401  as made_quotes.pck takes
    """A PCK certificate by the simulated Platform CA."""
    usual: dict[str, Any] = {
        "key": PLATFORM.pck_key(),
        "issuer": simulated_name(IntelAuthority.PLATFORM),
        "signer": authority_key(IntelAuthority.PLATFORM),
    }
    return made_quotes.pck(value, **(usual | given))


def pck_members(**changed: bytes | None) -> bytes:
    """The extension of an ordinary PCK of the simulated platform, changed."""
    usual = {"m3": der.octet_string(PLATFORM.sgx.pce_id), "m4": der.octet_string(PLATFORM.sgx.fmspc)}
    return members(sgx_members(**(usual | changed)))


def of_chain(name: str, *certificates: bytes, text: bytes | None = None) -> Case:
    data = pem(*certificates) if text is None else text
    return case(name, replace(TD.quote_template(ZEROS), certification_data=data).issue())


def extensions() -> Iterator[Case]:
    yield of_chain("PCK as made", pck(pck_members()), CA, ROOT)
    changes: tuple[tuple[str, bytes | None], ...] = (
        *((f"m{i}", None) for i in range(1, 8)),
        *((f"m{i}", der.octet_string(b"odd")) for i in range(1, 8)),
        ("m5", b"\x0a\x01\x03"),
        ("m5", b"\x02\x01\x01"),
        ("m5", b"\x0a\x02\x00\x01"),
        ("m7", members({".7.1": b"\x01\x01\x01"})),
        ("m7", members({})),
        ("m8", der.octet_string(b"unknown")),
    )
    for member, value in changes:
        extension = pck_members(**{member: value})
        yield of_chain(f"PCK member {member} {(value or b'').hex():.16}", pck(extension), CA, ROOT)
    changes = (
        *((f"m{i}", None) for i in (1, 16, 17, 18)),
        ("m1", der.integer(4)),
        ("m1", der.integer(-1)),
        ("m1", der.integer(256)),
        ("m17", der.integer(65536)),
        ("m18", der.octet_string(bytes(15))),
        ("m19", der.integer(1)),
    )
    for member, value in changes:
        extension = pck_members(m2=members(tcb_members(**{member: value})))
        yield of_chain(f"TCB member {member} {(value or b'').hex():.16}", pck(extension), CA, ROOT)
    yield of_chain("extension of nothing", pck(b""), CA, ROOT)
    yield of_chain("extension of more", pck(pck_members() + b"\0"), CA, ROOT)
    twice = pck_members()
    yield of_chain("a member twice", pck(der.sequence(twice[4:], twice[4:])), CA, ROOT)


def signing() -> Iterator[Case]:
    """Several certificates of TCB Signing, of which one counts; and a list that its issuer did not sign."""
    usual: dict[str, Any] = {
        "subject": simulated_name(IntelAuthority.TCB_SIGNING),
        "issuer": simulated_name(IntelAuthority.ROOT),
        "key": authority_key(IntelAuthority.TCB_SIGNING),
        "signer": authority_key(IntelAuthority.ROOT),
        "extensions": (),
    }
    others = {file: data for file, data in FILES.items() if "_info_" not in file and "_identity_" not in file}
    yield case("no TCB Signing", QUOTE, others)
    made: dict[str, dict[str, Any]] = {
        "expired": {"ends": AT - timedelta(days=1)},
        "of the future": {"begins": AT + timedelta(days=1)},
        "of another root": {"signer": made_quotes.OTHER_KEY},
        "of another issuer": {"issuer": simulated_name(IntelAuthority.PLATFORM)},
        "of another key": {"key": made_quotes.OTHER_KEY},
        "of no key": {"key": bytes.fromhex("3003020100")},
        "critical": {"extensions": (Extension(oid="1.2.3", critical=True, value=b"x"),)},
    }
    good = authority_certificate(IntelAuthority.TCB_SIGNING)
    for name, given in made.items():
        odd = made_quotes.certificate(**(usual | given))
        yield case(f"TCB Signing {name}", QUOTE, {**others, "signing": pem(odd)})
        yield case(f"TCB Signing {name}, and a good one", QUOTE, {**others, "signing": pem(odd, good)})
    for file, ca in (("pck_crl.der", IntelAuthority.PLATFORM), ("root_ca_crl.der", IntelAuthority.ROOT)):
        start, end = PERIOD
        template = intel_crl_template(ca, this_update=start, next_update=end)
        forged, later = template.issue(made_quotes.OTHER_KEY), replace(template, this_update=AT).issue(ca)
        yield case(f"forged {file}", QUOTE, {**FILES, file: forged})
        yield case(f"forged {file} and a genuine one", QUOTE, {"forged": forged, "later": later, **FILES})


def chains() -> Iterator[Case]:
    day = timedelta(days=1)
    yield of_chain("PCK expired", pck(ends=AT - day), CA, ROOT)
    yield of_chain("PCK of the future", pck(begins=AT + day), CA, ROOT)
    yield of_chain("another subject", pck(subject=simulated_name("Intel SGX PCK")), CA, ROOT)
    yield of_chain("another issuer", pck(issuer=simulated_name(IntelAuthority.ROOT)), CA, ROOT)
    yield of_chain("another algorithm", pck(algorithm=made_quotes.SHA384), CA, ROOT)
    yield of_chain("the CA first", CA, PLATFORM.pck_certificate(), ROOT)
    yield of_chain("no CA", PLATFORM.pck_certificate())
    yield of_chain("nine certificates", PLATFORM.pck_certificate(), *[CA] * 8)
    made: dict[str, dict[str, Any]] = {
        "plain": {},
        "no flags": {"extensions": ()},
        "not allowed to sign": {"extensions": (AUTHORITY[0],)},
        "an unknown critical extension": {
            "extensions": (*AUTHORITY, Extension(oid="1.2.3", critical=True, value=b"x"))
        },
        "expired": {"ends": AT - day},
        "a key of P-384": {"key": made_quotes.spki(ec.derive_private_key(7, ec.SECP384R1()))},
        "a key of RSA's kind": {"key": bytes.fromhex("300d300906072a8648ce3d0201030100")},
        "another's signature": {"signer": made_quotes.OTHER_KEY},
        "another issuer": {"issuer": simulated_name(IntelAuthority.PROCESSOR)},
    }
    for name, given in made.items():
        usual: dict[str, Any] = {
            "subject": simulated_name(IntelAuthority.PLATFORM),
            "issuer": simulated_name(IntelAuthority.ROOT),
            "key": authority_key(IntelAuthority.PLATFORM),
            "signer": authority_key(IntelAuthority.ROOT),
        }
        ca = made_quotes.certificate(**(usual | given))
        without = {file: data for file, data in FILES.items() if file != "pck_crl_issuer_chain.pem"}
        data = pem(PLATFORM.pck_certificate(), ca, ROOT)
        quote = replace(TD.quote_template(ZEROS), certification_data=data).issue()
        yield case(f"a CA with {name}", quote, without)
    text = PLATFORM.pck_chain().encode()
    for name, data in {
        "text around": b"Subject: x\n" + text + b"end\n",
        "another label": text + b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
        "no end": text + b"-----BEGIN CERTIFICATE-----\nAAAA\n",
        "a blank of Latin-1": text.replace(b"-----\nMII", b"-----\n\xa0MII", 1),
        "no base64": text.replace(b"MII", b"MI=", 1),
        "carriage returns": text.replace(b"\n", b"\r\n"),
    }.items():
        yield of_chain(f"PEM with {name}", text=data)
    bare = replace(TD.quote_template(ZEROS), certification_type=4, certification_data=b"any").issue()
    issuers = {**FILES, "issuers": pem(CA, ROOT)}
    good, old, broken = PLATFORM.pck_certificate(), pck(ends=AT - day), pck(b"")
    for name, found in {
        "an old and a good": (old, good),
        "a broken and a good": (broken, good),
        "a broken": (broken,),
    }.items():
        yield case(f"elsewhere: {name} PCK", bare, {**issuers, "pck": pem(*found)})


# -- documents, all of them signed

_DELETED = object()


def edited(document: str, path: str, value: object) -> str:
    """A JSON text with one member changed, added or deleted; a path is written with dots."""
    whole = json.loads(document)
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    place = whole
    for part in parents:
        place = place[part]
    if value is _DELETED:
        del place[last]
    else:
        place[last] = value
    return compact_json(whole)


_NUMBERS: tuple[object, ...] = (-1, 2**32, 2**70, 1.0, True, "1", None)
_TCB_INFO_EDITS: dict[str, tuple[object, ...]] = {
    "version": (2, 3.0),
    "tcbType": (1,),
    "id": ("tdx", "SGX", 7),
    "issueDate": ("2026-06-01", "2026-02-30T00:00:00Z", "2026-06-01T01:30:00.5+01:00", "2026-06-01T00:00:00+24:00", 5),
    "fmspc": ("5", "zz" * 6, "00" * 5, "53 494d000000", "53494d000000"),
    "tcbEvaluationDataNumber": _NUMBERS,
    "tcbLevels": ([], {}, [1]),
    "tcbLevels.1.tcb": (5,),
    "tcbLevels.1.tcb.pcesvn": (65536, "1"),
    "tcbLevels.1.tcb.sgxtcbcomponents": ([{"svn": 1}] * 15, [{"svn": 1}] * 17, {}),
    "tcbLevels.1.tcb.sgxtcbcomponents.3": ({"svn": 256}, {"svn": 1.0}, {}, 4),
    "tcbLevels.1.tcbStatus": ("uptodate", "", 5),
    "tcbLevels.1.advisoryIDs": ("x", [1], ["a b"], ["a" * 65], ["a"] * 257, ["\u00e9"], ["a"] * 256),
    "tdxModule": (None, {}),
    "tdxModule.mrsigner": ("00" * 47,),
    "tdxModuleIdentities": ({}, [], [5]),
    "tdxModuleIdentities.0.id": ("TDX_01", "tdx_01", "tdx_03", "TDX 03", ""),
    "tdxModuleIdentities.1.tcbLevels": ([],),
    "tdxModuleIdentities.1.tcbLevels.0.tcb.isvsvn": (65536,),
    "tdxModuleIdentities.1.tcbLevels.1.tcbDate": ("never",),
    "unknown": ({"deep": [1, 2.5, "\u00e9"]},),
}
_QE_IDENTITY_EDITS: dict[str, tuple[object, ...]] = {
    "version": (1,),
    "id": ("QE", "QVE", "TD"),
    "miscselect": ("0", "00000001"),
    "attributes": ("11" * 15,),
    "isvprodid": (65536, 2.0),
    "mrsigner": ("00" * 32,),
    "tcbLevels": ([],),
}
_TEXT_EDITS: dict[str, Callable[[str], str]] = {
    "a member twice": lambda text: text[:-1] + ',"version":3}',
    "escapes in a name": lambda text: text.replace('"version"', '"v\\u0065rsion"', 1),
    "half a character": lambda text: text[:-1] + ',"x":"\\ud800"}',
    "a whole character": lambda text: text[:-1] + ',"x":"\\ud83d\\ude00"}',
    "64 levels": lambda text: text[:-1] + ',"x":' + "[" * 63 + "]" * 63 + "}",
    "65 levels": lambda text: text[:-1] + ',"x":' + "[" * 64 + "]" * 64 + "}",
    "no number": lambda text: text[:-1] + ',"x":NaN}',
    "an infinity": lambda text: text[:-1] + ',"x":1e999}',
    "a leading zero": lambda text: text.replace(":3,", ":03,", 1),
    "a control character": lambda text: text[:-1] + ',"x":"\t"}',
    "a comma more": lambda text: text[:-1] + ",}",
    "braces in text": lambda text: text[:-1] + ',"x":"}{\\"],:"}',
}


def documents() -> Iterator[Case]:
    info = PLATFORM.tcb_info("tdx", at=AT).text()
    identity = default_qe_identity("tdx", period=PERIOD).text()
    for file, member, text, edits in (
        ("tcb_info.json", "tcbInfo", info, _TCB_INFO_EDITS),
        ("qe_identity.json", "enclaveIdentity", identity, _QE_IDENTITY_EDITS),
    ):
        made = {
            f"{path} {value!r:.40}": edited(text, path, value) for path, values in edits.items() for value in values
        }
        made |= {f"without {name}": edited(text, name, _DELETED) for name in json.loads(text)}
        made |= {name: edit(text) for name, edit in _TEXT_EDITS.items()}
        for name, changed in made.items():
            yield case(f"{member}: {name}", QUOTE, {**FILES, file: signed_document(member, changed)})
    yield from answers(info)


def answers(text: str) -> Iterator[Case]:
    """What stands around the signed text."""
    signature = signature_of(text)
    whole = f'{{"tcbInfo":{text},"signature":"{signature}"}}'
    for name, answer in {
        "signature first": f'{{"signature":"{signature}","tcbInfo":{text}}}',
        "a trap in front": f'{{"x":"}},\\"tcbInfo\\":{{","y":[{{"tcbInfo":1}}],{whole[1:]}',
        "an escaped name": f'{{"tcb\\u0049nfo":{text},"signature":"{signature}"}}',
        "both documents": f'{{"tcbInfo":{text},"enclaveIdentity":{{}},"signature":"{signature}"}}',
        "no signature": f'{{"tcbInfo":{text}}}',
        "signature of 63 bytes": f'{{"tcbInfo":{text},"signature":"{signature[2:]}"}}',
        "signature in capitals": f'{{"tcbInfo":{text},"signature":"{signature.upper()}"}}',
        "a number as signature": f'{{"tcbInfo":{text},"signature":5}}',
        "an array": f"[{whole}]",
        "too large": f'{{"tcbInfo":{text},"x":"{"x" * 262_144}","signature":"{signature}"}}',
    }.items():
        yield case(f"answer: {name}", QUOTE, {**FILES, "tcb_info.json": answer.encode()})


# -- event logs


def logs() -> Iterator[Case]:
    boot = writer.boot()
    record, head = writer.event(4, writer.POST_CODE, b"x"), writer.CCEL_HEADER
    two = writer.header((writer.SHA384, 48), (writer.SHA256, 32))
    made = {
        "every kind of event": writer.log(*boot),
        "two states": writer.log(boot[0], *boot),
        "a state behind the separator": writer.log(*boot[1:7], boot[0]),
        "an end marker": writer.log(*boot, end=b"\xff" * 4 + b"anything"),
        "zeros behind": writer.log(*boot, end=bytes(99)),
        "a variable of odd lengths": writer.log(writer.event(1, writer.DRIVER_CONFIG, b"short")),
        "a boot variable of odd lengths": writer.log(writer.event(1, writer.BOOT, b"short")),
        "a boot variable that lies": writer.log(writer.event(1, writer.BOOT, writer.variable("x", b"y"), hashed=b"z")),
        "an application event of no form": writer.log(writer.event(4, writer.TAG, writer.aael("oneword"))),
        "an application event that is no text": writer.log(
            writer.event(4, writer.TAG, writer.tagged(0x4141454C, b"\xff \xff \xff"))
        ),
        "a stub's text": writer.log(writer.event(3, writer.IPL, "quiet\0".encode("utf-16-le"))),
        "GRUB's text that is none": writer.log(writer.event(3, writer.IPL, b"grub_cmd: \xff", hashed=b"\xff")),
        "no action": writer.log(writer.event(1, writer.NO_ACTION, b"told"), writer.event(0, 8, b"firmware")),
        "index 5": writer.log(writer.event(5, 1, b"")),
        "another algorithm": head + writer.record(1, 1, b"", [(writer.SHA256, bytes(32))]),
        "an algorithm twice": two + writer.record(1, 1, b"", [(writer.SHA384, bytes(48))] * 2),
        "three digests": two + writer.record(1, 1, b"", [(writer.SHA384, bytes(48))] * 3),
        "no SHA-384": two + writer.record(1, 1, b"", [(writer.SHA256, bytes(32))]),
        "a record cut": writer.log(record[:-1] + b"\xff")[:-2],
        "header of another type": writer.header((writer.SHA384, 48), event_type=1) + record,
        "header with a digest": head[:9] + b"\1" + head[10:] + record,
        "header of another size": writer.header((writer.SHA384, 48), extra=1) + record,
        "header without algorithms": writer.header() + record,
        "header of 17 algorithms": writer.header(*((100 + i, 1) for i in range(17))) + record,
        "header with one twice": writer.header((writer.SHA384, 48), (writer.SHA384, 48)) + record,
        "header with a false size": writer.header((writer.SHA384, 32)) + record,
        "header with no size": writer.header((writer.SHA384, 48), (100, 0)) + record,
        "header with a vendor's words": writer.header((writer.SHA384, 48), vendor=b"words") + record,
        "header alone": head,
    }
    for name, log in made.items():
        yield Case(name=f"log: {name}", evidence=quote_evidence(quoted(log), log=log), files=FILES)


def quoted(log: bytes) -> bytes:
    """A quote of the registers that a log leads to; of any, when it leads nowhere."""
    try:
        values = replay(parse_event_log(log)).values
    except EvidenceError:
        return QUOTE
    return TD.quote(ZEROS, override={name.lower(): value for name, value in values.items()})


def malformed_cases() -> list[Case]:
    """Every case, each under a name of its own."""
    return list(chain.from_iterable(topic() for topic in (extensions, chains, signing, documents, logs)))
