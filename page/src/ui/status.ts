/** The state in words, symbol and colour, and the five facts under it. */

import { sign } from "./checks";
import { byId, code, el, put, short } from "./dom";
import { type Fact, factsOf } from "./facts";
import { say } from "./strings";
import { type State, obstacle } from "./state";
import { symbolOf } from "./symbols";
import { joined, moment, problemWords, stateWords } from "./words";
import { part } from "../verifier/parts";

const MARKS: Readonly<Record<Fact["tone"], string>> = { yes: "✓", no: "✕", open: "–", simulated: "≈" };

/** Write text only where it changed, so that a reader of the screen hears it once. */
function write(id: string, text: string): void {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

export function showStatus(state: State, now: number): void {
  const { phase, key, service, ready } = state;
  const { obstacles, sealedTo, serviceSays } = say();
  const said = phase === "stopped" || (!ready && phase === "unknown" && service) ? serviceSays(service) : "";
  showVerdict(state, said);
  showTime(state, now);
  write("key", key ? sealedTo(key.id, short(key.digest), key.hybrid) : "");
  byId("again").toggleAttribute("disabled", state.busy);
  write("obstacle", obstacles[obstacle(state) ?? "none"]);
}

/** The state, with what else is said of it. */
export function showVerdict(state: State, said: string): void {
  const { phase, simulated } = state;
  const [word, why] = stateWords(state);
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
  const { serviceIs, checkingNow, lastChecked } = say();
  const checked = at === undefined ? "" : lastChecked(moment(at, now));
  write("when", joined(name && serviceIs(name), busy ? checkingNow : checked));
}

/** What a refusal means, and what is technical about it behind a fold. */
export function showFailure({ phase, problem }: State, wasSent: boolean): void {
  const { nothingMore, nothingSent, details, code: name } = say();
  const place = byId("failure");
  const isShown = (phase === "refused" || phase === "unreachable") && problem;
  place.hidden = !isShown;
  if (!isShown) return;
  const [, now] = problemWords(problem);
  put(
    place,
    el("p", {}, joined(wasSent ? nothingMore : nothingSent, now)),
    el(
      "details",
      {},
      el("summary", {}, details),
      el("p", {}, `${name} `, code(problem.code)),
      el("pre", {}, problem.message),
    ),
  );
}

let told = "";
let drawn: State | undefined;

/** The facts; the same ones stay as they are, with what a person has opened. */
export function showFacts(state: State): void {
  const facts = factsOf(state);
  const found = JSON.stringify(facts);
  if (found !== told) put(byId("facts"), ...facts.map(fact));
  told = found;
  drawn = state;
  void drawChain(state);
}

/** Draw the chain of proof, whose code is fetched meanwhile. Without it there is none. */
async function drawChain(state: State): Promise<void> {
  const chain = await part(import("./chain")).catch(() => undefined);
  if (drawn !== state) return;
  chain?.showChain(byId("chain"), state);
  chain?.showCertificates(state.result?.certificates ?? []);
}

function fact({ id, tone, sentence, details }: Fact): HTMLElement {
  const { facts, signs } = say();
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

/** What the proof does not show, beside the verdict. */
export function showWarnings({ result }: State): void {
  // The verifier applies no policy, but this page does.
  const shown = (result?.warnings ?? []).filter((warning) => warning.code !== "policy-not-judged");
  const place = byId("warnings");
  place.hidden = !shown.length;
  put(place, ...shown.map((warning) => el("li", {}, sign("warning"), ` ${warning.message} `, code(warning.code))));
}

export function showProved({ phase, simulated, result }: State): void {
  const { proved } = say();
  const isVerified = result?.outcome === "verified" && phase !== "checking" && phase !== "unreachable";
  const genuine = simulated ? proved.simulated : proved.genuine;
  write("proved", isVerified ? genuine : proved.nothing);
}
