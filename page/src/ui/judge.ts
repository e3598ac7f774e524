/** The person's policy: read, applied and written. */

import type { Result } from "../verifier/api";
import type { Choice, Row, State } from "./state";

export interface Judgement {
  readonly affirmed: boolean;
  readonly rows: readonly Row[];
  readonly failed: readonly string[];
  readonly policy: State["policy"];
}

/** Judge verified evidence; without a policy nothing is affirmed. */
export async function judge(_result: Result, _policy: string | undefined, _at: number): Promise<Judgement> {
  return { affirmed: false, rows: [], failed: [], policy: undefined };
}

/** Write a policy that accepts what is reported, row by row. */
export async function proposed(_result: Result, _choices: Readonly<Record<string, Choice>>, _at: number): Promise<string> {
  return "";
}

/** Read a policy, or refuse it: `policy-invalid`. */
export async function readPolicy(text: string): Promise<string> {
  return text;
}
