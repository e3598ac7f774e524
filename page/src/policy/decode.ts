/** A typed reading of a policy document: every key is known, every value has one type, every refusal has a path. */

import { type Bytes, utf8 } from "../verifier/bytes";
import { AttestError } from "../verifier/errors";
import { JsonFloat, type JsonObject, type JsonValue, isInteger, isObject, jsonValue } from "../verifier/json";

export type Json = JsonValue | undefined;
export type Decoder<T> = (value: JsonValue, path: string) => T;

const MAX_TEXT = 4096;

/** Make the refusal of one value; nothing is guessed and nothing is skipped. */
export function refuse(path: string, expected: string, got: Json): AttestError {
  const shown = got === undefined ? "nothing" : got instanceof JsonFloat ? `${got.value}` : (JSON.stringify(got, plain) ?? "").slice(0, 80);
  return new AttestError("malformed", "policy-invalid", `${path}: expected ${expected}, got ${shown}`, { field: path, expected, got: shown });
}

const plain = (_: string, value: unknown): unknown => (typeof value === "bigint" ? `${value}` : value);

/** What a page cannot judge makes the policy unusable here: it is never left out in silence. */
export function notHere(path: string): AttestError {
  return new AttestError("unsupported", "policy-not-for-pages", `${path}: a page cannot judge this; ask 'attest appraise'`, { field: path });
}

export const join = (path: string, name: string): string => (path ? `${path}.${name}` : name);

/** Read a mapping whose keys are all among these. */
export function section(value: JsonValue, path: string, known: readonly string[]): JsonObject {
  if (!isObject(value)) throw refuse(path || "document", "a mapping", value);
  const unknown = Object.keys(value).filter((name) => !known.includes(name)).sort()[0];
  if (unknown !== undefined) throw refuse(join(path, unknown), "a known key", unknown);
  return value;
}

export function required<T>(members: JsonObject, path: string, name: string, decoder: Decoder<T>): T {
  const value = members[name];
  if (value === undefined) throw refuse(join(path, name), "a value", undefined);
  return decoder(value, join(path, name));
}

export function optional<T, D>(members: JsonObject, path: string, name: string, decoder: Decoder<T>, left: D): T | D {
  const value = members[name];
  return value === undefined ? left : decoder(value, join(path, name));
}

export const text: Decoder<string> = (value, path) => {
  if (typeof value !== "string" || !value.trim() || [...value].length > MAX_TEXT) throw refuse(path, `text of 1 to ${MAX_TEXT} characters`, value);
  return value;
};

export const boolean: Decoder<boolean> = (value, path) => {
  if (typeof value !== "boolean") throw refuse(path, "true or false", value);
  return value;
};

export const integer =
  (low: number, high: number): Decoder<number> =>
  (value, path) => {
    if (!isInteger(value) || value < low || value > high) throw refuse(path, `an integer from ${low} to ${high}`, value);
    return value;
  };

export const choice =
  (options: readonly string[]): Decoder<string> =>
  (value, path) => {
    if (typeof value !== "string" || !options.includes(value)) throw refuse(path, `one of ${options.join(", ")}`, value);
    return value;
  };

/** Hex of exactly so many bytes, as lower case. */
export const hexOf =
  (bytes: number): Decoder<string> =>
  (value, path) => {
    if (typeof value !== "string" || value.length !== 2 * bytes || /[^0-9a-fA-F]/.test(value)) throw refuse(path, `${bytes} bytes of hex`, value);
    return value.toLowerCase();
  };

const TIME = /^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)$/;

/** An RFC 3339 time, in milliseconds; of finer fractions the beginning counts. */
export const moment: Decoder<number> = (value, path) => {
  const found = typeof value === "string" ? TIME.exec(value) : null;
  const [, day = "", time = "", fraction = "", zone = ""] = found ?? [];
  const ms = Date.parse(`${day}T${time}${fraction.slice(0, 4)}${zone.toUpperCase()}`);
  // Date takes the 30th of February for a day in March.
  const real = new Date(Date.parse(`${day}T00:00:00Z`)).toJSON()?.startsWith(day);
  if (!found || !real || Number.isNaN(ms) || time.startsWith("24")) throw refuse(path, "an RFC 3339 time such as 2027-01-31T12:00:00Z", value);
  return ms;
};

export const listOf =
  <T>(decoder: Decoder<T>): Decoder<T[]> =>
  (value, path) => {
    if (!Array.isArray(value) || !value.length) throw refuse(path, "a list with at least one member", value);
    return value.map((member, i) => decoder(member, `${path}[${i}]`));
  };

export const tableOf =
  <T>(decoder: Decoder<T>, keys?: readonly string[]): Decoder<[string, T][]> =>
  (value, path) => {
    if (!isObject(value) || !Object.keys(value).length) throw refuse(path, "a mapping with at least one member", value);
    return Object.entries(value).map(([name, member]) => {
      if (keys && !keys.includes(name)) throw refuse(join(path, name), `one of ${keys.join(", ")}`, name);
      return [name, decoder(member, join(path, name))];
    });
  };

/** Either a value that is demanded, or the reason why none is. */
export type Demand<T> = { readonly value: T } | { readonly unchecked: string };

export const demand =
  <T>(decoder: Decoder<T>): Decoder<Demand<T>> =>
  (value, path) => {
    if (!isObject(value) || !("unchecked" in value)) return { value: decoder(value, path) };
    return { unchecked: required(section(value, path, ["unchecked"]), path, "unchecked", text) };
  };

/** Read strict JSON; YAML is for `attest policy`, which writes JSON too. */
export function parsed(document: string): JsonValue {
  try {
    return jsonValue(utf8(document), "policy");
  } catch (error) {
    throw new AttestError("malformed", "policy-unreadable", `the policy is no JSON document: ${(error as Error).message}`);
  }
}

/** Canonical JSON (RFC 8785) of a document without fractions. */
export function canonical(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value, plain) ?? "";
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name] ?? null)}`);
  return `{${members.join()}}`;
}

export type { Bytes, JsonObject, JsonValue };
