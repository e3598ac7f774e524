/** The person's policy: read, applied and written. */

import { type Choices, type Policy, type Row, loadPolicy, propose, rows } from "../policy/index";
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
  const found = await rows(result, policy, at);
  return {
    affirmed: found.judged?.affirmed === true,
    rows: found.rows.map((row) => (row.label ? row : { ...row, label: sentence(row.id) })),
    policy: policy && { name: policy.name, version: policy.version, digest: policy.digest },
  };
}

/** What is kept of a policy: its text, or a list of that and the files that it needs (docs/reference-values.md). */
const partsOf = (kept: string): readonly string[] => (kept.startsWith("[") ? (JSON.parse(kept) as string[]) : [kept]);
const kept = (parts: readonly string[]): string => (parts[1] ?? parts[0]?.startsWith("[") ? JSON.stringify(parts) : `${parts[0]}`);

/** The same as files, each with the option of the command line that takes it. */
export const filesOf = (text: string): { readonly option: string; readonly name: string; readonly part: string }[] =>
  partsOf(text).map((part, i) => {
    const option = i ? `references${/^\s*\{/.test(part) ? (/"attest\.policy-sig/.test(part) ? "-signature" : "") : "-key"}` : "policy";
    return { option, name: `${option}${i || ""}.json`, part };
  });

/** Put together what a person gives: a policy, and perhaps documents of reference values, their signatures, and keys. */
export const together = (texts: readonly string[]): string => kept([...texts].sort((a, b) => +isPolicy(b) - +isPolicy(a)));
const isPolicy = (text: string): boolean => /"attest\.policy\/1"/.test(text);

/** Read a policy: `policy-invalid`. */
export async function policyOf(text: string | undefined): Promise<Policy | undefined> {
  const [policy, ...files] = text === undefined ? [] : partsOf(text);
  return policy === undefined ? undefined : loadPolicy(policy, files);
}

/** Write a policy that accepts what is reported, row by row, over the one that is there. */
export async function accepting(result: Result, choices: Choices, before: string | undefined, at: number): Promise<string> {
  const policy = await policyOf(before);
  return kept([await propose(result, choices, policy, at), ...(policy?.files ?? [])]);
}

/** Read what a person gives; what cannot be used here is refused before it takes the place of anything. */
export async function readPolicy(texts: readonly string[]): Promise<string> {
  const text = together(texts);
  await policyOf(text);
  return text;
}
