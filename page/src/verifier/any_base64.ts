/** Base64 as other projects write it. */

import { type Bytes, trimmedEnd } from "./bytes";
import { base64urlBytes } from "./encoding";

/**
 * Base64 of either alphabet, padded to whole groups or not at all: `base64-invalid`; undefined for a mixture, and for
 * padding that fits nothing.
 */
export function anyBase64Bytes(text: string, what: string): Bytes | undefined {
  const body = trimmedEnd(text, "=");
  const padding = text.length - body.length;
  const isMixed = /[+/]/.test(body) && /[-_]/.test(body);
  if (isMixed || padding > 2 || (padding && text.length % 4)) return undefined;
  return base64urlBytes(body.replaceAll("+", "-").replaceAll("/", "_"), what);
}
