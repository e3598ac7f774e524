"""The attestation check in a browser: its time in Chromium, and the size of the files that a page fetches."""

from __future__ import annotations

import base64
import gzip
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from playwright.sync_api import BrowserContext

from attest.evidence.binding import Binding
from attest_simulator.machines import SimulatedMachine
from benchmarks.measure import Figure
from tests.page.browser import BUNDLE, Question, Verifier, verifier
from tests.page.site import PagedSite, errorless, machine_with_gpu, paged_site
from tests.page.threaded import expect
from tests.page.visits import Visit

__all__ = ["bundle_size", "first_verdict", "kilobytes", "measured_load", "on_demand_sizes", "verify_time"]

AT = datetime(2026, 6, 10, tzinfo=UTC)
BINDING = Binding(context="channel/v1", role="service", audience="a page", nonce=bytes(range(32)), key=b"k" * 32)
PAGE = "page.js"
POLL_MS = 10_000
# What a browser fetches for the page itself, beside its script and what that imports at once.
DOCUMENT = {"index.html", "style.css"}
# What is fetched until the first verdict, beside what the page's script imports at once, by the names of the files.
UNTIL_VERDICT = ("first", "draft")
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
    "reference_documents": "documents of reference values",
    "provenance": "their provenance",
    "draft": "policies and their drafts",
    "devices": "policies on GPUs and switches",
    "other_cpus": "policies on other CPUs",
    "bundle": "bundles of endorsements",
    "rim_document": "NVIDIA's reference values",
    "view": "what is shown beside the verdict",
    "trust": "the decision, and the table of firmware floors",
    "checks": "every check, and the certificates",
    "policy_actions": "loading and sharing a policy",
    "failure": "why something is refused",
    "question": "questions and answers",
    "documents": "uploads and the list of documents",
    "trial": "the change of a simulated machine",
    "later_style": "the style of these parts",
    "first": "the first words, of one language",
    "seen": "the words beside the verdict, of one language",
    "rest": "all other words, of one language",
    "history_view": "the history of this browser",
    "alone": "the words for it, and for files, of one language",
    "record": "keys to seal to",
    "sending": "sealing and opening",
}
# The paths of what was asked for before a moment, or until now: of the document, and of what it fetched.
_ASKED = """
(end) => {
    const asked = performance.getEntriesByType("resource").filter(({ startTime }) => startTime < (end ?? Infinity));
    return [location.pathname, ...asked.map(({ name }) => new URL(name).pathname)];
}
"""
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
    fetched = {name for _, names in taken for name in names}
    detail = (
        "a browser without a cache, a simulated SEV-SNP machine, no policy; the service and the browser share the "
        f"processor; fetched until then: {len(fetched)} files, {kilobytes(fetched):.1f} kB gzipped"
    )
    return Figure(
        id="page-first-verdict-ms", value=median(ms for ms, _ in taken), bar=1000, better="lower", detail=detail
    )


def _opened(browser: Verifier, site: PagedSite) -> tuple[float, set[str]]:
    """Open the page with an empty cache; return the time, and the files of the bundle that were fetched until then."""
    with errorless(browser, site) as context:
        visit = opened(context, site)
        return float(visit.page.evaluate("firstVerdict")), until_verdict(visit)


def opened(context: BrowserContext, site: PagedSite) -> Visit:
    """Open the page, and wait for its first verdict."""
    context.add_init_script(_WATCH)
    visit = Visit(context, site.url)
    expect(visit.page.locator("#status:not([data-phase=checking])")).to_be_attached()
    return visit


def until_verdict(visit: Visit) -> set[str]:
    """Return the files of the bundle that a browser asked for until the page showed its first verdict."""
    return _in_bundle(visit.page.evaluate(_ASKED, visit.page.evaluate("firstVerdict")))


def _in_bundle(paths: list[str]) -> set[str]:
    names = {path.rpartition("/")[2] or "index.html" for path in paths}
    return {name for name in names if (BUNDLE / name).is_file()}


@dataclass(frozen=True)
class Load:
    """What a browser fetches of the bundle: until the page shows its first verdict, and without a click."""

    plain: set[str]
    """Of a SEV-SNP machine, without a policy, until the first verdict."""
    policy: set[str]
    """The same under a policy, which the machine meets."""
    gpu: set[str]
    """Of a machine with a GPU, whose endorsements come in a bundle, without a policy."""
    quiet: dict[str, set[str]]
    """All that is fetched without a click or a key: "plain", "policy", "refused" by the policy, and "gpu"."""
    everything: set[str]
    """All that is fetched for a SEV-SNP machine until the person has decided."""


