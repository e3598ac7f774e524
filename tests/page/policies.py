"""Policies in the page and in Python: asked the same, told the same."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from attest.appraisal import AttestationResult
from attest.encoding import rfc3339_text
from attest.results.document import verified_document
from attest.verification import VerifiedEvidence
from tests.page.browser import Verifier

_PREPARE = """
async () => {
    const { appraise, loadPolicy, together } = await import("/policy.js");
    const load = async (text, files = []) => {
        try { return await loadPolicy(together([text, ...files])); }
        catch (error) { return { code: error.code ?? `${error}`, path: error.facts?.field }; }
    };
    globalThis.policyTest = async (pairs, results) => {
        const answers = [];
        for (const [text, numbers, files] of pairs) {
            const policy = await load(text, files);
            const judge = (result) => appraise(result, policy, Date.parse(result.at));
            const judged = policy.code ? [] : numbers.map((number) => judge(results[number]));
            const { code, path, digest, tolerances } = policy;
            answers.push({ code, path, digest, tolerances, judged });
        }
        return JSON.stringify(answers);
    };
}
"""


def prepare(in_browser: Verifier) -> Verifier:
    """Let the page load policies and judge by them: see ``ask``."""
    in_browser.page.evaluate(_PREPARE)
    return in_browser


def ask(
    page: Verifier,
    pairs: Sequence[tuple[str, list[int]] | tuple[str, list[int], list[str]]],
    results: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Load policies in the page, with files beside them, and judge by them what stands at these places of results."""
    told = [list(results), [list(pair) for pair in pairs]]
    answers: str = page.page.evaluate("([results, pairs]) => policyTest(pairs, results)", told)
    return cast("list[dict[str, Any]]", json.loads(answers))


def seen(verified: VerifiedEvidence) -> dict[str, Any]:
    """What the page's verifier would tell of the evidence."""
    found: dict[str, Any] = dict(verified_document(verified))
    bound = [] if verified.binding is None else [{"id": "binding.report_data", "outcome": "pass"}]
    return found | {"at": rfc3339_text(verified.at), "checks": bound}


def verdict_of(result: AttestationResult) -> tuple[bool, list[tuple[Any, ...]]]:
    checks = [(c.id, c.item, c.branch, str(c.outcome), result.counts(c)) for c in result.policy_checks]
    return result.affirmed, sorted(checks, key=repr)


def told_by_page(judged: dict[str, Any]) -> tuple[bool, list[tuple[Any, ...]]]:
    checks = [(c["id"], c.get("item"), c.get("branch"), c["outcome"], c["counts"]) for c in judged["checks"]]
    return judged["affirmed"], sorted(checks, key=repr)
