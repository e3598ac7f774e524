/**
 * Does a log lead to the registers that hardware signed?
 *
 * Two kinds of registers are not compared. One that nobody signed proves nothing. One that an operating system alone
 * extends is left out of the firmware's log. No fact is read from either.
 *
 * Spec: TPM 2.0 Library, TPM2_PCR_Extend; intel-tdx-sgx.md 19, T13; azure-cvm.md 5.
 */

import { type Bytes, concat, equal, hex, utf8 } from "../bytes";
import { digest } from "../crypto";
import { AttestError } from "../errors";
import { type Verification, verification } from "./content";
import type { LogKind, Register } from "./kinds";
import { type EventLog, isExtended } from "./structure";

const CLAUSE = "Intel TDX module, TDG.MR.RTMR.EXTEND; TPM 2.0 Library, TPM2_PCR_Extend; intel-tdx-sgx.md 19";

/** Registers by name, as hardware signed them. */
export type SignedRegisters = ReadonlyMap<string, Bytes>;

/** A log that replays to signed registers, and whose data gives its digests wherever that can be told. */
export interface VerifiedEventLog {
  readonly log: EventLog;
  /** Names of the registers for which the log leads to what was signed. Events of others prove nothing. */
  readonly proven: ReadonlySet<string>;
  /** Names of those that differ and were left unjudged, as somebody decided. */
  readonly unjudged: readonly string[];
  /** How far each event's data is vouched for, in the order of the events. */
  readonly verifications: readonly Verification[];
}

interface Replayed {
  readonly values: ReadonlyMap<string, Bytes>;
  readonly counts: ReadonlyMap<string, number>;
}

/**
 * Check that a log leads to signed registers and that its data is what was measured.
 *
 * Refuses with `eventlog-register-mismatch`, `eventlog-registers-unsigned` or `eventlog-data-mismatch`.
 *
 * @param signed those of a quote whose signature holds
 * @param tolerant leave a register unjudged that differs and that an operating system may have extended since
 */
export async function verifyEventLog(log: EventLog, signed: SignedRegisters, tolerant: boolean): Promise<VerifiedEventLog> {
  // (1) Digests, their registers and their order.
  const { proven, unjudged } = await requireReplay(log, signed, tolerant);
  // (2) Data that is always what was hashed, whichever register it is in. Other texts stay unverified and give no
  // claim; nor does anything of a register that was not compared.
  const verifications: Verification[] = [];
  for (const event of log.events) {
    const how = await verification(event, log.kind);
    verifications.push(proven.has(event.register.name) ? how : "unverified");
  }
  return { log, proven, unjudged, verifications };
}

/** Extend the registers, from their initial values, with every event but EV_NO_ACTION: R = H(R ‖ digest). */
async function replay({ kind, events, startupLocality }: EventLog): Promise<Replayed> {
  const values = new Map<string, Bytes>();
  const counts = new Map<string, number>();
  for (const { name, initial } of kind.registers) {
    if (!initial) continue;
    values.set(name, name === "PCR0" ? concat(initial.slice(0, -1), Uint8Array.of(startupLocality)) : initial);
    counts.set(name, 0);
  }
  for (const event of events) {
    const { name } = event.register;
    const value = values.get(name);
    if (!value || !isExtended(event)) continue;
    values.set(name, await digest(kind.hash, concat(value, event.digest)));
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return { values, counts };
}

/** Whether some number of the phases that are known, none included, leads from the log's value to the signed one. */
async function continues({ hash }: LogKind, { phases }: Register, replayed: Bytes, signed: Bytes): Promise<boolean> {
  let value = replayed;
  for (const phase of phases) {
    if (equal(value, signed)) return true;
    value = await digest(hash, concat(value, await digest(hash, utf8(phase))));
  }
  return equal(value, signed);
}

async function requireReplay(log: EventLog, signed: SignedRegisters, tolerant: boolean) {
  const { kind } = log;
  const { values, counts } = await replay(log);
  const proven = new Set<string>();
  const unjudged: string[] = [];
  for (const register of kind.registers) {
    const [expected, got] = [signed.get(register.name), values.get(register.name)];
    const count = counts.get(register.name) ?? 0;
    if (!expected || !got) continue;
    if (await continues(kind, register, got, expected)) proven.add(register.name);
    else if (register.growth === "system alone" && !count) continue;
    else if (register.growth !== "none" && tolerant) unjudged.push(register.name);
    else throw refusal("register-mismatch", register.name, hex(expected), `${hex(got)} from ${count} events`);
  }
  const extended = [...counts].filter(([, count]) => count).map(([name]) => name);
  if (!proven.size || (extended.length && !extended.some((name) => proven.has(name)))) {
    const expected = `a signed value of one of: ${extended.join(", ") || "none"}`;
    throw refusal("registers-unsigned", "registers", expected, [...signed.keys()].join(", ") || "none");
  }
  return { proven, unjudged };
}

function refusal(code: string, field: string, expected: string, got: string): AttestError {
  const facts = { check: "eventlog.registers", field, expected, got, clause: CLAUSE };
  return new AttestError("binding", `eventlog-${code}`, "", facts);
}
