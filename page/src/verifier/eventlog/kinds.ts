/**
 * Kind of a log: the registers of its indices, their initial values, the digest that counts, and the events of each
 * register. The caller chooses the kind by the evidence that the log came with. The log never chooses it.
 */

import type { Bytes } from "../bytes";

export interface Register {
  readonly name: string;
  /** Its value before the first event; absent for one that no event extends. */
  readonly initial?: Bytes;
  /**
   * Party that may extend it after the end of the log: none, unless stated; the operating system, so that the log
   * cannot explain a difference; or only the operating system, so that a log without events does not cover it.
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
  /** Events of Linux's EFI stub. */
  readonly kernelStub: readonly string[];
  /** Everything that boot loaders measure, these texts included. */
  readonly loader: readonly string[];
  /** Events that the guest's software measures into the log. */
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
    stub: [], // Any software extends this register: its texts stay among the other events, by digest.
    kernelStub: ["RTMR2"],
    loader: ["RTMR2"],
    runtime: ["RTMR3"],
  },
};

const PCR_COUNT = 24;
/** PCRs that an operating system extends behind the firmware and the boot loader. */
const EXTENDED_BY_SYSTEM = [8, 9, 11, 12, 13];
/** PCRs that an operating system alone extends. */
const EXTENDED_BY_SYSTEM_ALONE = [10, 15, 16, 17, 18, 19, 20, 21, 22, 23];
/** PCRs that systemd closes behind the boot before it. */
const CLOSED_BY_SYSTEM = [0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 14];
/** The PCR into which systemd measures the phases of a boot from a unified kernel image. */
const PHASES_PCR = 11;
const BOOT_PHASES = ["enter-initrd", "leave-initrd", "sysinit", "ready", "shutdown", "final"];
/** PCRs of a late launch start with all bits set (TCG PC Client TPM profile). */
const LATE_LAUNCH = [17, 18, 19, 20, 21, 22];

function growthOf(index: number): Register["growth"] {
  if (EXTENDED_BY_SYSTEM.includes(index)) return "system";
  return EXTENDED_BY_SYSTEM_ALONE.includes(index) ? "system alone" : undefined;
}

function phasesOf(index: number): readonly string[] {
  if (index === PHASES_PCR) return BOOT_PHASES;
  return CLOSED_BY_SYSTEM.includes(index) ? ["os-separator"] : [];
}

/** A TPM's log, by its SHA-256 bank. Its first register starts with the locality that the log tells. */
export const TCG2_SHA256: LogKind = {
  registers: Array.from({ length: PCR_COUNT }, (_, index) => ({
    name: `PCR${index}`,
    initial: new Uint8Array(32).fill(LATE_LAUNCH.includes(index) ? 0xff : 0),
    growth: growthOf(index),
    phases: phasesOf(index),
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
