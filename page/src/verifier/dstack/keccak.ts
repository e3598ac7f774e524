/** Keccak-256: it differs from SHA3-256 in the padding alone, and no browser offers either. Its inputs are short. */

import type { Bytes } from "../bytes";

const RATE = 136;
const ROUNDS = 24;
const LANE = (1n << 64n) - 1n;
const FIRST_PADDING = 0x01;
const LAST_PADDING = 0x80;

const rotated = (lane: bigint, by: number): bigint => ((lane << BigInt(by)) | (lane >> BigInt(64 - by))) & LANE;

/** The constants of step iota, from the linear feedback shift register that defines them. */
function roundConstants(): readonly bigint[] {
  let register = 1;
  return Array.from({ length: ROUNDS }, () => {
    let constant = 0n;
    for (let power = 0; power < 7; power++) {
      if (register & 1) constant |= 1n << BigInt(2 ** power - 1);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
    return constant;
  });
}

/** The lanes that steps rho and pi visit, in order. */
function path(): readonly number[] {
  let x = 1;
  let y = 0;
  return Array.from({ length: ROUNDS }, () => {
    const next = (2 * x + 3 * y) % 5;
    x = y;
    y = next;
    return x + 5 * y;
  });
}

const CONSTANTS = roundConstants();
const PATH = path();

/** Take steps theta, rho with pi, chi and iota. */
function round(before: readonly bigint[], constant: bigint): bigint[] {
  const columns = [0, 1, 2, 3, 4].map((x) => [5, 10, 15, 20].reduce((sum, row) => sum ^ before[x + row]!, before[x]!));
  const state = before.map((lane, i) => lane ^ columns[(i + 4) % 5]! ^ rotated(columns[(i + 1) % 5]!, 1));
  let moved = state[1]!;
  PATH.forEach((lane, step) => {
    const next = state[lane]!;
    state[lane] = rotated(moved, (((step + 1) * (step + 2)) / 2) % 64);
    moved = next;
  });
  const mixed = state.map((lane, i) => {
    const row = i - (i % 5);
    return lane ^ (~state[row + ((i + 1) % 5)]! & LANE & state[row + ((i + 2) % 5)]!);
  });
  mixed[0]! ^= constant;
  return mixed;
}

/** The Keccak-256 digest, 32 bytes (the Keccak reference, version 3.0: lanes little-endian). */
export function keccak256(data: Bytes): Bytes {
  const padded = new Uint8Array(Math.ceil((data.length + 1) / RATE) * RATE);
  padded.set(data);
  padded[data.length] = FIRST_PADDING;
  padded[padded.length - 1]! |= LAST_PADDING;
  const lanes = new DataView(padded.buffer);
  let state: bigint[] = Array.from({ length: 25 }, () => 0n);
  for (let block = 0; block < padded.length; block += RATE) {
    for (let lane = 0; lane < RATE / 8; lane++) state[lane]! ^= lanes.getBigUint64(block + 8 * lane, true);
    for (const constant of CONSTANTS) state = round(state, constant);
  }
  const digest = new DataView(new ArrayBuffer(32));
  [0, 1, 2, 3].forEach((lane) => {
    digest.setBigUint64(8 * lane, state[lane]!, true);
  });
  return new Uint8Array(digest.buffer);
}
