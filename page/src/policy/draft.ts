/**
 * A policy out of what a machine reports: one row of the table is one demand, and is written as the person chose.
 *
 * What no row speaks of is demanded in its strict form; where the machine does not meet that, a row of its own says so.
 */

import type { ClaimJson, ItemResult, Result } from "../verifier/api";
import { refusal } from "../verifier/errors";
import { type AttestationResult, appraise } from "./appraise";
import { canonical } from "./decode";
import { type Policy, loadPolicy } from "./document";

/** How a row is accepted: exactly this, or this and newer ones. */
export type Choice = "exact" | "newer";

/** A row of the table "reported now, your policy, result". */
export interface Row {
  /** What a choice names; of a row that only a check speaks of, the check's id. */
  readonly id: string;
  /** For people; empty where the id says it. */
  readonly label: string;
  readonly reported: string;
  /** Empty where no policy demands anything. */
  readonly demanded: string;
  readonly outcome: "pass" | "fail" | "warning" | "not evaluated";
  /** How it may be accepted. */
  readonly kinds: readonly Choice[];
}

type Json = ClaimJson | undefined;
/** A policy document that is being written. */
type Draft = Record<string, Record<string, unknown> & { [name: string]: unknown }>;
export type Choices = Readonly<Record<string, Choice>>;

interface Fact {
  readonly id: string;
  readonly label: string;
  readonly reported: string;
  readonly kinds: readonly Choice[];
  /** Ids of the policy's checks that judge it, without `policy.` in front. */
  readonly judged: readonly string[];
  write(draft: Draft, choice: Choice, at: string): void;
}

const RELAXED = "accepted in the page on";

// -- reading claims

function claim(value: Json, path: string): Json {
  let found = value;
  for (const name of path.split(".")) found = typeof found === "object" && found !== null && !Array.isArray(found) ? (found as Readonly<Record<string, ClaimJson>>)[name] : undefined;
  return found;
}

const shown = (value: Json): string =>
  typeof value === "object" && value !== null ? Object.entries(value).map(([name, level]) => `${name} ${String(level)}`).join(", ") : `${value ?? "absent"}`;

const section = (draft: Draft, name: string): Record<string, unknown> => (draft[name] ??= {});

// -- what can be accepted

/** A measurement: exactly this value, under the name of the row. */
function measured(key: string, name: string, label: string, value: Json): Fact {
  const id = `${key}.${name}`;
  return {
    id,
    label,
    reported: shown(value),
    kinds: ["exact"],
    judged: [id],
    write(draft, _, at) {
      const reference = id.replace(".", "-");
      section(draft, "reference_values")[reference] = { origin: `the page, ${at}`, values: [value] };
      section(draft, key)[name] = [reference];
    },
  };
}

const TCBS = ["", "committed_", "launch_"] as const;

function snpFacts(claims: Json): Fact[] {
  const product = shown(claim(claims, "product"));
  const levels = (which: string): Json => claim(claims, `${which || "reported_"}tcb`);
  const tcb: Fact = {
    id: "snp.tcb",
    label: `Firmware of the AMD ${product}`,
    reported: shown(levels("")),
    kinds: ["newer", "exact"],
    judged: TCBS.flatMap((which) => [`snp.minimum_${which}tcb`, `snp.exact_${which}tcb`]).concat("snp.products"),
    write(draft, choice) {
      const into = section(draft, "snp");
      into["products"] = [product];
      for (const which of TCBS) {
        delete into[`minimum_${which}tcb`];
        delete into[`exact_${which}tcb`];
        into[`${choice === "exact" ? "exact" : "minimum"}_${which}tcb`] = { [product]: choice === "exact" ? [levels(which)] : levels(which) };
      }
    },
  };
  return [measured("snp", "measurement", "Launch measurement of the guest", claim(claims, "measurement")), tcb];
}

