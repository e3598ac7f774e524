/** The algorithms of the channel, by their numbers, and those that this browser has. */

import type { Bytes } from "../verifier/bytes";

export const KEM_HYBRID = 0x647a;
export const KEM_X25519 = 0x0020;
export const KDF_SHA256 = 1;
export const AES_256_GCM = 2;
export const PUBLIC_BYTES: Readonly<Record<number, number>> = { [KEM_HYBRID]: 1216, [KEM_X25519]: 32 };

export const be2 = (number: number): Bytes => Uint8Array.of(number >> 8, number & 0xff);

/** A browser that may lack ML-KEM. */
interface Lattice {
  readonly encapsulateBits?: unknown;
}

/** Return the KEMs that this browser has, the preferred one first. */
export function spokenKems(): readonly number[] {
  return (crypto.subtle as Lattice).encapsulateBits ? [KEM_HYBRID, KEM_X25519] : [KEM_X25519];
}
