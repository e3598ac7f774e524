/**
 * Binary HTTP (RFC 9292): requests of indeterminate length are written, responses of both kinds are read as they
 * arrive.
 *
 *     v(n)     QUIC variable-length integer             lp(x)    v(length) ‖ x
 *     2        lp(method) lp(scheme) lp(authority) lp(path) fields { v(n) n bytes }* 00 fields
 *     1, 3     { v(1xx) fields }* v(status) fields content fields padding
 *     fields   1: lp( { lp(name) lp(value) }* )          3: { lp(name) lp(value) }* 00
 */

import { type Bytes, NO_BYTES, concat, isZero, latin1, utf8 } from "../verifier/bytes";
import { need, refuse } from "../verifier/errors";
import { type Cursor, cursorOf, varint } from "./cursor";

export type Fields = readonly (readonly [name: string, value: string])[];

const LIMITS = {
  fields: 100,
  name: 256,
  value: 8192,
  section: 32 * 1024,
  interim: 8,
  content: 2 ** 29,
  padding: 64 * 1024,
};
const TOKEN = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const OWN = [":method", ":scheme", ":authority", ":path", ":status"];
// oxlint-disable-next-line no-control-regex
const FORBIDDEN_IN_VALUE = /[\0\r\n]|^[ \t]|[ \t]$/;

// -- writing

const prefixed = (data: Uint8Array): Bytes => concat(varint(data.length), data);

/** Encode a piece of content; an empty one would be its end, and is nothing. */
export const writtenContent = (data: Uint8Array): Bytes => (data.length ? prefixed(data) : NO_BYTES);

/** Encode everything of a request before its content. */
export function requestHead(method: string, authority: string, path: string, fields: Fields): Bytes {
  fields.forEach(([name, value]) => requireField(name, value, true));
  const texts = [method, "https", authority, path, ...fields.flat()];
  return concat(varint(2), ...texts.map((text) => prefixed(utf8(text))), varint(0));
}

/** End of content and trailers. */
export const REQUEST_END: Bytes = Uint8Array.of(0, 0);

// -- reading

export interface ResponseHead {
  readonly status: number;
  readonly fields: Fields;
}

const truncated = (field?: string): never => refuse("verification", "bhttp-truncated", "", "", { field });

/** Require what there is of something to be within its limit. */
function limited(found: number, what: keyof typeof LIMITS, limit = LIMITS[what]): void {
  need(found <= limit, "malformed", "bhttp-too-long", limit, found, { field: what });
}

/** Names are tokens in lower case, control data is never said again, a value cannot hold the end of a line. */
function requireField(name: string, value: string, ordinary: boolean): boolean {
  const pseudo = name.startsWith(":");
  const good = TOKEN.test(name) && !OWN.includes(name) && !(pseudo && ordinary) && !FORBIDDEN_IN_VALUE.test(value);
  need(good, "malformed", "bhttp-field-invalid", "", "", { field: name.slice(0, 80) });
  return ordinary || !pseudo;
}

/**
 * Read one response, the head first, then content. What is given out early is authentic, and not known to be valid to
 * its end.
 */
export async function* responseOf(pieces: AsyncIterator<Bytes>): AsyncGenerator<ResponseHead | Bytes, void, void> {
  const message = cursorOf(pieces, truncated);
  // (1) Which framing.
  const framing = await message.integer("framing");
  const open = framing === 3;
  need(open || framing === 1, "malformed", "bhttp-malformed", "1 or 3", framing, { field: "framing" });
  // (2) Status and fields, behind any interim responses.
  yield headOf(message, open);
  // (3) Content, trailers and padding; each may be absent from its beginning to the end of the message.
  if (!(await message.isOver())) {
    for (let left = await message.integer("content"); left;) {
      const piece = await message.some(left, "content");
      left -= piece.length;
      limited(message.taken(), "content");
      yield piece;
      if (!left && open) left = await message.integer("content");
    }
  }
  await sectionOf(message, open, true);
  for (let found = 0; !(await message.isOver());) {
    const padding = await message.some(LIMITS.padding);
    limited((found += padding.length), "padding");
    need(isZero(padding), "malformed", "bhttp-padding-invalid");
  }
}

async function headOf(message: Cursor, open: boolean): Promise<ResponseHead> {
  for (let interim = 0; ; interim++) {
    const status = await message.integer("status");
    need(status > 99 && status < 600, "malformed", "bhttp-field-invalid", "200 to 599", status, { field: "status" });
    const informs = status < 200;
    limited(informs ? interim + 1 : interim, "interim");
    if (informs && (await message.isOver())) truncated("status");
    const fields = await sectionOf(message, open, false);
    if (!informs) return { status, fields };
  }
}

async function sectionOf(message: Cursor, open: boolean, trailers: boolean): Promise<Fields> {
  const fields: [string, string][] = [];
  if (await message.isOver()) return fields;
  let room = LIMITS.section;
  let ordinary = trailers;
  const size = open ? Infinity : await message.integer("section");
  if (!open) limited(size, "section");
  const end = message.taken() + size;
  const text = async (length: number, what: "name" | "value"): Promise<string> => {
    limited(length, what, Math.min(LIMITS[what], room));
    room -= length;
    return latin1(await message.take(length, what));
  };
  while (message.taken() < end) {
    const length = await message.integer("name");
    if (!length && open) break;
    need(length, "malformed", "bhttp-malformed", "", "", { field: "name" });
    limited(fields.length + 1, "fields");
    const name = await text(length, "name");
    const value = await text(await message.integer("value"), "value");
    if (message.taken() > end) truncated("section");
    ordinary = requireField(name, value, ordinary);
    fields.push([name, value]);
  }
  return fields;
}
