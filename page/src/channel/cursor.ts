/**
 * Bytes that arrive in pieces, taken from their front, and integers of variable length among them (RFC 9000, section
 * 16).
 */

import { type Bytes, NO_BYTES, concat } from "../verifier/bytes";

/** Encode an integer below 2^30 in as few bytes as it takes. */
export function varint(number: number): Bytes {
  if (number < 0x40) return Uint8Array.of(number);
  if (number < 0x4000) return Uint8Array.of(0x40 | (number >> 8), number);
  return Uint8Array.of(0x80 | (number >>> 24), number >> 16, number >> 8, number);
}

/** Every method waits for what it needs; `what` names it where the bytes end before. */
export interface Cursor {
  /** Number of bytes taken. */
  readonly taken: () => number;
  readonly isOver: () => Promise<boolean>;
  readonly take: (size: number, what?: string) => Promise<Bytes>;
  /** One byte at least, and at most so many: what has arrived. */
  readonly some: (most: number, what?: string) => Promise<Bytes>;
  /** All that is left; more than so many bytes are not waited for. */
  readonly rest: (most: number) => Promise<Bytes>;
  readonly integer: (what?: string) => Promise<number>;
}

/** @param cut refuses, since the bytes ended in the middle */
export function cursorOf(pieces: AsyncIterator<Bytes>, cut: (what?: string) => never): Cursor {
  let buffer = NO_BYTES;
  let taken = 0;
  /** Wait until so many bytes are there, or the end. */
  const wait = async (size: number): Promise<void> => {
    while (buffer.length < size) {
      const next = await pieces.next();
      if (next.done) return;
      buffer = concat(buffer, next.value);
    }
  };
  const take = async (size: number, what?: string): Promise<Bytes> => {
    await wait(size);
    if (buffer.length < size) cut(what);
    const data = buffer.slice(0, size);
    buffer = buffer.slice(size);
    taken += size;
    return data;
  };
  return {
    taken: () => taken,
    isOver: async () => {
      await wait(1);
      return !buffer.length;
    },
    take,
    some: async (most, what) => {
      await wait(1);
      return take(Math.min(most, buffer.length || 1), what);
    },
    rest: async (most) => {
      await wait(most + 1);
      return take(buffer.length);
    },
    integer: async (what) => {
      const first = (await take(1, what))[0]!;
      const rest = await take((1 << (first >> 6)) - 1, what);
      return rest.reduce((number, byte) => number * 256 + byte, first & 0x3f);
    },
  };
}
