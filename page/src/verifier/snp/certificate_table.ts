/** The certificate table of an extended report (AMD 56421, 4.1.8.1; sev-snp.md 13). All of it comes from the host. */

import { type Bytes, hex, isZero } from "../bytes";
import { Reader } from "../reader";
import { type Demand, demandsOf } from "../errors";

const MAX = {
  entries: 32,
  bytes: 1024 * 1024,
} as const;

export type TableKind = "VCEK" | "VLEK" | "ASK" | "ARK" | "CRL" | "PLATFORM";

/** GUIDs in RFC 4122 byte order; an ASVK travels as `ASK`. */
const KINDS: Readonly<Record<string, TableKind>> = {
  "63da758de6644564adc5f4b93be8accd": "VCEK",
  a8074bc2a25a483eaae639c045a0b8a1: "VLEK",
  "4ab7b379bbac4fe4a02f05aef327c782": "ASK",
  c0b406a4a803495297433fb6014cd0ae: "ARK",
  "92f81bc358114d3d97ffd19f88dc67ea": "CRL",
  ecae0c0f950243b1afa20ae2e0d565b6: "PLATFORM",
};

const demand: Demand = demandsOf("malformed", "snp-table-malformed", "snp.format");

export interface TableEntry {
  readonly kind: TableKind;
  readonly data: Bytes;
}

/** True if bytes begin with a known kind of entry. */
export const beginsTable = (data: Uint8Array): boolean => hex(data.subarray(0, 16)) in KINDS;

/** Read a table with its padding; entries with an unknown GUID are skipped, as GHCB asks: `snp-table-malformed`. */
export function parseTable(data: Bytes): TableEntry[] {
  if (isZero(data)) return [];
  demand(data.length <= MAX.bytes, "size", MAX.bytes, data.length);
  // (1) The heads, up to an entry of zeros.
  const reader = new Reader(data, "certificate table");
  const heads: (readonly [guid: string, begin: number, end: number])[] = [];
  for (;;) {
    const guid = reader.take(16, "GUID");
    const offset = reader.unsigned(4, "offset");
    const length = reader.unsigned(4, "length");
    if (isZero(guid)) {
      demand(!offset && !length, "GUID");
      break;
    }
    heads.push([hex(guid), offset, offset + length]);
    demand(heads.length <= MAX.entries, "entries", MAX.entries, heads.length);
  }
  // (2) What they lead to, one of each kind, and nothing behind it.
  let covered = reader.offset;
  const entries: TableEntry[] = [];
  for (const [guid, begin, end] of heads) {
    demand(begin >= reader.offset && end <= data.length, "offset", [reader.offset, data.length], [begin, end]);
    covered = Math.max(covered, end);
    const kind = KINDS[guid];
    if (!kind) continue;
    demand(!entries.some((entry) => entry.kind === kind), kind);
    entries.push({ kind, data: data.slice(begin, end) });
  }
  demand(isZero(data.subarray(covered)), "padding");
  return entries;
}
