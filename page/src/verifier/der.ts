/** Strict DER (X.690): one encoding for one value. Whoever reads a document gives its defects the document's code. */

import { type Bytes, compareBytes, concat, hex, latin1 } from "./bytes";
import { fail } from "./errors";

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  enumerated: 0x0a,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** One element: its head and content as received. */
export interface Tlv {
  readonly tag: number;
  readonly body: Bytes;
  readonly whole: Bytes;
}

/** A defect of the bytes. */
export class DerError extends Error {}

export function defect(problem: string): never {
  throw new DerError(problem);
}

/** Read a document; what is wrong with its bytes becomes `<what>-malformed`. */
export function reading<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    return fail("malformed", `${what}-malformed`, `${what} cannot be read: ${error.message}`, { field: what });
  }
}

/** Elements one after the other. */
export class DerReader {
  private at = 0;

  constructor(private readonly data: Bytes) {}

  get done(): boolean {
    return this.at === this.data.length;
  }

  /** Tag of the next element; -1 at the end. */
  get tag(): number {
    return this.data[this.at] ?? -1;
  }

  next(tag?: number): Tlv {
    const { data, at } = this;
    const found = this.tag;
    if (found < 0) defect("the bytes end where an element is expected");
    if (tag !== undefined && found !== tag) defect(`tag ${found}, expected ${tag}`);
    if ((found & 0x1f) === 0x1f) defect("a tag of several bytes");
    let body = at + 2;
    let size = data[at + 1] ?? defect("no length");
    if (size >= 0x80) {
      const count = size - 0x80;
      if (count < 1 || count > 4 || body + count > data.length) defect("a length of no known form");
      size = data.slice(body, body + count).reduce((value, byte) => value * 256 + byte, 0);
      if (size < 0x80 || data[body] === 0) defect("a length that is not in its shortest form");
      body += count;
    }
    if (size > data.length - body) defect("an element ends behind the bytes");
    this.at = body + size;
    return { tag: found, body: data.slice(body, this.at), whole: data.slice(at, this.at) };
  }

  /** The next element if it has this tag. */
  maybe(tag: number): Tlv | undefined {
    return this.tag === tag ? this.next() : undefined;
  }

  sequence(): DerReader {
    return new DerReader(this.next(TAG.sequence).body);
  }

  end(): void {
    if (!this.done) defect("bytes that nothing accounts for");
  }
}

/** The only element of these bytes. */
export function onlyElement(data: Bytes, tag?: number): Tlv {
  const reader = new DerReader(data);
  const element = reader.next(tag);
  reader.end();
  return element;
}

/** Every element of a content, each read the same way. */
export function all<T>(content: Bytes, read: (reader: DerReader) => T): T[] {
  const reader = new DerReader(content);
  const found: T[] = [];
  while (!reader.done) found.push(read(reader));
  return found;
}

export function tlv(tag: number, ...content: readonly Uint8Array[]): Bytes {
  const body = concat(...content);
  const size = body.length;
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return concat(Uint8Array.of(tag, ...length), body);
}

export function integer(element: Tlv): bigint {
  const { body } = element;
  const [first, second = 0] = body;
  if (first === undefined) defect("an INTEGER without content");
  const shortest = body.length === 1 || !((first === 0 && second < 0x80) || (first === 0xff && second >= 0x80));
  if (!shortest) defect("an INTEGER that is not in its shortest form");
  return BigInt.asIntN(body.length * 8, BigInt(`0x${hex(body)}`));
}

export function boolean(element: Tlv): boolean {
  const [value] = element.body;
  if (element.body.length !== 1 || (value !== 0 && value !== 0xff)) defect("a BOOLEAN that is neither 00 nor ff");
  return value === 0xff;
}

/** `BOOLEAN DEFAULT FALSE`: DER never writes a default down. */
export function booleanOrFalse(reader: DerReader): boolean {
  const element = reader.maybe(TAG.boolean);
  if (element && !boolean(element)) defect("a default that is written down");
  return element !== undefined;
}

/** Dotted text of an OBJECT IDENTIFIER. */
export function oid(element: Tlv): string {
  // First of all: shifting the arcs of a long one would take the square of its length.
  if (element.body.length > 64) defect("an identifier that does not end");
  const arcs: bigint[] = [];
  let value = 0n;
  let inside = false;
  for (const byte of element.body) {
    if (!inside && byte === 0x80) defect("an identifier that is not in its shortest form");
    value = (value << 7n) | BigInt(byte & 0x7f);
    inside = byte >= 0x80;
    if (inside) continue;
    arcs.push(value);
    value = 0n;
  }
  if (inside || !arcs.length) defect("an identifier that does not end");
  const [first = 0n, ...rest] = arcs;
  const root = first < 80n ? first / 40n : 2n;
  return [root, first - root * 40n, ...rest].join(".");
}

/** A BIT STRING: its bytes, and how many bits of the last one do not count. */
export function bits(element: Tlv): { bytes: Bytes; unused: number } {
  const [unused, ...rest] = element.body;
  const last = rest.at(-1) ?? 0;
  if (unused === undefined || unused > 7 || (unused && !rest.length)) defect("a BIT STRING without its head");
  if (last & ((1 << unused) - 1)) defect("a BIT STRING with bits behind its end");
  return { bytes: element.body.slice(1), unused };
}

/** A BIT STRING of whole bytes. */
export function wholeBits(element: Tlv, what: string): Bytes {
  const { bytes, unused } = bits(element);
  if (unused) defect(`${what} is not whole bytes`);
  return bytes;
}

const TIME = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/;

/** UTCTime or GeneralizedTime, in whole seconds of UTC; milliseconds since 1970. */
export function time(element: Tlv): number {
  const text = latin1(element.body);
  const century = Number(text.slice(0, 2)) < 50 ? "20" : "19";
  const full = element.tag === TAG.utcTime ? century + text : element.tag === TAG.generalizedTime ? text : "";
  const [, ...parts] = TIME.exec(full) ?? defect("a time of no known form");
  const [year, month, day, hour, minute, second] = parts.map(Number) as [number, number, number, number, number, number];
  const moment = new Date(0);
  moment.setUTCFullYear(year, month - 1, day);
  moment.setUTCHours(hour, minute, second);
  // What does not exist (30 February, hour 24) would come out as another moment.
  if (moment.toISOString().replace(/[^\d]/g, "").slice(0, 14) !== full.slice(0, 14)) defect("a time that does not exist");
  return moment.getTime();
}

/** Require the elements of a SET OF to stand in the order that DER gives them. */
export function requireSetOrder(elements: readonly Tlv[]): void {
  elements.forEach((element, i) => {
    const next = elements[i + 1];
    if (next && compareBytes(element.whole, next.whole) > 0) defect("a SET OF that is not in order");
  });
}

/** An ECDSA signature as r and s of `size` bytes each, as WebCrypto wants it; undefined when it is none. */
export function ecdsaRaw(signature: Bytes, size: number): Bytes | undefined {
  try {
    const reader = new DerReader(onlyElement(signature, TAG.sequence).body);
    const numbers = [reader.next(TAG.integer), reader.next(TAG.integer)].map((element) => {
      if (integer(element) <= 0n) defect("a number that is not above zero");
      return element.body[0] === 0 ? element.body.slice(1) : element.body;
    });
    reader.end();
    if (numbers.some((number) => number.length > size)) return undefined;
    return concat(...numbers.flatMap((number) => [new Uint8Array(size - number.length), number]));
  } catch (error) {
    if (error instanceof DerError) return undefined;
    throw error;
  }
}

