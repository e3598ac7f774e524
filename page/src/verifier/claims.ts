/** Claims as `--json` writes them: the vendors' names in snake case, nested by their dots, bytes as lower-case hex. */

import { hex } from "./bytes";
import { JsonFloat } from "./json";

/** What is absent (undefined) stays absent. */
export type ClaimValue = undefined | boolean | number | bigint | string | Uint8Array | JsonFloat | null | readonly ClaimValue[] | ClaimTree;

export interface ClaimTree {
  readonly [name: string]: ClaimValue;
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type Claims = { readonly [name: string]: Json };

function json(value: Exclude<ClaimValue, undefined>): Json {
  // An integer that a number cannot hold exactly is written as text.
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : value.toString();
  if (value instanceof Uint8Array) return hex(value);
  if (value instanceof JsonFloat) return value.value;
  if (Array.isArray(value)) return (value as readonly ClaimValue[]).flatMap((member) => (member === undefined ? [] : [json(member)]));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).flatMap(([name, member]) => (member === undefined ? [] : [[name, json(member)]])));
  }
  return value as Json;
}

/** Nest values by their dotted names, in the order in which they stand. */
export function nestedClaims(values: Readonly<Record<string, ClaimValue>>): Claims {
  const document: Record<string, Json> = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue;
    const parents = name.split(".");
    const leaf = parents.pop() ?? name;
    let place = document;
    for (const parent of parents) place = (place[parent] ??= {}) as Record<string, Json>;
    place[leaf] = json(value);
  }
  return document;
}
