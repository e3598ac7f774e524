/** Bytes: strict text forms, the bounds-checked reader, and tables of fixed binary structures. */

import { fail } from "./errors";

export type Bytes = Uint8Array<ArrayBuffer>;

export const NO_BYTES: Bytes = new Uint8Array(0);

/** Copy whatever a caller calls bytes, so that nobody changes them while they are verified. */
export function copyOf(data: Uint8Array): Bytes {
  return new Uint8Array(data);
}

export function concat(...parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Compare without an early exit; lengths are public. */
export function equal(a: Uint8Array, b: Uint8Array): boolean {
  let differs = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) differs |= (a[i] ?? 0) ^ (b[i] ?? 0);
  return differs === 0;
}

export function isZero(data: Uint8Array): boolean {
  return data.every((byte) => byte === 0);
}

/** Whether `data` has `part` at this offset. */
export function hasAt(data: Uint8Array, part: Uint8Array, at = 0): boolean {
  return part.length <= data.length - at && part.every((byte, i) => data[at + i] === byte);
}

/** Left-aligned, the rest zero. */
export function padded(data: Uint8Array, size: number): Bytes {
  const whole = new Uint8Array(Math.max(size, data.length));
  whole.set(data);
  return whole;
}

/** Order of bytes as numbers, shorter first where one begins the other. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const size = Math.min(a.length, b.length);
  for (let i = 0; i < size; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference) return difference;
  }
  return a.length - b.length;
}

const HEX = Array.from({ length: 256 }, (_, value) => value.toString(16).padStart(2, "0"));

export function hex(data: Uint8Array): string {
  let text = "";
  for (const byte of data) text += HEX[byte] ?? "";
  return text;
}

/** Decode hex of constants of our own. */
export function unhex(text: string): Bytes {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Decode hex of an even number of digits, without prefix or separators: `hex-invalid`. */
export function hexBytes(text: string, what: string, length?: number): Bytes {
  if (text.length % 2 || /[^0-9a-fA-F]/.test(text)) {
    fail("malformed", "hex-invalid", `${what} is not pairs of hex digits`, { field: what, expected: "pairs of hex digits" });
  }
  const data = unhex(text);
  if (length !== undefined && data.length !== length) {
    const [expected, got] = [`${length} bytes of hex`, `${data.length} bytes`];
    fail("malformed", "hex-invalid", `${what}: expected ${expected}, got ${got}`, { field: what, expected, got });
  }
  return data;
}

const BASE64: Record<string, RegExp> = {
  standard: /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$/,
  url: /^(?:[\w-]{4})*(?:[\w-][AQgw]|[\w-]{2}[AEIMQUYcgkosw048])?$/,
};

function decode64(text: string, what: string, form: "standard" | "url"): Bytes {
  // The expressions leave one spelling for one sequence of bytes, so that two readers never see two documents.
  if (!BASE64[form]?.test(text)) {
    const expected = form === "url" ? "base64url without padding" : "base64 with padding";
    fail("malformed", "base64-invalid", `${what} is not ${expected}`, { field: what, expected, got: "other text" });
  }
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const data = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) data[i] = plain.charCodeAt(i);
  return data;
}

/** Standard base64 with padding (RFC 4648, section 4), one spelling only: `base64-invalid`. */
export function base64Bytes(text: string, what: string): Bytes {
  return decode64(text, what, "standard");
}

/** Base64url without padding (RFC 4648, section 5), one spelling only: `base64-invalid`. */
export function base64urlBytes(text: string, what: string): Bytes {
  return decode64(text, what, "url");
}

export function base64Text(data: Uint8Array): string {
  let plain = "";
  for (const byte of data) plain += String.fromCharCode(byte);
  return btoa(plain);
}

export function base64urlText(data: Uint8Array): string {
  return base64Text(data).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function utf8(text: string): Bytes {
  return new TextEncoder().encode(text) as Bytes;
}

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
export function latin1(data: Uint8Array): string {
  return LATIN.decode(data);
}

/** Cut these characters off the end. An expression that ends in `+$` would take the square of a long run's time. */
export function trimmedEnd(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text[end - 1] ?? "")) end--;
  return text.slice(0, end);
}

/** Unsigned integer of any size, little-endian. */
export function unsignedLittle(data: Uint8Array): bigint {
  return BigInt(`0x${hex(data.slice().reverse()) || "0"}`);
}

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
    if (length > this.remaining) {
      fail("malformed", "truncated", `${this.what} ends inside ${field}`, {
        field,
        offset: this.offset,
        expected: `${length} bytes`,
        got: `${this.remaining} bytes`,
      });
    }
    const start = this.offset;
    this.offset += length;
    return this.data.slice(start, this.offset);
  }

  /** Take an unsigned integer of at most 6 bytes. */
  unsigned(size: number, field: string, order: "little" | "big" = "little"): number {
    const bytes = this.take(size, field);
    return (order === "little" ? bytes.reverse() : bytes).reduce((value, byte) => value * 256 + byte, 0);
  }

  /** Take an unsigned integer of 8 bytes. */
  unsigned64(field: string, order: "little" | "big" = "little"): bigint {
    return new DataView(this.take(8, field).buffer).getBigUint64(0, order === "little");
  }

  finish(): void {
    if (this.remaining) {
      fail("malformed", "trailing-bytes", `${this.what} is ${this.remaining} bytes longer than its format`, {
        offset: this.offset,
        expected: `${this.offset} bytes`,
        got: `${this.data.length} bytes`,
      });
    }
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

export function layoutSize(layout: Layout): number {
  return Object.values(layout).reduce<number>(
    (size, row) => size + (typeof row === "number" ? Math.abs(row) : Number(row[1])),
    0,
  );
}

/** Decode a structure by its table: `size-wrong`, or `reserved-not-zero` with the first such span. */
export function decodeLayout<const L extends Layout>(layout: L, data: Bytes, name: string, clause: string): Decoded<L> {
  const size = layoutSize(layout);
  if (data.length !== size) {
    const [expected, got] = [`${size} bytes`, `${data.length} bytes`];
    fail("malformed", "size-wrong", `${name} has ${got}, expected ${expected}`, { expected, got, clause });
  }
  const values: Record<string, number | bigint | Bytes> = {};
  const reader = new Reader(data, name);
  for (const [field, row] of Object.entries(layout)) {
    const offset = reader.offset;
    if (row === "u8") values[field] = reader.unsigned64(field);
    else if (typeof row === "string") values[field] = reader.unsigned(Number(row[1]), field);
    else {
      const bytes = reader.take(Math.abs(row), field);
      if (row > 0) values[field] = bytes;
      else if (!isZero(bytes)) {
        fail("malformed", "reserved-not-zero", `${name} has reserved bytes that are not zero at offset ${offset}`, {
          offset,
          expected: "zero",
          got: hex(bytes),
          clause,
        });
      }
    }
  }
  return values as Decoded<L>;
}

/** RFC 3339 in UTC, with fractions only when there are any. */
export function rfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(/\.000Z$/, "Z").replace(/\.(\d{3})Z$/, ".$1000Z");
}
