/** What this browser accepted of a service before, and whether less is accepted now. */

import type { Row } from "../policy/row";
import type { Memory } from "./memory";

const MOST = 20;

/** One act of accepting: the values of the rows that were accepted, by their ids. */
export interface Accepted {
  readonly at: number;
  readonly values: Readonly<Record<string, unknown>>;
}

/** A row that is accepted now, and was accepted otherwise before. */
export interface Lowered {
  readonly row: Row;
  readonly at: number;
  /** The values that are older now, and as they were before; both empty where the two have no order. */
  readonly now: string;
  readonly before: string;
}

/** Everything that was accepted, the oldest first. */
export function historyOf(memory: Memory): readonly Accepted[] {
  try {
    const found: unknown = JSON.parse(memory.get("accepted") ?? "[]");
    return Array.isArray(found) ? (found as Accepted[]).filter(isAccepted) : [];
  } catch {
    return [];
  }
}

function isAccepted(value: Accepted | null): value is Accepted {
  return typeof value === "object" && typeof value?.at === "number" && typeof value.values === "object";
}

export function remember(memory: Memory, rows: readonly Row[], at: number): void {
  const values = Object.fromEntries(
    rows.filter(({ value }) => value !== undefined).map(({ id, value }) => [id, value]),
  );
  memory.set("accepted", JSON.stringify([...historyOf(memory), { at, values }].slice(-MOST)));
}

/** Rows that are less than, or something else than, what was accepted last; a newer version is not. */
export function lowered(rows: readonly Row[], history: readonly Accepted[]): readonly Lowered[] {
  return rows.flatMap((row): Lowered[] => {
    const last = history.filter(({ values }) => Object.hasOwn(values, row.id)).at(-1);
    if (!last || row.value === undefined) return [];
    const before = last.values[row.id];
    if (JSON.stringify(before) === JSON.stringify(row.value)) return [];
    if (!row.kinds.includes("newer")) return [{ row, at: last.at, now: "", before: "" }];
    const less = differences(before, row.value).filter(({ order }) => order < 0);
    const told = (which: "now" | "before"): string => less.map((one) => `${one.name} ${one[which]}`.trim()).join(", ");
    return less.length ? [{ row, at: last.at, now: told("now"), before: told("before") }] : [];
  });
}

export interface Difference {
  readonly name: string;
  readonly now: string;
  readonly before: string;
  /** Negative if it was greater before. */
  readonly order: number;
}

/** The parts of a value that were something else before, each by its name. */
export function differences(before: unknown, now: unknown, name = ""): Difference[] {
  if (typeof before === "object" && before !== null && typeof now === "object" && now !== null) {
    return Object.entries(before).flatMap(([key, value]) =>
      differences(value, (now as Readonly<Record<string, unknown>>)[key], Array.isArray(before) ? name : key),
    );
  }
  if (before === now) return [];
  return [{ name, now: String(now), before: String(before), order: order(now, before) }];
}

/** Compare numbers, and versions as numbers between dots, hexadecimal where letters are in them. */
function order(one: unknown, other: unknown): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  const a = String(one);
  const b = String(other);
  const base = /[a-f]/i.test(a + b) ? 16 : 10;
  const parts = (text: string): number[] => text.split(/[.:-]/).map((part) => Number.parseInt(part, base));
  const theirs = parts(b);
  const found = parts(a).map((part, i) => part - (theirs[i] ?? 0));
  return found.find((difference) => difference !== 0) ?? 0;
}

/** True if the way back to green leads from red: then only a typed word is a consent. */
export const isWary = (memory: Memory): boolean => memory.get("refused") !== undefined;
