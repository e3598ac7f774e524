/**
 * Replay of a log, and comparison with the registers that hardware signed.
 *
 * Two kinds of registers are not compared. An unsigned one proves nothing. One that an operating system alone
 * extends is left out of the firmware's log. No fact is read from either.
 *
 * Spec: TPM 2.0 Library, TPM2_PCR_Extend; intel-tdx-sgx.md 19, T13; azure-cvm.md 5.
 */

import { type Bytes, concat, equal, utf8 } from "../bytes";
import { digest } from "../crypto";
import { need } from "../errors";
import { type Verification, verification } from "./content";
import type { LogKind, Register } from "./kinds";
import { type EventLog, type LogEvent, isExtended } from "./structure";

/** An event of a register that is proven, and how far its data is vouched for. */
export interface Proven extends LogEvent {
  readonly how: Verification;
}

/** A log that replays to signed registers, and whose data gives its digests wherever that can be told. */
export interface VerifiedEventLog {
  readonly kind: LogKind;
  /** Number of them in the log. */
  readonly count: number;
  /** Names of the registers for which the log leads to what was signed. Events of others prove nothing. */
  readonly proven: ReadonlySet<string>;
  /** Names of those that differ and were not compared, under a tolerance. */
  readonly unjudged: readonly string[];
  /** Those that extended proven registers, in order. */
  readonly events: readonly Proven[];
}

/**
 * Check that a log leads to signed registers and that its data is what was measured.
 *
 * Refuses with `eventlog-register-mismatch`, `eventlog-registers-unsigned` or `eventlog-data-mismatch`.
 *
 * @param signed by name, those of a quote whose signature holds
 * @param tolerant leave a register unjudged that differs and that an operating system may have extended since
 */
export async function verifyEventLog(
  log: EventLog,
  signed: ReadonlyMap<string, Bytes>,
  tolerant: boolean,
): Promise<VerifiedEventLog> {
  // (1) Digests, their registers and their order.
  const { proven, unjudged } = await requireReplay(log, signed, tolerant);
  // (2) Data that is always what was hashed, whichever register it is in. Other texts stay unverified and give no
  // claim; nor does anything of a register that was not compared.
  const events: Proven[] = [];
  for (const event of log.events.filter(isExtended)) {
    const how = await verification(event, log.kind.hash);
    if (proven.has(event.register.name)) events.push({ ...event, how });
  }
  return { kind: log.kind, count: log.events.length, proven, unjudged, events };
}

/** Names of registers, by what the replay showed. */
interface Replayed {
  readonly proven: ReadonlySet<string>;
  readonly unjudged: readonly string[];
}

/** Require that the events of each signed register lead to its value, and that some register is judged. */
async function requireReplay(log: EventLog, signed: ReadonlyMap<string, Bytes>, tolerant: boolean): Promise<Replayed> {
  const proven = new Set<string>();
  const unjudged: string[] = [];
  const extended: string[] = [];
  for (const register of log.kind.registers) {
    const { name, initial } = register;
    const own = log.events.filter((event) => event.register.name === name && isExtended(event));
    if (own.length) extended.push(name);
    const wanted = signed.get(name);
    if (!wanted || !initial) continue;
    const replayed = await replay(log, register, initial, own);
    if (await leadsTo(replayed, wanted, register, log.kind)) proven.add(name);
    else if (tolerant && mayHaveGrown(register, own)) unjudged.push(name);
    else requireLeftOut(register, own, wanted, replayed);
  }
  const isJudged = proven.size > 0 && (!extended.length || extended.some((name) => proven.has(name)));
  need(isJudged, "binding", "eventlog-registers-unsigned", extended, [...signed.keys()], { field: "registers" });
  return { proven, unjudged };
}

/** Extend a register, from its initial value, with every event but EV_NO_ACTION: R = H(R ‖ digest). */
async function replay(
  { kind, startupLocality }: EventLog,
  { name }: Register,
  initial: Bytes,
  own: readonly LogEvent[],
): Promise<Bytes> {
  let value = name === "PCR0" ? concat(initial.slice(1), Uint8Array.of(startupLocality)) : initial;
  for (const event of own) value = await digest(kind.hash, concat(value, event.digest));
  return value;
}

/** True if some number of the phases that are known, none included, leads on to the signed value. */
async function leadsTo(replayed: Bytes, wanted: Bytes, { phases }: Register, { hash }: LogKind): Promise<boolean> {
  let value = replayed;
  for (const phase of phases) {
    if (equal(value, wanted)) return true;
    value = await digest(hash, concat(value, await digest(hash, utf8(phase))));
  }
  return equal(value, wanted);
}

/** True if an operating system may have extended a register behind the end of the log. */
const mayHaveGrown = ({ growth }: Register, own: readonly LogEvent[]): boolean =>
  growth === "system" || (growth === "system alone" && own.length > 0);

/** Require that a register which differs is one that firmware's log leaves out. */
function requireLeftOut({ name, growth }: Register, own: readonly LogEvent[], wanted: Bytes, replayed: Bytes): void {
  const isLeftOut = growth === "system alone" && !own.length;
  need(isLeftOut, "binding", "eventlog-register-mismatch", wanted, replayed, { field: name });
}
