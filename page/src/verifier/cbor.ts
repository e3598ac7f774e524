/** Core deterministic CBOR (RFC 8949, section 4.2.1): no floats, no tags, text keys; one value has one encoding. */

import { Reader, type Bytes, compareBytes, concat, equal, utf8, utf8Text } from "./bytes";
import { AttestError, fail } from "./errors";

export type CborValue = null | boolean | number | bigint | string | Bytes | readonly CborValue[] | ReadonlyMap<string, CborValue>;

const MAX_DEPTH = 32;

function head(major: number, value: bigint): Bytes {
  if (value < 24n) return Uint8Array.of((major << 5) | Number(value));
  const power = value < 0x100n ? 0 : value < 0x10000n ? 1 : value < 0x100000000n ? 2 : 3;
  const bytes = new Uint8Array(1 + (1 << power));
  bytes[0] = (major << 5) | (24 + power);
  let rest = value;
  for (let i = bytes.length - 1; i > 0; i--) {
    bytes[i] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return bytes;
}

export function cborBytes(value: CborValue): Bytes {
  if (value === null) return Uint8Array.of(0xf6);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xf5 : 0xf4);
  if (typeof value === "number" || typeof value === "bigint") {
    const number = BigInt(value);
    return number < 0n ? head(1, -1n - number) : head(0, number);
  }
  if (typeof value === "string") {
    const text = utf8(value);
    return concat(head(3, BigInt(text.length)), text);
  }
  if (value instanceof Uint8Array) return concat(head(2, BigInt(value.length)), value);
  if (value instanceof Map) {
    const pairs = [...(value as ReadonlyMap<string, CborValue>)].map(([name, member]) => [cborBytes(name), cborBytes(member)] as const);
    pairs.sort(([a], [b]) => compareBytes(a, b));
    return concat(head(5, BigInt(pairs.length)), ...pairs.flat());
  }
  const members = value as readonly CborValue[];
  return concat(head(4, BigInt(members.length)), ...members.map(cborBytes));
}

class Decoder {
  constructor(private readonly reader: Reader) {}

  value(depth: number): CborValue {
    const initial = this.reader.unsigned(1, "head");
    const [major, info] = [initial >> 5, initial & 31];
    if (major === 7) return this.simple(info);
    const argument = this.argument(info);
    if (major < 2) return this.integer(major ? -1n - argument : argument);
    if (major === 6 || argument > BigInt(this.reader.remaining)) fail("malformed", "cbor-invalid", "tag, or longer than the bytes");
    const size = Number(argument);
    if (major === 2) return this.reader.take(size, "bytes");
    if (major === 3) return utf8Text(this.reader.take(size, "text")) ?? fail("malformed", "cbor-invalid", "text is not UTF-8");
    if (depth === MAX_DEPTH) fail("malformed", "cbor-invalid", `nested deeper than ${MAX_DEPTH}`);
    return major === 4 ? Array.from({ length: size }, () => this.value(depth + 1)) : this.map(size, depth + 1);
  }

  private simple(info: number): CborValue {
    if (info < 20 || info > 22) fail("malformed", "cbor-invalid", "a simple value of no known kind");
    return info === 22 ? null : info === 21;
  }

  private argument(info: number): bigint {
    if (info < 24) return BigInt(info);
    if (info > 27) fail("malformed", "cbor-invalid", "an indefinite length");
    return info === 27 ? this.reader.unsigned64("head", "big") : BigInt(this.reader.unsigned(1 << (info - 24), "head", "big"));
  }

  private integer(value: bigint): CborValue {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }

  private map(size: number, depth: number): CborValue {
    const members = new Map<string, CborValue>();
    for (let i = 0; i < size; i++) {
      const name = this.value(depth);
      if (typeof name !== "string") fail("malformed", "cbor-invalid", "a key that is not text");
      members.set(name, this.value(depth));
    }
    return members;
  }
}

/** Decode canonical CBOR and refuse every other encoding of the same value: `cbor-invalid`. */
export function cborValue(data: Bytes, what: string): CborValue {
  try {
    const reader = new Reader(data, what);
    const value = new Decoder(reader).value(0);
    reader.finish();
    // Encoding again is what refuses other key orders, longer heads and repeated keys.
    if (!equal(cborBytes(value), data)) fail("malformed", "cbor-invalid", "it encodes differently");
    return value;
  } catch (error) {
    if (!(error instanceof AttestError)) throw error;
    return fail("malformed", "cbor-invalid", `${what} is not canonical CBOR: ${error.message}`, { field: what });
  }
}

export function isMap(value: CborValue | undefined): value is ReadonlyMap<string, CborValue> {
  return value instanceof Map;
}

