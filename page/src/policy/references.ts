/** Reference values: names for measurements, each with an origin and perhaps an end. */

import type { ClaimJson } from "../verifier/api";
import { type Decoder, type JsonObject, type JsonValue, choice, hexOf, listOf, moment, optional, refuse, required, section, tableOf, text } from "./decode";

export interface ReferenceValues {
  /** Digests of 48 bytes, or all of 32, as hex. */
  readonly values: readonly string[];
  /** Last moment that counts, in milliseconds. */
  readonly expires: number | undefined;
}

export type References = ReadonlyMap<string, ReferenceValues>;

export function referencesOf(members: JsonObject): References {
  return new Map(optional(members, "", "reference_values", tableOf(referenceOf), []));
}

function referenceOf(value: JsonValue, path: string): ReferenceValues {
  const members = section(value, path, ["values", "origin", "expires"]);
  const first = Array.isArray(members["values"]) ? members["values"][0] : undefined;
  const size = typeof first === "string" && first.length === 64 ? 32 : 48;
  const values = required(members, path, "values", listOf(hexOf(size)));
  required(members, path, "origin", text);
  return { values, expires: optional(members, path, "expires", moment, undefined) };
}

/** Read the name of a reference value whose digests have this size. */
export function nameIn(references: References, size: number): Decoder<string> {
  const fitting = [...references].filter(([, { values }]) => values[0]?.length === 2 * size).map(([name]) => name);
  if (fitting.length) return choice(fitting);
  return (value, path) => {
    throw refuse(path, `a name under reference_values with ${size}-byte digests; there is none`, value);
  };
}

/** Test that a measurement is among reference values; each counts until its last moment, which is included. */
export function matches(names: readonly string[], references: References) {
  const chosen = names.map((name) => [name, references.get(name)] as const);
  return {
    expected: chosen.map(([name, found]) => `${name}: ${found?.values.join(" or ")}`).join("; "),
    holds: (value: ClaimJson, at: number) =>
      chosen.some(([, found]) => found?.values.includes(value as string) && (found.expires === undefined || at <= found.expires)),
  };
}
