/** What differs between two verified pieces of evidence: the values that a policy judges, and all other claims. */

import { told } from "../../policy/claims";
import type { Row } from "../../policy/row";
import type { ItemResult, Result } from "../../verifier/api";
import { type Difference, differences } from "../guard";

/** Verified evidence with its rows. */
export interface Side {
  readonly result: Result;
  readonly rows: readonly Row[];
}

/** A row that differs. It may exist on one side only. */
export interface Change {
  readonly row: Row;
  readonly first: string | undefined;
  readonly second: string | undefined;
  /** The parts that are older in the second, and those that are newer; both empty where values have no order. */
  readonly older: readonly Difference[];
  readonly newer: readonly Difference[];
}

/** A claim that differs, by its path. */
export type Rest = readonly [path: string, first: string | undefined, second: string | undefined];

export interface Comparison {
  readonly isSame: boolean;
  /** Undefined if the evidence does not name the chip. */
  readonly isSameChip: boolean | undefined;
  readonly changes: readonly Change[];
  readonly rest: readonly Rest[];
}

/** Rows about a policy or a table, not about the machine. */
const NOT_THE_MACHINE = /^(?:policy\.|firmware\.|freshness|not_simulated)/;
/** Claims that the rows show. */
const IN_ROWS = new RegExp(
  String.raw`\.(?:measurement|(?:reported|committed|current|launch)_tcb\b.*|mr_td|rtmr\d|mr_enclave|mr_signer|` +
    String.raw`pcrs\.\d+|(?:driver|vbios)_version)$`,
);

export function compared(first: Side, second: Side): Comparison {
  return {
    isSame: first.result.evidence_digest === second.result.evidence_digest,
    isSameChip: sameChip(first.result, second.result),
    changes: changesOf(first.rows, second.rows),
    rest: restOf(first.result.items, second.result.items),
  };
}

function sameChip(first: Result, second: Result): boolean | undefined {
  const chips = [first, second].map(({ items }) =>
    items.flatMap(({ claims }) => [...leaves(claims)]).find(([path]) => /(?:^|\.)(?:chip_identity|ppid)$/.test(path)),
  );
  const [one, other] = chips.map((chip) => chip?.[1]);
  return one === undefined || other === undefined ? undefined : one === other;
}

/** The differences between two lists of rows, by id. */
export function changesOf(first: readonly Row[], second: readonly Row[]): Change[] {
  const of = (rows: readonly Row[]): Map<string, Row> =>
    new Map(rows.filter(({ id }) => !NOT_THE_MACHINE.test(id)).map((row) => [row.id, row]));
  const before = of(first);
  const now = of(second);
  const ids = [...new Set([...before.keys(), ...now.keys()])];
  return ids.flatMap((id) => changeOf(before.get(id), now.get(id)));
}

function changeOf(before: Row | undefined, now: Row | undefined): Change[] {
  const row = now ?? before;
  if (!row || JSON.stringify(before?.value) === JSON.stringify(now?.value)) return [];
  const parts = orderedParts(before, now);
  const towards = (sign: number): Difference[] => parts.filter(({ order }) => Math.sign(order) === sign);
  return [{ row, first: before?.reported, second: now?.reported, older: towards(-1), newer: towards(1) }];
}

/** The parts of two values that differ. Empty if the values have no order, or one is missing. */
function orderedParts(before: Row | undefined, now: Row | undefined): readonly Difference[] {
  return before && now?.kinds.includes("newer") ? differences(before.value, now.value) : [];
}

function restOf(first: readonly ItemResult[], second: readonly ItemResult[]): Rest[] {
  const before = claimsOf(first);
  const now = claimsOf(second);
  const paths = [...new Set([...before.keys(), ...now.keys()])];
  return paths
    .filter((path) => !IN_ROWS.test(path) && before.get(path) !== now.get(path))
    .map((path) => [path, before.get(path), now.get(path)]);
}

const claimsOf = (items: readonly ItemResult[]): Map<string, string> =>
  new Map(items.flatMap(({ name, claims }) => [...leaves(claims)].map(([path, value]) => [`${name}.${path}`, value])));

/** Every claim without nested claims, by path. */
function* leaves(value: unknown, path = ""): Generator<readonly [string, string]> {
  const isTree = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isTree) {
    yield [path, told(value)];
    return;
  }
  for (const [name, member] of Object.entries(value)) yield* leaves(member, path ? `${path}.${name}` : name);
}
