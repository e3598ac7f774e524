/** How refusals of this package are put: what was looked at, what would do, what was found, and the clause. */

import { AttestError, type Facts, type Kind } from "../errors";

/** Make a refusal whose text says all of it; for the caller to throw. */
export function refusal(
  kind: Kind,
  code: string,
  field: string,
  expected: string,
  got: string,
  clause: string,
  more: Facts = {},
): AttestError {
  const facts = { field, expected, got, clause: `intel-tdx-sgx.md ${clause}`, ...more };
  return new AttestError(kind, code, `${field}: expected ${expected}, got ${got}`, facts);
}
