/** Core deterministic CBOR (RFC 8949, section 4.2.1): no floats, no tags, text keys; one value has one encoding. */

import { Reader } from "./reader";
import { type Bytes, concat, equal, hex, unhex, utf8, utf8Text } from "./bytes";
import { AttestError, refuse } from "./errors";

export type CborValue =
  null | boolean | number | bigint | string | Bytes | readonly CborValue[] | ReadonlyMap<string, CborValue>;

const MAX_DEPTH = 32;

/** A head and what follows it; the argument takes no, 1, 2, 4 or 8 bytes. */
function encoded(major: number, argument: bigint | number, ...content: readonly Uint8Array[]): Bytes {
  const text = argument.toString(16);
  const power = [1, 2, 4, 8].findIndex((size) => text.length <= size * 2);
  const head = argument < 24 ? [Number(argument)] : [24 + power, ...unhex(text.padStart(2 << power, "0"))];
  head[0]! |= major << 5;
  return concat(Uint8Array.from(head), ...content);
}

export function cborBytes(value: CborValue): Bytes {
  if (value === null) return encoded(7, 22);
  if (typeof value === "boolean") return encoded(7, value ? 21 : 20);
  if (typeof value === "number" || typeof value === "bigint") {
    return value < 0 ? encoded(1, -1n - BigInt(value)) : encoded(0, value);
  }
  if (typeof value === "string") return encoded(3, utf8(value).length, utf8(value));
  if (value instanceof Uint8Array) return encoded(2, value.length, value);
  if (value instanceof Map) {
    const pairs = [...(value as ReadonlyMap<string, CborValue>)].map(
      ([name, member]) => [hex(cborBytes(name)), cborBytes(member)] as const,
    );
    pairs.sort(([a], [b]) => (a < b ? -1 : 1));
    return encoded(5, pairs.length, ...pairs.flatMap(([name, member]) => [unhex(name), member]));
  }
  const members = value as readonly CborValue[];
  return encoded(4, members.length, ...members.map(cborBytes));
}

const defect = (got: string): never => refuse("malformed", "cbor-invalid", "canonical CBOR", got);

/** Major types; there is no tag (6), and of 7 only the three simple values. */
const MAJOR = { negative: 1, bytes: 2, text: 3, array: 4, map: 5, simple: 7 } as const;
const SIMPLE: Readonly<Record<number, false | true | null>> = { 20: false, 21: true, 22: null };

/** Read one value; an encoding that is not canonical is found by writing the value again. */
function valueOf(reader: Reader, depth = 0): CborValue {
  if (depth > MAX_DEPTH) defect("depth");
  const initial = reader.unsigned(1, "head");
  const major = initial >> 5;
  const info = initial & 31;
  if (major === MAJOR.simple) return simpleValue(info);
  if (major > MAJOR.map || info > 27) defect(`head ${initial}`);
  const argument = info < 24 ? BigInt(info) : reader.unsigned64("head", "big", 1 << (info - 24));
  if (major < MAJOR.bytes) return exact(major === MAJOR.negative ? -1n - argument : argument);
  const size = Number(argument);
  if (size > reader.remaining) defect("truncated");
  return contentOf(reader, major, size, depth + 1);
}

function simpleValue(info: number): CborValue {
  const value = SIMPLE[info];
  return value === undefined ? defect(`simple value ${info}`) : value;
}

/** Read bytes, text, or the members of an array or a map. */
function contentOf(reader: Reader, major: number, size: number, depth: number): CborValue {
  if (major === MAJOR.bytes) return reader.take(size, "bytes");
  if (major === MAJOR.text) return utf8Text(reader.take(size, "text")) ?? defect("UTF-8");
  const value = (): CborValue => valueOf(reader, depth);
  if (major === MAJOR.array) return Array.from({ length: size }, value);
  const pairs = Array.from({ length: size }, (): [string, CborValue] => {
    const name = value();
    return [typeof name === "string" ? name : defect("key"), value()];
  });
  return new Map(pairs);
}

/** A number where it can hold the integer. */
const exact = (value: bigint): number | bigint => (Number.isSafeInteger(Number(value)) ? Number(value) : value);

/** True for more values than this, keys included; the first malformed head ends the count. */
function hasMoreValues(data: Bytes, most: number): boolean {
  let count = 0;
  for (let at = 0; at < data.length && count <= most; count += 1) {
    const head = data[at]!;
    const major = head >> 5;
    const info = head & 31;
    const size = info < 24 ? 0 : 1 << (info - 24);
    if (size > 8) return false;
    const argument = size > 0 ? Number(`0x${hex(data.subarray(at + 1, at + 1 + size))}`) : info;
    at += 1 + size + (major === MAJOR.bytes || major === MAJOR.text ? argument : 0);
  }
  return count > most;
}

/** Decode canonical CBOR and refuse every other encoding of the same value, and more than `most`: `cbor-invalid`. */
export function cborValue(data: Bytes, what: string, most = Infinity): CborValue {
  try {
    if (most < Infinity && hasMoreValues(data, most)) defect(`more than ${most} values`);
    const reader = new Reader(data, what);
    const value = valueOf(reader);
    // Encoding again is what refuses other key orders, longer heads, repeated keys, and bytes behind the end.
    if (equal(cborBytes(value), data)) return value;
    return defect("another encoding");
  } catch (error) {
    if (!(error instanceof AttestError)) throw error;
    return refuse("malformed", "cbor-invalid", "canonical CBOR", error.facts.got, { field: what });
  }
}

export const isMap = (value: CborValue | undefined): value is ReadonlyMap<string, CborValue> => value instanceof Map;
