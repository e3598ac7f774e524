/** SHA3-256 (FIPS 202) for X-Wing's combiner, since WebCrypto's is not there where its ML-KEM is. For short public messages. */

import type { Bytes } from "../verifier/bytes";

const [RATE, OUT] = [136, 32];
const MASK = (1n << 64n) - 1n;

const turn = (lane: bigint, by: number): bigint => by ? ((lane << BigInt(by)) | (lane >> BigInt(64 - by))) & MASK : lane;

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
function permute(lanes: bigint[]): void {
  const lane = (x: number, y: number): bigint => lanes[(x % 5) + 5 * (y % 5)] ?? 0n;
  for (const constant of ROUNDS) {
    // (1) Theta: each lane meets the parities of two columns.
    const parity = Array.from({ length: 5 }, (_, x) => lane(x, 0) ^ lane(x, 1) ^ lane(x, 2) ^ lane(x, 3) ^ lane(x, 4));
    for (let i = 0; i < 25; i++) lanes[i] = (lanes[i] ?? 0n) ^ (parity[(i + 4) % 5] ?? 0n) ^ turn(parity[(i + 1) % 5] ?? 0n, 1);
    // (2) Rho and pi: lanes are turned, and change places along one cycle.
    let [x, y, moved] = [1, 0, lane(1, 0)];
    for (let step = 0; step < 24; step++) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      const next = lane(x, y);
      lanes[x + 5 * y] = turn(moved, (((step + 1) * (step + 2)) / 2) % 64);
      moved = next;
    }
    // (3) Chi: rows are mixed; (4) iota: the round's constant.
    for (let row = 0; row < 5; row++) {
      const old = [0, 1, 2, 3, 4].map((column) => lane(column, row));
      old.forEach((value, column) => (lanes[column + 5 * row] = value ^ (~(old[(column + 1) % 5] ?? 0n) & MASK & (old[(column + 2) % 5] ?? 0n))));
    }
    lanes[0] = (lanes[0] ?? 0n) ^ constant;
  }
}

/** Return the digest, 32 bytes. */
export function sha3(data: Uint8Array): Bytes {
  const whole = new Uint8Array(Math.ceil((data.length + 1) / RATE) * RATE);
  whole.set(data);
  whole[data.length] = 6;
  whole[whole.length - 1] = (whole[whole.length - 1] ?? 0) | 0x80;
  const [lanes, words] = [new Array<bigint>(25).fill(0n), new DataView(whole.buffer)];
  for (let block = 0; block < whole.length; block += RATE) {
    for (let i = 0; i < RATE / 8; i++) lanes[i] = (lanes[i] ?? 0n) ^ words.getBigUint64(block + 8 * i, true);
    permute(lanes);
  }
  const out = new DataView(new ArrayBuffer(OUT));
  for (let i = 0; i < OUT / 8; i++) out.setBigUint64(8 * i, lanes[i] ?? 0n, true);
  return new Uint8Array(out.buffer);
}
