"""A result as a page for people. It shows the JSON document and nothing else, so both agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from attest.cli.claims_page import claim_rows
from attest.cli.documents import mapping_of, mappings_of
from attest.encoding import JsonValue
from attest.terminal.console import banner, facts, plain, sign, text_console
from attest.terminal.display import Display

SIMULATED_LINES = ("SIMULATED: the keys are public; it proves nothing about hardware",)
_Document = Mapping[str, JsonValue]


def print_result(document: _Document, *, display: Display) -> None:
    """Show a result of ``verify`` or ``appraise``. The message of a refusal and its hint go to standard error."""
    out = text_console(display)
    _print_head(out, document, display)
    _print_checks(out, document, display)
    _print_failed(out, document)
    if document["outcome"] == "verified":
        _print_verified(out, document)
    elif document["outcome"] == "refused":
        _print_outcome(out, "REFUSED", "bold red", str(mapping_of(document["error"]).get("code", "")), document)
    else:
        _print_appraised(out, document)


def _print_verified(out: Console, document: _Document) -> None:
    genuine = "signed by the simulator" if document["simulated"] is True else "the evidence is genuine"
    _print_outcome(
        out, "VERIFIED", "green", f"{genuine}; to check whether it is acceptable, use 'attest appraise'", document
    )


def _print_appraised(out: Console, document: _Document) -> None:
    policies = [_text_of(policy) for policy in _policies(document)]
    failed = [str(check["id"]) for check in mappings_of(document.get("checks")) if _failed(check)]
    if document["outcome"] == "affirmed":
        _print_outcome(out, "AFFIRMED", "green", f"by {' and '.join(policies)}{_reservations(document)}", document)
    else:
        reason = f"by {' and '.join(policies)}: failed {', '.join(dict.fromkeys(failed))}"
        _print_outcome(out, "NOT AFFIRMED", "bold red", reason, document)


def _reservations(document: _Document) -> str:
    """Return the warnings of a receipt for its last line: they limit what its verdict is about."""
    codes = [str(one["code"]) for one in mappings_of(document.get("warnings"))] if "receipt" in document else []
    return f", with warnings: {', '.join(codes)}" if codes else ""


# -- parts


def _print_head(out: Console, document: _Document, display: Display) -> None:
    if document["simulated"] is True:
        out.print(banner(SIMULATED_LINES, style="bold magenta"))
    out.print(facts(_head_rows(document), indent=0))
    for item in mappings_of(document.get("items")):
        out.print()
        role = f" ({item['role']})" if "role" in item else ""
        out.print(plain(f"{item['name']}: {item['kind']}{role}", "bold"))
        out.print(facts(claim_rows(mapping_of(item["claims"]), verbose=display.verbose)))
        links = mappings_of(item.get("chain"))
        if links:
            out.print(_chain(links))
    out.print()


def _chain(links: list[dict[str, JsonValue]]) -> RenderableType:
    """Draw the chain of proof as a tree that grows from the root."""
    at = tree = Tree(plain("chain of proof", "dim"), guide_style="dim")
    for link in links:
        at = at.add(Text.assemble(plain(link["name"], "bold"), "  ", plain(link["detail"], "dim"), overflow="fold"))
    return Padding(tree, (0, 0, 0, 2))


def _head_rows(document: _Document) -> Iterator[tuple[str, RenderableType]]:
    yield "at", plain(document["at"])
    freshness = str(document["freshness"])
    style = {"matched": "green", "mismatched": "bold red"}.get(freshness, "yellow")
    yield "freshness", plain(freshness, style)
    for entry in mappings_of(document.get("unchecked")):
        yield "UNCHECKED", plain(f"{entry['check']}: {entry['reason']}", "bold yellow")
    ignored = document.get("ignored_items")
    if isinstance(ignored, list) and ignored:
        yield "ignored", plain(f"items of unknown kinds: {', '.join(map(str, ignored))}", "yellow")
    yield from _receipt_rows(mapping_of(document.get("receipt")))
    for policy in _policies(document):
        yield "policy", plain(f"{_text_of(policy)}, digest {policy['digest']}")


def _receipt_rows(receipt: _Document) -> Iterator[tuple[str, RenderableType]]:
    """Lay out a receipt for an answer: the service, its model and the exchange."""
    if not receipt:
        return
    claims = mapping_of(receipt["claims"])
    request, response = mapping_of(claims["request"]), mapping_of(claims["response"])
    yield "service", plain(claims["iss"])
    for at, one in enumerate(mappings_of(receipt["models"])):
        yield "adapter" if at else "model", plain(f"{one['name']} ({one['model']}), signed by {one['signed_by']}")
    yield "loaded", plain(f"by {receipt['loader']}, quantisation: {receipt['quantisation'] or 'none'}")
    yield "answered", plain(f"{receipt['time']}, number {claims['sequence']} of this machine's keys")
    yield (
        "request",
        plain(f"{request['method']} {request['target']}, {request['size']} bytes, SHA-256 {request['sha256']}"),
    )
    state = plain("") if response["complete"] is True else plain("CUT OFF: ", "bold yellow")
    answer = f"status {response['status']}, {response['size']} bytes, SHA-256 {response['sha256']}"
    yield "response", Text.assemble(state, plain(answer), overflow="fold")
    sampling = mapping_of(claims["sampling"])
    yield "sampling", plain(", ".join(f"{name} {value}" for name, value in sampling.items()) or "not stated")


def _print_checks(out: Console, document: _Document, display: Display) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in sorted(mappings_of(document.get("checks")), key=lambda check: not _failed(check)):
        table.add_row(sign(str(check["outcome"]), encoding=out.encoding), _check(check, verbose=display.verbose))
    out.print(plain("checks", "bold"))
    out.print(table)
    out.print()
    _print_warnings(out, document)
    if "second_opinion" in document:
        _print_opinion(out, mapping_of(document["second_opinion"]))
    if "reference_log" in document:
        _print_reference(out, mapping_of(document["reference_log"]))


def _failed(check: _Document) -> bool:
    return check["outcome"] == "fail"


def _print_failed(out: Console, document: _Document) -> None:
    """Show the checks that failed again, where a reader of a long list looks last."""
    failed = [check for check in mappings_of(document.get("checks")) if _failed(check)]
    if failed:
        out.print(plain("failed", "bold red"))
        out.print(facts([(str(one["id"]), plain(f"{one['got']}, expected {one['expected']}")) for one in failed]))
        out.print()


def _print_warnings(out: Console, document: _Document) -> None:
    """Show what the result does not say."""
    warnings = mappings_of(document.get("warnings"))
    if warnings:
        out.print(plain("warnings", "bold"))
        out.print(facts([(str(one["code"]), plain(one["message"], "yellow")) for one in warnings], indent=2))
        out.print()


def _check(check: _Document, *, verbose: bool) -> RenderableType:
    """Lay out a check: one line if it passed; in full if it did not, or with ``verbose``."""
    title = plain(check["id"], "bold")
    policy = check.get("policy")
    if policy is not None:
        title.append_text(plain(f" ({policy})"))
    if check["outcome"] == "pass" and not verbose:
        return Text.assemble(title, ": ", plain(check["got"]), overflow="fold")
    rows = [(name, plain(check[name])) for name in ("expected", "got", "clause") if check.get(name)]
    if check["outcome"] == "fail":
        rows.append(("see", plain(f"attest docs checks#{check['id']}")))
    return Group(title, facts(rows, indent=2))


def _print_opinion(out: Console, opinion: _Document) -> None:
    """Show the findings of NVIDIA's SDK beside ours; ours decide."""
    versions = ", ".join(f"{name} {version}" for name, version in mapping_of(opinion.get("versions")).items())
    out.print(plain(f"second opinion: NVIDIA's Python SDK {opinion['verdict']} ({versions})", "bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for heading in ("item", "question", "ours", "theirs", ""):
        table.add_column(heading)
    for pair in mappings_of(opinion.get("side_by_side")):
        same = pair.get("same")
        verdict = plain("DIFFERENT", "bold yellow") if same is False else plain("same" if same is True else "")
        cells = [plain(pair.get(name, "-")) for name in ("item", "question", "ours", "theirs")]
        table.add_row(*cells, verdict)
    out.print(table)
    out.print()


def _print_reference(out: Console, compared: _Document) -> None:
    """Show, for each register that differs from the known good boot, the first event that does."""
    out.print(plain("reference log", "bold"))
    if compared["verified"] is not True:
        out.print(plain("  The evidence was refused; its registers and its log are not authenticated.", "yellow"))
    if compared["agrees"] is True:
        out.print(plain("  no difference: the registers are those of the known good boot"))
    for register in mappings_of(compared.get("registers")):
        out.print(plain(f"  {register['register']} differs{_position(register)}", "yellow"))
        out.print(facts(_compared_rows(register), indent=4))
    out.print()


def _position(register: _Document) -> str:
    at = register.get("position")
    return ", and no event shows where" if at is None else f" from its event {at} on"


def _compared_rows(register: _Document) -> Iterator[tuple[str, RenderableType]]:
    for side in ("expected", "got"):
        yield side, plain(register[side])
        event = mapping_of(register.get(f"{side}_event"))
        if event:
            text = event.get("text", "its data is not text")
            yield "", plain(f"event {event['number']}, {event['type']}, {event['digest']}: {text}")
        elif "position" in register:
            yield "", plain("no event: the log ends before it")
    for name in ("missing", "extra"):
        events = mappings_of(register.get(name))
        if events:
            yield name, plain(", ".join(f"event {event['number']}" for event in events))


def _print_outcome(out: Console, word: str, style: str, reason: str, document: _Document) -> None:
    mark = " (SIMULATED)" if document["simulated"] is True else ""
    out.print(Text.assemble(plain(word + mark, style), "  ", plain(reason), overflow="fold"))


# -- reading the document


def _policies(document: _Document) -> list[dict[str, JsonValue]]:
    if "policy" in document:
        return [mapping_of(document["policy"])]
    return mappings_of(document.get("policies"))


def _text_of(policy: _Document) -> str:
    if policy.get("production") is False:
        return "the built-in baseline"
    outcome = f" ({policy['outcome']})" if "outcome" in policy else ""
    return f"policy {policy['name']!r} version {policy['version']}{outcome}"
