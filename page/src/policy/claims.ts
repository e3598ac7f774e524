/** The claims of verified evidence, by name and as text. */

import type { ClaimJson } from "../verifier/api";

export type Claims = Readonly<Record<string, ClaimJson>>;

/** Read a claim by its dotted name; what is absent is undefined. */
export const claimOf = (claims: ClaimJson | undefined, name: string): ClaimJson | undefined =>
  name.split(".").reduce((value, part) => (value as Claims | null | undefined)?.[part], claims);

/** Write a value for people. */
export function told(value: unknown, between = ", "): string {
  if (Array.isArray(value)) return value.map((member) => told(member, between)).join(between) || "none";
  if (value === undefined || value === null) return "absent";
  if (typeof value !== "object") return `${value as string | number | bigint | boolean}`;
  return (
    Object.entries(value)
      .flatMap(([name, member]) => (member === undefined ? [] : `${name} ${told(member, between)}`))
      .join(", ") || "none"
  );
}

/**
 * A version as text that compares as its numbers do, where zeros at the end say nothing; undefined for text that is
 * none.
 */
export function ordinal(version: unknown, base: number): string | undefined {
  const part = base === 16 ? "[\\da-fA-F]{1,2}" : "\\d{1,9}";
  if (typeof version !== "string" || !RegExp(`^${part}(\\.${part}){0,5}$`).test(version)) return undefined;
  const numbers = version.split(".").map((digits) => `${Number.parseInt(digits, base)}`.padStart(9, "0"));
  return numbers.join("").padEnd(54, "0");
}
