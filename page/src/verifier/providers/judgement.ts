/** Judgement of a document: each machine's keys, nonce and GPUs, and the machines together (providers.md 5). */

import { type Bytes, hex } from "../bytes";
import { type Check, check, ofItem } from "../checks";
import { type Claims, nestedClaims } from "../claims";
import { type AttestError, refusal } from "../errors";
import { Procedure } from "../procedure";
import { type Machine, type Presented, type StepName, isBound } from "./document";

const STEPS = {
  form: ["provider.form", "docs/providers.md"],
  nonce: ["provider.nonce", "docs/providers.md"],
  binding: ["provider.binding", "docs/providers.md"],
  keys: ["provider.keys", "docs/providers.md"],
  gpus: ["provider.gpus", "docs/providers.md"],
  statements: ["provider.statements", "docs/providers.md"],
  envelope: ["provider.envelope", "docs/providers.md"],
} as const;
const NAMES: readonly StepName[] = ["nonce", "binding", "keys", "gpus", "statements", "envelope"];
const CLAUSE = "docs/providers.md";

export interface JudgedMachine {
  readonly checks: readonly Check[];
  readonly failures: readonly AttestError[];
  readonly claims: Claims;
}

/** Compare what the document states about a machine with what its evidence commits to; nothing is thrown. */
export async function judgeMachine(
  { name: machine, commitment }: Machine,
  presented: Presented,
  nonce: Bytes | undefined,
  label: string,
): Promise<JudgedMachine> {
  const procedure = new Procedure(STEPS, { isIndependent: true });
  const { comparisons, keys, claims } = commitment.construct(presented, nonce);
  await procedure.attempt("form", (step) => {
    step.tell("a document of a known service", label);
  });
  for (const name of NAMES) {
    await procedure.attempt(name, async (step) => {
      step.tell(...(await step.need(comparisons[name], "nothing to compare with")()));
    });
  }
  const { checks, failures } = procedure.outcome();
  return {
    checks: ofItem(checks, machine),
    // Python's procedure raises the worst one alone.
    failures,
    claims: {
      binding: nestedClaims(keys),
      gpu_binding: presented.devices.length ? commitment.gpuBinding : "none",
      nonce_bound: nonce !== undefined,
      ...(isBound(keys) && { key_scope: commitment.keyScope }),
      ...nestedClaims(claims ?? {}),
    },
  };
}

/** Require the machines of a document to be different ones: no name, report, GPU or switch stands in two. */
export function judgeMachines(machines: readonly (readonly [Machine, Presented])[]): readonly [Check, AttestError?] {
  const repeated = repetition(machines);
  const expected = `${machines.length} different machines`;
  const got = repeated ?? `${machines.length} machines`;
  const made = check("provider.machines", repeated === undefined ? "pass" : "fail", expected, got, CLAUSE);
  if (repeated === undefined) return [made];
  return [made, refusal("binding", "provider-machine-repeated", expected, got, { check: made.id, clause: CLAUSE })];
}

/** A part that two machines share, if there is one. */
function repetition(machines: readonly (readonly [Machine, Presented])[]): string | undefined {
  const seen = new Map<string, number>();
  for (const [number, [{ name }, { cpu, devices }]] of machines.entries()) {
    const parts = [
      `report ${hex(cpu)}`,
      `name ${name}`,
      ...devices.flatMap(({ key }) => (key ? [`device ${hex(key)}`] : [])),
    ];
    for (const part of parts) {
      const first = seen.get(part) ?? number;
      seen.set(part, first);
      if (first !== number) return `${part.slice(0, 40)} of machine ${number} is of machine ${first}`;
    }
  }
  return undefined;
}
