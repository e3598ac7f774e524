/** The certificate table of an extended report (AMD 56421, 4.1.8.1; sev-snp.md 13). All of it comes from the host. */

import { type Bytes, Reader, hex, isZero } from "../bytes";
import { fail } from "../errors";

const MAX_ENTRIES = 32;
const MAX_TABLE_BYTES = 1024 * 1024;
const ENTRY_BYTES = 24;

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

export interface TableEntry {
  readonly kind: TableKind;
  readonly data: Bytes;
}

function malformed(problem: string): never {
  return fail("malformed", "snp-table-malformed", `certificate table: ${problem}`, {
    check: "snp.format",
    field: "certificate table",
    clause: "AMD 56421, 4.1.8.1; sev-snp.md 13",
  });
}

/** Whether bytes begin with a kind of entry that is known. */
export function beginsTable(data: Uint8Array): boolean {
  return hex(data.subarray(0, 16)) in KINDS;
}

/** Read a table with its padding; entries with an unknown GUID are skipped, as GHCB asks: `snp-table-malformed`. */
export function parseTable(data: Bytes): TableEntry[] {
  if (isZero(data)) return [];
  if (data.length > MAX_TABLE_BYTES) malformed(`${data.length} bytes, more than ${MAX_TABLE_BYTES}`);
  const heads = entryHeads(data);
  const listEnd = ENTRY_BYTES * (heads.length + 1);
  let covered = listEnd;
  const entries = new Map<TableKind, TableEntry>();
  for (const { kind, offset, length } of heads) {
    const end = offset + length;
    if (offset < listEnd || end > data.length) malformed(`an entry covers ${offset} to ${end} of ${listEnd} to ${data.length}`);
    covered = Math.max(covered, end);
    if (!kind) continue;
    if (entries.has(kind)) malformed(`two entries of kind ${kind}`);
    entries.set(kind, { kind, data: data.slice(offset, end) });
  }
  if (!isZero(data.subarray(covered))) malformed("bytes after the last entry that are not padding");
  return [...entries.values()];
}

function entryHeads(data: Bytes): { kind: TableKind | undefined; offset: number; length: number }[] {
  const reader = new Reader(data, "certificate table");
  const heads = [];
  for (;;) {
    const guid = reader.take(16, "GUID");
    const [offset, length] = [reader.unsigned(4, "offset"), reader.unsigned(4, "length")];
    if (isZero(guid)) {
      if (offset || length) malformed("an entry without a GUID");
      return heads;
    }
    heads.push({ kind: KINDS[hex(guid)], offset, length });
    if (heads.length > MAX_ENTRIES) malformed(`more than ${MAX_ENTRIES} entries`);
  }
}
