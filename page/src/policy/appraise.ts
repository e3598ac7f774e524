/** Is verified evidence acceptable? Policy in, a result with every check out; as `attest.appraisal` judges. */

import type { Result } from "../verifier/api";
import type { Body, Choice, Leaf, Policy } from "./document";
import { type Claims, type PolicyCheck, judge } from "./rules";

export interface AttestationResult {
  /** Whether nothing failed that counts. */
  readonly affirmed: boolean;
  readonly checks: readonly (PolicyCheck & { readonly counts: boolean })[];
  readonly failed: readonly PolicyCheck[];
}

/** Judge verified evidence; a result that was refused is never affirmed. */
export function appraise(result: Result, policy: Policy, at: number): AttestationResult {
  const reasons = new Map([...policy.unchecked, ...result.unchecked].map(({ check, reason }) => [check as string, reason]));
  const walk = new Walk(result, at, reasons);
  const { kinds } = walk.body(policy.tree);
  const unjudged = result.items
    .filter(({ kind }) => !kinds.has(kind))
    .map(({ name, kind }): PolicyCheck => ({ id: "policy.kind", outcome: "fail", expected: `one of ${[...kinds].join(", ")}`, got: kind, item: name }));
  const checks = [verified(result), fresh(result, reasons.get("freshness")), real(result, policy.simulated), ...walk.checks, ...unjudged].flat();
  const counted = checks.map((check) => ({ ...check, counts: check.branch === undefined || !walk.aside.has(check.branch) }));
  const failed = counted.filter(({ counts, outcome }) => counts && outcome === "fail");
  return { affirmed: !failed.length, checks: counted, failed };
}

/** What was refused has no items, and by a policy of branches alone nothing might be asked of it. */
function verified({ outcome, error }: Result): PolicyCheck[] {
  return outcome === "verified" ? [] : [{ id: "evidence.verified", outcome: "fail", expected: "verified evidence", got: error?.code ?? outcome }];
}

function fresh({ freshness }: Result, relaxed: string | undefined): PolicyCheck {
  const outcome = freshness === "matched" ? "pass" : relaxed === undefined ? "fail" : "not evaluated";
  return { id: "freshness", outcome, expected: relaxed === undefined ? "a nonce or report data that matches" : `unchecked: ${relaxed}`, got: freshness };
}

function real({ simulated }: Result, tolerated: string | undefined): PolicyCheck {
  const outcome = simulated ? (tolerated === undefined ? "fail" : "not evaluated") : "pass";
  const got = simulated ? "SIMULATED: the simulator's root" : "the vendor's root";
  return { id: "policy.not_simulated", outcome, expected: tolerated === undefined ? "hardware" : `unchecked: ${tolerated}`, got };
}

interface Judged {
  readonly holds: boolean;
  /** Kinds of Attesters that were judged. */
  readonly kinds: ReadonlySet<string>;
}

/** One walk through a policy's tree, which collects a check for every rule, in order. */
class Walk {
  readonly checks: PolicyCheck[] = [];
  /** Branches of alternatives that do not hold: their checks are told and do not count. */
  readonly aside = new Set<string>();
  private readonly set: Claims;

  constructor(
    private readonly result: Result,
    private readonly at: number,
    private readonly reasons: ReadonlyMap<string, string>,
  ) {
    this.set = deviceSet(result);
  }

  body({ members }: Body): Judged {
    const found = members.map((member) => ("rules" in member ? this.leaf(member) : "of" in member ? this.choice(member) : this.body(member)));
    return { holds: found.every(({ holds }) => holds), kinds: union(found) };
  }

  private leaf({ path, kind, rules }: Leaf): Judged {
    const start = this.checks.length;
    const branch = path || undefined;
    const subjects = kind === "set" ? [{ name: undefined, claims: this.set }] : this.result.items.filter((item) => item.kind === kind);
    for (const { name, claims } of subjects) {
      for (const rule of rules) this.checks.push(judge(rule, claims, this.at, this.reasons, { item: name, branch }));
    }
    const holds = this.checks.slice(start).every(({ outcome }) => outcome !== "fail");
    return { holds, kinds: new Set(kind === "set" ? [] : [kind]) };
  }

  private choice({ path, word, count, of }: Choice): Judged {
    const place = this.checks.length;
    const found = of.map((member) => ({ member, ...this.body(member) }));
    const met = found.filter(({ holds }) => holds);
    for (const { member, holds } of found) if (!holds) this.setAside(member);
    const holds = met.length >= count;
    const names = (list: readonly { readonly member: Body }[]): string => list.map(({ member }) => member.path).join(", ");
    const got = met.length ? `${names(met)} hold${met.length === 1 ? "s" : ""}` : "none of them holds";
    const expected = `at least ${count} of ${names(found)}`;
    this.checks.splice(place, 0, { id: `policy.${word}`, outcome: holds ? "pass" : "fail", expected, got, branch: path || undefined });
    // Once enough hold, only what they judged has been judged.
    return { holds, kinds: union(holds ? met : found) };
  }

  private setAside(body: Body): void {
    this.aside.add(body.path);
    for (const member of body.members) {
      if ("of" in member) member.of.forEach((each) => this.setAside(each));
      else if (!("rules" in member)) this.setAside(member);
    }
  }
}

function union(found: readonly Judged[]): Set<string> {
  return new Set(found.flatMap(({ kinds }) => [...kinds]));
}

/** The GPUs and switches of verified evidence as a set. */
function deviceSet({ items, checks }: Result): Claims {
  const gpus = items.filter(({ kind }) => kind === "nvidia-gpu");
  const switches = items.filter(({ kind }) => kind === "nvidia-switch");
  const cpu = items.find(({ kind }) => !kind.startsWith("nvidia-"));
  // A binding that does not fit REPORT_DATA or the devices is never verified.
  const bound = cpu !== undefined && checks.some(({ id, outcome }) => id === "binding.report_data" && outcome === "pass");
  const different = (name: string): string[] => [...new Set(gpus.map(({ claims }) => `${claims[name] ?? "not stated"}`))];
  return {
    gpus: gpus.length,
    switches: switches.length,
    architectures: different("architecture"),
    driver_versions: different("driver_version"),
    bound: bound || !(gpus.length || switches.length),
    ...(cpu ? { cpu_kind: cpu.kind } : {}),
  };
}
