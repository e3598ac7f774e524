/**
 * Binary HTTP (RFC 9292): requests of indeterminate length are written, responses of both kinds are read as they arrive.
 *
 *     v(n)     QUIC variable-length integer             lp(x)    v(length) ‖ x
 *     2        lp(method) lp(scheme) lp(authority) lp(path) fields { v(n) n bytes }* 00 fields
 *     1, 3     { v(1xx) fields }* v(status) fields content fields padding
 *     fields   1: lp( { lp(name) lp(value) }* )          3: { lp(name) lp(value) }* 00
 */

import { type Bytes, concat, isZero, latin1, utf8 } from "../verifier/bytes";
import { type AttestError, fail, refusal } from "../verifier/errors";

export type Fields = readonly (readonly [name: string, value: string])[];

const CLAUSE = "RFC 9292, section 3";
const LIMITS = { fields: 100, name: 256, value: 8192, section: 32 * 1024, interim: 8, content: 2 ** 29, padding: 64 * 1024 };
const TOKEN = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const OWN = [":method", ":scheme", ":authority", ":path", ":status"];
// oxlint-disable-next-line no-control-regex
const FORBIDDEN_IN_VALUE = /[\0\r\n]|^[ \t]|[ \t]$/;

// -- writing

/** Encode an integer below 2^30 in as few bytes as it takes. */
export function varint(number: number): Bytes {
  if (number < 0x40) return Uint8Array.of(number);
  if (number < 0x4000) return Uint8Array.of(0x40 | (number >> 8), number & 0xff);
  return Uint8Array.of(0x80 | (number >>> 24), (number >> 16) & 0xff, (number >> 8) & 0xff, number & 0xff);
}

/** Encode a piece of content; an empty one would be its end, and is nothing. */
export function writtenContent(data: Uint8Array): Bytes {
  return data.length ? concat(varint(data.length), data) : new Uint8Array(0);
}

const prefixed = (data: Uint8Array): Bytes => concat(varint(data.length), data);

/** Encode everything of a request before its content. */
export function requestHead(method: string, authority: string, path: string, fields: Fields): Bytes {
  fields.forEach(([name, value]) => requireField(name, value, true));
  const texts = [method, "https", authority, path, ...fields.flat()];
  return concat(Uint8Array.of(2), ...texts.map((text) => prefixed(utf8(text))), Uint8Array.of(0));
}

/** What ends content and trailers. */
export const REQUEST_END: Bytes = Uint8Array.of(0, 0);

// -- reading

export interface ResponseHead {
  readonly status: number;
  readonly fields: Fields;
}

const truncated = (field: string): never => fail("verification", "bhttp-truncated", "", { field, clause: CLAUSE });

const tooLong = (field: string, limit: number): AttestError => refusal("malformed", "bhttp-too-long", `at most ${limit}`, "more", { field });

/** Names are tokens in lower case, control data is never said again, a value cannot hold the end of a line. */
function requireField(name: string, value: string, ordinary: boolean): boolean {
  const pseudo = name.startsWith(":");
  const good = TOKEN.test(name) && !OWN.includes(name) && !(pseudo && ordinary) && !FORBIDDEN_IN_VALUE.test(value);
  if (!good) fail("malformed", "bhttp-field-invalid", "", { field: name.slice(0, 80), clause: CLAUSE });
  return ordinary || !pseudo;
}

type Step<T> = Generator<ResponseHead | Bytes | undefined, T, void>;

/** Reads one response. What it gives out early is authentic, and not known to be valid to its end. */
export class ResponseReader {
  private buffer: Bytes = new Uint8Array(0);
  private ended = false;
  private taken = 0;
  private readonly steps = this.message();

  /** Take more bytes, and return what they complete: the head first, then content. */
  feed(data: Bytes): (ResponseHead | Bytes)[] {
    this.buffer = this.buffer.length ? concat(this.buffer, data) : data;
    return this.advance();
  }

  /** Say that no more bytes come; whoever gets an answer has a whole and valid response. */
  finish(): (ResponseHead | Bytes)[] {
    this.ended = true;
    return this.advance();
  }

  private advance(): (ResponseHead | Bytes)[] {
    const events: (ResponseHead | Bytes)[] = [];
    for (;;) {
      const { done, value } = this.steps.next();
      if (done || !value) return events;
      events.push(value);
    }
  }

