/** Files that are verified again when they, the expected nonce or the policy change. No service is involved. */

import type { Policy } from "../../policy/document";
import type { Result } from "../../verifier/api";
import { fail } from "../../verifier/errors";
import { inForce, judge, policyOf, verified } from "../judge";
import type { Memory } from "../memory";
import { problemOf } from "../problems";
import { BEGINNING, type State } from "../state";
import type { Subject } from "../subject";
import type { Named } from "./links";
import type { Chosen, Kind } from "./sorting";

/** Expected nonce and time of the check. */
export interface Question {
  /** Hex. */
  readonly nonce: string | undefined;
  /** The person has no nonce, and judges recorded evidence. */
  readonly recorded: boolean;
  /** Time of the check; undefined means now. */
  readonly at: number | undefined;
}

export const RECORDED = "chosen in the page: there is no nonce";

export const filesOf = (files: readonly Chosen[], ...kinds: readonly Kind[]): Chosen[] =>
  files.filter(({ kind }) => kinds.includes(kind));

/** Files that take part in the check. */
export const used = (files: readonly Chosen[]): Chosen[] => filesOf(files, "evidence", "endorsement", "log");

export class Examination implements Subject {
  state: State = { ...BEGINNING, busy: false };
  files: readonly Chosen[] = [];
  question: Question = { nonce: undefined, recorded: false, at: undefined };
  /** What the opened link names; nothing else is checked. */
  named: Named | undefined;
  private runs = 0;

  constructor(
    readonly memory: Memory,
    private readonly now: () => number,
    private readonly show: () => void,
  ) {}

  /** True if there is evidence, and everything that a link names. */
  get isReady(): boolean {
    return filesOf(this.files, "evidence").length > 0 && !this.missing().length && this.hasNamedPolicy;
  }

  get hasNamedPolicy(): boolean {
    return this.named?.policy === undefined || this.named.policy === this.state.policy?.digest;
  }

  /** Digests in the link whose files have not been added yet. */
  missing(): readonly string[] {
    return (this.named?.files ?? []).filter((digest) => !this.files.some(({ sha256 }) => sha256 === digest));
  }

  async accept(policy: string | undefined): Promise<void> {
    this.memory.set("policy", policy);
    await this.check();
  }

  /** Verify everything again. The result is dropped if a newer check has started. */
  async check(): Promise<void> {
    this.runs += 1;
    const run = this.runs;
    this.change({ ...BEGINNING, policy: this.state.policy });
    const found = await this.found().catch((error: unknown): Partial<State> => {
      return { phase: "refused", problem: problemOf(error) };
    });
    if (run === this.runs) this.change({ ...BEGINNING, busy: false, ...found });
  }

  private async found(): Promise<Partial<State>> {
    const text = this.memory.get("policy");
    const policy = await policyOf(text);
    const known = { policy: policy && (await inForce(policy)) };
    this.state = { ...this.state, ...known };
    if (!this.isReady) return known;
    const at = this.question.at ?? this.now();
    const result = await verifiedFiles(this.files, { ...this.question, at }, policy);
    const seen = { ...known, at, result, simulated: result.simulated };
    if (result.error) return { ...seen, phase: "refused", problem: result.error };
    const { rows, affirmed } = await judge(result, text, at);
    const unmet = policy ? "refused" : "unknown";
    return { ...seen, rows, phase: affirmed ? "trusted" : unmet };
  }

  private change(state: State): void {
    this.state = state;
    this.show();
  }
}

/** Verify files as one machine's evidence, as `attest verify` does with the same files and options. */
export async function verifiedFiles(
  files: readonly Chosen[],
  { nonce, recorded, at }: Question & { readonly at: number },
  policy: Policy | undefined,
): Promise<Result> {
  const logs = filesOf(files, "log");
  if (logs.length > 1) {
    fail("malformed", "evidence-ambiguous", "", { field: "files", expected: "one event log", got: `${logs.length}` });
  }
  return verified(
    filesOf(files, "evidence"),
    {
      at,
      nonce,
      endorsements: filesOf(files, "endorsement"),
      eventLog: logs[0]?.bytes,
      unchecked: recorded ? [{ check: "freshness", reason: RECORDED }] : [],
    },
    policy,
  );
}

/** The command that repeats the check elsewhere. */
export function commandOf({ files, question, memory, state }: Examination, policyOptions: readonly string[]): string {
  const named = (kind: Kind): string[] => filesOf(files, kind).map(({ name }) => quoted(name));
  const hasPolicy = memory.get("policy") !== undefined;
  return [
    `attest ${hasPolicy ? "appraise" : "verify"}`,
    ...named("evidence"),
    ...(hasPolicy ? policyOptions : []),
    ...named("endorsement").map((name) => `--endorsements ${name}`),
    ...named("log").map((name) => `--eventlog ${name}`),
    question.nonce ? `--nonce ${question.nonce}` : "",
    question.recorded ? `--unchecked freshness=${quoted(RECORDED)}` : "",
    `--at ${state.result?.at ?? ""}`,
    "--offline",
    state.simulated ? "--allow-simulated" : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/** Quote a word for a shell. A name that begins with a hyphen does not become an option. */
function quoted(name: string): string {
  const word = name.startsWith("-") ? `./${name}` : name;
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
