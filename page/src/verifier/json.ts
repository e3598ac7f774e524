/** Strict JSON: UTF-8, no byte-order mark, no duplicate members, bounded depth; integers stay exact. */

import { type Bytes, utf8Text } from "./bytes";
import { fail } from "./errors";

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

const BLANK = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const STRING = /"((?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"/y;
const WORDS: readonly (readonly [string, JsonValue])[] = [["true", true], ["false", false], ["null", null]];

class Defect extends Error {}

class Parser {
  private at = 0;

  constructor(private readonly text: string) {}

  document(): JsonValue {
    const value = this.value(0);
    if (this.peek() !== undefined) throw new Defect("text behind its end");
    return value;
  }

  private match(expression: RegExp): RegExpExecArray | undefined {
    expression.lastIndex = this.at;
    const found = expression.exec(this.text);
    if (found) this.at = expression.lastIndex;
    return found ?? undefined;
  }

  /** The next character that is no blank. */
  private peek(): string | undefined {
    this.match(BLANK);
    return this.text[this.at];
  }

  private takes(character: string): boolean {
    const found = this.peek() === character;
    if (found) this.at += 1;
    return found;
  }

  private require(character: string): void {
    if (!this.takes(character)) throw new Defect(`expected ${character} at character ${this.at}`);
  }

  private value(depth: number): JsonValue {
    const next = this.peek();
    if ((next === "{" || next === "[") && depth === MAX_DEPTH) throw new Defect(`nested deeper than ${MAX_DEPTH}`);
    if (next === "{") return this.object(depth + 1);
    if (next === "[") return this.array(depth + 1);
    if (next === '"') return this.string();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  private object(depth: number): JsonObject {
    const members = Object.create(null) as JsonObject;
    this.require("{");
    if (this.takes("}")) return members;
    do {
      this.peek();
      const name = this.string();
      if (name in members) throw new Defect(`member ${JSON.stringify(name.slice(0, 80))} stands twice in one object`);
      this.require(":");
      members[name] = this.value(depth);
    } while (this.takes(","));
    this.require("}");
    return members;
  }

  private array(depth: number): JsonValue[] {
    const members: JsonValue[] = [];
    this.require("[");
    if (this.takes("]")) return members;
    do members.push(this.value(depth));
    while (this.takes(","));
    this.require("]");
    return members;
  }

  private string(): string {
    const text = this.longString();
    // Half of a surrogate pair can be written as an escape, and no encoder could write it again.
    if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text)) throw new Defect("half a character");
    return text;
  }

  /** Long texts have no escapes, and an expression would recurse over them. */
  private longString(): string {
    const { text, at } = this;
    const end = text[at] === '"' ? text.indexOf('"', at + 1) : -1;
    const plain = text.slice(at + 1, Math.max(end, 0));
    if (end > 0 && !/[\\\u0000-\u001f]/.test(plain)) {
      this.at = end + 1;
      return plain;
    }
    const found = this.match(STRING);
    if (!found) throw new Defect(`expected text at character ${at}`);
    return JSON.parse(found[0]) as string;
  }

  private number(): JsonValue {
    const found = this.match(NUMBER);
    if (!found) throw new Defect(`expected a value at character ${this.at}`);
    const [text, fraction, exponent] = found;
    const value = Number(text);
    if (fraction !== undefined || exponent !== undefined) {
      if (!Number.isFinite(value)) throw new Defect("a number is too large");
      return new JsonFloat(value);
    }
    if (text.length > 4300) throw new Defect("a number is too large");
    return Number.isSafeInteger(value) ? value || 0 : BigInt(text);
  }
}

/** Read one JSON document: `json-invalid`. */
export function jsonValue(data: Bytes, what: string): JsonValue {
  try {
    const text = utf8Text(data);
    if (text === undefined) throw new Defect("not UTF-8");
    return new Parser(text).document();
  } catch (error) {
    if (!(error instanceof Defect || error instanceof RangeError)) throw error;
    return fail("malformed", "json-invalid", `${what} is not one strict JSON document: ${error.message}`, { field: what });
  }
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof JsonFloat);
}

/** An exact integer of the document, in the range of `number`; undefined for anything else. */
export function isInteger(value: JsonValue | undefined): value is number {
  return typeof value === "number";
}
