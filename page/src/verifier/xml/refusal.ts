/** The refusal of a RIM that is not what the specification says. */

import { AttestError, type Facts } from "../errors";

/** Make the refusal; for the caller to throw. */
export function malformed(problem: string, facts: Facts = {}): AttestError {
  const clause = "nvidia-gpu.md 9.2, 9.3";
  return new AttestError("malformed", "rim-malformed", `RIM cannot be read: ${problem}`, { clause, ...facts });
}