function tdxFacts(claims: Json, bare: boolean): Fact[] {
  const registers = bare ? ["firmware settings", "boot loader and kernel", "what these loaded", "the guest itself"] : [];
  const svn = claim(claims, "tdx_module");
  const module: Fact = {
    id: "tdx.module",
    label: "Intel's TDX module",
    reported: `version ${shown(claim(svn, "major_version"))}, svn ${shown(claim(svn, "svn"))}`,
    kinds: ["newer", "exact"],
    judged: ["tdx.minimum_tdx_module_svn", "tdx.mr_seam"],
    write(draft, choice) {
      const into = section(draft, "tdx");
      delete into["mr_seam"];
      if (choice === "exact") into["mr_seam"] = [claim(claims, "mr_seam")];
      into["minimum_tdx_module_svn"] = { [shown(claim(svn, "major_version"))]: claim(svn, "svn") };
    },
  };
  return [
    measured("tdx", "mr_td", "Firmware of the guest", claim(claims, "mr_td")),
    ...registers.map((label, index) => measured("tdx", `rtmr${index}`, `Register ${index}: ${label}`, claim(claims, `rtmr${index}`))),
    module,
  ];
}

const PCRS = [...Array(10).keys(), 11, 12, 13, 14, 15];

function azureFacts(claims: Json, cpu: "snp" | "tdx"): Fact[] {
  const set = PCRS.filter((index) => /[^0]/.test(shown(claim(claims, `pcrs.${index}`))));
  const pcrs = set.map((index) => measured("azure", `pcr${index}`, `Boot register ${index}`, claim(claims, `pcrs.${index}`)));
  return [...pcrs, ...(cpu === "snp" ? snpFacts(claim(claims, "snp")) : tdxFacts(claim(claims, "tdx"), false))];
}

/** Versions of all devices of a kind: these, or these and newer ones of the same family. */
function versions(key: string, name: string, label: string, values: readonly string[]): Fact {
  const ranges = (value: string): Record<string, string> => {
    const family = Number.parseInt(value, 16) + 1;
    return { at_least: value, ...(name === "vbios_versions" && { below: family.toString(16).toUpperCase() }) };
  };
  return {
    id: `${key}.${name}`,
    label,
    reported: values.join(", "),
    kinds: ["newer", "exact"],
    judged: [`${key}.${name}`],
    write(draft, choice) {
      section(draft, key)[name] = values.map((value) => (choice === "exact" ? { exactly: value } : ranges(value)));
    },
  };
}

function deviceFacts(items: readonly ItemResult[], kind: string, key: string, count: string, label: string): Fact[] {
  const found = items.filter((item) => item.kind === kind);
  if (!found.length) return [];
  const all = (name: string): string[] => [...new Set(found.map(({ claims }) => shown(claims[name])))];
  const architectures = all("architecture");
  const number: Fact = {
    id: `devices.${count}`,
    label: `${label}s`,
    reported: `${found.length} of ${architectures.join(", ")}`,
    kinds: ["exact"],
    judged: [`devices.${count}`, `${key}.architectures`],
    write(draft) {
      section(draft, "devices")[count] = found.length;
      if (key === "gpu") section(draft, key)["architectures"] = architectures;
    },
  };
  const driver = key === "gpu" ? [versions(key, "driver_versions", `${label} driver`, all("driver_version"))] : [];
  return [number, ...driver, versions(key, "vbios_versions", `${label} firmware`, all("vbios_version"))];
}

const SIMULATED: Fact = {
  id: "not_simulated",
  label: "A simulated machine, whose keys everybody has",
  reported: "yes",
  kinds: ["exact"],
  judged: ["not_simulated"],
  write(draft, _, at) {
    Object.assign(draft, { simulated: { unchecked: `${RELAXED} ${at}` } });
  },
};

