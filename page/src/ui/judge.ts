/** The person's policy: read, applied and written. */

import { type Policy, loadPolicy } from "../policy/index";
import type { Result } from "../verifier/api";
import { type Choices, proposed, rowsOf } from "./draft";
import type { Row, State } from "./state";

export interface Judgement {
  readonly affirmed: boolean;
  readonly rows: readonly Row[];
  readonly policy: State["policy"];
}

/** Judge verified evidence; without a policy nothing is affirmed. */
export async function judge(result: Result, text: string | undefined, at: number): Promise<Judgement> {
  const policy = await policyOf(text);
  const { rows, judged } = await rowsOf(result, policy, at);
  return {
    affirmed: judged?.affirmed === true,
    rows,
    policy: policy && { name: policy.name, version: policy.version, digest: policy.digest },
  };
}

/** Read a policy: `policy-invalid`, `policy-not-for-pages`. */
export async function policyOf(text: string | undefined): Promise<Policy | undefined> {
  return text === undefined ? undefined : loadPolicy(text);
}

/** Write a policy that accepts what is reported, row by row, over the one that is there. */
export async function accepting(result: Result, choices: Choices, before: string | undefined, at: number): Promise<string> {
  return proposed(result, choices, await policyOf(before), at);
}

/** Read what a person gives; what cannot be used here is refused before it takes the place of anything. */
export async function readPolicy(text: string): Promise<string> {
  await loadPolicy(text);
  return text;
}
