/** Checks and their outcomes. */

import { type Shown, shown } from "./shown";

/** Nothing but `pass` ever counts in favour of an Attester. */
export type Outcome = "pass" | "fail" | "warning" | "not evaluated";

export interface Check {
  readonly id: string;
  readonly outcome: Outcome;
  readonly expected: string;
  readonly got: string;
  readonly clause: string;
  /** Name of the evidence item that was examined; absent for the evidence as a whole. */
  readonly item?: string;
}

/** A named, reasoned decision to tolerate that one thing cannot be judged. A negative finding refuses all the same. */
export interface Unchecked {
  readonly check: "revocation" | "freshness" | "rim" | "tcb" | "eventlog" | "topology";
  readonly reason: string;
}

export const UNCHECKED_NAMES: readonly string[] = ["revocation", "freshness", "rim", "tcb", "eventlog", "topology"];

export function check(id: string, outcome: Outcome, expected: Shown, got: Shown, clause: string): Check {
  return { id, outcome, expected: shown(expected), got: shown(got), clause };
}

/** Checks of one item of evidence. */
export function ofItem(checks: readonly Check[], item: string): readonly Check[] {
  return checks.map((each) => ({ ...each, item }));
}
