/** The error tree of `attest.errors`, flat: a kind instead of a class, and the same codes. */

import type { Check } from "./checks";
import { type Shown, shown } from "./shown";

/** Kinds of errors: the evidence is unreadable, it does not verify, or an endorsement is missing. */
export type Kind =
  "malformed" | "unsupported" | "verification" | "signature" | "chain" | "revoked" | "binding" | "endorsement";

/** The order of exit codes decides which of several refusals speaks for all; for whatever does not hold it is 4. */
const EXIT_CODES: Partial<Record<Kind, number>> = { malformed: 3, unsupported: 3, endorsement: 5 };

/** Details beside the text; the long hints are in docs/errors.md, under the code. */
export interface Facts {
  check?: string | undefined;
  field?: string | undefined;
  offset?: number | undefined;
  expected?: string | undefined;
  got?: string | undefined;
  clause?: string | undefined;
  /** The same call may succeed later without any change. */
  retryable?: boolean | undefined;
}

/**
 * A documented refusal. Callers match on `code`; the text is for people and may change. An empty message is the rule:
 * the code, the field, what was expected and what was found then say it, and cost no bytes of the bundle.
 */
export class AttestError extends Error {
  /** Every check of the procedure up to and including the failed one, when a procedure ran. */
  checks: readonly Check[] = [];

  constructor(
    readonly kind: Kind,
    readonly code: string,
    message: string,
    readonly facts: Facts = {},
  ) {
    super(message || told(code, facts));
  }

  get exitCode(): number {
    return EXIT_CODES[this.kind] ?? 4;
  }
}

function told(code: string, { field, expected, got }: Facts): string {
  const parts = [
    code.replaceAll("-", " "),
    field && `(${field})`,
    expected && `expected ${expected}`,
    got && `got ${got}`,
  ];
  return parts.filter(Boolean).join(", ").replace(", (", " (");
}

/** Refuse; an expression, so that it can stand behind `??`. */
export function fail(kind: Kind, code: string, message: string, facts: Facts = {}): never {
  throw new AttestError(kind, code, message, facts);
}

/** Make a refusal that its code, what was expected and what was found tell; for the caller to throw. */
export function refusal(kind: Kind, code: string, expected: string, got: string, facts: Facts = {}): AttestError {
  return new AttestError(kind, code, "", { ...facts, expected, got });
}

/** Refuse, told by the code, what was expected and what was found; an expression, so that it can stand behind `??`. */
export function refuse(kind: Kind, code: string, expected?: Shown, got?: Shown, facts?: Facts): never {
  throw refusal(kind, code, shown(expected), shown(got), facts);
}

/** Require a condition, or refuse: see `refuse`. */
export function need(
  condition: unknown,
  kind: Kind,
  code: string,
  expected?: Shown,
  got?: Shown,
  facts?: Facts,
): asserts condition {
  if (!condition) refuse(kind, code, expected, got, facts);
}

/** A demand on one field. */
export type Demand = (holds: unknown, field: string, expected?: Shown, got?: Shown) => asserts holds;

/** The demands of a reader whose refusals have one code. */
export const demandsOf =
  (kind: Kind, code: string, check?: string): Demand =>
  (holds, field, expected, got) =>
    need(holds, kind, code, expected, got, { check, field });

/** Return what `attempt` refused with; any other exception is a defect and goes on. */
export async function refusalOf<T>(attempt: () => T | Promise<T>): Promise<T | AttestError> {
  try {
    return await attempt();
  } catch (error) {
    if (error instanceof AttestError) return error;
    throw error;
  }
}

/**
 * Await an outcome that is remembered. Each caller gets a new error object: callers add checks to it,
 * and two verifications may wait for the same outcome.
 */
export async function afresh<T>(remembered: Promise<T>): Promise<T> {
  const found = await refusalOf(() => remembered);
  if (found instanceof AttestError) throw new AttestError(found.kind, found.code, found.message, { ...found.facts });
  return found;
}
