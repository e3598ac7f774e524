/** What was examined, and how it came out; and the runner of every numbered procedure. */

import { AttestError, type Shown, need, refusalOf, shown } from "./errors";

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

/** How success is told: what was demanded, what was found, and the outcome when it is not `pass`. */
export type Told = readonly [expected: Shown, got?: Shown, outcome?: Outcome];

export function check(id: string, outcome: Outcome, expected: Shown, got: Shown, clause: string): Check {
  return { id, outcome, expected: shown(expected), got: shown(got), clause };
}

/** Take one step: its check, and the refusal when it did not pass. */
export async function taken(
  id: string,
  clause: string,
  step: () => Told | Promise<Told>,
): Promise<readonly [Check, AttestError?]> {
  const found = await refusalOf(step);
  if (!(found instanceof AttestError)) {
    const [expected, got, outcome = "pass"] = found;
    return [check(id, outcome, expected, got, clause)];
  }
  const { facts } = found;
  facts.check = id;
  facts.clause ??= clause;
  return [check(id, "fail", facts.expected, facts.got ?? found.message, clause), found];
}

/** Require two to be the same, and tell them. */
export function same(code: string, field: string, expected: Shown, got: Shown): Told {
  need(shown(expected) === shown(got), "binding", code, expected, got, { field });
  return [expected, got];
}

/** A step of which a closure holds the state: what it demanded and found, or the refusal that it throws. */
export type Taken = readonly [id: string, clause: string, step: () => Told | Promise<Told>];

/**
 * Take every step and return all checks; or throw the refusal of the first that fails, which then carries the checks
 * up to it, and those after it as not evaluated.
 *
 * @param before checks that were made before the procedure began
 * @param failure what failed before it, so that none of its steps is taken
 */
export async function takeSteps(
  steps: readonly Taken[],
  before: readonly Check[] = [],
  failure?: AttestError,
): Promise<readonly Check[]> {
  const checks = [...before];
  for (const [id, clause, step] of steps) {
    if (failure) checks.push(check(id, "not evaluated", "", "an earlier check failed", clause));
    else {
      const [outcome, refused] = await taken(id, clause, step);
      checks.push(outcome);
      failure = refused;
    }
  }
  if (failure) {
    failure.checks = checks;
    throw failure;
  }
  return checks;
}

/** Checks of one item of evidence. */
export function ofItem(checks: readonly Check[], item: string): readonly Check[] {
  return checks.map((each) => ({ ...each, item }));
}
