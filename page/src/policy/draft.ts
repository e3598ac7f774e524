/**
 * A policy out of what a machine reports: one row of the table is one demand, and is written as the person chose.
 *
 * Demands without a row keep their strict form; if the machine does not meet one, it has its own row.
 */

import { told, type Claims, claimOf } from "./claims";
import type { ClaimJson, ItemResult, Result } from "../verifier/api";
import { rfc3339 } from "../verifier/bytes";
import { fail } from "../verifier/errors";
import { type AttestationResult, appraise } from "./appraise";
import { type Policy, loadPolicy } from "./document";
import { together } from "./kept";
import type { Choice, Choices, Row } from "./row";
import { type PolicyCheck } from "./rules";

export { loadPolicy } from "./document";

/** A policy document that is being written. */
type Draft = Record<string, unknown>;

interface Fact extends Omit<Row, "demanded" | "outcome"> {
  /** Values to write into the policy by place, where undefined clears; the checks of those places evaluate it. */
  readonly write: (choice: Choice, at: string) => Readonly<Record<string, unknown>>;
}

const RELAXED = "accepted in the page on";

/** Write a value to its place, which undefined clears. */
function put(draft: Draft, path: string, value: unknown): void {
  const names = path.split(".");
  const last = names.pop()!; // of at least one
  names.reduce((inner, name) => (inner[name] ??= {}) as Draft, draft)[last] = value;
}

const fact = (
  id: string,
  value: unknown,
  write: Fact["write"],
  kinds: readonly Choice[] = ["newer", "exact"],
  subject = "",
): Fact => ({ id, subject, reported: told(value), value, kinds, write });

// -- what can be accepted

/** A measurement: exactly this value, under the name of the row. */
function measured(id: string, value: ClaimJson | undefined, kinds: readonly Choice[] = ["exact"]): Fact {
  const name = id.replace(".", "-");
  const exactly = (at: string) => ({
    [`reference_values.${name}`]: { origin: `the page, ${at}`, values: [value] },
    [id]: [name],
  });
  return fact(
    id,
    value,
    (choice, at) =>
      choice === "exact" ? exactly(at) : { [id]: { unchecked: "the signer identifies newer versions" } },
    kinds,
  );
}

function snpFacts(claims: Claims): Fact[] {
  const product = told(claims.product);
  const tcbs = (choice: Choice): [string, unknown][] =>
    ["", "committed_", "launch_"].flatMap((which): [string, unknown][] => {
      const levels = claims[`${which || "reported_"}tcb`];
      const exact = choice === "exact";
      return [
        [`snp.minimum_${which}tcb`, exact ? undefined : { [product]: levels }],
        [`snp.exact_${which}tcb`, exact ? { [product]: [levels] } : undefined],
      ];
    });
  return [
    measured("snp.measurement", claims.measurement),
    fact(
      "snp.tcb",
      claims.reported_tcb,
      (choice) => ({ "snp.products": [product], ...Object.fromEntries(tcbs(choice)) }),
      undefined,
      product,
    ),
  ];
}

const REGISTERS = [0, 1, 2, 3];

function tdxFacts(claims: Claims, registers: readonly number[]): Fact[] {
  const version = claimOf(claims, "tdx_module.major_version");
  const svn = claimOf(claims, "tdx_module.svn");
  return [
    measured("tdx.mr_td", claims.mr_td),
    ...registers.map((index) => measured(`tdx.rtmr${index}`, claims[`rtmr${index}`])),
    fact("tdx.module", { version, svn }, (choice) => ({
      "tdx.mr_seam": choice === "exact" ? [claims.mr_seam] : undefined,
      "tdx.minimum_tdx_module_svn": { [told(version)]: svn },
    })),
  ];
}

