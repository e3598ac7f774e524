/**
 * SHA3-256 (FIPS 202) for X-Wing's combiner, since WebCrypto's is not there where its ML-KEM is. For short public
 * messages.
 */

import { type Bytes, concat, padded } from "../verifier/bytes";

const RATE = 136;
const MASK = (1n << 64n) - 1n;

const turn = (lane: bigint, by: number): bigint =>
  by ? ((lane << BigInt(by)) | (lane >> BigInt(64 - by))) & MASK : lane;

/** The 24 round constants, by the feedback register of section 3.2.5. */
const ROUNDS = ((): bigint[] => {
  let register = 1;
  return Array.from({ length: 24 }, () => {
    let constant = 0n;
    for (let bit = 0; bit < 7; bit++) {
      if (register & 1) constant |= 1n << BigInt((1 << bit) - 1);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
    return constant;
  });
})();

/** Keccak-f[1600] on 25 lanes, lane x + 5y. */
function permuted(lanes: readonly bigint[]): bigint[] {
  let now = [...lanes];
  for (const constant of ROUNDS) {
    // (1) Theta: each lane meets the parities of two columns.
    const parity = [0, 1, 2, 3, 4].map((x) => now.reduce((sum, lane, i) => (i % 5 === x ? sum ^ lane : sum), 0n));
    const met = now.map((lane, i) => lane ^ parity[(i + 4) % 5]! ^ turn(parity[(i + 1) % 5]!, 1));
    // (2) Rho and pi: lanes are turned, and change places along one cycle.
    const moved = [...met];
    let x = 1;
    let y = 0;
    for (let step = 1; step < 25; step++) {
      const from = x + 5 * y;
      const nextY = (2 * x + 3 * y) % 5;
      x = y;
      y = nextY;
      moved[x + 5 * y] = turn(met[from]!, ((step * (step + 1)) / 2) % 64);
    }
    // (3) Chi: rows are mixed; (4) iota: the round's constant.
    const inRow = (i: number, by: number): bigint => moved[i - (i % 5) + ((i + by) % 5)]!;
    now = moved.map((lane, i) => lane ^ (~inRow(i, 1) & inRow(i, 2)));
    now[0]! ^= constant;
  }
  return now;
}

/** Return the digest, 32 bytes. */
export function sha3(data: Uint8Array): Bytes {
  const whole = padded(concat(data, Uint8Array.of(6)), Math.ceil((data.length + 1) / RATE) * RATE);
  whole[whole.length - 1]! |= 0x80;
  let lanes = new Array<bigint>(25).fill(0n);
  const words = new DataView(whole.buffer);
  for (let block = 0; block < whole.length; block += RATE) {
    lanes = permuted(lanes.map((lane, i) => (8 * i < RATE ? lane ^ words.getBigUint64(block + 8 * i, true) : lane)));
  }
  lanes.slice(0, 4).forEach((lane, i) => words.setBigUint64(8 * i, lane, true));
  return whole.slice(0, 32);
}
