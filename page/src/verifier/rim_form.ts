/** The size of a reference integrity manifest, and its refusal. */

import { refuse } from "./errors";

/** The largest RIM seen has 26 KiB. */
export const MAX_RIM_BYTES = 256 * 1024;

/** Refuse a RIM that is not what the specification says. Such a RIM is passed over, so its code has to do. */
export function malformed(): never {
  return refuse("malformed", "rim-malformed");
}
