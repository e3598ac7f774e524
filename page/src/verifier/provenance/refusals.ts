/** The refusal of a bundle that does not hold. */

import { DerError } from "../der";
import { AttestError, refuse } from "../errors";

/** Require a condition, or refuse with `provenance-not-verified`. */
export function requireHolding(holds: unknown, got: string): asserts holds {
  if (!holds) notVerified(got);
}

export const notVerified = (got: string): never =>
  refuse("signature", "provenance-not-verified", "a signature, a certificate and a log entry that hold", got);

/** Verify; what is wrong with a certificate, a key or a signature becomes `provenance-not-verified`. */
export async function holding<T>(verify: () => Promise<T>): Promise<T> {
  try {
    return await verify();
  } catch (error) {
    const isOther = error instanceof AttestError && !error.code.startsWith("provenance-");
    if (isOther || error instanceof DerError) return notVerified(error.message);
    throw error;
  }
}
