/** Demands as rules over claims: one claim, one test, one check in the result. */

import { claimOf, told, type Claims } from "./claims";
import type { ClaimJson } from "../verifier/api";
import {
  type Demand,
  type Reader,
  boolean,
  demand,
  hexOf,
  join,
  listOf,
  mapped,
  maybe,
  namedTable,
  record,
  refuse,
  text,
} from "./decode";

type Found = ClaimJson | undefined;
export type Claim = (claims: Claims) => Found;

export interface Rule {
  /** Stable dotted name of the check (`policy.snp.measurement`). */
  readonly id: string;
  /** Place of the demand, where `{unchecked: reason}` is permitted; undefined if it is not. */
  readonly path: string | undefined;
  readonly claim: Claim;
  readonly expected: string;
  readonly holds: (found: ClaimJson, at: number) => boolean;
  /** Outcome of a test that does not hold, if it is not a failure. */
  readonly otherwise?: "warning";
  /** Why the test is not made, where the policy's author decided so. */
  readonly relaxed: string | undefined;
  /** The relaxation that tolerates that the claim is absent; of `eventlog`, that no log came along. */
  readonly tolerated?: "tcb" | "eventlog";
}

export interface PolicyCheck {
  readonly id: string;
  readonly outcome: "pass" | "fail" | "warning" | "not evaluated";
  readonly expected: string;
  readonly got: string;
  readonly item?: string | undefined;
  /** The branch of the policy that the check stands in. */
  readonly branch?: string | undefined;
  readonly path?: string | undefined;
  /** Evaluated value, unchanged. */
  readonly found?: Found;
}

/** Of several names, the list of them, which is absent when one is; but for those with a question mark. */
export const claimAt =
  (names: string): Claim =>
  (claims) => {
    const found = names
      .split(" ")
      .map((name) => claimOf(claims, name.replace("?", "")) ?? (name.endsWith("?") ? null : undefined));
    if (found.includes(undefined)) return undefined;
    return found.length > 1 ? (found as ClaimJson[]) : found[0];
  };

/** Words in front of what is demanded, or for a switch instead of it, and whether what was found meets it. */
export type Test<T> = readonly [
  words: string,
  holds: (found: never, wanted: T, at: number) => boolean,
  tell?: (wanted: T) => string,
];

/**
 * The rule of a demand. Its id is its place in the section, with another last word where one is given; without a claim
 * that is named, both are called as the key is, in the singular.
 */
export function rule<T>(
  path: string,
  { value, unchecked }: Demand<T>,
  [words, holds, tell = (wanted) => (typeof wanted === "boolean" && words ? "" : told(wanted, " or "))]: Test<T>,
  claim?: Claim | string,
  last?: string,
): Rule {
  const place = path.replace(/.*\]\./, "");
  const singular = claim ? place : place.replace(/s$/, "");
  const id = last ? place.replace(/\w+$/, last) : singular;
  return {
    id: `policy.${id}`,
    path,
    claim: typeof claim === "function" ? claim : claimAt(claim ?? id.replace(/.*\./, "")),
    expected: unchecked === undefined ? words + tell(value) : "",
    holds: (found, at) => holds(found as never, value as T, at),
    relaxed: unchecked,
  };
}

/** Return the check of a rule for one device, or for all of them together. */
export function judge(
  rule: Rule,
  claims: Claims,
  at: number,
  reasons: ReadonlyMap<string, string>,
  place: Pick<PolicyCheck, "item" | "branch">,
): PolicyCheck {
  const { id, path, claim, expected } = rule;
  const value = claim(claims) ?? undefined;
  const reason = rule.relaxed ?? excuse(rule, claims, value, reasons);
  const outcome = reason === undefined ? outcomeOf(rule, value, at) : "not evaluated";
  return {
    id,
    path,
    found: value,
    outcome,
    expected: reason === undefined ? expected : `unchecked: ${reason}`,
    got: told(value),
    ...place,
  };
}

function outcomeOf({ holds, otherwise }: Rule, value: Found, at: number): PolicyCheck["outcome"] {
  return value !== undefined && holds(value, at) ? "pass" : (otherwise ?? "fail");
}

/**
 * Why a claim may be absent. What a log that came along cannot prove is no reason to ask less: its carrier chose what
 * it leaves out.
 */
function excuse(
  { tolerated }: Rule,
  claims: Claims,
  value: Found,
  reasons: ReadonlyMap<string, string>,
): string | undefined {
  if (!tolerated) return undefined;
  const missing = tolerated === "eventlog" ? claims[tolerated] : value;
  return missing === undefined ? reasons.get(tolerated) : undefined;
}

