/** Is verified evidence acceptable? Policy in, a result with every check out; as `attest.appraisal` judges. */

import type { ItemResult, Result } from "../verifier/api";
import type { Policy } from "./document";
import { type Claims, type PolicyCheck, type Rule, judge } from "./rules";

export interface AttestationResult {
  /** Whether nothing failed that counts. */
  readonly affirmed: boolean;
  readonly checks: readonly (PolicyCheck & { readonly counts: boolean })[];
  readonly failed: readonly PolicyCheck[];
}

/** One walk through a policy, which collects a check for every rule, in order. */
interface Walk {
  readonly items: readonly ItemResult[];
  readonly set: Claims;
  readonly at: number;
  readonly reasons: ReadonlyMap<string, string>;
  readonly checks: PolicyCheck[];
  /** Branches of alternatives that do not hold: their checks are told and do not count. */
  readonly aside: Set<string>;
}

interface Judged {
  readonly path: string;
  readonly holds: boolean;
  /** Kinds of Attesters that were judged. */
  readonly kinds: readonly string[];
  /** Itself, if it is a branch, and all within. */
  readonly branches: readonly string[];
}

/** A part of a policy, ready to judge. */
export type Judge = (walk: Walk) => Judged;

const kindsOf = (found: readonly Judged[]): string[] => found.flatMap(({ kinds }) => kinds);
const branchesOf = (found: readonly Judged[]): string[] => found.flatMap(({ branches }) => branches);

/** The rules of one section, for each item of its kind; without a kind, for all devices together. */
export const leaf =
  (path: string, kind: string, rules: readonly Rule[]): Judge =>
  ({ items, set, at, reasons, checks }) => {
    const subjects = kind ? items.filter((item) => item.kind === kind) : [{ name: undefined, claims: set }];
    const found = subjects.flatMap(({ name, claims }) =>
      rules.map((rule) => judge(rule, claims, at, reasons, { item: name, branch: path || undefined })),
    );
    checks.push(...found);
    return { path, holds: found.every(({ outcome }) => outcome !== "fail"), kinds: kind ? [kind] : [], branches: [] };
  };

/** A body: everything in it is demanded. */
export const all =
  (path: string, members: readonly Judge[]): Judge =>
  (walk) => {
    const found = members.map((member) => member(walk));
    return {
      path,
      holds: found.every(({ holds }) => holds),
      kinds: kindsOf(found),
      branches: [path, ...branchesOf(found)],
    };
  };

/** Alternatives of which so many have to hold. */
export const choiceOf =
  (path: string, word: string, count: number, of: readonly Judge[]): Judge =>
  (walk) => {
    const place = walk.checks.length;
    const found = of.map((member) => member(walk));
    const met = found.filter(({ holds }) => holds);
    for (const { holds, branches } of found) if (!holds) branches.forEach((branch) => walk.aside.add(branch));
    const holds = met.length >= count;
    const names = (list: readonly Judged[]): string => list.map((member) => member.path).join(", ");
    const check: PolicyCheck = {
      id: `policy.${word}`,
      outcome: holds ? "pass" : "fail",
      expected: `at least ${count} of ${names(found)}`,
      got: names(met) || "none of them",
      branch: path || undefined,
    };
    walk.checks.splice(place, 0, check);
    // Once enough hold, only what they judged has been judged.
    return { path, holds, kinds: kindsOf(holds ? met : found), branches: branchesOf(found) };
  };

/** Judge verified evidence; a result that was refused is never affirmed. */
export function appraise(result: Result, policy: Policy, at: number): AttestationResult {
  const { items, freshness, simulated, outcome, error } = result;
  const reasons = new Map([...policy.unchecked, ...result.unchecked].map(({ check, reason }) => [check, reason]));
  const walk: Walk = { items, set: deviceSet(result), at, reasons, checks: [], aside: new Set() };
  const { kinds } = policy.judge(walk);
  const whole = (
    id: string,
    holds: boolean,
    reason: string | undefined,
    expected: string,
    got: string,
  ): PolicyCheck => ({
    id,
    outcome: holds ? "pass" : reason === undefined ? "fail" : "not evaluated",
    expected: reason === undefined ? expected : `unchecked: ${reason}`,
    got,
  });
  const checks = [
    // What was refused has no items, and by a policy of branches alone nothing might be asked of it.
    ...(outcome === "verified"
      ? []
      : [whole("evidence.verified", false, undefined, "verified evidence", error?.code ?? outcome)]),
    whole("freshness", freshness === "matched", reasons.get("freshness"), "matched", freshness),
    whole("policy.not_simulated", !simulated, policy.simulated, "hardware", simulated ? "SIMULATED" : "hardware"),
    ...walk.checks,
    ...items.flatMap(({ name, kind }) =>
      kinds.includes(kind)
        ? []
        : { ...whole("policy.kind", false, undefined, `one of ${kinds.join(", ")}`, kind), item: name },
    ),
  ].map((check) => ({ ...check, counts: check.branch === undefined || !walk.aside.has(check.branch) }));
  const failed = checks.filter((check) => check.counts && check.outcome === "fail");
  return { affirmed: !failed.length, checks, failed };
}

/** The GPUs and switches of verified evidence as a set. */
function deviceSet({ items, checks }: Result): Claims {
  const [gpus, switches] = ["nvidia-gpu", "nvidia-switch"].map((kind) =>
    items.filter((item) => item.kind === kind),
  ) as [ItemResult[], ItemResult[]];
  const cpu = items.find(({ kind }) => !kind.startsWith("nvidia"));
  // A binding that does not fit REPORT_DATA or the devices is never verified.
  const bound =
    cpu !== undefined && checks.some(({ id, outcome }) => id === "binding.report_data" && outcome === "pass");
  const different = (name: string): string[] => [
    ...new Set(gpus.map(({ claims }) => `${claims[name] ?? "not stated"}`)),
  ];
  return {
    gpus: gpus.length,
    switches: switches.length,
    architectures: different("architecture"),
    driver_versions: different("driver_version"),
    bound: bound || !(gpus.length || switches.length),
    ...(cpu && { cpu_kind: cpu.kind }),
  };
}
