/** One device on its way through the checks: what each check needs, does and finds, and how its success is told. */

import { rfc3339 } from "../bytes";
import type { Dated } from "../chain";
import type { Told, Unchecked } from "../checks";
import { type AttestError, need } from "../errors";
import type { Given, Tolerances } from "../formats";
import type { Status } from "../ocsp";
import type { DeviceModel, GpuLeaf } from "./certificates";
import type { DevicePath, Root } from "./chain";
import type { ParsedGpuEvidence } from "./evidence";
import type { Result, Source } from "./measurements";
import type { JudgedRim } from "./references";

/** One device's evidence, with what the checks find; what was not found is undefined or missing. */
export interface Attempt {
  readonly evidence: ParsedGpuEvidence;
  readonly path: DevicePath;
  readonly given: Given;
  leaf?: GpuLeaf;
  /** Type byte and PDI in hex. */
  identity?: string;
  model?: DeviceModel;
  root?: Root;
  statuses: readonly Status[];
  readonly rims: Partial<Record<Source, JudgedRim>>;
  comparison?: readonly Result[];
  /** The decisions by which something was left unchecked. */
  readonly used: Set<Unchecked>;
}

/** One that passed, with everything that a device has: a step that nothing lacked found it. */
export type Passed = Attempt &
  Required<Pick<Attempt, "leaf" | "identity" | "model" | "root">> & {
    readonly path: Required<Pick<DevicePath, "device">>;
  };

/**
 * One check: its id without `nvidia.`; where it is specified; whether what it needs was found; and what it demands, which
 * throws, or keeps what it found and tells what was demanded and found.
 */
export type Step = readonly [
  id: string,
  clause: string,
  ready: (attempt: Attempt) => unknown,
  run: (attempt: Attempt) => Told | Promise<Told>,
];

/** Require two texts to be the same, and tell them. */
export function same(code: string, expected: string, got: string): Told {
  need(expected === got, "binding", code, expected, got);
  return [expected, got];
}

export const isSwitch = ({ model }: Attempt): boolean => model?.kind === "nvidia-switch";

/** What is let pass in a device of this kind. */
export const tolerancesOf = (attempt: Attempt): Tolerances =>
  attempt.given.tolerances[isSwitch(attempt) ? "switches" : "gpus"];

/** The decisions to leave this unchecked. */
export const decisionsOn = ({ given }: Attempt, name: string): readonly Unchecked[] =>
  given.unchecked.filter(({ check }) => check === name);

/** Throw a failure, unless it only says that something is missing or stale and one of the names allows that, which is returned. */
export function tolerate(attempt: Attempt, failure: AttestError, ...names: readonly string[]): string {
  const name = names.find((candidate) => failure.kind === "endorsement" && decisionsOn(attempt, candidate).length);
  if (!name) throw failure;
  for (const decision of decisionsOn(attempt, name)) attempt.used.add(decision);
  return name;
}

/** Say why something was left unchecked. */
export const reasons = ({ used }: Attempt): string => `unchecked: ${[...used].map(({ reason }) => reason).join("; ")}`;

/** Whether this is an answer about a certificate on hold, which is tolerated. A list has no status. */
export const isHeld = ({ status = "good" }: Status): boolean => status !== "good";

/** Tell what shows that certificates are not revoked, or which decision left it unchecked. */
export function tellStatuses(attempt: Attempt, statuses: readonly Status[]): Told {
  const expected = "good";
  if (!statuses.length) return [expected, reasons(attempt), "not evaluated"];
  const got = statuses
    .map(({ status, thisUpdate }) => `${status ?? "not listed"} on ${rfc3339(thisUpdate)}`)
    .join("; ");
  return statuses.some(isHeld)
    ? [expected, `${got}: ${tolerancesOf(attempt).heldRimSigners}`, "warning"]
    : [expected, got];
}

/** The window in which all of them are valid, both bounds included; it may end before it begins. */
export function windowOf(all: readonly Dated[]): readonly [from: number, to: number] {
  return [Math.max(...all.map(({ notBefore }) => notBefore)), Math.min(...all.map(({ notAfter }) => notAfter))];
}
