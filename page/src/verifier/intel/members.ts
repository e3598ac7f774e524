/** Typed members of a JSON object, each refused by its path (`tcbInfo.tcbLevels[3].tcb.pcesvn`). */

import { type Bytes, hexBytes } from "../bytes";
import type { AttestError } from "../errors";
import { isInteger, isObject, type JsonObject, type JsonValue, jsonValue } from "../json";
import { parseMoment } from "../time";
import { refusal } from "./refusal";

/** The largest seen has 7 KiB; one with as many levels as are read has 150. */
export const MAX_DOCUMENT_BYTES = 256 * 1024;
/** Advisories of one level; the longest list seen has 21. */
const MAX_TEXTS = 256;
const WORD = /^[!-~]{1,64}$/;

export const malformed = (field: string, expected: string, got: string) =>
  refusal("malformed", "collateral-malformed", field, expected, got);

/** One object of a document; what nobody asks for is ignored. */
export class Members {
  constructor(
    readonly path: string,
    private readonly members: JsonObject,
  ) {}

  has(name: string): boolean {
    return name in this.members;
  }

  /** An integer between 0 and `maximum`. */
  integer(name: string, maximum: number): number {
    const value = this.members[name];
    if (!isInteger(value) || value < 0 || value > maximum) throw this.refuse(name, `integer, 0 to ${maximum}`);
    return value;
  }

  text(name: string): string {
    const value = this.members[name];
    if (typeof value !== "string") throw this.refuse(name, "string");
    return value;
  }

  /** 1 to 64 printable ASCII characters without blanks. */
  word(name: string): string {
    const text = this.text(name);
    if (!WORD.test(text)) throw this.refuse(name, "1 to 64 printable characters");
    return text;
  }

  /** An array of such strings; an absent one is empty. */
  words(name: string): readonly string[] {
    if (!this.has(name)) return [];
    const values = this.array(name, MAX_TEXTS);
    if (!values.every((value) => typeof value === "string" && WORD.test(value))) {
      throw this.refuse(name, "strings of 1 to 64 printable characters");
    }
    return values as readonly string[];
  }

  /** The bytes behind hex digits of either case. */
  hex(name: string, length: number): Bytes {
    return hexBytes(this.text(name), this.field(name), length);
  }

  /** An RFC 3339 time. */
  moment(name: string): number {
    return parseMoment(this.text(name), this.field(name));
  }

  /** One of a closed set of words; another word is refused, never guessed. */
  choice<Choice extends string>(name: string, choices: readonly Choice[]): Choice {
    const text = this.text(name);
    const found = choices.find((choice) => choice === text);
    if (found === undefined) throw this.refuse(name, `one of ${choices.join(", ")}`);
    return found;
  }

  /** Require the one version or type that is read here. */
  requireConstant(name: string, expected: number): void {
    const found = this.integer(name, 0xffff_ffff);
    if (found !== expected) {
      throw refusal("unsupported", "collateral-unsupported", this.field(name), `${expected}`, `${found}`);
    }
  }

  object(name: string): Members {
    return asMembers(this.members[name], this.field(name));
  }

  /** The objects of an array of `atLeast` to `limit`. */
  objects(name: string, limit: number, atLeast = 1): readonly Members[] {
    const values = this.array(name, limit);
    if (values.length < atLeast) throw this.refuse(name, `at least ${atLeast}`);
    return values.map((value, i) => asMembers(value, `${this.field(name)}[${i}]`));
  }

  /** One member of each of exactly 16 objects of an array: security version numbers of one byte. */
  componentSvns(name: string): readonly number[] {
    return this.objects(name, 16, 16).map((value) => value.integer("svn", 0xff));
  }

  /** Describe what is wrong with a member; for the caller to throw. */
  refuse(name: string, expected: string): AttestError {
    const value = this.members[name];
    const isShown = typeof value === "string" || isInteger(value);
    return malformed(this.field(name), expected, isShown ? `${value}`.slice(0, 40) : "something else");
  }

  private array(name: string, limit: number): readonly JsonValue[] {
    const value = this.members[name];
    if (!Array.isArray(value) || value.length > limit) throw this.refuse(name, `array of at most ${limit}`);
    return value;
  }

  private field(name: string): string {
    return `${this.path}.${name}`;
  }
}

function asMembers(value: JsonValue | undefined, path: string): Members {
  if (!isObject(value)) throw malformed(path, "object", "something else");
  return new Members(path, value);
}

/** Read a document that is one JSON object. */
export function readMembers(raw: Bytes, path: string): Members {
  if (raw.length > MAX_DOCUMENT_BYTES) throw malformed(path, `at most ${MAX_DOCUMENT_BYTES} bytes`, `${raw.length} bytes`);
  return asMembers(jsonValue(raw, path), path);
}
