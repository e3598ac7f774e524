/** Values as messages and checks show them. */

import { hex } from "./bytes";

/** Values that can be shown: bytes as hex, the rest as text. */
export type Shown = string | number | bigint | boolean | null | undefined | Uint8Array | readonly unknown[];

export function shown(value: Shown): string {
  if (Array.isArray(value)) return (value as Shown[]).map(shown).join(", ");
  return value instanceof Uint8Array ? hex(value) : String(value ?? "");
}
