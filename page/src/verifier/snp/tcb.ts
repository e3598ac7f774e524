/** Product lines of AMD EPYC, and the two layouts of TCB_VERSION (sev-snp.md 3 and 6). */

import { type Bytes, hex, isZero } from "../bytes";
import { fail } from "../errors";

/** By the name that AMD's key distribution service uses. */
export type Product = "Milan" | "Genoa" | "Turin";
export const PRODUCTS: readonly Product[] = ["Milan", "Genoa", "Turin"];

/** Significant bytes of CHIP_ID. */
export function hwidBytes(product: Product): number {
  return product === "Turin" ? 8 : 64;
}

const MODELS: readonly (readonly [family: number, first: number, last: number, product: Product])[] = [
  [0x19, 0x00, 0x0f, "Milan"],
  [0x19, 0x10, 0x1f, "Genoa"],
  [0x19, 0xa0, 0xaf, "Genoa"], // Bergamo and Siena, with Genoa's chain and layout
  [0x1a, 0x00, 0x11, "Turin"],
];

/** Product line of a combined CPUID family and model: `snp-product-unknown`, a pair outside the table is not guessed. */
export function productOfCpuid(family: number, model: number): Product {
  const row = MODELS.find(([known, first, last]) => family === known && first <= model && model <= last);
  if (row) return row[3];
  const digits = (value: number): string => `0x${value.toString(16).padStart(2, "0")}`;
  return fail("unsupported", "snp-product-unknown", "", {
    check: "snp.format",
    field: "CPUID_FAM_ID",
    offset: 0x188,
    expected: "Milan, Genoa (Bergamo, Siena) or Turin",
    got: `family ${digits(family)} model ${digits(model)}`,
    clause: "sev-snp.md 6",
  });
}

/**
 * Levels of the firmware parts, in AMD's order; `fmc` on Turin only. A TCB is a vector: two can be incomparable, so it
 * is never compared as one integer.
 */
export type Tcb = Readonly<Record<string, number>>;

/** Whether every component of `a` is at least that of `b`, which is of the same product line. */
export function covers(a: Tcb, b: Tcb): boolean {
  return Object.entries(a).every(([name, level]) => level >= (b[name] ?? 0));
}

export function sameTcb(a: Tcb, b: Tcb): boolean {
  return covers(a, b) && covers(b, a);
}

export function tcbText(tcb: Tcb): string {
  return Object.entries(tcb).map(([name, level]) => `${name} ${level}`).join(" ");
}

/** Bytes of each component; the others are reserved. */
const PLACES = { fmc: 0, bootloader: 1, tee: 2, snp: 3, microcode: 7 };
const PLACES_BEFORE_TURIN = { bootloader: 0, tee: 1, snp: 6, microcode: 7 };

/** Read the 8 bytes of TCB_VERSION: `reserved-not-zero`, also what the layout of the other family usually gives. */
export function tcbOf(raw: Bytes, product: Product, field: string): Tcb {
  const places = Object.entries(product === "Turin" ? PLACES : PLACES_BEFORE_TURIN);
  const used = new Set(places.map(([, at]) => at));
  if (!isZero(raw.filter((_, at) => !used.has(at)))) {
    fail("malformed", "reserved-not-zero", "", {
      check: "snp.format",
      field,
      expected: "zero",
      got: hex(raw),
      clause: "sev-snp.md 3",
    });
  }
  return Object.fromEntries(places.map(([name, at]) => [name, raw[at] ?? 0]));
}
