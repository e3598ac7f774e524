/** Strict JSON: UTF-8, no byte-order mark, no duplicate members, bounded depth; integers stay exact. */

import { type Bytes, utf8Text } from "./bytes";
import { refuse } from "./errors";

const MAX_DEPTH = 64;

/** A number that was written with a fraction or an exponent: never an integer, whatever its value. */
export class JsonFloat {
  constructor(readonly value: number) {}

  toJSON(): number {
    return this.value;
  }
}

export type JsonValue = null | boolean | number | bigint | JsonFloat | string | JsonValue[] | JsonObject;

/** Members in the order of the document; without a prototype, so that no name means anything else. */
export interface JsonObject {
  [name: string]: JsonValue;
}

function defect(problem: string): never {
  throw new SyntaxError(problem);
}

function textOf(token: string): string {
  const text = JSON.parse(token) as string;
  // Half of a surrogate pair can be written as an escape, and no encoder could write it again.
  return /\p{Cs}/u.test(text) ? defect("UTF-8") : text;
}

function numberOf(token: string): JsonValue {
  const value = Number(token);
  const isInteger = /^-?\d+$/.test(token);
  if (isInteger ? token.replace("-", "").length > 4300 : !Number.isFinite(value)) defect("number too large");
  if (!isInteger) return new JsonFloat(value);
  return Number.isSafeInteger(value) ? value || 0 : BigInt(token);
}

/** Read the parts of a document whose grammar is known to be right. */
function valueOf(tokens: IterableIterator<string>, token: string, depth: number): JsonValue {
  const next = (): string => tokens.next().value as string;
  if (depth === MAX_DEPTH && /[[{]/.test(token[0]!)) defect("depth");
  if (token === "[") {
    const members: JsonValue[] = [];
    for (let member = next(); member !== "]"; member = next()) members.push(valueOf(tokens, member, depth + 1));
    return members;
  }
  if (token === "{") {
    const members = Object.create(null) as JsonObject;
    for (let member = next(); member !== "}"; member = next()) {
      const name = textOf(member);
      if (name in members) defect(`member ${name.slice(0, 80)} occurs twice`);
      members[name] = valueOf(tokens, next(), depth + 1);
    }
    return members;
  }
  if (token.startsWith('"')) return textOf(token);
  return /\d/.test(token) ? numberOf(token) : (JSON.parse(token) as null | boolean);
}

/** Read one JSON document: `json-invalid`. */
export function jsonValue(data: Bytes, what: string): JsonValue {
  try {
    const text = utf8Text(data) ?? defect("UTF-8");
    // The platform's reader knows the grammar, but neither repetition nor depth nor exact integers.
    JSON.parse(text);
    const tokens = text.match(/[{}[\]]|"[^"\\]*(?:\\.[^"\\]*)*"|[\w.+-]+/g)!.values();
    return valueOf(tokens, tokens.next().value!, 0);
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
    return refuse("malformed", "json-invalid", "one strict JSON document", error.message, { field: what });
  }
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof JsonFloat);
}

/** An exact integer of the document, in the range of `number`; undefined for anything else. */
export const isInteger = (value: JsonValue | undefined): value is number => typeof value === "number";
