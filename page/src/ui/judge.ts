/** The person's policy: read, applied and written. */

import { type Policy, loadPolicy } from "../policy/document";
import type { Choices, Row } from "../policy/draft";
import { together } from "../policy/kept";
import type { Result } from "../verifier/api";
import type { State } from "./state";
import { sentence } from "./words";

export interface Judgement {
  readonly affirmed: boolean;
  readonly rows: readonly Row[];
  readonly policy: State["policy"];
}

/** Judge verified evidence; without a policy nothing is affirmed. */
export async function judge(result: Result, text: string | undefined, at: number): Promise<Judgement> {
  const policy = await policyOf(text);
  // Fetched when there is a result: nothing of it is needed to ask for the first one.
  const { rows } = await import("../policy/draft");
  const found = await rows(result, policy, at);
  return {
    affirmed: found.judged?.affirmed === true,
    rows: found.rows.map((row) => (row.label ? row : { ...row, label: sentence(row.id) })),
    policy: policy && { name: policy.name, version: policy.version, digest: policy.digest },
  };
}

/** Read a policy: `policy-invalid`. */
export async function policyOf(text: string | undefined): Promise<Policy | undefined> {
  return text === undefined ? undefined : loadPolicy(text);
}

/** Write a policy that accepts what is reported, row by row, over the one that is there. */
export async function accepting(
  result: Result,
  choices: Choices,
  before: string | undefined,
  at: number,
): Promise<string> {
  const { propose } = await import("../policy/draft");
  return propose(result, choices, await policyOf(before), at);
}

/** Read what a person gives; what cannot be used here is refused before it takes the place of anything. */
export async function readPolicy(texts: readonly string[]): Promise<string> {
  const text = together(texts);
  await loadPolicy(text);
  return text;
}
