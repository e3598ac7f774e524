/** The state, in words, symbol and colour; and what was checked. */

import type { CheckResult } from "../verifier/api";
import { byId, code, el, put, short } from "./dom";
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
  const certificates = found.filter(({ id }) => /\.(leaf|chain|root|revocation)/.test(id));
  put(byId("chains"), ...certificates.map(({ id, item, got }) => el("li", {}, `${[item, id].filter(Boolean).join(" ")}: ${got}`)));
  byId("claims").textContent = result?.items.length ? JSON.stringify(result.items, null, 1) : "There are none: nothing was verified.";
}

function line({ id, outcome, expected, got, clause, item }: CheckResult): HTMLElement {
  const name = outcome === "not evaluated" ? "none" : outcome;
  const more = outcome === "pass" ? got : [expected && `expected ${expected}`, got && `got ${got}`].filter(Boolean).join(", ");
  return el("li", {}, el("span", { class: `sign ${name}` }, SIGNS[outcome]), " ", sentence(id), el("small", {}, code([item, id].filter(Boolean).join(" ")), more && ` ${more}`, clause && ` (${clause})`));
}
