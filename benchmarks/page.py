"""The attestation check in a browser: its time in Chromium, and the size of the files that a page fetches."""

from __future__ import annotations

import base64
import gzip
import re
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from attest.evidence.binding import Binding
from attest_simulator.machines import SimulatedMachine
from benchmarks.measure import Figure
from tests.page.browser import BUNDLE, Question, Verifier, verifier
from tests.page.site import PagedSite, errorless, paged_site
from tests.page.threaded import expect
from tests.page.visits import Visit

__all__ = ["bundle_size", "first_verdict", "verify_time"]

AT = datetime(2026, 6, 10, tzinfo=UTC)
BINDING = Binding(context="channel/v1", role="service", audience="a page", nonce=bytes(range(32)), key=b"k" * 32)
PAGE = "page.js"
# What a browser fetches for the page itself, beside its script and what that imports at once.
DOCUMENT = {"index.html", "style.css"}
# The first words, of one language; what the result is shown by is fetched while the service is asked.
WORDS = "shell"
# Formats that are fetched when their evidence is met, by the names of their files.
ON_DEMAND = {
    "intel": "TDX and SGX",
    "azure": "Azure",
    "gpu": "NVIDIA",
    "eventlog": "event logs",
    "files": "vendors' own files",
    "vendor_documents": "what Intel and NVIDIA sign beside certificates",
    "configfs": "configfs-tsm",
    "roots": "AMD's root keys where no certificate brings them",
    "document": "policies",
    "reference_documents": "documents of reference values",
    "provenance": "their provenance",
    "draft": "policies and their drafts",
    "firmware": "the table of firmware floors",
    "view": "what shows a result",
    "question": "questions and answers",
    "documents": "uploads and the list of documents",
    "whole": "the words of one language",
    "ages": "the age of firmware",
    "keeping": "the history of this browser",
    "history_view": "what shows it",
    "alone": "the words for it, and for files, of one language",
    "record": "keys to seal to",
    "sending": "sealing and opening",
    "policy_links": "links to a policy",
}
# The moment at which the state is no longer "checking", by the clock that begins with the navigation.
_WATCH = """
new MutationObserver(() => {
    const phase = document.querySelector("#status")?.dataset.phase;
    if (phase && phase !== "checking") globalThis.firstVerdict ??= performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true });
"""
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


def first_verdict(*, rounds: int = 10) -> Figure:
    """Measure the page of the sample's service on the loopback address, from its opening to the first verdict."""
    with TemporaryDirectory() as folder, paged_site(Path(folder)) as site, verifier() as browser:
        taken = [_opened(browser, site) for _ in range(rounds)]
    fetched = {name for _, asked in taken for name in asked}
    detail = (
        "a browser without a cache, a simulated SEV-SNP machine, no policy; the service and the browser share the "
        f"processor; fetched until then: {len(fetched)} files, {_kilobytes(fetched):.1f} kB gzipped"
    )
    return Figure(
        id="page-first-verdict-ms", value=median(ms for ms, _ in taken), bar=1000, better="lower", detail=detail
    )


def _opened(browser: Verifier, site: PagedSite) -> tuple[float, set[str]]:
    """Open the page with an empty cache; return the time, and the files of the bundle that were fetched until then."""
    with errorless(browser, site) as context:
        context.add_init_script(_WATCH)
        visit = Visit(context, site.url)
        expect(visit.page.locator("#status:not([data-phase=checking])")).to_be_attached()
        names = {one.rpartition("/")[2] or "index.html" for one in visit.asked}
        return float(visit.page.evaluate("firstVerdict")), {name for name in names if (BUNDLE / name).is_file()}


def bundle_size() -> Figure:
    """Weigh what a browser fetches before the page asks the service for its first proof, each file gzipped.

    That is the document, its style, its script, all that the script imports at once, and the first words of one
    language: everything to check an envelope with its binding and its endorsements, and to verify a SEV-SNP machine.
    The parts that show a result, the words for it, and the policies are fetched while the service is asked, and the
    code of other formats when their evidence is met. They are weighed apart, without what is there already.
    """
    first = _fetched({PAGE}) | {_largest(WORDS)}
    verdict = first.union(*(_fetched({_largest(name)}) for name in ("view", "whole", "draft", "firmware")))
    everything = {path.name for path in BUNDLE.glob("*.js")} | DOCUMENT
    later = on_demand_sizes()
    detail = (
        "index.html, style.css, page.js and all that it imports at once, for SEV-SNP; "
        f"on demand: {', '.join(f'{what} {size:.1f} kB' for what, size in later.items())}; "
        f"until the first verdict is shown: {_kilobytes(verdict | DOCUMENT):.1f} kB; "
        f"with the badge and the library's entries, all files: {_kilobytes(everything):.1f} kB"
    )
    return Figure(id="bundle-gzip-kb", value=_kilobytes(first | DOCUMENT), bar=60, better="lower", detail=detail)


def on_demand_sizes() -> dict[str, float]:
    """Weigh what a browser fetches for each further format, in kilobytes, gzipped, without what is there already."""
    first = _fetched({PAGE})
    return {what: _kilobytes(_fetched({_largest(name)}) - first) for name, what in ON_DEMAND.items()}


def _largest(name: str) -> str:
    """Return the largest file of a name: words are there once for each language, and one of them is fetched."""
    return max((path.name for path in BUNDLE.glob(f"{name}-*.js")), key=lambda one: _kilobytes(_fetched({one})))


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
