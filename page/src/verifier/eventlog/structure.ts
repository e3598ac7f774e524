/**
 * TCG crypto-agile event logs, as a TDX guest's CCEL table and a TPM's driver hand them out; all little-endian.
 *
 * Indices, types and data are what the log says; only a replay against registers that hardware signed gives the digests
 * a meaning, and only a recomputed digest gives the data one.
 *
 * Spec: TCG PC Client Platform Firmware Profile, crypto agile log; intel-tdx-sgx.md 19, T13.
 */

import { type Bytes, equal, hasAt, hex, isZero, Reader, utf8 } from "../bytes";
import { AttestError, fail } from "../errors";
import type { LogKind, Register } from "./kinds";

/** Records behind the header; real logs have a few hundred. */
const MAX_EVENTS = 65_536;
/** Real log areas have 64 KiB to 1 MiB. */
const MAX_LOG_BYTES = 16 * 1024 * 1024;
/** Banks that a header may declare; no TPM has more than five. */
const MAX_ALGORITHMS = 16;
/** Digest sizes of SHA-1, SHA-256, SHA-384, SHA-512 and SM3. A log may declare others; they mean nothing here. */
const DIGEST_BYTES: Readonly<Record<number, number>> = { 0x4: 20, 0xb: 32, 0xc: 48, 0xd: 64, 0x12: 32 };
const SIGNATURE = utf8("Spec ID Event03\0");
const LOCALITY = utf8("StartupLocality\0");
const END_INDEX = 0xffff_ffff;
const CLAUSE = "TCG PC Client Platform Firmware Profile, crypto agile log; intel-tdx-sgx.md 19";

export const EV_NO_ACTION = 3;

/** One record as the log has it. */
export interface LogEvent {
  /** 1 for the first record behind the header. */
  readonly number: number;
  readonly offset: number;
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
export const isExtended = (event: LogEvent): boolean => event.type !== EV_NO_ACTION && event.register.initial !== null;

/** Read an event log: `eventlog-malformed`. It ends at index 0xFFFFFFFF, where only zeros remain, or with the data. */
export function parseEventLog(data: Bytes, kind: LogKind): EventLog {
  if (data.length > MAX_LOG_BYTES) refuse(0, 0, `at most ${MAX_LOG_BYTES} bytes`, `${data.length} bytes`);
  const log = new LogReader(data, kind);
  try {
    return log.read();
  } catch (error) {
    // The reader knows how much it wanted, and the log which event it was in.
    if (!(error instanceof AttestError) || error.code !== "truncated") throw error;
    const { offset = 0, expected = "", got = "", field = "" } = error.facts;
    return refuse(log.number, offset, `${expected} of ${field}`, got);
  }
}

function refuse(number: number, offset: number, expected: string, got: string): never {
  const field = number ? `event ${number}` : "header";
  const facts = { check: "eventlog.format", field, offset, expected, got, clause: CLAUSE };
  fail("malformed", "eventlog-malformed", "", facts);
}

class LogReader {
  number = 0;
  private readonly reader: Reader;
  private readonly contentEnds: number;
  private readonly sizes = new Map<number, number>();

  constructor(
    data: Bytes,
    private readonly kind: LogKind,
  ) {
    this.reader = new Reader(data, "event log");
    let ends = data.length;
    while (ends > 0 && data[ends - 1] === 0) ends--;
    this.contentEnds = ends;
  }

  read(): EventLog {
    // (1) The header declares the algorithms of every record.
    this.header();
    // (2) The records, up to one of the three ends.
    const events: LogEvent[] = [];
    while (this.reader.offset < this.contentEnds) {
      this.number++;
      const { offset } = this.reader;
      const index = this.u4("register index");
      if (index === END_INDEX) break;
      if (events.length === MAX_EVENTS) refuse(this.number, offset, `at most ${MAX_EVENTS} events`, "one more");
      events.push(this.record(offset, index));
    }
    // (3) With what the registers start, where a TPM's log tells.
    return { kind: this.kind, events, startupLocality: this.kind.name === "TCG2" ? startupLocality(events) : 0 };
  }