/** Measurements of dstack in RTMR3: the app-compose that it started, its image and app, and its key provider. */
function dstackFacts(claims: Claims): Fact[] {
  const { compose_hash, os_image_hash, app_id, key_provider } = (claimOf(claims, "eventlog.dstack") ?? {}) as Claims;
  const { name, id } = (key_provider ?? {}) as Claims;
  const found = {
    compose_hashes: compose_hash,
    os_images: os_image_hash,
    app_ids: app_id,
    // A provider without an id is known by its name.
    key_providers: id === "" ? { name: name! } : key_provider,
  };
  return Object.entries(found).flatMap(([key, value]) => {
    const place = `dstack.${key}`;
    return value === undefined ? [] : [fact(place, value, () => ({ [place]: [value] }), ["exact"])];
  });
}

/** An enclave is known by its measurement, or by who signed it; the signer's rows are demanded in either case. */
function sgxFacts({
  mr_enclave: measurement,
  mr_signer: signer,
  isv_prod_id: product,
  isv_svn: version,
}: Claims): Fact[] {
  const demands = { "sgx.mr_signer": [signer], "sgx.isv_prod_id": [product], "sgx.minimum_isv_svn": version };
  return [
    measured("sgx.mr_enclave", measurement, ["exact", "newer"]),
    fact("sgx.signer", { signer, product, version }, () => demands, ["newer"]),
  ];
}

const PCRS = [...Array(10).keys(), 11, 12, 13, 14, 15];

const azureFacts = (claims: Claims): Fact[] =>
  PCRS.flatMap((index) => {
    const value = claimOf(claims, `pcrs.${index}`);
    return /[^0]/.test(told(value)) ? measured(`azure.pcr${index}`, value) : [];
  });

/** Versions of all devices of a kind: these, or these and newer ones of the same family. */
function versions(id: string, values: readonly string[]): Fact {
  const newer = (value: string): unknown => ({
    at_least: value,
    ...(id.includes("vbios") && { below: (Number.parseInt(value, 16) + 1).toString(16).toUpperCase() }),
  });
  return fact(id, values, (choice) => ({
    [id]: values.map((value) => (choice === "exact" ? { exactly: value } : newer(value))),
  }));
}

function deviceFacts(items: readonly ItemResult[], kind: string, key: string, count: string): Fact[] {
  const found = items.filter((item) => item.kind === kind);
  if (!found.length) return [];
  const all = (name: string): string[] => [...new Set(found.map(({ claims }) => told(claims[name])))];
  const architectures = all("architecture");
  const isGpu = key === "gpu";
  const demands = { [`devices.${count}`]: found.length, ...(isGpu && { "gpu.architectures": architectures }) };
  return [
    fact(`devices.${count}`, found.length, () => demands, ["exact"], told(architectures)),
    ...(isGpu ? [versions("gpu.driver_versions", all("driver_version"))] : []),
    versions(`${key}.vbios_versions`, all("vbios_version")),
  ];
}

const SIMULATED = fact("not_simulated", "yes", (_, at) => ({ simulated: { unchecked: `${RELAXED} ${at}` } }), [
  "exact",
]);

const CPUS: Readonly<Record<string, (claims: Claims) => Fact[]>> = {
  "sev-snp": snpFacts,
  tdx: (claims) => [...tdxFacts(claims, REGISTERS), ...dstackFacts(claims)],
  sgx: sgxFacts,
  "azure-snp": (claims) => [...azureFacts(claims), ...snpFacts(claims.snp as Claims)],
  // The registers of a TD on Azure are zeros.
  "azure-tdx": (claims) => [...azureFacts(claims), ...tdxFacts(claims.tdx as Claims, [])],
};

const factsOf = ({ items, simulated }: Result): Fact[] => [
  ...(simulated ? [SIMULATED] : []),
  ...items.flatMap(({ kind, claims }) => CPUS[kind]?.(claims) ?? []),
  ...deviceFacts(items, "nvidia-gpu", "gpu", "gpus"),
  ...deviceFacts(items, "nvidia-switch", "nvswitch", "switches"),
];

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
  const facts = factsOf(result);
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
    written(before, factsOf(result), choices, at, before && appraise(result, before, at).failed),
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
