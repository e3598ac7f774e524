/** The history of each service in this browser: one entry for each change of machine, policy or outcome. */

import type { Memory, Store } from "../memory";
import type { State } from "../state";

const MOST = 50;
const PREFIX = "attest history ";

/** One change. */
export interface Entry {
  readonly at: number;
  readonly accepted: boolean;
  readonly simulated: boolean;
  readonly policy: { readonly name: string; readonly version: number; readonly digest: string };
  /** What the machine reported, by the ids of rows. */
  readonly values: Readonly<Record<string, string>>;
}

/** Keep what is accepted now, or what the policy refused, where it differs from the last entry. */
export function noteHistory(memory: Memory, { phase, problem, policy, rows, at, simulated }: State): void {
  const isJudged = phase === "trusted" || (phase === "refused" && !problem);
  if (!isJudged || !policy || at === undefined) return;
  const { name, version, digest } = policy;
  const judged = rows.filter(({ id, value }) => value !== undefined && !/^(?:policy|firmware)\./.test(id));
  const entry: Entry = {
    at,
    accepted: phase === "trusted",
    simulated,
    policy: { name, version, digest },
    values: Object.fromEntries(judged.map(({ id, reported }) => [id, reported])),
  };
  const before = entriesIn(memory.get("history"));
  if (contentOf(before.at(-1)) === contentOf(entry)) return;
  memory.set("history", JSON.stringify([...before, entry].slice(-MOST)));
}

/** Everything of an entry but its date. */
const contentOf = (entry: Entry | undefined): string => JSON.stringify(entry && { ...entry, at: 0 });

/** Parse the stored entries, oldest first. Invalid entries are skipped. */
export function entriesIn(text: string | undefined | null): readonly Entry[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter(isEntry) : [];
  } catch {
    return [];
  }
}

function isEntry(value: unknown): value is Entry {
  const { at, policy, values } = (value ?? {}) as Partial<Entry>;
  const hasPolicy = typeof policy === "object" && typeof policy.digest === "string";
  const areTexts = typeof values === "object" && Object.values(values).every((one) => typeof one === "string");
  return typeof at === "number" && Number.isFinite(at) && hasPolicy && areTexts;
}

/** The services that this browser has a history of. */
export function servicesIn(store: Storage | undefined): readonly string[] {
  try {
    return Object.keys(store ?? {})
      .filter((name) => name.startsWith(PREFIX))
      .map((name) => name.slice(PREFIX.length))
      .sort();
  } catch {
    return [];
  }
}

/** Delete the history and the accepted values of a service. Its policy stays. */
export function forget(store: Store, service: string): void {
  for (const kept of ["history", "accepted"]) store.removeItem(`attest ${kept} ${service}`);
}

/** The values that changed since the previous entry, by id. */
export function changedValues(before: Entry | undefined, now: Entry): readonly (readonly [string, string, string])[] {
  if (!before) return [];
  const ids = [...new Set([...Object.keys(before.values), ...Object.keys(now.values)])];
  return ids
    .filter((id) => before.values[id] !== now.values[id])
    .map((id) => [id, before.values[id] ?? "–", now.values[id] ?? "–"]);
}
