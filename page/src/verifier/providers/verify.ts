/** Verification of a service's document: each machine by the procedure for one machine, and all of them together. */

import type { Result } from "../api";
import { type Bytes, NO_BYTES, hex } from "../bytes";
import { type Check, check } from "../checks";
import type { Claims } from "../claims";
import type { Expected, Freshness } from "../composite";
import { sha256 } from "../crypto";
import { type Evidence, MEDIA } from "../envelope";
import { AttestError, need, refusalOf } from "../errors";
import { CPU_FORMATS, DEVICE_FORMATS, readItems } from "../formats";
import { worstOf } from "../procedure";
import { cautionsOf } from "./cautions";
import type { Machine, Presented } from "./document";
import { parseDocument } from "./families";
import { judgeMachine, judgeMachines } from "./judgement";

const DEVICE_NONCE_BYTES = 32;
const CLAUSE = "RFC 9334, section 10";
/** Checks of one machine's evidence alone; those of the document take their place. */
const REPLACED: readonly string[] = ["freshness", "binding.devices"];

/** The result for one machine; `verify.ts` has it in full. */
type VerifiedMachine = Pick<Result, "items" | "certificates" | "simulated" | "ignored_items"> & {
  readonly checks: readonly Check[];
};
type VerifiedDocument = Omit<VerifiedMachine, "ignored_items"> & Pick<Result, "freshness" | "warnings">;

/** Verifies the evidence of one machine without any expectation of freshness. */
export type VerifyMachine = (evidence: Evidence) => Promise<VerifiedMachine>;

interface Found {
  readonly checks: Check[];
  readonly failures: AttestError[];
  readonly genuine: { readonly machine: Machine; readonly verified: VerifiedMachine; readonly claims: Claims }[];
}

/** Verify every machine of a document, and what the document states about keys, nonce and GPUs. */
export async function verifyDocument(
  evidence: Evidence,
  expected: Expected,
  verifyMachine: VerifyMachine,
): Promise<VerifiedDocument> {
  const nonce = nonceOf(expected);
  // (1) Read everything before anything is judged.
  const document = await parseDocument(evidence);
  const machines: (readonly [Machine, Presented])[] = [];
  for (const machine of document.machines) machines.push([machine, await present(machine)]);
  // (2) Judge the document, then each machine; one refusal does not hide another.
  const [together, repeated] = judgeMachines(machines);
  const found: Found = { checks: [together], failures: repeated ? [repeated] : [], genuine: [] };
  for (const [machine, presented] of machines) {
    const { checks, failures, claims } = await judgeMachine(machine, presented, nonce, document.label);
    found.checks.push(...checks);
    const worst = worstOf(failures);
    if (worst) found.failures.push(worst);
    await addVerified(found, machine, worst ? {} : claims, verifyMachine);
  }
  const freshness = judgeFreshness(found.checks, nonce);
  // (3) The refusal that comes first in the order of exit codes speaks for all and carries every check.
  const ofItems = found.genuine.flatMap(({ machine, verified }) =>
    verified.checks.filter(({ item }) => item !== undefined).map((each) => placed(each, `${machine.name}/`)),
  );
  const checks = [...found.checks, ...ofItems];
  const worst = worstOf(found.failures);
  if (worst) throw Object.assign(worst, { checks });
  return {
    items: found.genuine.flatMap(({ machine, verified, claims }) => itemsOf(machine, verified, claims)),
    certificates: found.genuine.flatMap(({ machine, verified }) =>
      (verified.certificates ?? []).map((each) => ({ ...each, item: `${machine.name}/${each.item}` })),
    ),
    simulated: found.genuine.some(({ verified }) => verified.simulated),
    freshness,
    checks,
    warnings: cautionsOf(document.cautions ?? [], machines, nonce),
  };
}

function itemsOf({ name, role }: Machine, { items }: VerifiedMachine, claims: Claims): Result["items"] {
  return items.map((item) => ({
    ...item,
    name: `${name}/${item.name}`,
    machine: name,
    role,
    claims: item.kind.startsWith("nvidia") ? item.claims : { ...item.claims, ...claims },
  }));
}

