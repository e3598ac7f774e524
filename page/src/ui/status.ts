/** The state, in words, symbol and colour; and what was checked. */

import type { CertificateResult, CheckResult } from "../verifier/api";
import { byId, code, download, el, put, short } from "./dom";
import { type State, obstacle } from "./state";
import { PHASES, SIGNS, moment, reason, sentence } from "./words";

/** Write text only where it changed, so that a reader of the screen hears it once. */
function say(id: string, text: string): void {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

export function showStatus(state: State, now: number): void {
  const { phase, simulated, key } = state;
  const { symbol, word } = PHASES[phase];
  byId("status").dataset["phase"] = phase;
  byId("simulated").hidden = !simulated;
  const told = simulated ? `${word} (simulated)` : word;
  say("symbol", symbol);
  say("word", told);
  say("why", `${reason(state)}${phase === "stopped" ? " Nothing is sent." : ""}`);
  document.title = `${symbol} ${told}`;
  showTime(state, now);
  say("key", key ? `Messages are sealed to key ${key.id} of this machine, ${short(key.digest)}, ${key.hybrid ? "also against quantum computers" : "by X25519 alone: this browser has no ML-KEM"}.` : "");
  byId("again").toggleAttribute("disabled", state.busy);
  say("obstacle", obstacle(state) ?? "You may ask and upload.");
}

/** How long ago the last check was: again and again, and read aloud to nobody. */
export function showTime({ at, busy, name }: State, now: number): void {
  const last = at === undefined ? "" : `Last checked ${moment(at, now)}`;
  say("when", [name && `Service: ${name}.`, busy ? "Checking now…" : last && `${last}.`].filter(Boolean).join(" "));
}

export function showChecks({ result }: State): void {
  const found = result ? result.checks : [];
  const order = ["fail", "warning", "not evaluated", "pass"];
  const sorted = [...found].sort((a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome));
  put(byId("checks"), ...(sorted.length ? sorted.map(line) : [el("li", {}, "Nothing yet.")]));
  put(byId("chains"), ...chains(result?.certificates ?? []));
  byId("claims").textContent = result?.items.length ? JSON.stringify(result.items, null, 1) : "There are none: nothing was verified.";
}

/** One list for each item of evidence, from the certificate that speaks for it up to the pinned root. */
function chains(all: readonly CertificateResult[]): HTMLElement[] {
  if (!all.length) return [el("p", {}, "There are none: nothing was verified.")];
  return [...new Set(all.map(({ item }) => item))].flatMap((item) => {
    const chain = all.filter((each) => each.item === item);
    const pem = chain.map((each) => each.pem ?? "").join("");
    const save = el("button", { click: () => download(`${item}.pem`, pem, "application/x-pem-file") }, `Save those of ${item}`);
    return [el("h3", {}, item), el("ol", {}, ...chain.map(certificate)), save];
  });
}

function certificate({ subject, key_sha256, pinned, issuer, serial, not_before, not_after, sha256 }: CertificateResult): HTMLElement {
  const rows = {
    "issued by": issuer,
    serial,
    valid: not_before && `${not_before} to ${not_after}`,
    "SHA-256": sha256,
    "SHA-256 of its key": key_sha256,
  };
  const told = Object.entries(rows).flatMap(([name, value]) => (value === undefined ? [] : [el("small", {}, `${name} `, code(value))]));
  return el("li", {}, subject, pinned && el("strong", {}, " pinned: its key is built into this page"), ...told);
}

function line({ id, outcome, expected, got, clause, item }: CheckResult): HTMLElement {
  const name = outcome === "not evaluated" ? "none" : outcome;
  const more = outcome === "pass" ? got : [expected && `expected ${expected}`, got && `got ${got}`].filter(Boolean).join(", ");
  return el("li", {}, el("span", { class: `sign ${name}` }, SIGNS[outcome]), " ", sentence(id), el("small", {}, code([item, id].filter(Boolean).join(" ")), more && ` ${more}`, clause && ` (${clause})`));
}