  private u4(field: string): number {
    return this.reader.unsigned(4, field);
  }

  /** Read the first record: the old form, with the declarations as its data. */
  private header(): void {
    const { reader } = this;
    this.u4("register index");
    const type = this.u4("event type");
    if (type !== EV_NO_ACTION) refuse(0, 4, `event type ${EV_NO_ACTION}`, `${type}`);
    const digest = reader.take(20, "digest");
    if (!isZero(digest)) refuse(0, 8, "a digest of zeros", hex(digest));
    const size = this.u4("event size");
    const begins = reader.offset;
    const signature = reader.take(SIGNATURE.length, "signature");
    if (!equal(signature, SIGNATURE)) refuse(0, begins, `signature ${hex(SIGNATURE)}`, hex(signature));
    reader.take(8, "platform class and versions");
    this.algorithms();
    reader.take(reader.unsigned(1, "vendor information size"), "vendor information");
    if (reader.offset - begins !== size) refuse(0, begins, `${size} bytes of header`, `${reader.offset - begins} bytes`);
  }

  private algorithms(): void {
    const { reader, sizes } = this;
    const count = this.u4("number of algorithms");
    if (count < 1 || count > MAX_ALGORITHMS) refuse(0, reader.offset - 4, `1 to ${MAX_ALGORITHMS} algorithms`, `${count}`);
    for (let i = 0; i < count; i++) {
      const at = reader.offset;
      const algorithm = reader.unsigned(2, "algorithm");
      const size = reader.unsigned(2, "digest size");
      if (sizes.has(algorithm)) refuse(0, at, "each algorithm once", `${algorithm} again`);
      if (size === 0 || size !== (DIGEST_BYTES[algorithm] ?? size)) {
        refuse(0, at, `a digest size that algorithm ${algorithm} has`, `${size}`);
      }
      sizes.set(algorithm, size);
    }
  }

  private record(offset: number, index: number): LogEvent {
    const { kind, number, reader } = this;
    const register = kind.registers[index];
    if (!register) return refuse(number, offset, `register index 0 to ${kind.registers.length - 1}`, `${index}`);
    const type = this.u4("event type");
    const digests = this.digests();
    const digest = digests.get(kind.bank);
    if (!digest) return refuse(number, offset, `a ${kind.hash} digest`, `digests of ${[...digests.keys()]}`);
    return { number, offset, register, type, digest, data: reader.take(this.u4("event size"), "event data") };
  }

  private digests(): Map<number, Bytes> {
    const { number, reader, sizes } = this;
    const count = this.u4("digest count");
    if (count > sizes.size) refuse(number, reader.offset - 4, `at most ${sizes.size} digests, as declared`, `${count}`);
    const digests = new Map<number, Bytes>();
    for (let i = 0; i < count; i++) {
      const at = reader.offset;
      const algorithm = reader.unsigned(2, "algorithm");
      const size = sizes.get(algorithm);
      if (size === undefined) return refuse(number, at, "an algorithm that the header declares", `${algorithm}`);
      if (digests.has(algorithm)) refuse(number, at, "each algorithm once", `${algorithm} again`);
      digests.set(algorithm, reader.take(size, "digest"));
    }
    return digests;
  }
}

/** Read the event StartupLocality, which stands in front of everything that extends its register, the first one. */
function startupLocality(events: readonly LogEvent[]): number {
  let told: number | undefined;
  let extended = false;
  for (const { type, register, data, number, offset } of events) {
    const isFirst = register.name === "PCR0";
    if (type !== EV_NO_ACTION) extended ||= isFirst;
    else if (hasAt(data, LOCALITY)) {
      const [locality = -1, ...more] = data.slice(LOCALITY.length);
      if (!isFirst || extended || told !== undefined || more.length || ![0, 3, 4].includes(locality)) {
        const rule = "one StartupLocality of 0, 3 or 4, in front of the first event of its register";
        refuse(number, offset, rule, `${hex(data.slice(LOCALITY.length))} in ${register.name}`);
      }
      told = locality;
    }
  }
  return told ?? 0;
}
