/** What the page knows, as one value; everything that is shown follows from it. */

import type { Row } from "../policy/index";
import type { Result } from "../verifier/api";

export type Phase = "checking" | "unknown" | "trusted" | "stopped";

export interface Problem {
  readonly code: string;
  readonly message: string;
}

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
  readonly policy: { readonly name: string; readonly version: number; readonly digest: string } | undefined;
  readonly problem: Problem | undefined;
  /** The key that messages are sealed to; undefined: nothing may be sent. */
  readonly key: SealedTo | undefined;
  /** What the service says of itself: anybody's word. */
  readonly service: string;
  readonly ready: boolean;
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
};

/** Whether something may be sent now, and if not, why. The one place that says so. */
export function obstacle({ phase, key, ready, service }: State): string | undefined {
  if (phase === "checking") return "The machine is being checked first.";
  if (phase === "unknown") return "The machine is genuine, but you have not said that you trust it.";
  if (phase === "stopped") return "Stopped: nothing is sent.";
  if (!key) return "There is no key of the machine that could be sealed to.";
  return ready ? undefined : `The service is not ready: ${service}.`;
}
