"""Alterations of recorded quotes and collateral, the same on each run: a seed gives the list.

Each alteration is named by the part that it falls into, so that a difference can be told and explained by its place.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

from attest.encoding import rfc3339
from attest.endorsements.x509 import parse_certificate, parse_crl, pem_blocks
from attest.evidence.intel.quote import DESCRIPTOR, HEADER, SIGNATURE_HEADS, parse_quote

Collateral = Mapping[str, str]

DOCUMENTS = ("tcb_info", "qe_identity")
CRLS = ("root_ca_crl", "pck_crl")
SIGNATURES = ("tcb_info_signature", "qe_identity_signature")
CHAINS = ("pck_crl_issuer_chain", "tcb_info_issuer_chain", "qe_identity_issuer_chain")
_HEX_DIGITS = "0123456789abcdef"
_DATES = ("issueDate", "nextUpdate", "tcbDate")
_STATUSES = ("UpToDate", "SWHardeningNeeded", "ConfigurationNeeded", "OutOfDate", "Revoked")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A quote, the collateral beside it, and the moment of appraisal.

    Attributes:
        vector: id of the recorded quote that it began as.
        part: what was altered (``quote: body``, ``collateral: pck_crl``); ``recorded`` where nothing was.
        change: what was done to it.
        simulated: it is to be judged under the simulator's root.
        origin: the case before the change; None where nothing was changed.
    """

    vector: str
    quote: bytes
    collateral: Collateral
    at: datetime
    part: str = "recorded"
    change: str = "nothing"
    simulated: bool = False
    origin: "Case | None" = None

    def __str__(self) -> str:
        """Tell it in one line, exactly enough to make it again."""
        return f"{self.vector} at {self.at:%Y-%m-%dT%H:%M:%SZ}, {self.part}: {self.change}"


@dataclass(frozen=True, kw_only=True)
class Region:
    """A part of a quote, by its bytes."""

    name: str
    start: int
    end: int


def regions(quote: bytes) -> list[Region]:
    """Return the parts of a quote, each byte in one of them."""
    parsed = parse_quote(quote)
    described = DESCRIPTOR.size if parsed.version == 5 else 0
    signed = len(parsed.signed_bytes)
    head, signature_data = SIGNATURE_HEADS[parsed.version], signed + 4
    certification = len(quote) - len(parsed.padding) - len(parsed.certification_data)
    bounds = [
        ("header", 0),
        ("descriptor", HEADER.size),
        ("body", HEADER.size + described),
        ("signature data length", signed),
        *((field.name, signature_data + field.offset) for field in head.fields),
        ("qe_auth_data", signature_data + head.size),
        ("certification head", certification - 6),
        ("certification data", certification),
        ("padding", len(quote) - len(parsed.padding)),
        ("", len(quote)),
    ]
    pairs = pairwise(bounds)
    return [Region(name=name, start=start, end=end) for (name, start), (_, end) in pairs if start < end]


# -- of the quote


def _flip(case: Case, rng: random.Random) -> Case:
    """Flip one bit; every part of the quote is as likely, however small."""
    region = rng.choice(regions(case.quote))
    at, bit = rng.randrange(region.start, region.end), rng.randrange(8)
    changed = bytearray(case.quote)
    changed[at] ^= 1 << bit
    return replace(case, quote=bytes(changed), part=f"quote: {region.name}", change=f"bit {bit} of byte {at}")


def _overwrite(case: Case, rng: random.Random) -> Case:
    region = rng.choice(regions(case.quote))
    at, value = rng.randrange(region.start, region.end), rng.choice((0x00, 0xFF, rng.randrange(256)))
    changed = bytearray(case.quote)
    changed[at] = value
    return replace(case, quote=bytes(changed), part=f"quote: {region.name}", change=f"byte {at} = {value:#04x}")


