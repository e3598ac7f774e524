/** What went wrong, as a code; the words stand in `strings`. */

import { AttestError } from "../verifier/errors";

export interface Problem {
  readonly code: string;
  /** For people who look closer: technical, in English. */
  readonly message: string;
  /** It says nothing about the machine, and may be gone at the next try. */
  readonly passing?: boolean | undefined;
  /** The check that refused. */
  readonly check?: string | undefined;
}

/** The answer of a service that has no time, or that something before it gave. */
const BUSY = [429, 502, 503, 504];

class PassingError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Refuse an answer that says nothing but that there is none now. */
export function requireTime({ status }: Response): void {
  if (BUSY.includes(status)) throw new PassingError("service-busy", `status ${status}`);
}

/** A problem of the moment, to throw again where something waits for its end. */
export const passing = ({ code, message }: Problem): Error => new PassingError(code, message);

export function problemOf(error: unknown): Problem {
  if (error instanceof AttestError) return { code: error.code, message: error.message, check: error.facts.check };
  if (error instanceof PassingError) return { code: error.code, message: error.message, passing: true };
  const { name, message } = error as Error;
  if (!isSecureContext) return { code: "webcrypto-missing", message };
  if (name === "TimeoutError") return { code: "service-too-slow", message, passing: true };
  if (name === "PartError") return { code: "page-incomplete", message };
  if (name === "AbortError") return { code: "stopped", message };
  if (error instanceof TypeError || error instanceof SyntaxError) {
    return { code: "service-unreachable", message, passing: true };
  }
  return { code: "page-defect", message };
}
