/**
 * A policy out of what a machine reports: one row of the table is one demand, and is written as the person chose.
 *
 * Demands without a row keep their strict form; if the machine does not meet one, it has its own row.
 */

import type { Result } from "../verifier/api";
import { rfc3339 } from "../verifier/bytes";
import { fail } from "../verifier/errors";
import { part } from "../verifier/parts";
import { type AttestationResult, appraise } from "./appraise";
import { type Policy, loadPolicy } from "./document";
import { type Fact, fact, snpFacts } from "./fact";
import { together } from "./kept";
import type { Choices, Row } from "./row";
import { type PolicyCheck } from "./rules";

export { loadPolicy } from "./document";

/** A policy document that is being written. */
type Draft = Record<string, unknown>;

const RELAXED = "accepted in the page on";

/** Write a value to its place, which undefined clears. */
function put(draft: Draft, path: string, value: unknown): void {
  const names = path.split(".");
  const last = names.pop()!; // of at least one
  names.reduce((inner, name) => (inner[name] ??= {}) as Draft, draft)[last] = value;
}

// -- what can be accepted

const SIMULATED = fact("not_simulated", "yes", (_, at) => ({ simulated: { unchecked: `${RELAXED} ${at}` } }), [
  "exact",
]);

/** Everything that can be accepted; the code for more than an SEV-SNP report is fetched when there is more. */
async function factsOf({ items, simulated }: Result): Promise<Fact[]> {
  const areDevices = items.map(({ kind }) => kind.startsWith("nvidia"));
  const hasOtherCpu = items.some(({ kind }, i) => kind !== "sev-snp" && !areDevices[i]);
  const [cpus, devices] = await Promise.all([
    hasOtherCpu ? part(import("./other_cpus")) : undefined,
    areDevices.includes(true) ? part(import("./devices")) : undefined,
  ]);
  return [
    ...(simulated ? [SIMULATED] : []),
    ...items.flatMap(({ kind, claims }) =>
      kind === "sev-snp" ? snpFacts(claims) : (cpus?.cpuFacts(kind, claims) ?? []),
    ),
    ...(devices?.deviceFacts(items) ?? []),
  ];
}

/** Ids of the policy's checks that judge it. */
const judgedBy = ({ id, write }: Fact): string[] =>
  [id, ...Object.keys(write("exact", ""))].map((place) => `policy.${place}`);

// -- the table

const WORST = ["fail", "warning", "not evaluated", "pass"] as const;

/** True if a strict demand can be relaxed in its place: only one of a section at the top. */
const placeOf = (path = ""): string | undefined => (/^(?!devices)[^[]*\./.test(path) ? path : undefined);
const rowId = ({ id, path }: PolicyCheck): string => (placeOf(path) ? `policy.${path}` : id);

export interface JudgedRows {
  readonly rows: readonly Row[];
  /** Undefined without a policy. */
  readonly judged: AttestationResult | undefined;
}

/** Rows for what can be accepted, then for whatever else is not met; without a policy nothing is accepted yet. */
export async function rows(result: Result, policy: Policy | undefined, at: number): Promise<JudgedRows> {
  const facts = await factsOf(result);
  const judged = policy && appraise(result, policy, at);
  const { failed = [] } =
    judged ?? (facts.length ? appraise(result, await loadPolicy(written(undefined, facts, {}, at)), at) : {});
  const covered = facts.flatMap(judgedBy);
  const others = failed
    .filter(
      (check, i) => !covered.includes(check.id) && failed.findIndex((other) => rowId(other) === rowId(check)) === i,
    )
    .map((check): Row => ({
      id: rowId(check),
      subject: "",
      reported: check.got,
      value: check.found,
      demanded: check.expected,
      outcome: "fail",
      kinds: placeOf(check.path) ? ["exact"] : [],
    }));
  return { rows: [...facts.map((one) => rowOf(one, judged)), ...others], judged };
}

function rowOf(one: Fact, judged: AttestationResult | undefined): Row {
  const { id, subject, reported, value, kinds } = one;
  const ids = judgedBy(one);
  const checks = (judged?.checks ?? []).filter((check) => check.counts && ids.includes(check.id));
  const outcome = WORST.find((worst) => checks.some((check) => check.outcome === worst)) ?? "not evaluated";
  return {
    id,
    subject,
    reported,
    value,
    demanded: [...new Set(checks.map(({ expected }) => expected))].join("; "),
    outcome,
    kinds,
  };
}

// -- the document

/** Write the policy that accepts what was chosen, over the one that is there: `policy-invalid` where that cannot be. */
export async function propose(
  result: Result,
  choices: Choices,
  before: Policy | undefined,
  at: number,
): Promise<string> {
  const text = together([
    written(before, await factsOf(result), choices, at, before && appraise(result, before, at).failed),
    ...(before?.files ?? []),
  ]);
  const { failed } = appraise(result, await loadPolicy(text), at);
  if (failed.length) {
    fail("malformed", "policy-invalid", "", {
      expected: "a policy that the machine meets",
      got: failed.map(({ id }) => id).join(", "),
    });
  }
  return text;
}

/** Without choices: everything that a row speaks of, exactly. */
function written(
  before: Policy | undefined,
  facts: readonly Fact[],
  choices: Choices,
  at: number,
  open: readonly PolicyCheck[] = [],
): string {
  const moment = rfc3339(at - (at % 1000));
  const draft: Draft = before
    ? structuredClone(before.document)
    : { schema: "attest.policy/1", name: "accepted-in-the-page", version: 0 };
  put(draft, "version", Number(draft.version) + 1);
  const chosen = Object.keys(choices);
  for (const { id, write } of facts) {
    const choice = chosen.length ? choices[id] : "exact";
    if (choice) putAll(draft, write(choice, moment));
  }
  for (const id of chosen) {
    const place = placeOf(id.replace("policy.", ""));
    if (place && id !== place) put(draft, place, accepted(id, place, open) ?? { unchecked: `${RELAXED} ${moment}` });
  }
  return JSON.stringify(draft, undefined, 1);
}

function putAll(draft: Draft, values: Readonly<Record<string, unknown>>): void {
  for (const [path, value] of Object.entries(values)) put(draft, path, value);
}

/** Facts of a log are listed; anything else that is accepted by its id is a relaxation. */
function accepted(id: string, place: string, open: readonly PolicyCheck[]): readonly unknown[] | undefined {
  if (!/event_log\.(?!app)/.test(place)) return undefined;
  const found = open.find((check) => rowId(check) === id)?.found;
  return Array.isArray(found) && found.length ? found : undefined;
}