  private *message(): Step<void> {
    // (1) Which framing.
    const framing = yield* this.integer("framing");
    if (framing !== 1 && framing !== 3) throw refusal("malformed", "bhttp-malformed", "a response", `framing ${framing}`, { clause: CLAUSE });
    const open = framing === 3;
    // (2) Status and fields, behind any interim responses.
    yield yield* this.head(open);
    // (3) Content, trailers and padding; each may be absent from its beginning to the end of the message.
    if (!(yield* this.isOver())) {
      for (let size = yield* this.integer("content"); size; size = open ? yield* this.integer("content") : 0) yield* this.content(size);
    }
    yield* this.section(open, true);
    for (let found = 0; ; ) {
      found += this.buffer.length;
      if (found > LIMITS.padding) throw tooLong("padding", LIMITS.padding);
      if (!isZero(this.buffer)) fail("malformed", "bhttp-padding-invalid", "", { clause: CLAUSE });
      this.buffer = new Uint8Array(0);
      if (this.ended) return;
      yield undefined;
    }
  }

  private *head(open: boolean): Step<ResponseHead> {
    for (let interim = 0; ; interim++) {
      const status = yield* this.integer("status");
      const informs = status >= 100 && status < 200;
      if (!informs && (status < 200 || status > 599)) throw refusal("malformed", "bhttp-field-invalid", "200 to 599", `${status}`, { field: "status", clause: CLAUSE });
      if (interim === LIMITS.interim && informs) throw tooLong("interim responses", LIMITS.interim);
      if (informs && (yield* this.isOver())) truncated("an interim response");
      const fields = yield* this.section(open, false);
      if (!informs) return { status, fields };
    }
  }

  private *section(open: boolean, trailers: boolean): Step<Fields> {
    const fields: [string, string][] = [];
    if (yield* this.isOver()) return fields;
    let [room, ordinary] = [LIMITS.section, trailers];
    let left = open ? Number.POSITIVE_INFINITY : yield* this.integer("section");
    if (!open && left > room) throw tooLong("section", room);
    while (left > 0) {
      const before = this.taken;
      const size = yield* this.integer("name length");
      if (!size && open) break;
      if (!size) fail("malformed", "bhttp-malformed", "", { field: "a name", clause: CLAUSE });
      if (fields.length === LIMITS.fields) throw tooLong("fields", LIMITS.fields);
      const name = yield* this.text(size, Math.min(LIMITS.name, room), "name");
      room -= size;
      const length = yield* this.integer("value length");
      const value = yield* this.text(length, Math.min(LIMITS.value, room), "value");
      room -= length;
      left -= this.taken - before;
      if (left < 0) truncated("a section");
      ordinary = requireField(name, value, ordinary);
      fields.push([name, value]);
    }
    return fields;
  }

  private *content(size: number): Step<void> {
    for (let left = size; left; ) {
      while (!this.buffer.length) {
        if (this.ended) truncated("content");
        yield undefined;
      }
      const piece = this.cut(Math.min(left, this.buffer.length));
      left -= piece.length;
      if (this.taken > LIMITS.content) throw tooLong("content", LIMITS.content);
      yield piece;
    }
  }

  private *text(size: number, limit: number, what: string): Step<string> {
    if (size > limit) throw tooLong(what, limit);
    return latin1(yield* this.take(size, what));
  }

  private *integer(what: string): Step<number> {
    const first = (yield* this.take(1, what))[0] ?? 0;
    const rest = yield* this.take((1 << (first >> 6)) - 1, what);
    return rest.reduce((number, byte) => number * 256 + byte, first & 0x3f);
  }

  private *take(size: number, what: string): Step<Bytes> {
    while (this.buffer.length < size) {
      if (this.ended) truncated(what);
      yield undefined;
    }
    return this.cut(size);
  }

  private *isOver(): Step<boolean> {
    while (!this.buffer.length && !this.ended) yield undefined;
    return !this.buffer.length;
  }

  private cut(size: number): Bytes {
    const data = this.buffer.slice(0, size);
    this.buffer = this.buffer.subarray(size) as Bytes;
    this.taken += size;
    return data;
  }
}
