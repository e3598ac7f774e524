/**
 * The attestation report of a GPU or NVSwitch: an SPDM 1.1 GET_MEASUREMENTS request and its MEASUREMENTS response.
 *
 *     request (37) | head (8) | measurement blocks (55 each) | tail (34) | opaque data | signature (96)
 *
 * True if the device is a GPU or a switch is said by its certificate, not by this report.
 *
 * Spec: specs/nvidia-gpu.md, sections 2 and 3.
 */

import { type Bytes, hex } from "../bytes";
import { type OpaqueData, parseOpaque, unsigned, wellFormed } from "./opaque";

/** The buffer into which NVML writes a report; the longest one seen has 4,274 bytes. */
export const MAX_REPORT_BYTES = 0x2000;
/** Measurement blocks of an NVSwitch (LS10) and of a GPU; no other number has been seen. */
const BLOCK_COUNTS = [31, 64];
const BLOCK_BYTES = 55;

/** A report as presented: untrusted until its signature is verified. */
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
  let at = 0;
  const take = (size: number): Bytes => {
    const taken = data.slice(at, (at += size));
    wellFormed(taken.length === size, `byte ${at}`, size, taken.length);
    return taken;
  };
  const fixed = (digits: string): void => {
    const got = hex(take(digits.length / 2));
    wellFormed(got === digits, `byte ${at}`, digits, got);
  };
  // (1) Size: the maximum of NVML.
  wellFormed(data.length <= MAX_REPORT_BYTES, "report", MAX_REPORT_BYTES, data.length);
  // (2) Request and head of the response: version 1.1, code and parameters; the slot is 0.
  fixed("11e001ff");
  const nonce = take(32);
  fixed("00");
  fixed("11600000");
  const count = unsigned(take(1));
  const length = unsigned(take(3));
  wellFormed(BLOCK_COUNTS.includes(count) && length === count * BLOCK_BYTES, "blocks", BLOCK_COUNTS, [count, length]);
  // (3) Measurement blocks: the index, which counts from 1 without a gap, specification 1 with 51 bytes, type 1 with
  // 48.
  const measurements = Array.from({ length: count }, (_, position) => {
    fixed(`${hex(Uint8Array.of(position + 1))}013300013000`);
    return hex(take(48));
  });
  // (4) What the device chose and says of itself.
  take(32);
  const opaque = take(unsigned(take(2)));
  // (5) The signature is located by parsing, never from the end, and ends the report.
  const signedBytes = data.slice(0, at);
  const signature = take(96);
  wellFormed(at === data.length, "report", at, data.length);
  return { nonce, measurements, opaque: parseOpaque(opaque), signedBytes, signature };
}
