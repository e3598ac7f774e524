/**
 * Whose log it is: which registers its indices mean, from which values they start, which digest counts, and what is
 * measured where. The kind is chosen by who calls, from the evidence that the log came with, and never by the log.
 */

import type { Bytes } from "../bytes";

export interface Register {
  readonly name: string;
  /** Its value before the first event; absent for one that no event extends. */
  readonly initial?: Bytes;
  /**
   * What may extend it once the log has ended: nothing, unless said; the operating system, so that the log cannot judge a
   * difference; or only the operating system, so that a log without events says nothing of it.
   */
  readonly growth?: "system" | "system alone" | undefined;
  /** Words whose hashes an operating system is known to extend it by then, in this order, as far as it has come. */
  readonly phases: readonly string[];
}

/** In which registers each kind of fact is measured; nowhere, when logs of this kind cannot prove it. */
interface Places {
  readonly secureBoot: string;
  readonly bootVariables: readonly string[];
  readonly applications: readonly string[];
  readonly grub: readonly string[];
  /** Kernel command lines that systemd's EFI stub and boot menu measured. */
  readonly stub: readonly string[];
  /** What Linux's EFI stub measured. */
  readonly kernelStub: readonly string[];
  /** Everything that boot loaders measure, these texts included. */
  readonly loader: readonly string[];
  /** What the guest's software measures, into the log. */
  readonly runtime: readonly string[];
}

export interface LogKind {
  /** Of each index; a higher index is malformed. */
  readonly registers: readonly Register[];
  /** Algorithm id of the digest that every record must have, and by which registers are extended. */
  readonly bank: number;
  readonly hash: "SHA-384" | "SHA-256";
  readonly places: Places;
}

const RTMRS = ["RTMR0", "RTMR1", "RTMR2", "RTMR3"];

/** Intel TDX. Index 0 stands for MRTD, which no event extends. */
export const CCEL: LogKind = {
  registers: [
    { name: "MRTD", phases: [] },
    ...RTMRS.map((name) => ({ name, initial: new Uint8Array(48), phases: [] })),
  ],
  bank: 0x000c,
  hash: "SHA-384",
  places: {
    secureBoot: "RTMR0",
    bootVariables: ["RTMR0", "RTMR1"],
    applications: ["RTMR0", "RTMR1"],
    grub: ["RTMR2"],
    stub: [], // This register is everybody's: its texts stay among the other events, by digest.
    kernelStub: ["RTMR2"],
    loader: ["RTMR2"],
    runtime: ["RTMR3"],
  },
};

/** One letter for each PCR: what may extend it later, and by which words. */
const GROWTH = "--------ss*sss-*********" as const;
const SEPARATED = "ssssssss-s-bsss---------";
/** What systemd tells of a boot from a unified kernel image, and how it closes the registers of the boot before it. */
const PHASES: Readonly<Record<string, readonly string[]>> = {
  b: ["enter-initrd", "leave-initrd", "sysinit", "ready", "shutdown", "final"],
  s: ["os-separator"],
};

/** A TPM's log, by its SHA-256 bank. Its first register starts with the locality that the log tells. */
export const TCG2_SHA256: LogKind = {
  registers: Array.from(GROWTH, (growth, index) => ({
    name: `PCR${index}`,
    // Those of a late launch start with all bits set (TCG PC Client TPM profile).
    initial: new Uint8Array(32).fill(index >= 17 && index <= 22 ? 0xff : 0),
    growth: growth === "s" ? "system" : growth === "*" ? "system alone" : undefined,
    phases: PHASES[SEPARATED.charAt(index)] ?? [],
  })),
  bank: 0x000b,
  hash: "SHA-256",
  places: {
    secureBoot: "PCR7",
    bootVariables: ["PCR1"],
    applications: ["PCR4"],
    grub: ["PCR8"],
    stub: ["PCR12"],
    kernelStub: ["PCR9"],
    loader: ["PCR8", "PCR9", "PCR11", "PCR12", "PCR13", "PCR14"],
    runtime: [], // Software that runs keeps logs of its own.
  },
};
