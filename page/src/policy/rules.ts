/** Demands as rules over claims: one claim, one test, one check in the result. */

import type { ClaimJson } from "../verifier/api";
import type { Demand } from "./decode";

export type Claims = { readonly [name: string]: ClaimJson };
export type Claim = (claims: Claims) => ClaimJson | undefined;
export type Test = (value: ClaimJson, at: number) => boolean;

export interface Rule {
  /** Stable dotted name of the check (`policy.snp.measurement`). */
  readonly id: string;
  readonly claim: Claim;
  readonly expected: string;
  readonly holds: Test;
  /** How a test that does not hold counts. */
  readonly otherwise: "fail" | "warning";
  /** Why the test is not made, where the policy's author decided so. */
  readonly relaxed?: string | undefined;
  /** The relaxation that tolerates that the claim is absent. */
  readonly toleratedBy?: string | undefined;
}

export interface PolicyCheck {
  readonly id: string;
  readonly outcome: "pass" | "fail" | "warning" | "not evaluated";
  readonly expected: string;
  readonly got: string;
  readonly item?: string | undefined;
  /** The branch of the policy that the check stands in. */
  readonly branch?: string | undefined;
}

/** Read a claim by its dotted name; what is absent is undefined. */
export function claimAt(name: string): Claim {
  const parts = name.split(".");
  return (claims) => {
    let value: ClaimJson | undefined = claims;
    for (const part of parts) value = isTable(value) && Object.hasOwn(value, part) ? value[part] : undefined;
    return value;
  };
}

export function isTable(value: ClaimJson | undefined): value is Claims {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Write a value for people. */
export function told(value: ClaimJson | undefined): string {
  if (value === undefined || value === null) return "absent";
  return typeof value === "object" ? JSON.stringify(value) : `${value}`;
}

/** Make the rule of a demand; for one that is not made at all, none. */
export function ruleOf<T>(
  id: string,
  wanted: Demand<T> | undefined,
  claim: Claim | string,
  make: (value: T) => { readonly holds: Test; readonly expected: string },
  more: Partial<Rule> = {},
): Rule[] {
  if (!wanted) return [];
  const made = "unchecked" in wanted ? { holds: () => false, expected: "", relaxed: wanted.unchecked } : make(wanted.value);
  return [{ id: `policy.${id}`, claim: typeof claim === "string" ? claimAt(claim) : claim, otherwise: "fail", ...made, ...more }];
}

/** Return the check of a rule for one device, or for all of them together. */
export function judge(rule: Rule, claims: Claims, at: number, reasons: ReadonlyMap<string, string>, place: Pick<PolicyCheck, "item" | "branch">): PolicyCheck {
  const value = rule.claim(claims) ?? undefined;
  const reason = rule.relaxed ?? (value === undefined && rule.toleratedBy ? reasons.get(rule.toleratedBy) : undefined);
  const holds = value !== undefined && rule.holds(value, at);
  const outcome = reason !== undefined ? "not evaluated" : holds ? "pass" : rule.otherwise;
  return { id: rule.id, outcome, expected: reason === undefined ? rule.expected : `unchecked: ${reason}`, got: told(value), ...place };
}

// -- tests

const listed = (values: readonly ClaimJson[]): string => `one of ${values.map(told).join(", ")}`;

export const oneOf = (values: readonly (string | number)[]) => ({ holds: (value: ClaimJson) => values.includes(value as string), expected: listed(values) });

export const noneOf = (values: readonly string[]) => ({
  holds: (value: ClaimJson) => !values.includes(value as string),
  expected: listed(values).replace("one", "none"),
});

export const is = (wanted: boolean) => ({ holds: (value: ClaimJson) => value === wanted, expected: `${wanted}` });

export const atLeast = (least: number) => ({ holds: (value: ClaimJson) => (value as number) >= least, expected: `at least ${least}` });

export const atMost = (most: number) => ({ holds: (value: ClaimJson) => (value as number) <= most, expected: `at most ${most}` });

export const hasBits = (mask: number) => ({
  holds: (value: ClaimJson) => (BigInt(value as number) & BigInt(mask)) === BigInt(mask),
  expected: `every bit of 0x${mask.toString(16)}`,
});
