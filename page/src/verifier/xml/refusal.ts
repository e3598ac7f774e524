/** The refusal of a RIM that is not what the specification says. */

import { AttestError } from "../errors";

/** Make the refusal; for the caller to throw. Such a RIM is passed over, so few words do. */
export function malformed(field: string): AttestError {
  return new AttestError("malformed", "rim-malformed", "", { field, clause: "nvidia-gpu.md 9.2, 9.3" });
}
