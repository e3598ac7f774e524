/** The TCB of each product line of AMD EPYC: its parts, and the two layouts of TCB_VERSION (sev-snp.md 3 and 9). */

import { type Bytes, equal } from "../bytes";
import { type Kind, need } from "../errors";

/** By the name that AMD's key distribution service uses. */
export type Product = "Milan" | "Genoa" | "Turin";
export const PRODUCTS: readonly Product[] = ["Milan", "Genoa", "Turin"];

/**
 * Levels of the firmware parts, in AMD's order; `fmc` on Turin only. A TCB is a vector: two can be incomparable, so it
 * is never compared as one integer.
 */
export type Tcb = Readonly<Record<string, number>>;

type Part = readonly [name: string, place: number, extension: number];

/** Each part, its byte in TCB_VERSION, and the last arc of its extension in certificates. */
const PARTS: readonly Part[] = [
  ["bootloader", 0, 1],
  ["tee", 1, 2],
  ["snp", 6, 3],
  ["microcode", 7, 8],
];
const PARTS_OF_TURIN: readonly Part[] = [
  ["fmc", 0, 9],
  ["bootloader", 1, 1],
  ["tee", 2, 2],
  ["snp", 3, 3],
  ["microcode", 7, 8],
];

export const partsOf = (product: Product): readonly Part[] => (product === "Turin" ? PARTS_OF_TURIN : PARTS);

/** True if every component of `a` is at least that of `b`, which is of the same product line. */
export const covers = (a: Tcb, b: Tcb): boolean => Object.keys(a).every((name) => a[name]! >= b[name]!);

/** Two of the same product line are the same when their texts are. */
export const tcbText = (tcb: Tcb): string =>
  Object.entries(tcb)
    .map((part) => part.join(" "))
    .join(", ");

/** The 8 bytes of TCB_VERSION. */
export function tcbBytes(tcb: Tcb, product: Product): Bytes {
  const raw = new Uint8Array(8);
  for (const [name, place] of partsOf(product)) raw[place] = tcb[name]!;
  return raw;
}

const TCBS = ["reported_tcb", "current_tcb", "committed_tcb", "launch_tcb"] as const;
type Each<T> = Readonly<Record<(typeof TCBS)[number], T>>;
export type Tcbs = Each<Tcb>;

/**
 * Read those of a report; refuses with this code what is not zero, also what the layout of the other family usually
 * gives.
 */
export function tcbsOf(report: Each<Bytes>, product: Product, kind: Kind, code: string): Tcbs {
  const read = (field: keyof Tcbs): Tcb => {
    const raw = report[field];
    const tcb = Object.fromEntries(partsOf(product).map(([name, place]) => [name, raw[place]!]));
    need(equal(raw, tcbBytes(tcb, product)), kind, code, 0, raw, { check: "snp.format", field });
    return tcb;
  };
  return Object.fromEntries(TCBS.map((name) => [name, read(name)])) as Tcbs;
}
