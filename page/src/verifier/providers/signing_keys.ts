/** Signing keys of dstack's applications: the address in REPORT_DATA, and public keys beside it (providers.md 2). */

import type { Bytes } from "../bytes";
import { keccak256 } from "../dstack/keccak";
import { unhexed } from "../encoding";
import type { JsonObject } from "../json";
import { type Told, same } from "../procedure";
import { demand, given, hexAt, textAt } from "./values";

const POINT_BYTES = 64;

interface Algorithm {
  readonly prefix: string;
  readonly addressBytes: number;
  readonly keyBytes: readonly number[];
  readonly addressOf: (key: Bytes) => Bytes;
}

const ALGORITHMS: ReadonlyMap<string, Algorithm> = new Map([
  [
    "ecdsa",
    {
      prefix: "0x",
      addressBytes: 20,
      keyBytes: [POINT_BYTES, 1 + POINT_BYTES],
      addressOf: (key) => keccak256(key).slice(12),
    },
  ],
  ["ed25519", { prefix: "", addressBytes: 32, keyBytes: [32], addressOf: (key) => key }],
]);

export interface SigningKey {
  readonly algorithm: string;
  readonly address: Bytes;
  /** Each stated public key with the member that has it; of ecdsa 64 bytes x ‖ y. */
  readonly publicKeys: readonly (readonly [name: string, key: Bytes])[];
}

/** The public key; an ed25519 address is one. */
export const publicKeyOf = ({ algorithm, address, publicKeys }: SigningKey): Bytes | undefined =>
  algorithm === "ed25519" ? address : publicKeys[0]?.[1];

/** Require every stated public key to have this address. */
export function requireFitting({ algorithm, address, publicKeys }: SigningKey): Told {
  const { addressOf } = ALGORITHMS.get(algorithm)!;
  for (const [name, key] of publicKeys) same("provider-key-mismatch", name, address, addressOf(key));
  return [address, publicKeys.map(([name]) => name)];
}

/** Read address, algorithm and public keys of one machine. */
export function readSigningKey(members: JsonObject, path: string): SigningKey {
  const name = textAt(members, "signing_algo", path);
  const algorithm = ALGORITHMS.get(name);
  demand(algorithm, `${path}.signing_algo`, [...ALGORITHMS.keys()].join(" or "));
  const publicKeys = ["signing_public_key", "signing_key"]
    .filter((member) => given(members, member))
    .map((member) => {
      const key = hexAt(members, member, path, ...algorithm.keyBytes);
      if (key.length !== 1 + POINT_BYTES) return [member, key] as const;
      demand(key[0] === 4, `${path}.${member}`, "65 bytes that begin with 04");
      return [member, key.slice(1)] as const;
    });
  return { algorithm: name, address: addressAt(members, path, algorithm), publicKeys };
}

function addressAt(members: JsonObject, path: string, { prefix, addressBytes }: Algorithm): Bytes {
  const text = textAt(members, "signing_address", path);
  const address = text.startsWith(prefix) ? unhexed(text.slice(prefix.length)) : undefined;
  demand(address?.length === addressBytes, `${path}.signing_address`, `${prefix}${addressBytes} bytes of hex`);
  return address;
}
