/** One device on its way through the checks: what each check needs, does and finds, and how its success is told. */

import type { Told, Unchecked } from "../checks";
import { rfc3339 } from "../bytes";
import type { AttestError } from "../errors";
import type { Given, Tolerances } from "../formats";
import { type Status, isAnswer } from "../ocsp";
import type { Certificate } from "../x509";
import type { DeviceModel, GpuLeaf } from "./certificates";
import type { DevicePath, DeviceRoot } from "./chain";
import type { ParsedGpuEvidence } from "./evidence";
import type { Result, Source } from "./measurements";
import { type JudgedRim, type WantedRim, comparable } from "./references";
import type { ParsedRim } from "./rim";

/** One device's evidence, with what the checks find; what was not found is undefined or missing. */
export class Attempt {
  leaf?: GpuLeaf;
  /** Type byte and PDI in hex. */
  identity?: string;
  model?: DeviceModel;
  root?: DeviceRoot;
  statuses: readonly Status[] = [];
  readonly wanted = new Map<Source, WantedRim>();
  readonly rims = new Map<Source, JudgedRim>();
  readonly putAside = new Set<Source>();
  comparison?: readonly Result[];
  readonly used = new Set<Unchecked>();

  constructor(
    readonly evidence: ParsedGpuEvidence,
    readonly path: DevicePath,
    readonly given: Given,
  ) {}

  get isSwitch(): boolean {
    return this.model?.kind === "nvidia-switch";
  }

  /** What is let pass in a device of this kind. */
  get tolerances(): Tolerances {
    return this.isSwitch ? this.given.tolerances.switches : this.given.tolerances.gpus;
  }

  /** The decisions to leave this unchecked. */
  allows(name: string): readonly Unchecked[] {
    return this.given.unchecked.filter((decision) => decision.check === name);
  }

  /** Throw a failure, unless it only says that something is missing or stale and one of the names allows that. */
  tolerate(failure: AttestError, ...names: readonly string[]): string {
    for (const name of failure.kind === "endorsement" ? names : []) {
      const decisions = this.allows(name);
      for (const decision of decisions) this.used.add(decision);
      if (decisions.length) return name;
    }
    throw failure;
  }

  /** Say why something was left unchecked. */
  reasons(): string {
    return `unchecked: ${[...this.used].map((decision) => decision.reason).join("; ")}`;
  }

  /** The RIM whose values are compared: NVIDIA's, be it stale. */
  comparable(source: Source): ParsedRim | undefined {
    return comparable(this.rims.get(source));
  }

  /** The RIM whose values are relied on. */
  usable(source: Source): ParsedRim | undefined {
    return this.putAside.has(source) ? undefined : this.comparable(source);
  }
}

/**
 * One check: its id without `nvidia.`; where it is specified; whether what it needs was found; what it demands, which
 * throws or keeps what it found; and, once it passed, what was demanded and what was found.
 */
export type Step = readonly [
  id: string,
  clause: string,
  ready: (attempt: Attempt) => unknown,
  run: (attempt: Attempt) => void | Promise<void>,
  tell: (attempt: Attempt) => Told,
];

/** What an earlier check found; a step runs only when nothing is lacking. */
export function there<T>(found: T | undefined): T {
  if (found === undefined) throw new TypeError("a step ran without what it needs");
  return found;
}

/** Tell what shows that certificates are not revoked, or which decision left it unchecked. */
export function tellStatuses(attempt: Attempt, certificates: readonly Certificate[], statuses: readonly Status[]): Told {
  const expected = `not revoked: ${names(certificates, ", ")}`;
  if (!statuses.length) return [expected, attempt.reasons(), "not evaluated"];
  const got = statuses.map(statusText).join("; ");
  if (statuses.every((status) => !isAnswer(status) || status.status === "good")) return [expected, got];
  return [expected, `${got}; a hold is tolerated: ${attempt.tolerances.heldRimSigners ?? ""}`, "warning"];
}

/** From the lowest certificate up. */
export function names(certificates: readonly { readonly name: string }[], between = " < "): string {
  return certificates.map((certificate) => certificate.name).join(between);
}

/** The window in which all of them are valid. */
export function window(certificates: readonly Certificate[]): string {
  const first = Math.max(...certificates.map((certificate) => certificate.notBefore));
  const last = Math.min(...certificates.map((certificate) => certificate.notAfter));
  return `${rfc3339(first)} to ${rfc3339(last)}`;
}

/** A key by its certificate. */
export function signerText({ name, serial }: Certificate): string {
  return `verifies with ${name}, serial 0x${serial.toString(16)}`;
}

function statusText(status: Status): string {
  const moment = rfc3339(status.thisUpdate);
  return isAnswer(status) ? `${status.status} by OCSP of ${moment}` : `not listed by CRL of ${moment}`;
}
