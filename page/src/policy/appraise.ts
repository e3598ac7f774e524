/** Appraise verified evidence by a policy, and return a result with every check, as `attest.appraisal` does. */

import { told, type Claims } from "./claims";
import type { Result } from "../verifier/api";
import { notUnderstood } from "../verifier/warnings";
import type { Policy } from "./document";
import type { Walk } from "./judge";
import type { PolicyCheck } from "./rules";

export interface AttestationResult {
  /** True if nothing failed that counts. */
  readonly affirmed: boolean;
  readonly checks: readonly (PolicyCheck & { readonly counts: boolean })[];
  readonly failed: readonly PolicyCheck[];
}

/** Judge verified evidence; a result that was refused is never affirmed. */
export function appraise(result: Result, policy: Policy, at: number): AttestationResult {
  const { items, freshness, simulated, outcome, error } = result;
  const reasons = new Map([...policy.unchecked, ...result.unchecked].map(({ check, reason }) => [check, reason]));
  const walk: Walk = { items, sets: deviceSets(result), at, reasons, checks: [], aside: new Set() };
  const { kinds } = policy.judge(walk);
  const checks = [
    // Refused evidence has no items, and a policy of branches alone might demand nothing of it.
    ...(outcome === "verified" ? [] : [whole("evidence.verified", false, "verified evidence", error?.code ?? outcome)]),
    whole("freshness", freshness === "matched", "matched", freshness, reasons.get("freshness")),
    whole("policy.not_simulated", !simulated, "hardware", simulated ? "SIMULATED" : "hardware", policy.simulated),
    ...items.flatMap((item) => notNamed(item, policy)),
    ...walk.checks,
    ...items.flatMap(({ name, kind }) =>
      kinds.includes(kind) ? [] : { ...whole("policy.kind", false, `one of ${kinds.join(", ")}`, kind), item: name },
    ),
  ].map((check) => ({ ...check, counts: check.branch === undefined || !walk.aside.has(check.branch) }));
  const failed = checks.filter((check) => check.counts && check.outcome === "fail");
  return { affirmed: !failed.length, checks, failed };
}

/** Values without a known meaning that verification accepted and the policy does not name. */
function notNamed({ name, kind, claims }: Result["items"][number], { tolerances }: Policy): PolicyCheck[] {
  const { gpus, switches, spls } = tolerances;
  const named = { "nvidia-gpu": gpus.acceptedOpaque, "nvidia-switch": switches.acceptedOpaque }[kind] ?? spls;
  const extra = notUnderstood(claims).filter((value) => !Object.hasOwn(named, value));
  const check = whole("policy.not_understood", false, told(Object.keys(named).sort()), told(extra));
  return extra.length ? [{ ...check, item: name }] : [];
}

/** A check of the whole, and the reason for which it may fail. */
function whole(id: string, holds: boolean, expected: string, got: string, reason?: string): PolicyCheck {
  const outcome = holds ? "pass" : "fail";
  if (reason === undefined) return { id, outcome, expected, got };
  return { id, outcome: holds ? "pass" : "not evaluated", expected: `unchecked: ${reason}`, got };
}

/** The devices of each machine of a document, but of a gateway that is not alone; or those of other evidence. */
function deviceSets({ items, checks }: Result): Walk["sets"] {
  // A binding that does not fit REPORT_DATA or the devices is never verified.
  const isBound = checks.some(({ id, outcome }) => id === "binding.report_data" && outcome === "pass");
  if (items.every(({ machine }) => machine === undefined)) {
    return [{ name: undefined, claims: deviceSet(items, isBound) }];
  }
  const served = items.filter(({ role }) => role !== "gateway");
  const serving = served.length ? served : items;
  return [...new Set(serving.map(({ machine }) => machine))].map((name) => {
    const own = serving.filter(({ machine }) => machine === name);
    // Only a hash of their evidence in REPORT_DATA commits to exactly these devices.
    return {
      name,
      claims: deviceSet(
        own,
        own.some(({ claims }) => claims.gpu_binding === "hash"),
      ),
    };
  });
}

/** The GPUs and switches of one machine as a set. */
function deviceSet(items: Result["items"], isBound: boolean): Claims {
  const gpus = items.filter(({ kind }) => kind === "nvidia-gpu");
  const switches = items.filter(({ kind }) => kind === "nvidia-switch");
  const cpu = items.find(({ kind }) => !/^nvidia|-device$/.test(kind));
  const bound = cpu !== undefined && isBound;
  const different = (name: string): string[] => [
    ...new Set(gpus.map(({ claims }) => told(claims[name] ?? "not stated"))),
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
