/** What the page knows, as one value; everything that is shown follows from it. */

import type { Row } from "../policy/index";
import type { Result } from "../verifier/api";
import type { Problem } from "./problems";

/**
 * Four states in which nothing can be sent never look alike: a check runs (`checking`), there is no answer, so that
 * nothing is concluded (`unreachable`), the service has ended its work (`stopped`), and the machine is not what it
 * has to be (`refused`).
 */
export type Phase = "checking" | "unknown" | "trusted" | "unreachable" | "stopped" | "refused";

export interface State {
  readonly phase: Phase;
  /** A check is running; while it does, what the one before found stays in sight. */
  readonly busy: boolean;
  /** Of the last check that was finished, milliseconds. */
  readonly at: number | undefined;
  /** What the service calls itself: the audience of its evidence. */
  readonly name: string;
  readonly simulated: boolean;
  readonly result: Result | undefined;
  readonly rows: readonly Row[];
  readonly policy: PolicyInForce | undefined;
  readonly problem: Problem | undefined;
  /** The key that messages are sealed to; undefined: nothing may be sent. */
  readonly key: SealedTo | undefined;
  /** What the service says of itself: anybody's word. */
  readonly service: string;
  readonly ready: boolean;
  /** Limits of documents, as the service states them. */
  readonly limits: unknown;
}

export interface PolicyInForce {
  readonly name: string;
  readonly version: number;
  readonly digest: string;
  /** Names of the signed documents of reference values by which it knows software. */
  readonly documents: readonly string[];
  /** The documents whose build is proved. */
  readonly built: readonly BuiltDocument[];
}

/** A document in the words of the page: a sentence, and details by name. */
export interface BuiltDocument {
  readonly sentence: string;
  readonly details: readonly (readonly [string, string])[];
}

export interface SealedTo {
  readonly id: number;
  readonly digest: string;
  readonly hybrid: boolean;
}

export const BEGINNING: State = {
  phase: "checking",
  busy: true,
  at: undefined,
  name: "",
  simulated: false,
  result: undefined,
  rows: [],
  policy: undefined,
  problem: undefined,
  key: undefined,
  service: "",
  ready: false,
  limits: undefined,
};

/** Whether nothing may be sent now, and why. The one place that says so. */
export type Obstacle = Exclude<Phase, "trusted"> | "keyless" | "unready";

export function obstacle({ phase, key, ready }: State): Obstacle | undefined {
  if (phase !== "trusted") return phase;
  if (!key) return "keyless";
  return ready ? undefined : "unready";
}
