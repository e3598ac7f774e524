/**
 * TCG crypto-agile event logs, as a TDX guest's CCEL table and a TPM's driver hand them out; all little-endian.
 *
 * Indices, types and data are what the log says; only a replay against registers that hardware signed gives the digests
 * a meaning, and only a recomputed digest gives the data one.
 *
 * Spec: TCG PC Client Platform Firmware Profile, crypto agile log; intel-tdx-sgx.md 19, T13.
 */

import { type Bytes, Reader, hex, latin1 } from "../bytes";
import { type Shown, need } from "../errors";
import type { LogKind, Register } from "./kinds";

/** Records behind the header; real logs have a few hundred. */
const MAX_EVENTS = 65_536;
/** Real log areas have 64 KiB to 1 MiB. */
const MAX_LOG_BYTES = 16 * 1024 * 1024;
/** Banks that a header may declare; no TPM has more than five. */
const MAX_ALGORITHMS = 16;
/** Digest sizes of SHA-1, SHA-256, SHA-384, SHA-512 and SM3. A log may declare others; they mean nothing here. */
const DIGEST_BYTES: Readonly<Record<number, number>> = { 0x4: 20, 0xb: 32, 0xc: 48, 0xd: 64, 0x12: 32 };
const END_INDEX = 0xffff_ffff;
const EV_NO_ACTION = 3;

/** One record as the log has it. */
export interface LogEvent {
  /** 1 for the first record behind the header. */
  readonly number: number;
  readonly register: Register;
  /** The number of the event type; no digest covers it. */
  readonly type: number;
  /** The one of the bank that counts. */
  readonly digest: Bytes;
  /** What the log says was measured. */
  readonly data: Bytes;
}

/** A log as presented: a stranger's word until it replays to signed registers. */
export interface EventLog {
  readonly kind: LogKind;
  readonly events: readonly LogEvent[];
  /** With which locality the first register of a TPM starts, where the log tells; the replay proves it. */
  readonly startupLocality: number;
}

/** Whether an event extended a register that is compared. */
export const isExtended = ({ type, register }: LogEvent): boolean =>
  type !== EV_NO_ACTION && register.initial !== undefined;

/** Read an event log: `eventlog-malformed`. It ends at index 0xFFFFFFFF, where only zeros remain, or with the data. */
export function parseEventLog(data: Bytes, kind: LogKind): EventLog {
  const reader = new Reader(data, "event log");
  const events: LogEvent[] = [];
  let startupLocality: number | undefined;
  function demand(holds: unknown, expected: Shown, got: Shown): asserts holds {
    const field = sizes.size ? `event ${events.length + 1}` : "header";
    need(holds, "malformed", "eventlog-malformed", expected, got, {
      check: "eventlog.format",
      field,
      offset: reader.offset,
    });
  }
  const take = (size: number): Bytes => {
    demand(size <= reader.remaining, size, reader.remaining);
    return reader.take(size, "");
  };
  const integer = (size: number): number => take(size).reduceRight((value, byte) => value * 256 + byte, 0);
  // (1) The header, a record of the old form, declares the algorithms of every record.
  const sizes = new Map<number, number>();
  demand(data.length <= MAX_LOG_BYTES, MAX_LOG_BYTES, data.length);
  const head = take(28);
  demand(/^.{8}030{46}$/.test(hex(head)), "EV_NO_ACTION without a digest", head);
  const size = integer(4);
  const begins = reader.offset;
  const signature = latin1(take(16));
  demand(signature === "Spec ID Event03\0", "Spec ID Event03", signature);
  take(8);
  const count = integer(4);
  demand(count && count <= MAX_ALGORITHMS, MAX_ALGORITHMS, count);
  while (sizes.size < count) {
    const algorithm = integer(2);
    const bytes = integer(2);
    demand(
      bytes && bytes === (DIGEST_BYTES[algorithm] ?? bytes) && !sizes.has(algorithm),
      "each algorithm once, with its size",
      algorithm,
    );
    sizes.set(algorithm, bytes);
  }
  take(integer(1));
  demand(reader.offset === begins + size, begins + size, reader.offset);
  // (2) The records, up to one of the three ends.
  let ends = data.length;
  while (ends && !data[ends - 1]) ends--;
  while (reader.offset < ends) {
    const index = integer(4);
    if (index === END_INDEX) break;
    demand(events.length < MAX_EVENTS, MAX_EVENTS, "one more");
    const register = kind.registers[index];
    demand(register, kind.registers.length, index);
    const type = integer(4);
    const count = integer(4);
    const digests = new Map<number, Bytes>();
    demand(count <= sizes.size, sizes.size, count);
    while (digests.size < count) {
      const algorithm = integer(2);
      const bytes = sizes.get(algorithm);
      demand(bytes && !digests.has(algorithm), "each algorithm of the header once", algorithm);
      digests.set(algorithm, take(bytes));
    }
    const digest = digests.get(kind.bank);
    demand(digest, kind.hash, [...digests.keys()]);
    const content = take(integer(4));
    // (3) With which locality the first register starts, where a TPM's log tells, in front of all that extends it.
    if (type === EV_NO_ACTION && kind.hash === "SHA-256" && latin1(content.slice(0, 16)) === "StartupLocality\0") {
      const isFirst =
        startupLocality === undefined &&
        !index &&
        !events.some((event) => event.register === register && isExtended(event));
      const locality = hex(content.slice(16));
      demand(isFirst && /^0[034]$/.test(locality), "0, 3 or 4 once, in front of what extends PCR0", locality);
      startupLocality = Number(locality);
    }
    events.push({ number: events.length + 1, register, type, digest, data: content });
  }
  return { kind, events, startupLocality: startupLocality ?? 0 };
}
