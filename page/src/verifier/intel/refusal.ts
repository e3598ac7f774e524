/** How refusals of this package are put: what was looked at, what would do, and what was found. */

import { AttestError, type Facts, type Kind } from "../errors";

/** Make a refusal; for the caller to throw. The step in which it happens knows the clause. */
export function refusal(
  kind: Kind,
  code: string,
  field: string,
  expected: string,
  got: string,
  more: Facts = {},
): AttestError {
  return new AttestError(kind, code, "", { field, expected, got, ...more });
}
