/**
 * Readers of Intel's JSON, by tables of its members; each refuses by the member's path
 * (`tcbInfo.tcbLevels[3].tcb.pcesvn`).
 */

import type { Bytes } from "../bytes";
import { hexBytes } from "../encoding";
import type { Shown } from "../shown";
import { need, refuse } from "../errors";
import { type JsonValue, isInteger, isObject, jsonValue } from "../json";
import { parseMoment } from "../time";

/** The largest seen has 7 KiB; one with as many levels as are read has 150. */
const MAX_DOCUMENT_BYTES = 256 * 1024;
/** More than the longest lists seen: 19 levels, 21 advisories. */
const MAX_ENTRIES = 256;

/** Makes a value of a member; an absent one is undefined. */
export type Reader<T> = (value: JsonValue | undefined, path: string) => T;

/** Result of a table of members: the same names, with the results of their readers. */
export type Read<T extends Readonly<Record<string, Reader<unknown>>>> = { readonly [K in keyof T]: ReturnType<T[K]> };

/** Whoever reads collateral passes over what is refused: no word more is needed. */
export const malformed = (field: string, expected: Shown): never =>
  refuse("malformed", "collateral-malformed", expected, undefined, { field });

/** An integer between 0 and `most`. */
export const integer =
  (most: number): Reader<number> =>
  (value, path) =>
    isInteger(value) && value >= 0 && value <= most ? value : malformed(path, most);

/** The one version or type that is read. */
export const constant =
  (wanted: number): Reader<void> =>
  (value, path) => {
    const got = integer(0xffff_ffff)(value, path);
    need(got === wanted, "unsupported", "collateral-unsupported", wanted, got, { field: path });
  };

const text: Reader<string> = (value, path) => (typeof value === "string" ? value : malformed(path, "text"));

/** 1 to 64 printable ASCII characters without blanks. */
export const word: Reader<string> = (value, path) =>
  /^[!-~]{1,64}$/.test(text(value, path)) ? (value as string) : malformed(path, "text");

/** One of a closed set of words; another word is refused, never guessed. */
export const choice =
  <C extends string>(...choices: readonly C[]): Reader<C> =>
  (value, path) =>
    choices.find((each) => each === value) ?? malformed(path, choices);

/** The bytes behind hex digits of either case. */
export const hexOf =
  (size: number): Reader<Bytes> =>
  (value, path) =>
    hexBytes(text(value, path), path, size);

/** An RFC 3339 time. */
export const moment: Reader<number> = (value, path) => parseMoment(text(value, path), path);

/** An array of `least` to `most`. */
export const list =
  <T>(item: Reader<T>, least = 1, most = MAX_ENTRIES): Reader<readonly T[]> =>
  (value, path) =>
    Array.isArray(value) && value.length >= least && value.length <= most
      ? value.map((each, i) => item(each, `${path}[${i}]`))
      : malformed(path, most);

/** By these numbers, the first of them that differs, the highest in front; of equals the one that came first. */
export const highestFirst = <T>(items: readonly T[], numbersOf: (item: T) => readonly number[]): readonly T[] =>
  [...items].sort((a, b) => {
    const numbers = numbersOf(a);
    return (
      numbersOf(b)
        .map((value, i) => value - numbers[i]!)
        .find(Boolean) ?? 0
    );
  });

/** Apply a function to the result of a reader. */
export const then =
  <T, U>(read: Reader<T>, make: (made: T) => U): Reader<U> =>
  (value, path) =>
    make(read(value, path));

/** A member that may be left out. */
export const optional =
  <T>(read: Reader<T>, otherwise: T): Reader<T> =>
  (value, path) =>
    value === undefined ? otherwise : read(value, path);

/** An object with these members; other members are ignored. */
export const object =
  <T extends Readonly<Record<string, Reader<unknown>>>>(table: T): Reader<Read<T>> =>
  (value, path) =>
    isObject(value)
      ? (Object.fromEntries(
          Object.entries(table).map(([name, read]) => [name, read(value[name], `${path}.${name}`)]),
        ) as Read<T>)
      : malformed(path, "object");

/** Read a document that is one JSON value of a plausible size. */
export function parsed(raw: Bytes, path: string): JsonValue {
  if (raw.length > MAX_DOCUMENT_BYTES) malformed(path, MAX_DOCUMENT_BYTES);
  return jsonValue(raw, path);
}
