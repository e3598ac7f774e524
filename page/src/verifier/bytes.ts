/** Bytes: strict text forms, the bounds-checked reader, and tables of fixed binary structures. */

import { need, refuse } from "./errors";

export type Bytes = Uint8Array<ArrayBuffer>;

export const NO_BYTES: Bytes = new Uint8Array();

/** Copy whatever a caller calls bytes, so that nobody changes them while they are verified. */
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

/** Whether `data` has `part` at this offset. */
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
export const compareBytes = (a: Uint8Array, b: Uint8Array): number => (hex(a) < hex(b) ? -1 : +!equal(a, b));

/** Decode hex of constants of our own. */
export const unhex = (text: string): Bytes => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** Decode hex of an even number of digits, without prefix or separators: `hex-invalid`. */
export function hexBytes(text: string, field: string, length?: number): Bytes {
  const data = unhex(text);
  const isHex = hex(data) === text.toLowerCase() && data.length === (length ?? data.length);
  need(isHex, "malformed", "hex-invalid", `${length ?? "any"} bytes of hex`, `${text.length} characters`, { field });
  return data;
}

const urlSafe = (text: string): string => text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

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
const unsigned = (data: Uint8Array): bigint => BigInt(`0x${hex(data) || 0}`);

/** Unsigned integer of any size, little-endian. */
export const unsignedLittle = (data: Uint8Array): bigint => unsigned(data.slice().reverse());

/** Take bytes from the front of a buffer; never past its end (`truncated`), nothing left over (`trailing-bytes`). */
export class Reader {
  offset = 0;

  constructor(
    readonly data: Bytes,
    private readonly what: string,
  ) {}

  get remaining(): number {
    return this.data.length - this.offset;
  }

  take(length: number, field: string): Bytes {
    const { offset, remaining } = this;
    need(length <= remaining, "malformed", "truncated", length, remaining, { field, offset });
    this.offset += length;
    return this.data.slice(offset, this.offset);
  }

  /** Take an unsigned integer of 8 bytes. */
  unsigned64(field: string, order?: "little" | "big", size = 8): bigint {
    return (order === "big" ? unsigned : unsignedLittle)(this.take(size, field));
  }

  /** Take an unsigned integer of at most 6 bytes. */
  unsigned(size: number, field: string, order?: "little" | "big"): number {
    return Number(this.unsigned64(field, order, size));
  }

  finish(): void {
    const { offset, data } = this;
    need(!this.remaining, "malformed", "trailing-bytes", offset, data.length, { field: this.what, offset });
  }
}

/**
 * A fixed little-endian structure: name to row, in order. `"u1"`, `"u2"`, `"u4"` are numbers, `"u8"` is a bigint, a
 * positive number that many bytes, a negative number that many reserved bytes, which must be zero.
 */
export type Layout = Readonly<Record<string, "u1" | "u2" | "u4" | "u8" | number>>;

type ValueOf<R> = R extends "u8" ? bigint : R extends string ? number : Bytes;

export type Decoded<L extends Layout> = {
  readonly [K in keyof L as `${L[K]}` extends `-${string}` ? never : K]: ValueOf<L[K]>;
};

const rowSize = (row: Layout[string]): number => +String(row).replace(/\D/, "");

export const layoutSize = (layout: Layout): number =>
  Object.values(layout).reduce<number>((size, row) => size + rowSize(row), 0);

/** Decode a structure by its table: `size-wrong`, or `reserved-not-zero` with the first such span. */
export function decodeLayout<const L extends Layout>(layout: L, data: Bytes, name: string, clause: string): Decoded<L> {
  const size = layoutSize(layout);
  need(data.length === size, "malformed", "size-wrong", size, data.length, { field: name, clause });
  const values: Record<string, number | bigint | Bytes> = {};
  const reader = new Reader(data, name);
  for (const [field, row] of Object.entries(layout)) {
    const { offset } = reader;
    const bytes = reader.take(rowSize(row), field);
    if (typeof row === "string") values[field] = row === "u8" ? unsignedLittle(bytes) : Number(unsignedLittle(bytes));
    else if (row > 0) values[field] = bytes;
    else need(isZero(bytes), "malformed", "reserved-not-zero", 0, bytes, { field: name, offset, clause });
  }
  return values as Decoded<L>;
}

/** RFC 3339 in UTC, with fractions only when there are any. */
export const rfc3339 = (ms: number): string =>
  new Date(ms).toISOString().replace(/\.(\d+)/, (_, digits) => (+digits ? `.${digits}000` : ""));
