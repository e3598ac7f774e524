/** The person's policy: read, applied and written. */

import type { Policy } from "../policy/document";
import type { Voucher } from "../policy/reference_documents";
import type { JsonObject } from "../verifier/json";
import type { Choices, Row } from "../policy/row";
import { together } from "../policy/kept";
import type { Result, UncheckedReason, VerifyOptions } from "../verifier/api";
import { part } from "../verifier/parts";
import { verifyEvidence } from "../verifier/verify_evidence";
import type { PolicyInForce, State } from "./state";

export interface Judgement {
  readonly affirmed: boolean;
  readonly rows: readonly Row[];
  readonly policy: State["policy"];
}

/** Judge verified evidence; without a policy nothing is affirmed. */
export async function judge(result: Result, text: string | undefined, at: number): Promise<Judgement> {
  const policy = await policyOf(text);
  const { rows } = await part(import("../policy/draft"));
  const found = await rows(result, policy, at);
  return {
    affirmed: found.judged?.affirmed === true,
    rows: found.rows,
    policy: policy && (await inForce(policy)),
  };
}

/** What a page shows of a policy. */
export async function inForce(policy: Policy): Promise<PolicyInForce> {
  const { name, version, digest } = policy;
  const vouchers = vouchersOf(policy);
  const documents = vouchers.filter(({ isSigned }) => isSigned).map(({ document }) => document);
  const isBuilt = vouchers.some(({ built }) => built);
  const built = isBuilt ? (await part(import("./built"))).builtOf(vouchers) : [];
  return { name, version, digest, documents, built };
}

/**
 * Verify under the vendors' roots. Only evidence that the simulator signed is verified under the simulator's root, and
 * its result is marked. Nothing may be missing or differ, except what the policy leaves unjudged or tolerates, and what
 * the options name.
 */
export async function verified(
  evidence: Parameters<typeof verifyEvidence>[0],
  options: VerifyOptions,
  policy: Policy | undefined,
): Promise<Result> {
  const unchecked = [...(policy?.unchecked ?? []), ...(options.unchecked ?? [])] as readonly UncheckedReason[];
  const demands = { ...options, unchecked, tolerances: policy?.tolerances };
  const found = await verifyEvidence(evidence, demands);
  return found.error?.code === "simulated-root-refused"
    ? verifyEvidence(evidence, { ...demands, anchors: "simulation" })
    : found;
}

/** Read a policy: `policy-invalid`. */
export async function policyOf(text: string | undefined): Promise<Policy | undefined> {
  if (text === undefined) return undefined;
  // Fetched when there is a policy, or a result: nothing of it is needed to ask for the first one.
  const { loadPolicy } = await part(import("../policy/draft"));
  return loadPolicy(text);
}

/** Write a policy that accepts what is reported, row by row, over the one that is there. */
export async function accepting(
  result: Result,
  choices: Choices,
  before: string | undefined,
  at: number,
): Promise<string> {
  const { propose } = await part(import("../policy/draft"));
  return propose(result, choices, await policyOf(before), at);
}

/** Read what a person gives; what cannot be used here is refused before it takes the place of anything. */
export async function readPolicy(texts: readonly string[]): Promise<string> {
  const text = together(texts);
  await policyOf(text);
  return text;
}

const SOFTWARE = { snp: "measurement", tdx: "mr_td", sgx: "mr_enclave" };

/** The documents with a signature or provenance that a policy knows software by; none if it knows any other value. */
function vouchersOf({ document, vouchers }: Policy): readonly Voucher[] {
  const named = Object.entries(SOFTWARE).flatMap(([section, key]) => {
    const names = (document[section] as JsonObject | undefined)?.[key];
    return Array.isArray(names) ? (names as string[]) : [];
  });
  const known = vouchers.filter(({ isSigned, built }) => isSigned || built !== undefined);
  const isKnown = named.every((name) => known.some(({ names }) => names.includes(name)));
  return isKnown ? known.filter(({ names }) => names.some((name) => named.includes(name))) : [];
}
