/** A typed reading of a policy document: every key is known, every value has one type, every refusal has a path. */

import { told } from "./claims";
import { utf8 } from "../verifier/bytes";
import { isVisible } from "../verifier/encoding";
import { AttestError, fail, refusalOf } from "../verifier/errors";
import { type JsonObject, type JsonValue, isInteger, isObject, jsonValue } from "../verifier/json";
import { parseMoment } from "../verifier/time";

export type Json = JsonValue | undefined;
/**
 * Reads one value, of which nothing may be left; what is absent is undefined, and refused by most. `name` is its key in
 * a table.
 */
export type Reader<T> = (value: Json, path: string, name: string) => T;

const MAX_BYTES = 1 << 20;
/** One character that is no white space, as Python has it. */
const INK = "(?:[^\\s\\x1c-\\x1f\\x85]|\\ufeff)";

/** Refuse one value; nothing is guessed and nothing is skipped. */
export const refuse = (field: string, expected: string, got?: unknown): never =>
  fail("malformed", "policy-invalid", "", { field, expected, got: told(got).slice(0, 80) });

export const join = (path: string, name: string): string => (path ? `${path}.${name}` : name);

/** Read a mapping whose keys are all among these. */
function mapping(value: Json, path: string, known?: readonly string[]): JsonObject {
  if (!isObject(value)) return refuse(path || "document", "a mapping", value);
  const [unknown] = Object.keys(value)
    .filter((name) => known?.includes(name) === false)
    .sort();
  return unknown === undefined ? value : refuse(join(path, unknown), "a known key", unknown);
}

/** The same names with something else under each. */
export const mapped = <T, R>(
  table: Readonly<Record<string, T>>,
  make: (member: T, name: string) => R,
): Record<string, R> => Object.fromEntries(Object.entries(table).map(([name, member]) => [name, make(member, name)]));

/** A mapping of known members, each with a reader of its own. */
export const record =
  <T>(table: { readonly [K in keyof T]: Reader<T[K]> }): Reader<T> =>
  (value, path) => {
    const members = mapping(value, path, Object.keys(table));
    return mapped(table as Readonly<Record<string, Reader<unknown>>>, (read, name) =>
      read(members[name], join(path, name), name),
    ) as T;
  };

/** A mapping with at least one member, its keys free or from a closed set. */
export const tableOf =
  <T>(read: Reader<T>, keys?: readonly string[]): Reader<Record<string, T>> =>
  (value, path) => {
    const found = mapped(mapping(value, path, keys), (member, name) => read(member, join(path, name), name));
    return Object.keys(found).length ? found : refuse(path, "members", value);
  };

/** A mapping with at least one member, whose keys are all as an expression says. */
export const namedTable =
  <T>(read: Reader<T>, expression: string): Reader<Record<string, T>> =>
  (value, path, name) => {
    const found = tableOf(anything)(value, path, name);
    for (const key of Object.keys(found)) like(expression)(key, join(path, key), key);
    return tableOf(read)(value, path, name);
  };

export const listOf =
  <T>(read: Reader<T>): Reader<T[]> =>
  (value, path, name) =>
    Array.isArray(value) && value.length
      ? value.map((member, i) => read(member, `${path}[${i}]`, name))
      : refuse(path, "a list with members", value);

/** Reader of an optional member with a default. */
export function maybe<T>(read: Reader<T>): Reader<T | undefined>;
export function maybe<T>(read: Reader<T>, left: T): Reader<T>;
export function maybe<T>(read: Reader<T>, left?: T): Reader<T | undefined> {
  return (value, path, name) => (value === undefined ? left : read(value, path, name));
}

/** Reader that leaves a member to another reader. */
export const anything: Reader<Json> = (value) => value;

/** A value of which this holds. */
const only =
  <T>(expected: string, holds: (value: never) => boolean): Reader<T> =>
  (value, path) =>
    holds(value as never) ? (value as T) : refuse(path, expected, value);

export const text = only<string>(
  "text of 1 to 4096 characters",
  (value) => typeof value === "string" && isVisible(value) && [...value].length <= 4096,
);
/** Text that is all as an expression says. */
export const like = (expression: string): Reader<string> =>
  only(expression, (value) => typeof value === "string" && RegExp(`^(?:${expression})$`).test(value));
export const word: Reader<string> = (value, ...place) => like(`${INK}+`)(text(value, ...place), ...place);
export const boolean = only<boolean>("true or false", (value) => typeof value === "boolean");
export const integer = (low: number, high: number): Reader<number> =>
  only(`${low} to ${high}`, (value) => isInteger(value) && value >= low && value <= high);
export const choice = (options: readonly string[]): Reader<string> =>
  only(options.join(" or "), (value) => options.includes(value));

/** Hex of exactly so many bytes, or of any number, as lower case. */
export const hexOf =
  (...sizes: readonly number[]): Reader<string> =>
  (...given) =>
    like(sizes.map((size) => `[\\da-fA-F]{${2 * size}}`).join("|") || "([\\da-fA-F]{2})+")(...given).toLowerCase();

/** An RFC 3339 time, as it was written. */
export const date: Reader<string> = (value, path) => {
  // Anything else would be read as the text that JavaScript makes of it.
  const found = typeof value === "string" ? value : "";
  try {
    moment(found);
  } catch {
    refuse(path, "an RFC 3339 time", value);
  }
  return found;
};

/** The moment of a time, in milliseconds. */
export const moment = (time: string): number => parseMoment(time, "");

/** Either a value that is demanded, or the reason why none is. */
export type Demand<T> =
  { readonly value: T; readonly unchecked?: undefined } | { readonly value?: undefined; readonly unchecked: string };

export const demand =
  <T>(read: Reader<T>): Reader<Demand<T>> =>
  (value, path, name) =>
    isObject(value) && "unchecked" in value
      ? record({ unchecked: text })(value, path, name)
      : { value: read(value, path, name) };

/** Refuse what stands in a list twice. */
export function once(values: readonly unknown[], path: string, member = ""): void {
  const told = values.map((value) => JSON.stringify(value));
  const again = told.findIndex((value, i) => value && told.indexOf(value) < i);
  if (again >= 0) refuse(`${path}[${again}]${member}`, "no repetition", told[again]);
}

/** Read strict JSON; YAML is for `attest policy`, which writes JSON too. */
export async function parsed(document: string): Promise<JsonValue> {
  const bytes = utf8(document);
  const found = await refusalOf(() => jsonValue(bytes, "policy"));
  return bytes.length > MAX_BYTES || found instanceof AttestError
    ? fail("malformed", "policy-unreadable", "", {
        expected: `JSON of at most ${MAX_BYTES} bytes`,
        got: told((found as Error | null)?.message),
      })
    : found;
}

/** Canonical JSON (RFC 8785) of a document without fractions. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  return `{${Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)
    .join()}}`;
}