/** Values without a known meaning that are accepted by name, each with a reason, and what is done with all of them. */
export const acceptedValues =
  (names: string, take: (values: Readonly<Record<string, string>>) => void): Row =>
  (given, at, key) => {
    const values = namedTable(text, names)(given, at, key);
    take(values);
    return Object.entries(values).map(([name, unchecked]) =>
      rule(join(at, name), { unchecked }, is, ({ not_understood: found }) =>
        Array.isArray(found) && found.includes(name) ? "accepted" : undefined,
      ),
    );
  };

// -- keys of a section: each is read into its rules

export type Row = Reader<Rule[]>;

/** A key that takes a demand: a value, or `{unchecked: reason}`; left out, what is strict is demanded. */
export const ask =
  <T>(read: Reader<T>, test: Test<T>, claim?: Claim | string, strict?: T, last?: string): Row =>
  (value, path, name) => [
    rule(
      path,
      value === undefined && strict !== undefined ? { value: strict } : demand(read)(value, path, name),
      test,
      claim,
      last,
    ),
  ];

/** A key that takes a value and no reason against it. */
export const firm =
  <T>(read: Reader<T>, test: Test<T>, claim?: string, last?: string): Row =>
  (value, path, name) => [{ ...rule(path, { value: read(value, path, name) }, test, claim, last), path: undefined }];

/** Rules that are not judged where what they speak of is missing and the policy leaves that unchecked. */
export const excused =
  (tolerated: NonNullable<Rule["tolerated"]>, row: Row): Row =>
  (...given) =>
    row(...given).map((found) => ({ ...found, tolerated }));

/** Sections that may be left out. */
export const optional = (rows: Readonly<Record<string, Row>>): Record<string, Reader<Rule[] | undefined>> =>
  mapped(rows, (row) => maybe(row));
/** Keys that may be left out. */
export const spare = (rows: Readonly<Record<string, Row>>): Record<string, Row> =>
  mapped(rows, (row) => maybe(row, []));

/** All rules of a section, by its table of keys. */
export function section(rows: Readonly<Record<string, Row>>): Row {
  const read = record(rows);
  return (...given) => Object.values(read(...given)).flat();
}

/** Only the strict value: the other one would be a relaxation without a reason. */
export const mustBe =
  (strict: boolean): Reader<boolean> =>
  (value, path, name) =>
    boolean(value, path, name) === strict ? strict : refuse(path, `${strict}, or {unchecked: reason}`, value);

export const is: Test<boolean | string> = ["", (found, wanted) => found === wanted];

/** A switch with one strict value, which is demanded even if the policy does not mention it. */
export const flag = (strict: boolean, claim?: string, last?: string, test: Test<boolean> = is): Row =>
  ask(mustBe(strict), test, claim, strict, last);

/** A section that says something once it is there. */
export const filled =
  (row: Row): Row =>
  (value, path, name) =>
    value && !Object.keys(value).length ? refuse(path, "members", value) : row(value, path, name);

/** Named bits that must be set or clear; the strict ones even if the policy does not mention them. */
export const bits = (names: readonly string[], strict: Readonly<Record<string, boolean>> = {}, claims?: string): Row =>
  filled((value = {}, path, key) => {
    const rows = names.map((name): [string, Row] => {
      const only = strict[name];
      const claim = `${claims ?? key}.${name}`;
      return [name, only === undefined ? maybe(ask(boolean, is, claim), []) : flag(only, claim)];
    });
    return section(Object.fromEntries(rows))(value, path, key);
  });

export const oneOf: Test<readonly (string | number)[]> = ["", (found: string, wanted) => wanted.includes(found)];
export const atLeast: Test<number> = ["at least ", (found: number, least) => found >= least];

/** A list of values of which one has to be there. */
export const among = (read: Reader<string | number>, claim?: string, strict?: (string | number)[]): Row =>
  ask(listOf(read), oneOf, claim, strict);
/** Keys that take lists of hex, each with the bytes of a value. */
export const digests = (sizes: Readonly<Record<string, number>>): Record<string, Row> =>
  mapped(sizes, (size) => among(hexOf(size)));
/** Values none of which may be there. */
export const denied = (read: Reader<string>, claim: string): Row =>
  firm(listOf(read), ["none of ", (found: string, wanted) => !wanted.includes(found)], claim);
