/** Data that evidence commits to by a digest: runtime data of verification services, claims of Open Enclave. */

import { type Bytes, concat, padded } from "../bytes";
import { type CborValue, cborBytes, cborValue, isMap } from "../cbor";
import { type ClaimTree, nestedClaims } from "../claims";
import { type Hash, digest } from "../crypto";
import type { Item } from "../envelope";
import { type Demand, demandsOf, refuse } from "../errors";
import type { ParsedCpu } from "../evidence";
import { Procedure, same } from "../procedure";
import type { Judge } from "./record";

/** Pieces by the name of their rule. */
export type CommittedData = Readonly<Record<string, readonly Bytes[]>>;

interface Rule {
  readonly form: string;
  /** Names of what is hashed, in order; each is a claim. */
  readonly pieces: readonly string[];
  readonly hash: Hash;
  readonly isInHostData?: boolean;
}

const MAX_COMMITTED_BYTES = 1024 * 1024;
const MAA = "Microsoft Azure Attestation";
const ITA = { form: "Intel Trust Authority", pieces: ["nonce", "nonce_time", "runtime_data"] };
const RULES: Readonly<Record<string, Rule>> = {
  "maa-runtime-data": { form: MAA, pieces: ["runtime_data"], hash: "SHA-256" },
  "maa-init-time-data": { form: MAA, pieces: ["init_time_data"], hash: "SHA-256", isInHostData: true },
  "ita-tdx": { ...ITA, hash: "SHA-512" },
  "ita-sgx": { ...ITA, hash: "SHA-256" },
  "open-enclave": { form: "Open Enclave", pieces: ["custom_claims"], hash: "SHA-256" },
};
const CLAUSE = "docs/forms.md";

const demand: Demand = demandsOf("malformed", "committed-data-malformed");

/** Return the item. */
export const committedDataBytes = (data: CommittedData): Bytes => cborBytes(new Map(Object.entries(data)));

function piecesOf(name: string, value: CborValue): readonly Bytes[] {
  const rule = Object.hasOwn(RULES, name) ? RULES[name] : undefined;
  demand(rule, "rule", Object.keys(RULES), name);
  const found = Array.isArray(value) ? (value as readonly CborValue[]) : [];
  const pieces = found.filter((piece): piece is Bytes => piece instanceof Uint8Array);
  demand(pieces.length === found.length && pieces.length === rule.pieces.length, name, "byte strings");
  return pieces;
}

/** Read the item; its judge requires that the evidence commits to the data. */
export function readCommittedData({ value }: Item): Judge {
  demand(value.length <= MAX_COMMITTED_BYTES, "data", MAX_COMMITTED_BYTES, value.length);
  const document = cborValue(value, "committed data");
  demand(isMap(document) && document.size, "data", "a map of rules");
  const data = [...document].map(([name, pieces]) => [name, piecesOf(name, pieces)] as const);
  return (cpu) => judge(data, cpu);
}

async function judge(
  data: readonly (readonly [name: string, pieces: readonly Bytes[]])[],
  cpu: ParsedCpu,
): ReturnType<Judge> {
  const id = (name: string): string => `committed_data.${RULES[name]!.isInHostData ? "host_data" : "report_data"}`;
  const procedure = new Procedure(Object.fromEntries(data.map(([name]) => [name, [id(name), CLAUSE] as const])));
  const claims: Record<string, ClaimTree[string]> = {};
  for (const [name, pieces] of data) {
    const rule = RULES[name]!;
    await procedure.step(name, async ({ tell }) => {
      const wanted = await digest(rule.hash, concat(...pieces));
      tell(...requireCommitment(rule, wanted, cpu));
    });
    claims.form = rule.form;
    for (const [i, piece] of rule.pieces.entries()) claims[piece] = pieces[i];
  }
  return { claims: nestedClaims(claims), checks: procedure.finish() };
}

function requireCommitment({ isInHostData }: Rule, wanted: Bytes, cpu: ParsedCpu): ReturnType<typeof same> {
  const code = "committed-data-mismatch";
  if (!isInHostData) return same(code, "REPORT_DATA", padded(wanted, 64), cpu.reportData);
  const host = cpu.snp?.host_data;
  if (!host) return refuse("unsupported", "evidence-unsupported", "init-time data beside an SNP report", cpu.kind);
  return same(code, "HOST_DATA", wanted, host);
}
