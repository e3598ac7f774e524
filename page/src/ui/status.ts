/** The state in words, symbol and colour, and the five facts under it. */

import type { CheckResult } from "../verifier/api";
import { byId, code, el, put, short } from "./dom";
import { type Fact, factsOf } from "./facts";
import { sayFirst } from "./strings";
import type { State } from "./state";
import { symbolOf } from "./symbols";
import { joined, moment } from "./moments";

const MARKS: Readonly<Record<Fact["tone"], string>> = { yes: "✓", no: "✕", open: "–", simulated: "≈" };

/** Write text only where it changed, so that a reader of the screen hears it once. */
export function write(id: string, text: string): void {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

/** Say what became of something that a person did. */
export function tell(text: string): void {
  byId("policy-told").textContent = text;
}

/** The state of a service. `why` says why it is refused, once the words for that were fetched. */
export function showStatus(state: State, now: number, why: string): void {
  const { phase, key, service, ready } = state;
  const { sealedTo, serviceSays } = sayFirst();
  const said = phase === "stopped" || (!ready && phase === "unknown" && service) ? serviceSays(service) : "";
  showVerdict(state, why, said);
  showTime(state, now);
  write("key", key ? sealedTo(key.id, short(key.digest), key.hybrid) : "");
  byId("again").toggleAttribute("disabled", state.busy);
}

/** The state, with what else is said of it. */
export function showVerdict(state: State, whyRefused: string, said: string): void {
  const { phase, simulated } = state;
  const { states, simulatedStates } = sayFirst();
  const [word, known] = (simulated ? simulatedStates[phase] : undefined) ?? states[phase];
  const why = phase === "refused" ? whyRefused : known;
  const symbol = symbolOf(state);
  const status = byId("status");
  status.dataset.phase = phase;
  status.dataset.simulated = `${simulated}`;
  byId("simulated").hidden = !simulated;
  write("symbol", symbol);
  write("word", word);
  write("why", joined(why, said));
  showBar(state, `${symbol} ${word}`);
  document.title = `${symbol} ${word}`;
}

/** The state in one line, which stays in sight on phones. */
function showBar({ phase, simulated }: State, text: string): void {
  const bar = byId("bar");
  bar.hidden = false;
  bar.dataset.phase = phase;
  bar.dataset.simulated = `${simulated}`;
  write("bar", text);
}

/** How long ago the last check was: again and again, and read aloud to nobody. */
export function showTime({ at, busy, name }: State, now: number): void {
  const { serviceIs, checkingNow, lastChecked } = sayFirst();
  const checked = at === undefined ? "" : lastChecked(moment(at, now));
  write("when", joined(name && serviceIs(name), busy ? checkingNow : checked));
}

let told = "";

/** The facts; the same ones stay as they are, with what a person has opened. */
export function showFacts(state: State): void {
  const facts = factsOf(state);
  const found = JSON.stringify(facts);
  if (found !== told) put(byId("facts"), ...facts.map(fact));
  told = found;
}

function fact({ id, tone, sentence, details }: Fact): HTMLElement {
  const { facts, signs } = sayFirst();
  const head = [
    el("span", { class: "mark", "aria-hidden": "true" }, MARKS[tone]),
    el(
      "span",
      {},
      el("strong", {}, facts[id].title),
      el("span", { class: "answer" }, ` ${signs[tone]}`),
      el("span", { class: "sentence" }, sentence),
    ),
  ];
  const rows = details.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, code(value))]);
  const content = rows.length
    ? el("details", {}, el("summary", {}, ...head), el("dl", {}, ...rows))
    : el("div", { class: "plain-fact" }, ...head);
  return el("li", { class: tone, id: `fact-${id}` }, content);
}

export const sign = (outcome: CheckResult["outcome"]): HTMLElement =>
  el("span", { class: `sign ${outcome.replace(" ", "-")}` }, sayFirst().outcomes[outcome]);

/** What the proof does not show, beside the verdict. */
export function showWarnings({ result }: State): void {
  // The verifier applies no policy, but this page does.
  const shown = (result?.warnings ?? []).filter((warning) => warning.code !== "policy-not-judged");
  const place = byId("warnings");
  place.hidden = !shown.length;
  put(place, ...shown.map((warning) => el("li", {}, sign("warning"), ` ${warning.message} `, code(warning.code))));
}

export function showProved({ phase, simulated, result }: State): void {
  const { proved } = sayFirst();
  const isVerified = result?.outcome === "verified" && phase !== "checking" && phase !== "unreachable";
  const genuine = simulated ? proved.simulated : proved.genuine;
  write("proved", isVerified ? genuine : proved.nothing);
}

/** What was found; while a running check has not found it again, it stays as it is. */
export function showFound(state: State): void {
  if (state.busy && state.phase !== "checking") return;
  showFacts(state);
  showWarnings(state);
  showProved(state);
}
