/**
 * TCG crypto-agile event logs, as a TDX guest's CCEL table and a TPM's driver hand them out; all little-endian.
 *
 * Indices, types and data are what the log says; only a replay against registers that hardware signed gives the digests
 * a meaning, and only a recomputed digest gives the data one.
 *
 * Spec: TCG PC Client Platform Firmware Profile, crypto agile log; intel-tdx-sgx.md 19, T13.
 */

import { type Bytes, hex, latin1 } from "../bytes";
import { Reader } from "../reader";
import type { Shown } from "../shown";
import { refuse } from "../errors";
import type { LogKind, Register } from "./kinds";

/** Records behind the header; real logs have a few hundred. */
export const MAX_EVENTS = 65_536;
/** Real log areas have 64 KiB to 1 MiB. */
export const MAX_LOG_BYTES = 16 * 1024 * 1024;
/** Banks that a header may declare; no TPM has more than five. */
const MAX_ALGORITHMS = 16;
/** Digest sizes of SHA-1, SHA-256, SHA-384, SHA-512 and SM3. A log may declare others; they mean nothing here. */
const DIGEST_BYTES: Readonly<Record<number, number>> = { 0x4: 20, 0xb: 32, 0xc: 48, 0xd: 64, 0x12: 32 };
const END_INDEX = 0xffff_ffff;
const EV_NO_ACTION = 3;
/** A record of the old form without its data: index, type and a SHA-1. */
const OLD_RECORD_BYTES = 28;

/** One record as the log has it. */
export interface LogEvent {
  /** 1 for the first record behind the header. */
  readonly number: number;
  readonly register: Register;
  /** The number of the event type; no digest covers it. */
  readonly type: number;
  /** The one of the bank that counts. */
  readonly digest: Bytes;
  /** Measured data, as the log states it. */
  readonly data: Bytes;
  /** The log leaves the data out. */
  readonly withheld?: boolean;
}

/** A log as presented: untrusted until it replays to signed registers. */
export interface EventLog {
  readonly kind: LogKind;
  readonly events: readonly LogEvent[];
  /** With which locality the first register of a TPM starts, where the log tells; the replay proves it. */
  readonly startupLocality: number;
}

/** True if an event extended a register that is compared. */
export const isExtended = ({ type, register }: LogEvent): boolean =>
  type !== EV_NO_ACTION && register.initial !== undefined;

/** Parser of a log; an error names the current event. */
class LogReader {
  private readonly reader: Reader;
  private field = "header";

  constructor(private readonly data: Bytes) {
    this.reader = new Reader(data, "event log");
  }

  get offset(): number {
    return this.reader.offset;
  }

  /** Name what is read from now on. */
  begin(field: string): void {
    this.field = field;
  }

  demand(holds: unknown, expected: Shown, got: Shown): asserts holds {
    if (!holds) this.refuse(expected, got);
  }

  private refuse(expected: Shown, got: Shown): never {
    const { field, offset } = this;
    return refuse("malformed", "eventlog-malformed", expected, got, { check: "eventlog.format", field, offset });
  }

  take(size: number): Bytes {
    const { remaining } = this.reader;
    if (size > remaining) this.refuse(size, remaining);
    return this.reader.take(size, "");
  }

  integer(size: number): number {
    return this.take(size).reduceRight((value, byte) => value * 256 + byte, 0);
  }

  /** End of the records: zeros after it fill the log area. */
  contentEnd(): number {
    let end = this.data.length;
    while (end && !this.data[end - 1]) end--;
    return end;
  }
}

/** Digest sizes by algorithm, as the header declares them. */
type Sizes = ReadonlyMap<number, number>;

