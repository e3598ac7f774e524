/** The bounds-checked reader, and tables of fixed binary structures. */

import { type Bytes, isZero, unsigned, unsignedLittle } from "./bytes";
import { need } from "./errors";

/** Take bytes from the front of a buffer; never past its end (`truncated`), nothing left over (`trailing-bytes`). */
export class Reader {
  offset = 0;

  constructor(
    readonly data: Bytes,
    private readonly what: string,
  ) {}

  get remaining(): number {
    return this.data.length - this.offset;
  }

  take(length: number, field: string): Bytes {
    const { offset, remaining } = this;
    need(length <= remaining, "malformed", "truncated", length, remaining, { field, offset });
    this.offset += length;
    return this.data.slice(offset, this.offset);
  }

  /** Take an unsigned integer of 8 bytes. */
  unsigned64(field: string, order?: "little" | "big", size = 8): bigint {
    return (order === "big" ? unsigned : unsignedLittle)(this.take(size, field));
  }

  /** Take an unsigned integer of at most 6 bytes. */
  unsigned(size: number, field: string, order?: "little" | "big"): number {
    return Number(this.unsigned64(field, order, size));
  }

  finish(): void {
    const { offset, data } = this;
    need(!this.remaining, "malformed", "trailing-bytes", offset, data.length, { field: this.what, offset });
  }
}

/**
 * A fixed little-endian structure: name to row, in order. `"u1"`, `"u2"`, `"u4"` are numbers, `"u8"` is a bigint, a
 * positive number that many bytes, a negative number that many reserved bytes, which must be zero.
 */
export type Layout = Readonly<Record<string, "u1" | "u2" | "u4" | "u8" | number>>;

type ValueOf<R> = R extends "u8" ? bigint : R extends string ? number : Bytes;

export type Decoded<L extends Layout> = {
  readonly [K in keyof L as `${L[K]}` extends `-${string}` ? never : K]: ValueOf<L[K]>;
};

/** Bytes of a row: the digits in it. */
const rowSize = (row: Layout[string]): number => Number(String(row).replace(/\D/, ""));

export const layoutSize = (layout: Layout): number =>
  Object.values(layout).reduce<number>((size, row) => size + rowSize(row), 0);

/** Decode a structure by its table: `size-wrong`, or `reserved-not-zero` with the first such span. */
export function decodeLayout<const L extends Layout>(layout: L, data: Bytes, name: string, clause: string): Decoded<L> {
  const size = layoutSize(layout);
  need(data.length === size, "malformed", "size-wrong", size, data.length, { field: name, clause });
  const values: Record<string, number | bigint | Bytes> = {};
  const reader = new Reader(data, name);
  for (const [field, row] of Object.entries(layout)) {
    const { offset } = reader;
    const bytes = reader.take(rowSize(row), field);
    if (typeof row === "string") values[field] = row === "u8" ? unsignedLittle(bytes) : Number(unsignedLittle(bytes));
    else if (row > 0) values[field] = bytes;
    else need(isZero(bytes), "malformed", "reserved-not-zero", 0, bytes, { field: name, offset, clause });
  }
  return values as Decoded<L>;
}
