/**
 * Does a log lead to the registers that hardware signed?
 *
 * Two kinds of registers are not compared. One that nobody signed proves nothing. One that an operating system alone
 * extends is left out of the firmware's log. No fact is read from either.
 *
 * Spec: TPM 2.0 Library, TPM2_PCR_Extend; intel-tdx-sgx.md 19, T13; azure-cvm.md 5.
 */

import { type Bytes, concat, equal, utf8 } from "../bytes";
import { digest } from "../crypto";
import { need } from "../errors";
import { type Verification, verification } from "./content";
import type { LogKind } from "./kinds";
import { type EventLog, type LogEvent, isExtended } from "./structure";

/** An event of a register that is proven, and how far its data is vouched for. */
export interface Proven extends LogEvent {
  readonly how: Verification;
}

/** A log that replays to signed registers, and whose data gives its digests wherever that can be told. */
export interface VerifiedEventLog {
  readonly kind: LogKind;
  /** How many the log has. */
  readonly count: number;
  /** Names of the registers for which the log leads to what was signed. Events of others prove nothing. */
  readonly proven: ReadonlySet<string>;
  /** Names of those that differ and were left unjudged, as somebody decided. */
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

/** Extend each register, from its initial value, with every event but EV_NO_ACTION: R = H(R ‖ digest). */
async function requireReplay(
  { kind, events, startupLocality }: EventLog,
  signed: ReadonlyMap<string, Bytes>,
  tolerant: boolean,
) {
  const [proven, unjudged, extended]: [Set<string>, string[], string[]] = [new Set(), [], []];
  for (const { name, initial, growth, phases } of kind.registers) {
    const own = events.filter((event) => event.register.name === name && isExtended(event));
    if (own.length) extended.push(name);
    const wanted = signed.get(name);
    if (!wanted || !initial) continue;
    let value = name === "PCR0" ? concat(initial.slice(1), Uint8Array.of(startupLocality)) : initial;
    const extend = async (by: Bytes): Promise<void> => void (value = await digest(kind.hash, concat(value, by)));
    for (const event of own) await extend(event.digest);
    const replayed = value;
    // Some number of the phases that are known, none included, may lead on to the signed value.
    for (const phase of phases) if (!equal(value, wanted)) await extend(await digest(kind.hash, utf8(phase)));
    if (equal(value, wanted)) proven.add(name);
    else if (growth && tolerant && (own.length || growth === "system")) unjudged.push(name);
    else {
      need(growth === "system alone" && !own.length, "binding", "eventlog-register-mismatch", wanted, replayed, {
        field: name,
      });
    }
  }
  const judged = proven.size && (!extended.length || extended.some((name) => proven.has(name)));
  need(judged, "binding", "eventlog-registers-unsigned", extended, [...signed.keys()], { field: "registers" });
  return { proven, unjudged };
}
