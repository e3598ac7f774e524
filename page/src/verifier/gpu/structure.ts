/**
 * The attestation report of a GPU or NVSwitch: an SPDM 1.1 GET_MEASUREMENTS request and its MEASUREMENTS response.
 *
 *     request (37) | head (8) | measurement blocks (55 each) | tail (34) | opaque data | signature (96)
 *
 * Whether the device is a GPU or a switch is said by its certificate, not by this report.
 *
 * Spec: specs/nvidia-gpu.md, sections 2 and 3.
 */

import { type Bytes, hex } from "../bytes";
import { type OpaqueData, malformed, parseOpaque } from "./opaque";

/** The buffer into which NVML writes a report; the longest one seen has 4,274 bytes. */
export const MAX_REPORT_BYTES = 0x2000;
/** Measurement blocks of an NVSwitch (LS10) and of a GPU; no other number has been seen. */
const BLOCK_COUNTS = [31, 64];
const BLOCK_BYTES = 55;

/** Rows of a structure: name, bytes, and the one value of a field that has only one. Little-endian up to three bytes. */
type Layout = readonly (readonly [name: string, size: number, fixed?: number])[];

const REQUEST: Layout = [
  ["request_spdm_version", 1, 0x11],
  ["request_code", 1, 0xe0],
  ["request_param1", 1, 0x01],
  ["request_param2", 1, 0xff],
  ["nonce", 32],
  ["slot_id", 1, 0],
];
const HEAD: Layout = [
  ["response_spdm_version", 1, 0x11],
  ["response_code", 1, 0x60],
  ["response_param1", 1, 0],
  ["response_param2", 1, 0],
  ["number_of_blocks", 1],
  ["record_length", 3],
];
const BLOCK: Layout = [
  ["index", 1],
  ["measurement_specification", 1, 1],
  ["measurement_size", 2, 51],
  ["value_type", 1, 1],
  ["value_size", 2, 48],
  ["value", 48],
];
const TAIL: Layout = [
  ["responder_nonce", 32],
  ["opaque_length", 2],
];
const SIGNATURE: Layout = [["signature", 96]];

/** A report as presented: a stranger's word until its signature is verified. */
export interface ParsedGpuReport {
  /** The requester's challenge, 32 bytes. */
  readonly nonce: Bytes;
  /** SHA-384 digests in hex; the position is the RIM index, counted from 0. */
  readonly measurements: readonly string[];
  readonly opaque: OpaqueData;
  /** Everything in front of the signature, as received. */
  readonly signedBytes: Bytes;
  /** r and s, big-endian, 48 bytes each. */
  readonly signature: Bytes;
}

/**
 * Read the attestation report of a GPU or switch.
 *
 * @param data request and response, nothing before or after them, at most `MAX_REPORT_BYTES`.
 * @throws AttestError `gpu-report-malformed` or `gpu-opaque-unsupported`.
 */
export function parseReport(data: Bytes): ParsedGpuReport {
  // (1) Size: what NVML can hand out.
  if (data.length > MAX_REPORT_BYTES) {
    throw malformed("report", `at most ${MAX_REPORT_BYTES} bytes`, `${data.length} bytes`);
  }
  const cursor = new Cursor(data);
  // (2) Request and head of the response, field by field.
  cursor.take(REQUEST);
  const nonce = cursor.last("nonce");
  cursor.take(HEAD);
  const count = numberOfBlocks(cursor);
  // (3) Measurement blocks, each index in its place.
  const measurements = Array.from({ length: count }, (_, position) => measurement(cursor, position + 1));
  // (4) What the device chose and says of itself.
  cursor.take(TAIL);
  const length = cursor.number("opaque_length");
  const left = data.length - cursor.at;
  if (length > left) throw malformed("opaque_length", `at most ${left}`, String(length), cursor.at - 2);
  const opaqueAt = cursor.at;
  cursor.at += length;
  const end = cursor.at;
  // (5) The signature is located by parsing, never from the end, and ends the report.
  cursor.take(SIGNATURE);
  if (cursor.at !== data.length) throw malformed("report", `${cursor.at} bytes`, `${data.length} bytes`);
  const opaque = parseOpaque(data.slice(opaqueAt, end), opaqueAt);
  return { nonce, measurements, opaque, signedBytes: data.slice(0, end), signature: data.slice(end) };
}

/** A place in the report, and the fields of the structure before it. */
class Cursor {
  at = 0;
  #fields = new Map<string, Bytes>();

  constructor(readonly data: Bytes) {}

  /** Read a structure and compare its fixed fields. */
  take(layout: Layout): void {
    for (const [name, size, fixed] of layout) {
      const value = this.data.slice(this.at, this.at + size);
      if (value.length !== size) throw malformed(name, `${size} bytes`, `${value.length} bytes`, this.at);
      this.#fields.set(name, value);
      if (fixed !== undefined && this.number(name) !== fixed) {
        throw malformed(name, String(fixed), String(this.number(name)), this.at);
      }
      this.at += size;
    }
  }

  last(name: string): Bytes {
    return this.#fields.get(name) as Bytes; // a name of the tables above
  }

  number(name: string): number {
    return this.last(name).reduceRight((value, byte) => value * 256 + byte, 0);
  }
}

/** The number of blocks, which must be one that is known and agree with the length of the record. */
function numberOfBlocks(cursor: Cursor): number {
  const [count, length] = [cursor.number("number_of_blocks"), cursor.number("record_length")];
  if (BLOCK_COUNTS.includes(count) && length === count * BLOCK_BYTES) return count;
  throw malformed("number_of_blocks", `${BLOCK_COUNTS.join(" or ")}, ${BLOCK_BYTES} bytes each`, `${count}, ${length} bytes`, cursor.at - 4);
}

/** Read a block; indices count from 1 without a gap, so none can stand twice. */
function measurement(cursor: Cursor, index: number): string {
  const start = cursor.at;
  cursor.take(BLOCK);
  const found = cursor.number("index");
  if (found !== index) throw malformed("index", String(index), String(found), start);
  return hex(cursor.last("value"));
}