/** Refuse an expectation that no document meets. */
function nonceOf({ nonce, reportData, binding }: Expected): Bytes | undefined {
  need(!binding, "binding", "binding-missing", binding?.context, "none", { field: "binding", check: "freshness" });
  need(!reportData, "binding", "option-not-applicable", "a nonce", "report data", { field: "reportData" });
  const size = nonce?.length ?? DEVICE_NONCE_BYTES;
  need(size === DEVICE_NONCE_BYTES, "binding", "nonce-length", DEVICE_NONCE_BYTES, size, { field: "nonce" });
  return nonce;
}

// -- one machine

/** Verify the evidence of one machine, and its second report where it has one, which becomes no item. */
async function addVerified(
  found: Found,
  machine: Machine,
  claims: Claims,
  verifyMachine: VerifyMachine,
): Promise<void> {
  const attempt = async (evidence: Evidence, prefix: string): Promise<VerifiedMachine | undefined> => {
    const verified = await refusalOf(async () => {
      const machine = await verifyMachine(evidence);
      // Each item of a machine counts: an unverified one leaves a gap.
      const { ignored_items: ignored = [] } = machine;
      need(!ignored.length, "unsupported", "evidence-unsupported", "items that are judged", ignored);
      return machine;
    });
    if (!(verified instanceof AttestError)) return verified;
    found.failures.push(verified);
    found.checks.push(...placedAll(verified.checks, prefix));
    return undefined;
  };
  const verified = await attempt(machine.evidence, `${machine.name}/`);
  if (machine.witness) {
    const prefix = `${machine.name}/witness/`;
    found.checks.push(...placedAll((await attempt(machine.witness, prefix))?.checks ?? [], prefix));
  }
  if (!verified) return;
  const whole = verified.checks.filter(({ item }) => item === undefined);
  found.checks.push(...placedAll(whole, `${machine.name}/`));
  found.genuine.push({ machine, verified, claims });
}

const placed = (each: Check, prefix: string): Check => ({
  ...each,
  item: each.item === undefined ? prefix.slice(0, -1) : prefix + each.item,
});

const placedAll = (checks: readonly Check[], prefix: string): readonly Check[] =>
  checks.filter(({ id }) => !REPLACED.includes(id)).map((each) => placed(each, prefix));

/** Say whether every machine answers the client's nonce, and add the check. */
function judgeFreshness(checks: Check[], nonce: Bytes | undefined): Freshness {
  const asked = checks.filter(({ id }) => id === "provider.nonce");
  const isFresh = asked.every(({ outcome }) => outcome === "pass");
  if (!nonce) {
    checks.push(check("freshness", "not evaluated", "a nonce", "none was given", CLAUSE));
    return "not evaluated";
  }
  checks.push(check("freshness", isFresh ? "pass" : "fail", nonce, "every machine", CLAUSE));
  return isFresh ? "matched" : "mismatched";
}

/** Read the parts of a machine's evidence that commit to others. */
async function present({ evidence, witness }: Machine): Promise<Presented> {
  return presentedOf(evidence, witness && (await presentedOf(witness, undefined)));
}

async function presentedOf(evidence: Evidence, witness: Presented | undefined): Promise<Presented> {
  const [found] = await readItems(evidence, CPU_FORMATS);
  need(found, "unsupported", "evidence-unsupported", [...CPU_FORMATS.keys()], MEDIA.providerDocument);
  const [name, cpu] = found;
  const devices: { name: string; nonce: Bytes; key: Bytes | undefined }[] = [];
  for (const [device, { nonce, deviceKey }] of await readItems(evidence, DEVICE_FORMATS)) {
    devices.push({ name: device, nonce, key: deviceKey && (await sha256(deviceKey)) });
  }
  const raw = evidence.find((each) => each.name === name)?.value ?? NO_BYTES;
  const { reportData, signed = raw, machine = hex(raw) } = cpu;
  return { reportData, cpu: signed, devices, machine, witness };
}
