/**
 * A policy out of what a machine reports: one row of the table is one demand, and is written as the person chose.
 *
 * What no row speaks of is demanded in its strict form; where the machine does not meet that, a row of its own says so.
 */

import type { ClaimJson, ItemResult, Result } from "../verifier/api";
import { rfc3339 } from "../verifier/bytes";
import { fail } from "../verifier/errors";
import { type AttestationResult, appraise } from "./appraise";
import { told } from "./decode";
import { type Policy, loadPolicy } from "./document";
import { type Claims, type PolicyCheck, claimOf } from "./rules";

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

/** A policy document that is being written. */
interface Draft {
  [name: string]: unknown;
}
export type Choices = Readonly<Record<string, Choice>>;

interface Fact extends Omit<Row, "demanded" | "outcome"> {
  /** Ids of the policy's checks that judge it, without `policy.` in front. */
  readonly judged: readonly string[];
  write(draft: Draft, choice: Choice, at: string): void;
}

const RELAXED = "accepted in the page on";
const BOTH: readonly Choice[] = ["newer", "exact"];

/** Write a value to its place, which undefined clears. */
function put(draft: Draft, path: string, value: unknown): void {
  const names = path.split(".");
  const last = names.pop() as string; // of at least one
  names.reduce((inner, name) => (inner[name] ??= {}) as Draft, draft)[last] = value;
}

const fact = (id: string, label: string, reported: unknown, judged: readonly string[], write: Fact["write"], kinds = BOTH): Fact => ({ id, label, reported: told(reported), kinds, judged, write });

// -- what can be accepted

/** A measurement: exactly this value, under the name of the row. */
function measured(id: string, label: string, value: ClaimJson | undefined, kinds: readonly Choice[] = ["exact"]): Fact {
  const reference = id.replace(".", "-");
  return fact(id, label, value, [id], (draft, choice, at) => {
    const exact = choice === "exact";
    if (exact) put(draft, `reference_values.${reference}`, { origin: `the page, ${at}`, values: [value] });
    put(draft, id, exact ? [reference] : { unchecked: "the signer vouches for newer versions" });
  }, kinds);
}

const TCBS = ["", "committed_", "launch_"];

function snpFacts(claims: Claims): Fact[] {
  const product = told(claims.product);
  const levels = (which: string): unknown => claims[`${which || "reported_"}tcb`];
  const judged = ["snp.products", ...TCBS.flatMap((which) => [`snp.minimum_${which}tcb`, `snp.exact_${which}tcb`])];
  const tcb = fact("snp.tcb", `Firmware of the AMD ${product}`, levels(""), judged, (draft, choice) => {
    put(draft, "snp.products", [product]);
    for (const which of TCBS) {
      put(draft, `snp.minimum_${which}tcb`, choice === "exact" ? undefined : { [product]: levels(which) });
      put(draft, `snp.exact_${which}tcb`, choice === "exact" ? { [product]: [levels(which)] } : undefined);
    }
  });
  return [measured("snp.measurement", "Launch measurement of the guest", claims.measurement), tcb];
}

const REGISTERS = ["firmware settings", "boot loader and kernel", "what these loaded", "the guest itself"];

function tdxFacts(claims: Claims, registers: readonly string[]): Fact[] {
  const [version, svn] = ["major_version", "svn"].map((name) => claimOf(claims, `tdx_module.${name}`));
  return [
    measured("tdx.mr_td", "Firmware of the guest", claims.mr_td),
    ...registers.map((label, index) => measured(`tdx.rtmr${index}`, `Register ${index}: ${label}`, claims[`rtmr${index}`])),
    fact("tdx.module", "Intel's TDX module", { version, svn }, ["tdx.minimum_tdx_module_svn", "tdx.mr_seam"], (draft, choice) => {
      put(draft, "tdx.mr_seam", choice === "exact" ? [claims.mr_seam] : undefined);
      put(draft, "tdx.minimum_tdx_module_svn", { [`${version}`]: svn });
    }),
  ];
}

/** An enclave is known by its measurement, or by who signed it; the signer's rows are demanded in either case. */
function sgxFacts(claims: Claims): Fact[] {
  const [signer, product, version] = ["mr_signer", "isv_prod_id", "isv_svn"].map((name) => claims[name]);
  return [
    measured("sgx.mr_enclave", "Measurement of the enclave", claims.mr_enclave, ["exact", "newer"]),
    fact("sgx.signer", "Signer of the enclave, product, and least version", { signer, product, version }, ["sgx.mr_signer", "sgx.isv_prod_id", "sgx.minimum_isv_svn"], (draft) => {
      put(draft, "sgx.mr_signer", [signer]);
      put(draft, "sgx.isv_prod_id", [product]);
      put(draft, "sgx.minimum_isv_svn", version);
    }, ["newer"]),
  ];
}

const PCRS = [...Array(10).keys(), 11, 12, 13, 14, 15];

const azureFacts = (claims: Claims): Fact[] =>
  PCRS.flatMap((index) => {
    const value = claimOf(claims, `pcrs.${index}`);
    return /[^0]/.test(told(value)) ? measured(`azure.pcr${index}`, `Boot register ${index}`, value) : [];
  });

/** Versions of all devices of a kind: these, or these and newer ones of the same family. */
function versions(id: string, label: string, values: readonly string[]): Fact {
  const newer = (value: string): unknown => ({
    at_least: value,
    ...(id.endsWith("vbios_versions") && { below: (Number.parseInt(value, 16) + 1).toString(16).toUpperCase() }),
  });
  return fact(id, label, values, [id], (draft, choice) => put(draft, id, values.map((value) => (choice === "exact" ? { exactly: value } : newer(value)))));
}

