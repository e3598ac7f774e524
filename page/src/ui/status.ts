/** The state, in words, symbol and colour; and what was checked. */

import type { CertificateResult, CheckResult } from "../verifier/api";
import { byId, code, download, el, put, short } from "./dom";
import { type SealedTo, type State, obstacle } from "./state";
import { PHASES, SIGNS, joined, moment, reason, sentence, worstFirst } from "./words";

/** Write text only where it changed, so that a reader of the screen hears it once. */
function say(id: string, text: string): void {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

export function showStatus(state: State, now: number): void {
  const { phase, simulated, key } = state;
  const { symbol, word } = PHASES[phase];
  byId("status").dataset.phase = phase;
  byId("simulated").hidden = !simulated;
  const told = simulated ? `${word} (simulated)` : word;
  say("symbol", symbol);
  say("word", told);
  say("why", `${reason(state)}${phase === "stopped" ? " Nothing is sent." : ""}`);
  document.title = `${symbol} ${told}`;
  showTime(state, now);
  say("key", key ? keyText(key) : "");
  byId("again").toggleAttribute("disabled", state.busy);
  say("obstacle", obstacle(state) ?? "You may ask and upload.");
}

/** To which key messages are sealed, and how. */
function keyText({ id, digest, hybrid }: SealedTo): string {
  const how = hybrid ? "also against quantum computers" : "by X25519 alone: this browser has no ML-KEM";
  return `Messages are sealed to key ${id} of this machine, ${short(digest)}, ${how}.`;
}

/** How long ago the last check was: again and again, and read aloud to nobody. */
export function showTime({ at, busy, name }: State, now: number): void {
  say(
    "when",
    joined(
      name && `Service: ${name}.`,
      busy ? "Checking now…" : at !== undefined && `Last checked ${moment(at, now)}.`,
    ),
  );
}

export function showChecks({ result }: State): void {
  if (!result) return;
  put(byId("checks"), ...worstFirst(result.checks).map(line));
  showChains(result.certificates ?? []);
  byId("claims").textContent = result.items.length ? JSON.stringify(result.items, null, 1) : NOTHING;
}

/** What a genuine and accepted result does not show, beside the verdict. */
export function showWarnings({ result, policy }: State): void {
  // The verifier applies no policy, but this page does.
  const told = (result?.warnings ?? []).filter((warning) => !policy || warning.code !== "policy-not-judged");
  const place = byId("warnings");
  place.hidden = !told.length;
  put(place, ...told.map((warning) => el("li", {}, sign("warning"), ` ${warning.message} `, code(warning.code))));
}

const sign = (outcome: keyof typeof SIGNS): HTMLElement => el("span", { class: `sign ${outcome}` }, SIGNS[outcome]);

const NOTHING = "There are none: nothing was verified.";
let shown = "";

/**
 * One list for each item of evidence, from the certificate that speaks for it up to the pinned root. The same ones stay
 * as they
 * are, so that the next check takes nobody's place away.
 */
function showChains(all: readonly CertificateResult[]): void {
  const told = JSON.stringify(all);
  if (shown === told) return;
  shown = told;
  const lists = [...new Set(all.map(({ item }) => item))].flatMap((item) => {
    const chain = all.filter((each) => each.item === item);
    const pem = chain.map((each) => each.pem ?? "").join("");
    return [
      el("h3", {}, item),
      el("ol", {}, ...chain.map(certificate)),
      el("button", { click: () => download(`${item}.pem`, pem) }, `Save those of ${item}`),
    ];
  });
  put(byId("chains"), ...(lists.length ? lists : [NOTHING]));
}

function certificate({
  subject,
  key_sha256,
  pinned,
  issuer,
  serial,
  not_before,
  not_after,
  sha256,
}: CertificateResult): HTMLElement {
  const rows = {
    "issued by": issuer,
    serial,
    valid: not_before && `${not_before} to ${not_after}`,
    "SHA-256": sha256,
    "SHA-256 of its key": key_sha256,
  };
  // In full: a person compares them with what another tool says.
  const told = Object.entries(rows).map(
    ([name, value]) => value !== undefined && el("small", {}, `${name} `, el("code", {}, value)),
  );
  return el("li", {}, subject, pinned && el("strong", {}, " pinned: its key is built into this page"), ...told);
}

function line({ id, outcome, expected, got, clause, item }: CheckResult): HTMLElement {
  const told = joined(outcome !== "pass" && expected && `expected ${expected}, got`, got, clause && `(${clause})`);
  return el("li", {}, sign(outcome), ` ${sentence(id)}`, el("small", {}, code(joined(item, id)), ` ${told}`));
}
