/** The decision, before a person turns to it: whether there is one, and about how many values. */

import type { Row } from "../policy/row";
import { byId, el, put } from "./dom";
import type { Memory } from "./memory";
import type { State } from "./state";
import { saySeen } from "./strings";
import type { Subject } from "./subject";

/** What is to be decided: everything at first, and later what the policy does not accept. */
export function openOf({ phase, policy, rows }: State): readonly Row[] {
  if (phase !== "unknown" && phase !== "refused") return [];
  return rows.filter(({ outcome, kinds }) => kinds.length && (!policy || outcome === "fail"));
}

/** Remember that the policy refused the machine, until it is met again. */
function noteVerdict(memory: Memory, { phase, problem }: State): void {
  if (phase === "trusted") memory.set("refused", undefined);
  if (phase === "refused" && !problem) memory.set("refused", "yes");
}

let shown = "";

/** Show the decision of a verdict; while the same is reported, everything stays as it is. */
export function showDecision({ state, memory }: Subject, decide: () => void): void {
  const told = JSON.stringify([state.rows, state.phase]);
  if (shown === told) return;
  shown = told;
  noteVerdict(memory, state);
  const place = byId("each", HTMLDetailsElement);
  place.hidden = !state.rows.length;
  place.open = false;
  byId("each-name").textContent = saySeen().each(state.rows.length);
  offerDecision(state, decide);
}

/** Offer the one button that begins to decide. */
export function offerDecision(state: State, decide: () => void): void {
  const { accept, acceptChange } = saySeen();
  const name = state.policy ? acceptChange : accept;
  put(
    byId("decide"),
    openOf(state).length > 0 && el("button", { id: "accept", class: "primary", click: decide }, name),
  );
}