function factsOf({ items, simulated }: Result): Fact[] {
  const cpus = items.flatMap(({ kind, claims }) => {
    if (kind === "sev-snp") return snpFacts(claims);
    if (kind === "tdx") return tdxFacts(claims, true);
    return kind === "azure-snp" || kind === "azure-tdx" ? azureFacts(claims, kind === "azure-snp" ? "snp" : "tdx") : [];
  });
  const devices = [...deviceFacts(items, "nvidia-gpu", "gpu", "gpus", "GPU"), ...deviceFacts(items, "nvidia-switch", "nvswitch", "switches", "NVSwitch")];
  return [...(simulated ? [SIMULATED] : []), ...cpus, ...devices];
}

// -- the table

const WORST = ["fail", "warning", "not evaluated", "pass"] as const;

/** Rows for what can be accepted, then for whatever else is not met; without a policy nothing is accepted yet. */
export async function rows(result: Result, policy: Policy | undefined, at: number): Promise<{ readonly rows: readonly Row[]; readonly judged: AttestationResult | undefined }> {
  const facts = factsOf(result);
  const judged = policy && appraise(result, policy, at);
  const strict = judged ?? (facts.length ? appraise(result, await loadPolicy(written(undefined, facts, {}, at)), at) : undefined);
  const covered = new Set(facts.flatMap((fact) => fact.judged.map((id) => `policy.${id}`)));
  const known = facts.map((fact) => rowOf(fact, judged));
  const others = (strict?.failed ?? []).filter(({ id }) => !covered.has(id)).map(({ id, got, expected }): Row => ({
    id,
    label: "",
    reported: got,
    demanded: expected,
    outcome: "fail",
    kinds: placeOf(id) ? ["exact"] : [],
  }));
  return { rows: [...known, ...others], judged };
}

function rowOf({ id, label, reported, kinds, judged: ids }: Fact, judged: AttestationResult | undefined): Row {
  const checks = (judged?.checks ?? []).filter((check) => check.counts && ids.some((one) => check.id === `policy.${one}`));
  const outcome = WORST.find((one) => checks.some((check) => check.outcome === one)) ?? "not evaluated";
  const demanded = [...new Set(checks.map(({ expected }) => expected))].join("; ");
  return { id, label, reported, demanded, outcome, kinds };
}

/** Where a strict demand is relaxed: `policy.azure.vm_configuration.console_enabled`; only switches of sections are. */
function placeOf(id: string): readonly string[] | undefined {
  const [head, ...place] = id.split(".");
  return head === "policy" && place.length > 1 && place[0] !== "devices" ? place : undefined;
}

// -- the document

/** Write the policy that accepts what was chosen, over the one that is there: `policy-invalid` where that cannot be. */
export async function propose(result: Result, choices: Choices, before: Policy | undefined, at: number): Promise<string> {
  const text = written(before, factsOf(result), choices, at);
  const { failed } = appraise(result, await loadPolicy(text), at);
  if (failed.length) throw refusal("malformed", "policy-invalid", "a policy that the machine meets", failed.map(({ id }) => id).join(", "));
  return text;
}

/** Without choices: everything that a row speaks of, exactly. */
function written(before: Policy | undefined, facts: readonly Fact[], choices: Choices, at: number): string {
  const moment = new Date(at).toISOString().replace(/\.\d+Z/, "Z");
  const draft = (before ? JSON.parse(canonical(before.document)) : { schema: "attest.policy/1", name: "accepted-in-the-page", version: 0 }) as Draft;
  Object.assign(draft, { version: Number(draft["version"]) + 1 });
  const every = !Object.keys(choices).length;
  for (const fact of facts) {
    const choice = every ? "exact" : choices[fact.id];
    if (choice) fact.write(draft, choice, moment);
  }
  for (const id of Object.keys(choices)) {
    const place = placeOf(id);
    if (place) relax(draft, place, `${RELAXED} ${moment}`);
  }
  return JSON.stringify(draft, undefined, 1);
}

function relax(draft: Draft, place: readonly string[], reason: string): void {
  let inner: Record<string, unknown> = draft;
  for (const name of place.slice(0, -1)) inner = (inner[name] ??= {}) as Record<string, unknown>;
  inner[place.at(-1) ?? ""] = { unchecked: reason };
}
