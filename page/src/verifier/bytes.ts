/** Bytes: copies, comparison, and their text forms. Nothing here refuses: `encoding.ts` reads text strictly. */

export type Bytes = Uint8Array<ArrayBuffer>;

export const NO_BYTES: Bytes = new Uint8Array();

/** Copy the caller's bytes, so that they do not change while they are verified. */
export const copyOf = (data: Uint8Array): Bytes => new Uint8Array(data);

export function concat(...parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** True if `data` has `part` at this offset. */
export const hasAt = (data: Uint8Array, part: Uint8Array, at = 0): boolean =>
  part.every((byte, i) => data[at + i] === byte);

/** Nothing that a verifier compares is secret, so the time that it takes may tell. */
export const equal = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && hasAt(a, b);

export const isZero = (data: Uint8Array): boolean => !data.some(Boolean);

/** Left-aligned, the rest zero. */
export function padded(data: Uint8Array, size: number): Bytes {
  const whole = new Uint8Array(Math.max(size, data.length));
  whole.set(data);
  return whole;
}

/** Lower-case; the order of such texts is the order of the bytes, shorter first where one begins the other. */
export const hex = (data: Uint8Array): string =>
  data.reduce((text, byte) => text + (byte + 256).toString(16).slice(1), "");

/** Order of bytes as numbers, shorter first where one begins the other. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  if (equal(a, b)) return 0;
  return hex(a) < hex(b) ? -1 : 1;
}

/** Decode hex of constants of our own. */
export const unhex = (text: string): Bytes => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** Base64 in the alphabet of URLs, without padding. */
export const urlSafe = (text: string): string => text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

export const base64Text = (data: Uint8Array): string =>
  btoa(data.reduce((text, byte) => text + String.fromCharCode(byte), ""));

export const base64urlText = (data: Uint8Array): string => urlSafe(base64Text(data));

export const utf8 = (text: string): Bytes => new TextEncoder().encode(text);

/** Decode strict UTF-8; undefined when it is none. A byte-order mark stays in the text. */
export function utf8Text(data: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return undefined;
  }
}

const LATIN = new TextDecoder("latin1");

/** Each byte as one character, ASCII as it is: for looking at bytes with expressions. */
export const latin1 = (data: Uint8Array): string => LATIN.decode(data);

/** Cut these characters off the end. An expression that ends in `+$` would take the square of a long run's time. */
export function trimmedEnd(text: string, characters: string): string {
  let end = text.length;
  while (end && characters.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** Unsigned integer of any size, big-endian. */
export const unsigned = (data: Uint8Array): bigint => BigInt(`0x${hex(data) || 0}`);

/** Unsigned integer of any size, little-endian. */
export const unsignedLittle = (data: Uint8Array): bigint => unsigned(data.slice().reverse());

/** RFC 3339 in UTC, with microseconds only when there are fractions. */
export function rfc3339(ms: number): string {
  const text = new Date(ms).toISOString();
  return text.endsWith(".000Z") ? text.replace(".000Z", "Z") : text.replace("Z", "000Z");
}
