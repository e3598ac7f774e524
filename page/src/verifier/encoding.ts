/** Strict text forms of bytes: hex and base64, one spelling for one sequence of bytes. */

import { type Bytes, unhex, urlSafe } from "./bytes";
import { need, refuse } from "./errors";

/** Letters, numbers, punctuation and symbols, except for fillers of Hangul and the empty pattern of Braille. */
const VISIBLE = /(?![\u115f\u1160\u2800\u3164\uffa0])[\p{L}\p{N}\p{P}\p{S}]/u;

/** True if a text has a character that people can see. */
export const isVisible = (text: string): boolean => VISIBLE.test(text);

/** Decode hex of an even number of digits, without prefix or separators; undefined for other text. */
export const unhexed = (text: string): Bytes | undefined =>
  text.length % 2 || /[^0-9a-fA-F]/.test(text) ? undefined : unhex(text);

/** Decode such hex, perhaps of one length: `hex-invalid`. */
export function hexBytes(text: string, field: string, length?: number): Bytes {
  const data = length === undefined || text.length === 2 * length ? unhexed(text) : undefined;
  need(data, "malformed", "hex-invalid", `${length ?? "any"} bytes of hex`, `${text.length} characters`, { field });
  return data;
}

function base64Decoded(text: string, field: string, spelling: (text: string) => string): Bytes {
  try {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const data = new Uint8Array(plain.length);
    for (let i = 0; i < data.length; i++) data[i] = plain.charCodeAt(i);
    // Writing it again leaves one spelling for one sequence of bytes, so that two readers never see two documents.
    if (spelling(btoa(plain)) === text) return data;
  } catch {
    // No base64 of any kind.
  }
  return refuse("malformed", "base64-invalid", "base64", `${text.length} characters of other text`, { field });
}

/** Standard base64 with padding (RFC 4648, section 4), one spelling only: `base64-invalid`. */
export const base64Bytes = (text: string, what: string): Bytes => base64Decoded(text, what, String);

/** Base64url without padding (RFC 4648, section 5), one spelling only: `base64-invalid`. */
export const base64urlBytes = (text: string, what: string): Bytes => base64Decoded(text, what, urlSafe);