def _cut(case: Case, rng: random.Random) -> Case:
    end = len(case.quote) - len(parse_quote(case.quote).padding)
    size = rng.choice((rng.randrange(len(case.quote)), end - rng.randrange(1, 64), end))
    return replace(case, quote=case.quote[:size], part="quote: end", change=f"cut to {size} bytes")


def _append(case: Case, rng: random.Random) -> Case:
    more = rng.randbytes(rng.randrange(1, 64))
    return replace(case, quote=case.quote + more, part="quote: end", change=f"{more.hex()} appended")


def _swap_parts(case: Case, rng: random.Random) -> Case:
    """Exchange two stretches of the signature data of one size."""
    found = {region.name: region for region in regions(case.quote)}
    first, second = rng.sample([found[n] for n in ("signature", "attestation_key", "qe_report_signature")], 2)
    changed = bytearray(case.quote)
    changed[first.start : first.end] = case.quote[second.start : second.end]
    changed[second.start : second.end] = case.quote[first.start : first.end]
    return replace(case, quote=bytes(changed), part=f"quote: {first.name}", change=f"exchanged with {second.name}")


# -- of the collateral


def _with(case: Case, name: str, value: str, change: str) -> Case:
    return replace(case, collateral={**case.collateral, name: value}, part=f"collateral: {name}", change=change)


def _document_value(case: Case, rng: random.Random) -> Case:
    """Write another date, status or number into a document; its signature stays what it was."""
    name = rng.choice(DOCUMENTS)
    text = case.collateral[name]
    document = json.loads(text)
    place, holder, member = rng.choice(list(_members(document, "")))
    old = holder[member]
    new = _other_value(member, old, rng)
    # In the text, so that nothing else about it changes: the first, the last or any other of equal values.
    old_text, new_text = f'"{member}":{json.dumps(old)}', f'"{member}":{json.dumps(new)}'
    at = rng.choice([i for i in range(len(text)) if text.startswith(old_text, i)] or [-1])
    if at < 0:
        return _with(case, name, text.replace(str(old), str(new), 1), f"first {old!r} = {new!r}")
    return _with(case, name, text[:at] + new_text + text[at + len(old_text) :], f"{place} like, at {at}: {new!r}")


def _members(value: object, path: str) -> Iterator[tuple[str, dict[str, object], str]]:
    if isinstance(value, dict):
        for name, member in value.items():
            if isinstance(member, str | int):
                yield f"{path}.{name}", value, name
            yield from _members(member, f"{path}.{name}")
    elif isinstance(value, list):
        for i, member in enumerate(value):
            yield from _members(member, f"{path}[{i}]")


def _other_value(member: str, old: object, rng: random.Random) -> object:
    if isinstance(old, int):
        return rng.choice((0, old + 1, max(old - 1, 0), 255))
    if member in _DATES:
        return rng.choice(("2018-01-01T00:00:00Z", "2049-01-01T00:00:00Z", "never"))
    if member == "tcbStatus":
        return rng.choice((*_STATUSES, "Unknown"))
    text = str(old)
    at = rng.randrange(len(text)) if text else 0
    return text[:at] + rng.choice(_HEX_DIGITS) + text[at + 1 :]


def _digit(case: Case, rng: random.Random) -> Case:
    """Write another digit into a list or a signature in hex."""
    name = rng.choice((*CRLS, *SIGNATURES))
    text = case.collateral[name]
    at, digit = rng.randrange(len(text)), rng.choice(_HEX_DIGITS)
    return _with(case, name, text[:at] + digit + text[at + 1 :], f"digit {at} = {digit}")