function deviceFacts(items: readonly ItemResult[], kind: string, key: string, count: string, label: string): Fact[] {
  const found = items.filter((item) => item.kind === kind);
  if (!found.length) return [];
  const all = (name: string): string[] => [...new Set(found.map(({ claims }) => told(claims[name])))];
  const architectures = all("architecture");
  const isGpu = key === "gpu";
  return [
    fact(`devices.${count}`, `${label}s`, `${found.length} of ${told(architectures)}`, [`devices.${count}`, `${key}.architectures`], (draft) => {
      put(draft, `devices.${count}`, found.length);
      if (isGpu) put(draft, "gpu.architectures", architectures);
    }, ["exact"]),
    ...(isGpu ? [versions("gpu.driver_versions", `${label} driver`, all("driver_version"))] : []),
    versions(`${key}.vbios_versions`, `${label} firmware`, all("vbios_version")),
  ];
}

const SIMULATED = fact("not_simulated", "A simulated machine, whose keys everybody has", "yes", ["not_simulated"], (draft, _, at) => put(draft, "simulated", { unchecked: `${RELAXED} ${at}` }), ["exact"]);

const CPUS: Readonly<Record<string, (claims: Claims) => Fact[]>> = {
  "sev-snp": snpFacts,
  tdx: (claims) => tdxFacts(claims, REGISTERS),
  sgx: sgxFacts,
  "azure-snp": (claims) => [...azureFacts(claims), ...snpFacts(claims.snp as Claims)],
  // The registers of a TD on Azure are zeros.
  "azure-tdx": (claims) => [...azureFacts(claims), ...tdxFacts(claims.tdx as Claims, [])],
};

const factsOf = ({ items, simulated }: Result): Fact[] => [
  ...(simulated ? [SIMULATED] : []),
  ...items.flatMap(({ kind, claims }) => CPUS[kind]?.(claims) ?? []),
  ...deviceFacts(items, "nvidia-gpu", "gpu", "gpus", "GPU"),
  ...deviceFacts(items, "nvidia-switch", "nvswitch", "switches", "NVSwitch"),
];

// -- the table

const WORST = ["fail", "warning", "not evaluated", "pass"] as const;

/** Whether a strict demand can be relaxed in its place: only one of a section at the top. */
const placeOf = (path = ""): string | undefined => (/^(?!devices)[^[]*\./.test(path) ? path : undefined);
const rowId = ({ id, path }: PolicyCheck): string => (placeOf(path) ? `policy.${path}` : id);

/** Rows for what can be accepted, then for whatever else is not met; without a policy nothing is accepted yet. */
export async function rows(result: Result, policy: Policy | undefined, at: number): Promise<{ readonly rows: readonly Row[]; readonly judged: AttestationResult | undefined }> {
  const facts = factsOf(result);
  const judged = policy && appraise(result, policy, at);
  const { failed = [] } = judged ?? (facts.length ? appraise(result, await loadPolicy(written(undefined, facts, {}, at)), at) : {});
  const covered = facts.flatMap((one) => one.judged);
  const others = failed
    .filter((check, i) => !covered.includes(check.id.slice(7)) && failed.findIndex((other) => rowId(other) === rowId(check)) === i)
    .map((check): Row => ({ id: rowId(check), label: "", reported: check.got, demanded: check.expected, outcome: "fail", kinds: placeOf(check.path) ? ["exact"] : [] }));
  return { rows: [...facts.map((one) => rowOf(one, judged)), ...others], judged };
}

function rowOf({ id, label, reported, kinds, judged: ids }: Fact, judged: AttestationResult | undefined): Row {
  const checks = (judged?.checks ?? []).filter((check) => check.counts && ids.includes(check.id.slice(7)));
  const outcome = WORST.find((one) => checks.some((check) => check.outcome === one)) ?? "not evaluated";
  const demanded = [...new Set(checks.map(({ expected }) => expected))].join("; ");
  return { id, label, reported, demanded, outcome, kinds };
}

// -- the document

/** Write the policy that accepts what was chosen, over the one that is there: `policy-invalid` where that cannot be. */
export async function propose(result: Result, choices: Choices, before: Policy | undefined, at: number): Promise<string> {
  const text = written(before, factsOf(result), choices, at, before && appraise(result, before, at).failed);
  const { failed } = appraise(result, await loadPolicy(text, before?.files), at);
  if (failed.length) fail("malformed", "policy-invalid", "", { expected: "a policy that the machine meets", got: failed.map(({ id }) => id).join(", ") });
  return text;
}

/** Without choices: everything that a row speaks of, exactly. */
function written(before: Policy | undefined, facts: readonly Fact[], choices: Choices, at: number, open: readonly PolicyCheck[] = []): string {
  const moment = rfc3339(at - (at % 1000));
  const draft: Draft = before ? structuredClone(before.document) : { schema: "attest.policy/1", name: "accepted-in-the-page", version: 0 };
  put(draft, "version", Number(draft.version) + 1);
  const chosen = Object.keys(choices);
  for (const { id, write } of facts) {
    const choice = chosen.length ? choices[id] : "exact";
    if (choice) write(draft, choice, moment);
  }
  for (const id of chosen) {
    const place = placeOf(id.replace("policy.", ""));
    if (!place || id === place) continue;
    // What a log tells is listed; everything else that is accepted here is a relaxation.
    const found = /event_log\.(?!app)/.test(place) && open.find((check) => rowId(check) === id)?.found;
    put(draft, place, Array.isArray(found) && found.length ? found : { unchecked: `${RELAXED} ${moment}` });
  }
  return JSON.stringify(draft, undefined, 1);
}
