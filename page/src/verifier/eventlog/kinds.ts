/**
 * Whose log it is: which registers its indices mean, from which values they start, and which digest counts.
 *
 * The kind is chosen by who calls, from the evidence that the log came with, and never by the log.
 */

import { type Bytes, NO_BYTES, padded } from "../bytes";

/**
 * What may extend a register once the log has ended: nothing; the operating system, so that the log cannot judge a
 * difference; or only the operating system, so that a log without events says nothing of it.
 */
export type Growth = "none" | "system" | "system alone";

export interface Register {
  readonly name: string;
  /** Its value before the first event; null for one that no event extends. */
  readonly initial: Bytes | null;
  readonly growth: Growth;
  /** Words whose hashes an operating system is known to extend it by then, in this order, as far as it has come. */
  readonly phases: readonly string[];
}

export interface LogKind {
  readonly name: "CCEL" | "TCG2";
  /** Of each index; a higher index is malformed. */
  readonly registers: readonly Register[];
  /** Algorithm id of the digest that every record must have, and by which registers are extended. */
  readonly bank: number;
  readonly hash: "SHA-384" | "SHA-256";
  /** Bytes of a register and of a digest. */
  readonly size: number;
}

const rtmr = (number: number): Register => ({ name: `RTMR${number}`, initial: padded(NO_BYTES, 48), growth: "none", phases: [] });

/** Intel TDX. Index 0 stands for MRTD, which no event extends. */
export const CCEL: LogKind = {
  name: "CCEL",
  registers: [{ ...rtmr(0), name: "MRTD", initial: null }, ...[0, 1, 2, 3].map(rtmr)],
  bank: 0x000c,
  hash: "SHA-384",
  size: 48,
};

const SYSTEM = [8, 9, 11, 12, 13];
const SYSTEM_ALONE = [10, 15, 16, 17, 18, 19, 20, 21, 22, 23];
/** What systemd tells of a boot from a unified kernel image, and how it closes the registers of the boot before it. */
const BOOT_PHASES = ["enter-initrd", "leave-initrd", "sysinit", "ready", "shutdown", "final"];
const SEPARATED = [0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 14];

function pcr(index: number): Register {
  const isLateLaunch = index >= 17 && index <= 22; // those start with all bits set (TCG PC Client TPM profile)
  return {
    name: `PCR${index}`,
    initial: padded(NO_BYTES, 32).fill(isLateLaunch ? 0xff : 0),
    growth: SYSTEM.includes(index) ? "system" : SYSTEM_ALONE.includes(index) ? "system alone" : "none",
    phases: index === 11 ? BOOT_PHASES : SEPARATED.includes(index) ? ["os-separator"] : [],
  };
}

/** A TPM's log, by its SHA-256 bank. Its first register starts with the locality that the log tells. */
export const TCG2_SHA256: LogKind = {
  name: "TCG2",
  registers: Array.from({ length: 24 }, (_, index) => pcr(index)),
  bank: 0x000b,
  hash: "SHA-256",
  size: 32,
};