def _hex_length(case: Case, rng: random.Random) -> Case:
    name = rng.choice((*CRLS, *SIGNATURES))
    text = case.collateral[name]
    size = 2 * rng.randrange(len(text) // 2)
    shorter, longer = (text[:size], f"cut to {size} digits"), (text + "00", "00 appended")
    value, change = rng.choice((shorter, longer))
    return _with(case, name, value, change)


def _chain_character(case: Case, rng: random.Random) -> Case:
    name = rng.choice(CHAINS)
    text = case.collateral[name]
    at, character = rng.randrange(len(text)), rng.choice("ABCxyz019+/=- \n")
    return _with(case, name, text[:at] + character + text[at + 1 :], f"character {at} = {character!r}")


def _chain_order(case: Case, rng: random.Random) -> Case:
    name = rng.choice(CHAINS)
    end = "-----END CERTIFICATE-----\n"
    blocks = [block + end for block in case.collateral[name].split(end) if block.strip()]
    kept = rng.choice((blocks[::-1], blocks[:1], blocks[1:], blocks * 2, []))
    change = f"{len(kept)} of {len(blocks)} certificates" + (", reversed" if kept == blocks[::-1] else "")
    return _with(case, name, "".join(kept), change)


def _absent(case: Case, rng: random.Random) -> Case:
    name = rng.choice((*DOCUMENTS, *CRLS, *SIGNATURES, *CHAINS))
    return _with(case, name, "", "left empty")


def _blank(case: Case, rng: random.Random) -> Case:
    """Put one blank into a document where JSON does not mind."""
    name = rng.choice(DOCUMENTS)
    text = case.collateral[name]
    at = rng.choice([i for i, character in enumerate(text) if character in ":,{["]) + 1
    return _with(case, name, f"{text[:at]} {text[at:]}", f"a blank at {at}")


# -- of the moment


def _moment(case: Case, rng: random.Random) -> Case:
    """Judge at the first or the last moment of some validity, or a second beside it."""
    moment = rng.choice(moments(case)) + timedelta(seconds=rng.choice((-1, 0, 1)))
    return replace(case, at=moment, part="moment", change="of a validity")


def moments(case: Case) -> list[datetime]:
    """Return the ends of every validity in the quote's chain and in the collateral."""
    found: set[datetime] = set()
    for name in DOCUMENTS:
        document = json.loads(case.collateral[name])
        found |= {rfc3339(document[member], what=member) for member in ("issueDate", "nextUpdate")}
    for name in CRLS:
        crl = parse_crl(bytes.fromhex(case.collateral[name]))
        found |= {crl.this_update, crl.next_update}
    for text in (*(case.collateral[name].encode() for name in CHAINS), case.quote):
        for _, der in pem_blocks(text):
            certificate = parse_certificate(der)
            found |= {certificate.not_before, certificate.not_after}
    return sorted(found)


# -- lists of them


_OF_ONE: tuple[Callable[[Case, random.Random], Case], ...] = (
    _flip,
    _flip,
    _overwrite,
    _cut,
    _append,
    _swap_parts,
    _document_value,
    _document_value,
    _digit,
    _hex_length,
    _chain_character,
    _chain_order,
    _absent,
    _blank,
    _moment,
)


def mutations(cases: list[Case], *, count: int, seed: int) -> Iterator[Case]:
    """Yield that many alterations; one in six takes a member from the collateral of another platform or date."""
    rng = random.Random(seed)
    for _ in range(count):
        case = rng.choice(cases)
        change = rng.choice(_OF_ONE) if rng.randrange(6) else partial(_cross, others=cases)
        yield replace(change(case, rng), origin=case)


def _cross(case: Case, rng: random.Random, *, others: list[Case]) -> Case:
    """Take one member from elsewhere, a document together with its signature."""
    other, name = rng.choice(others), rng.choice((*DOCUMENTS, *CRLS, *CHAINS))
    taken = {name: other.collateral[name]}
    if name in DOCUMENTS:
        taken[f"{name}_signature"] = other.collateral[f"{name}_signature"]
    return replace(
        case,
        collateral={**case.collateral, **taken},
        part=f"collateral: {name}",
        change=f"taken from that of {other.vector} at {other.at:%Y-%m-%d}",
    )