/** Read an event log: `eventlog-malformed`. It ends at index 0xFFFFFFFF, where only zeros remain, or with the data. */
export function parseEventLog(data: Bytes, kind: LogKind): EventLog {
  const reader: LogReader = new LogReader(data);
  reader.demand(data.length <= MAX_LOG_BYTES, MAX_LOG_BYTES, data.length);
  // (1) The header, a record of the old form, declares the algorithms of every record.
  const sizes = readHeader(reader);
  // (2) The records, up to one of the three ends.
  const ends = reader.contentEnd();
  const events: LogEvent[] = [];
  let startupLocality: number | undefined;
  while (reader.offset < ends) {
    reader.begin(`event ${events.length + 1}`);
    const index = reader.integer(4);
    if (index === END_INDEX) break;
    reader.demand(events.length < MAX_EVENTS, MAX_EVENTS, "one more");
    const event = readEvent(reader, kind, index, sizes, events.length + 1);
    // (3) With which locality the first register starts, where a TPM's log tells, in front of all that extends it.
    if (tellsLocality(event, kind)) {
      const isFirst = startupLocality === undefined && !index && !events.some((each) => extendsSame(each, event));
      startupLocality = readLocality(reader, event, isFirst);
    }
    events.push(event);
  }
  return { kind, events, startupLocality: startupLocality ?? 0 };
}

function readHeader(reader: LogReader): Sizes {
  const head = reader.take(OLD_RECORD_BYTES);
  reader.demand(/^.{8}030{46}$/.test(hex(head)), "EV_NO_ACTION without a digest", head);
  const size = reader.integer(4);
  const begins = reader.offset;
  const signature = latin1(reader.take(16));
  reader.demand(signature === "Spec ID Event03\0", "Spec ID Event03", signature);
  // Platform class, version of the specification, and the size of a UINTN.
  reader.take(8);
  const sizes = readAlgorithms(reader);
  // The vendor's addition.
  reader.take(reader.integer(1));
  reader.demand(reader.offset === begins + size, begins + size, reader.offset);
  return sizes;
}

function readAlgorithms(reader: LogReader): Sizes {
  const sizes = new Map<number, number>();
  const count = reader.integer(4);
  reader.demand(count > 0 && count <= MAX_ALGORITHMS, MAX_ALGORITHMS, count);
  while (sizes.size < count) {
    const algorithm = reader.integer(2);
    const bytes = reader.integer(2);
    const isKnownSize = bytes > 0 && bytes === (DIGEST_BYTES[algorithm] ?? bytes);
    reader.demand(isKnownSize && !sizes.has(algorithm), "each algorithm once, with its size", algorithm);
    sizes.set(algorithm, bytes);
  }
  return sizes;
}

function readEvent(reader: LogReader, kind: LogKind, index: number, sizes: Sizes, number: number): LogEvent {
  const register = kind.registers[index];
  reader.demand(register, kind.registers.length, index);
  const type = reader.integer(4);
  const digest = readDigest(reader, kind, sizes);
  const data = reader.take(reader.integer(4));
  return { number, register, type, digest, data };
}

/** The digest of the bank that counts; each one stands there once. */
function readDigest(reader: LogReader, { bank, hash }: LogKind, sizes: Sizes): Bytes {
  const digests = new Map<number, Bytes>();
  const count = reader.integer(4);
  reader.demand(count <= sizes.size, sizes.size, count);
  while (digests.size < count) {
    const algorithm = reader.integer(2);
    const bytes = sizes.get(algorithm);
    reader.demand(bytes && !digests.has(algorithm), "each algorithm of the header once", algorithm);
    digests.set(algorithm, reader.take(bytes));
  }
  const digest = digests.get(bank);
  reader.demand(digest, hash, [...digests.keys()]);
  return digest;
}

const tellsLocality = ({ type, data }: LogEvent, { hash }: LogKind): boolean =>
  type === EV_NO_ACTION && hash === "SHA-256" && latin1(data.slice(0, 16)) === "StartupLocality\0";

const extendsSame = (one: LogEvent, other: LogEvent): boolean => one.register === other.register && isExtended(one);

function readLocality(reader: LogReader, { data }: LogEvent, isFirst: boolean): number {
  const locality = hex(data.slice(16));
  const isValid = isFirst && /^0[034]$/.test(locality);
  reader.demand(isValid, "0, 3 or 4 once, in front of what extends PCR0", locality);
  return Number(locality);
}
