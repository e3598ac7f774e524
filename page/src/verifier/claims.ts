/** Claims as `--json` writes them: the vendors' names in snake case, nested by their dots, bytes as lower-case hex. */

import { hex } from "./bytes";
import type { JsonFloat } from "./json";

/** Drop absent (undefined) members. */
export type ClaimValue =
  undefined | boolean | number | bigint | string | Uint8Array | JsonFloat | null | readonly ClaimValue[] | ClaimTree;

export interface ClaimTree {
  readonly [name: string]: ClaimValue;
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type Claims = Readonly<Record<string, Json>>;

/** Convert a value that JSON cannot hold: an integer that a number cannot hold exactly is written as text. */
function plain(value: ClaimValue): unknown {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : `${value}`;
  if (value instanceof Uint8Array) return hex(value);
  return Array.isArray(value) ? value.filter((member) => member !== undefined) : value;
}

/** Nest values by their dotted names, in the order in which they stand. */
export function nestedClaims(values: Readonly<Record<string, ClaimValue>>): Claims {
  const document: Record<string, ClaimValue> = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue;
    const parents = name.split(".");
    const leaf = parents.pop()!;
    let place = document;
    for (const parent of parents) place = (place[parent] ??= {}) as Record<string, ClaimValue>;
    place[leaf] = value;
  }
  return JSON.parse(JSON.stringify(document, (_, value: ClaimValue) => plain(value))) as Claims;
}

/** The same claims, each name behind a prefix. */
export function prefixed(prefix: string, claims: ClaimTree): ClaimTree {
  return Object.fromEntries(Object.entries(claims).map(([name, value]) => [prefix + name, value]));
}

/** The same members but these: what a document says that is no claim. */
export function without<T extends object, K extends keyof T>(members: T, ...names: readonly K[]): Omit<T, K> {
  const left = Object.entries(members).filter(([name]) => !names.includes(name as K));
  return Object.fromEntries(left) as Omit<T, K>;
}
