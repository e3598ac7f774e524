/**
 * Tagged CBOR of foreign encoders: any order of keys, long heads, indefinite lengths. Duplicate keys, floats, unknown
 * simple values, text that is not UTF-8 and bytes left over are refused: `cbor-invalid`.
 */

import { type Bytes, concat, hex, utf8Text } from "./bytes";
import { AttestError, refuse } from "./errors";
import { Reader } from "./reader";

/** A value under a tag that is not interpreted. */
export class Tagged {
  constructor(
    readonly tag: bigint,
    readonly value: TaggedValue,
  ) {}
}

/** Integers are bigints. */
export type TaggedValue =
  null | boolean | bigint | string | Bytes | readonly TaggedValue[] | ReadonlyMap<string, TaggedValue> | Tagged;

const MAX_DEPTH = 24;
const MAX_ITEMS = 200_000;
const SIMPLE: Readonly<Record<number, false | true | null>> = { 20: false, 21: true, 22: null };
const BREAK = 0xff;

const defect = (got: string): never => refuse("malformed", "cbor-invalid", "CBOR", got);

/** A key as text: what kind it is, and its value. */
export const keyOf = (key: bigint | string | Bytes): string =>
  key instanceof Uint8Array ? `bytes ${hex(key)}` : `${typeof key} ${key}`;

class TaggedReader {
  private count = 0;

  constructor(private readonly reader: Reader) {}

  item(depth: number): TaggedValue {
    if (depth > MAX_DEPTH || ++this.count > MAX_ITEMS) defect("depth");
    const first = this.reader.unsigned(1, "head");
    const major = first >> 5;
    const minor = first & 31;
    if (major === 7) {
      const simple = SIMPLE[minor];
      return simple === undefined ? defect("a float or an unknown simple value") : simple;
    }
    const size = this.argument(minor);
    if (size === undefined) return [0, 1, 6].includes(major) ? defect("no number") : this.content(major, size, depth);
    if (major === 0) return size;
    if (major === 1) return -1n - size;
    return major === 6 ? new Tagged(size, this.item(depth + 1)) : this.content(major, size, depth);
  }

  /** Length after the head of a string, an array or a map; undefined is an indefinite length. */
  private content(major: number, size: bigint | undefined, depth: number): TaggedValue {
    if (major === 2) return this.string(2, size);
    if (major === 3) return utf8Text(this.string(3, size)) ?? defect("UTF-8");
    if (major === 4) {
      const found: TaggedValue[] = [];
      while (!this.ends(size, found.length)) found.push(this.item(depth + 1));
      return found;
    }
    return this.map(size, depth);
  }

  private map(size: bigint | undefined, depth: number): TaggedValue {
    const found = new Map<string, TaggedValue>();
    while (!this.ends(size, found.size)) {
      const key = this.item(depth + 1);
      const isKey = typeof key === "bigint" || typeof key === "string" || key instanceof Uint8Array;
      const name = isKey ? keyOf(key) : defect("key");
      if (found.has(name)) defect("key");
      found.set(name, this.item(depth + 1));
    }
    return found;
  }

  private ends(size: bigint | undefined, read: number): boolean {
    if (size !== undefined) return BigInt(read) === size;
    const { data, offset } = this.reader;
    if (data[offset] !== BREAK) return false;
    this.reader.take(1, "break");
    return true;
  }

  private string(major: number, size: bigint | undefined): Bytes {
    if (size !== undefined) return this.reader.take(Number(size), "string");
    const parts: Bytes[] = [];
    while (!this.ends(undefined, 0)) {
      const first = this.reader.unsigned(1, "head");
      const length = this.argument(first & 31);
      parts.push(
        first >> 5 === major && length !== undefined ? this.reader.take(Number(length), "string") : defect("part"),
      );
    }
    return concat(...parts);
  }

  private argument(minor: number): bigint | undefined {
    if (minor < 24) return BigInt(minor);
    if (minor === 31) return undefined;
    return minor > 27 ? defect("head") : this.reader.unsigned64("head", "big", 1 << (minor - 24));
  }
}

/** Decode one item that takes all bytes. */
export function readTagged(data: Bytes, field: string): TaggedValue {
  try {
    const reader = new Reader(data, field);
    const value = new TaggedReader(reader).item(0);
    reader.finish();
    return value;
  } catch (error) {
    if (!(error instanceof AttestError)) throw error;
    return refuse("malformed", "cbor-invalid", "CBOR", error.facts.got, { field });
  }
}

export const isTaggedMap = (value: TaggedValue | undefined): value is ReadonlyMap<string, TaggedValue> =>
  value instanceof Map;
