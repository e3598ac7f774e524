/** Strict DER (X.690): one encoding for one value. Whoever reads a document gives its defects the document's code. */

import { type Bytes, concat, hex, latin1 } from "./bytes";
import { refuse } from "./errors";
import { momentOf } from "./time";

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

/** Refuse the bytes; the word says which part of them, or which rule they break. */
export function defect(what: string): never {
  throw new DerError(what);
}

/** Return the result of `read`, or `otherwise` if the bytes are malformed. Other exceptions propagate. */
export function unlessDefect<T, U>(read: () => T, otherwise: (problem: string) => U): T | U {
  try {
    return read();
  } catch (error) {
    if (error instanceof DerError) return otherwise(error.message);
    throw error;
  }
}

/** Read a document; what is wrong with its bytes becomes `<what>-malformed`. */
export function reading<T>(what: string, read: () => T): T {
  return unlessDefect(read, (got) => refuse("malformed", `${what}-malformed`, "DER", got, { field: what }));
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

  next(wanted?: number): Tlv {
    const { data, at, tag } = this;
    // A tag of several bytes is nothing that is read here.
    if (tag !== (wanted ?? tag) || tag < 0 || (tag & 31) === 31) defect(`tag ${tag}`);
    let begin = at + 2;
    let size = data[at + 1]!;
    if (size > 127) {
      const digits = data.slice(begin, (begin += size - 128));
      size = digits.reduce((value, byte) => value * 256 + byte, 0);
      // One to four bytes, of which none could be spared.
      if (digits.length > 4 || !digits[0] || size < 128) defect("length");
    }
    // A length that is missing is no number, and in no relation to any.
    if (!(size <= data.length - begin)) defect("length");
    this.at = begin + size;
    return { tag, body: data.slice(begin, this.at), whole: data.slice(at, this.at) };
  }

  /** The next element if it has this tag. */
  maybe(tag: number): Tlv | undefined {
    return this.tag === tag ? this.next() : undefined;
  }

  sequence(): DerReader {
    return new DerReader(this.next(TAG.sequence).body);
  }

  end(): void {
    if (!this.done) defect("trailing bytes");
  }
}

/** The only element of these bytes. */
export function onlyElement(data: Bytes, tag?: number): Tlv {
  const reader = new DerReader(data);
  const element = reader.next(tag);
  reader.end();
  return element;
}

/** Inside the only element of these bytes, which is a SEQUENCE. */
export const onlySequence = (data: Bytes): DerReader => new DerReader(onlyElement(data, TAG.sequence).body);

/** Every element of a content, each read the same way. */
export function all<T>(content: Bytes, read: (reader: DerReader) => T): T[] {
  const reader = new DerReader(content);
  const found: T[] = [];
  while (!reader.done) found.push(read(reader));
  return found;
}

/** Hex of an element of less than 64 KiB, of a tag and a content in hex. */
export function tlv(tag: string, ...content: readonly string[]): string {
  const body = content.join("");
  const size = (body.length / 2).toString(16);
  const digits = size.padStart(size.length + (size.length & 1), "0");
  return tag + (body.length < 256 ? "" : `8${digits.length / 2}`) + digits + body;
}

export function integer({ body }: Tlv): bigint {
  const [first, second = 0] = body;
  // Nine equal bits at the front could be spared.
  const isLong = body.length > 1 && (first === 0 ? second < 128 : first === 255 && second > 127);
  if (isLong || !body.length) defect("INTEGER");
  return BigInt.asIntN(body.length * 8, BigInt(`0x${hex(body)}`));
}

/** Digits of an INTEGER above zero, in `size` bytes where that is given. */
export function positive(element: Tlv, size?: number): Bytes {
  const value = integer(element);
  const digits = element.body[0] ? element.body : element.body.slice(1);
  if (value <= 0n || digits.length > (size ?? digits.length)) defect("INTEGER");
  return concat(new Uint8Array((size ?? 0) && size! - digits.length), digits);
}

export function boolean({ body }: Tlv): boolean {
  const text = hex(body);
  return text === "ff" || (text !== "00" && defect("BOOLEAN"));
}

/** `BOOLEAN DEFAULT FALSE`: DER never writes a default down. */
export function booleanOrFalse(reader: DerReader): boolean {
  const element = reader.maybe(TAG.boolean);
  return element !== undefined && (boolean(element) || defect("BOOLEAN"));
}

/** Dotted text of an OBJECT IDENTIFIER. */
export function oid({ body }: Tlv): string {
  // First of all: shifting the arcs of a long one would take the square of its length.
  if (!body.length || body.length > 64 || body.at(-1)! > 127) defect("OBJECT IDENTIFIER");
  const arcs: bigint[] = [];
  let value = 0n;
  for (const byte of body) {
    if (!value && byte === 128) defect("OBJECT IDENTIFIER");
    value = (value << 7n) | BigInt(byte & 127);
    if (byte > 127) continue;
    arcs.push(value);
    value = 0n;
  }
  const first = arcs.shift()!;
  const root = first < 80n ? first / 40n : 2n;
  return [root, first - root * 40n, ...arcs].join(".");
}

/** A BIT STRING: its bytes, and how many bits of the last one do not count. */
export function bits({ body }: Tlv): { bytes: Bytes; unused: number } {
  const bytes = body.slice(1);
  const unused = body[0]!;
  // None of the bits that do not count is set, and there is a byte that they are bits of.
  if (!(unused < 8) || (unused && !bytes.length) || bytes.at(-1)! & ((1 << unused) - 1)) defect("BIT STRING");
  return { bytes, unused };
}

/** A BIT STRING of whole bytes. */
export function wholeBits(element: Tlv): Bytes {
  const { bytes, unused } = bits(element);
  return unused ? defect("BIT STRING") : bytes;
}

/** UTCTime or GeneralizedTime, in whole seconds of UTC; milliseconds since 1970. */
export function time({ tag, body }: Tlv): number {
  const text = latin1(body);
  const full = tag === TAG.utcTime ? `${text < "50" ? "20" : "19"}${text}` : text;
  if (tag !== TAG.utcTime && tag !== TAG.generalizedTime) defect("time");
  const written = full.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6");
  // Other text stays as it is, and could be written like that from the start.
  return (full.length === 15 ? momentOf(written) : undefined) ?? defect("time");
}

/** Require the elements of a SET OF to stand in the order that DER gives them. */
export function requireSetOrder(elements: readonly Tlv[]): void {
  const found = elements.length > 1 ? elements.map(({ whole }) => hex(whole)) : [];
  if (found.join() !== [...found].sort().join()) defect("SET OF");
}

/** An ECDSA signature as r and s of `size` bytes each, as WebCrypto wants it; undefined when it is none. */
export function ecdsaRaw(signature: Bytes, size: number): Bytes | undefined {
  return unlessDefect(
    () => {
      const reader = onlySequence(signature);
      const numbers = concat(positive(reader.next(TAG.integer), size), positive(reader.next(TAG.integer), size));
      reader.end();
      return numbers;
    },
    () => undefined,
  );
}