def measured_load(browser: Verifier, site: PagedSite) -> Load:
    """Open the page without and with a policy, and with a GPU, each in a browser with an empty cache."""
    with errorless(browser, site) as context:
        visit = opened(context, site)
        plain = until_verdict(visit)
        visit.accept()
        expect(visit.page.locator("#documents .stock")).to_be_attached()
        visit.is_quiet()
        everything = _asked_by(visit)
        visit.page.reload()
        visit.is_in("trusted")
        policy = until_verdict(visit)
    quiet = _quiet_loads(browser, site)
    # The simulated service has no endorsements of the GPU: they would come in a bundle, and the machine be judged.
    judged = _fetched({_largest(name) for name in ("bundle", "vendor_documents", "rim_document", "devices")})
    with errorless(browser, site) as context:
        site.machine.now = machine_with_gpu()
        visit = opened(context, site)
        gpu = until_verdict(visit) | plain | judged
        quiet["gpu"] = gpu | quiet["plain"]
    return Load(plain=plain, policy=policy, gpu=gpu, quiet=quiet, everything=everything)


def _quiet_loads(browser: Verifier, site: PagedSite) -> dict[str, set[str]]:
    with errorless(browser, site) as context:
        context.clock.install()
        visit = Visit(context, site.url)
        quiet = {"plain": without_click(visit)}
        visit.accept()
        visit.asked.clear()
        visit.page.reload()
        visit.is_in("trusted")
        quiet["policy"] = without_click(visit)
        site.machine.with_microcode(-1)
        visit.asked.clear()
        visit.page.reload()
        visit.is_in("refused")
        quiet["refused"] = without_click(visit)
    return quiet


def _asked_by(visit: Visit) -> set[str]:
    return _in_bundle([one.split()[1] for one in visit.asked])


def without_click(visit: Visit) -> set[str]:
    """Return the files of the bundle that a page fetches by itself, its next look at the service included."""
    visit.is_quiet()
    with visit.page.expect_response("**/v1/state"):
        visit.page.context.clock.run_for(POLL_MS)
    visit.is_quiet()
    return _asked_by(visit)


def bundle_size() -> Figure:
    """Weigh what a browser fetches without a click, each file gzipped, and what of it until the first verdict.

    Until the verdict that is the document, its style, its script, all that the script imports at once, the first words
    of one language, and the code that reads and applies policies: everything to verify a SEV-SNP machine, to judge it,
    and to show the state and the facts. Under a policy that is met, a key is tried, too. After it comes what is shown
    beside the verdict. What a person decides, opens, asks or sends is fetched when the person turns to it, and the code
    of other formats when their evidence is met.
    """
    with TemporaryDirectory() as folder, paged_site(Path(folder)) as site, verifier() as browser:
        load = measured_load(browser, site)
    first = _fetched({PAGE}) | {_largest("first")} | DOCUMENT
    all_files = {path.name for path in BUNDLE.glob("*.js")} | DOCUMENT
    later = on_demand_sizes()
    quiet = {name: kilobytes(files) for name, files in load.quiet.items()}
    detail = (
        "everything that Chromium fetches without a click for a SEV-SNP machine under a policy; "
        f"without a policy {quiet['plain']:.1f} kB, refused by a policy {quiet['refused']:.1f} kB, "
        f"with one GPU {quiet['gpu']:.1f} kB; "
        f"until evidence is requested {kilobytes(first):.1f} kB; "
        f"until the first verdict {kilobytes(load.plain):.1f} kB, under a policy {kilobytes(load.policy):.1f} kB, "
        f"with one GPU {kilobytes(load.gpu):.1f} kB; "
        f"everything until the machine is accepted {kilobytes(load.everything):.1f} kB; "
        f"on demand: {', '.join(f'{what} {size:.1f} kB' for what, size in later.items())}; "
        f"with the badge and the library's entries, all files: {kilobytes(all_files):.1f} kB"
    )
    return Figure(id="bundle-gzip-kb", value=quiet["policy"], bar=60, better="lower", detail=detail)


def on_demand_sizes() -> dict[str, float]:
    """Weigh what a browser fetches for each further part, in kilobytes, gzipped, without what is there already.

    That is what the page begins with; for what is fetched after the first verdict, all that was fetched until then.
    """
    begun = _fetched({PAGE})
    shown = begun | _fetched({_largest(name) for name in UNTIL_VERDICT})
    there = {name: begun if name in UNTIL_VERDICT else shown for name in ON_DEMAND}
    return {what: kilobytes(_fetched({_largest(name)}) - there[name]) for name, what in ON_DEMAND.items()}


def _largest(name: str) -> str:
    """Return the largest file of a name: words are there once for each language, and one of them is fetched."""
    return max((path.name for path in BUNDLE.glob(f"{name}-*.js")), key=lambda one: kilobytes(_fetched({one})))


def _fetched(names: set[str]) -> set[str]:
    """Return these files and what they import at once; what they may import later is left out."""
    seen: set[str] = set()
    while found := names - seen:
        seen |= found
        texts = [(BUNDLE / name).read_text() for name in found]
        names = seen | {name for text in texts for name in re.findall(r'(?:from|import)"\./([\w.-]+\.js)"', text)}
    return seen


def kilobytes(names: set[str]) -> float:
    """Weigh files of the bundle, each gzipped."""
    return sum(len(gzip.compress((BUNDLE / name).read_bytes(), 9)) for name in names) / 1000
