"""The attestation check in a browser: its time in Chromium, and the size of the files that a page fetches."""

from __future__ import annotations

import base64
import gzip
import re
from datetime import UTC, datetime
from statistics import median

from attest.evidence.binding import Binding
from attest_simulator.machines import SimulatedMachine
from benchmarks.measure import Figure
from tests.page.browser import BUNDLE, Question, Verifier, verifier

__all__ = ["bundle_size", "verify_time"]

AT = datetime(2026, 6, 10, tzinfo=UTC)
BINDING = Binding(context="channel/v1", role="service", audience="a page", nonce=bytes(range(32)), key=b"k" * 32)
PAGE = "page.js"
# What a browser fetches for the page itself, beside its script and what that imports at once.
DOCUMENT = {"index.html", "style.css"}
# Formats that are fetched when their evidence is met, by the names of their files.
ON_DEMAND = {
    "intel": "TDX and SGX",
    "azure": "Azure",
    "gpu": "NVIDIA",
    "eventlog": "event logs",
    "files": "vendors' own files",
    "configfs": "configfs-tsm",
    "roots": "AMD's root keys where no certificate brings them",
}
_TIME = """
async ([files, question]) => {
    attest.hold(files);
    const begin = performance.now();
    const { outcome } = await attest.ask(question);
    return [outcome, performance.now() - begin];
}
"""


def verify_time(*, rounds: int = 15) -> Figure:
    """Measure an SEV-SNP machine with one GPU, envelope to result, in a page that has seen nothing before."""
    machine = SimulatedMachine.of("snp", gpus=1)
    files = {"evidence": machine(BINDING).to_json(), **machine.endorsement_files(at=AT)}
    question = Question(
        input=["evidence"],
        at=AT.isoformat(),
        endorsements=[name for name in files if name != "evidence"],
        anchors="simulation",
        nonce=BINDING.nonce.hex(),
    )
    with verifier() as page:
        fresh, again = zip(*(_timed(page, question, files) for _ in range(rounds)), strict=True)
    detail = f"SNP report, GPU report and two RIMs with OCSP answers: {median(again):.1f} ms when the chains were seen"
    return Figure(id="page-verify-ms", value=median(fresh), bar=50, better="lower", detail=detail)


def _timed(page: Verifier, question: Question, files: dict[str, bytes]) -> tuple[float, float]:
    page.reload()
    told = [[(name, base64.b64encode(data).decode()) for name, data in files.items()], question.document()]
    taken: list[float] = []
    for _ in range(2):
        outcome, milliseconds = page.page.evaluate(_TIME, told)
        assert outcome == "verified", outcome
        taken.append(milliseconds)
    return taken[0], taken[1]


def bundle_size() -> Figure:
    """Weigh what a browser fetches before the page asks the service for its first proof, each file gzipped.

    That is the document, its style, its script and all that the script imports at once: everything to show the page, to
    check an envelope with its binding and its endorsements, and to verify and appraise a SEV-SNP machine. The code of
    other formats is fetched when their evidence is met, and is weighed apart, without what is there already.
    """
    first = _fetched({PAGE})
    everything = {path.name for path in BUNDLE.glob("*.js")} | DOCUMENT
    later = on_demand_sizes()
    detail = (
        "index.html, style.css, page.js and all that it imports at once, for SEV-SNP; "
        f"on demand: {', '.join(f'{what} {size:.1f} kB' for what, size in later.items())}; "
        f"with the badge and the library's entries, all files: {_kilobytes(everything):.1f} kB"
    )
    return Figure(id="bundle-gzip-kb", value=_kilobytes(first | DOCUMENT), bar=60, better="lower", detail=detail)


def on_demand_sizes() -> dict[str, float]:
    """Weigh what a browser fetches for each further format, in kilobytes, gzipped, without what is there already."""
    first = _fetched({PAGE})
    return {what: _kilobytes(_fetched(_named(name)) - first) for name, what in ON_DEMAND.items()}


def _named(name: str) -> set[str]:
    return {path.name for path in BUNDLE.glob(f"{name}-*.js")}


def _fetched(names: set[str]) -> set[str]:
    """Return these files and what they import at once; what they may import later is left out."""
    seen: set[str] = set()
    while found := names - seen:
        seen |= found
        texts = [(BUNDLE / name).read_text() for name in found]
        names = seen | {name for text in texts for name in re.findall(r'(?:from|import)"\./([\w.-]+\.js)"', text)}
    return seen


def _kilobytes(names: set[str]) -> float:
    return sum(len(gzip.compress((BUNDLE / name).read_bytes(), 9)) for name in names) / 1000
