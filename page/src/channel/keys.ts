/**
 * Key configurations: the keys of a service, and their algorithms (RFC 9458, section 3).
 *
 *     KeyConfig   key_id (1) ‖ kem_id (2) ‖ public key ‖ n (2) ‖ { kdf_id (2) ‖ aead_id (2) } * n/4       big-endian
 *     document    { length (2) ‖ KeyConfig }*
 *
 * Evidence commits to the whole document, so no intermediary can remove or add a key of a verified service.
 */

import { type Bytes, NO_BYTES, concat, hex, utf8 } from "../verifier/bytes";
import { Reader } from "../verifier/reader";
import { sha256 } from "../verifier/crypto";
import type { Shown } from "../verifier/shown";
import { need, refuse } from "../verifier/errors";
import { AES_256_GCM, KDF_SHA256, KEM_HYBRID, PUBLIC_BYTES, be2 } from "./algorithms";

const MAX_CONFIGS = 16;
const MAX_DOCUMENT_BYTES = 32 * 1024;

export interface KeyConfig {
  readonly keyId: number;
  readonly kem: number;
  /** Raw; empty where the KEM is not spoken here. */
  readonly publicKey: Bytes;
  /** KDF and AEAD ids. */
  readonly pairs: readonly (readonly [number, number])[];
}

/** Key in a binding of context `channel/v1`, 32 bytes. */
export function documentDigest(document: Bytes): Promise<Bytes> {
  return sha256(concat(utf8("attest ohttp keys v1\0"), document));
}

/** Read a document; one defect anywhere refuses all of it: `channel-keys-malformed`. */
export function parseKeyDocument(document: Bytes): readonly KeyConfig[] {
  const malformed = (got: Shown): never =>
    refuse("malformed", "channel-keys-malformed", `1 to ${MAX_CONFIGS} keys`, got);
  const found: KeyConfig[] = [];
  try {
    for (const reader = new Reader(document, "keys"); reader.remaining;) {
      found.push(configOf(reader.take(reader.unsigned(2, "length", "big"), "key")));
    }
  } catch (error) {
    malformed((error as Error).message);
  }
  const ids = new Set(found.map(({ keyId }) => keyId));
  const fits = document.length <= MAX_DOCUMENT_BYTES && found.length && found.length <= MAX_CONFIGS;
  return fits && ids.size === found.length
    ? found
    : malformed(`${document.length} bytes, ${found.length} keys with ${ids.size} ids`);
}

function configOf(data: Bytes): KeyConfig {
  const reader = new Reader(data, "key");
  const number = (size = 2): number => reader.unsigned(size, "key", "big");
  const keyId = number(1);
  const kem = number();
  const size = PUBLIC_BYTES[kem];
  // A KEM that is not spoken here: its length lets a reader pass over it.
  if (size === undefined) return { keyId, kem, publicKey: NO_BYTES, pairs: [] };
  const publicKey = reader.take(size, "key");
  const length = number();
  need(length && length % 4 === 0, "malformed", "channel-keys-malformed", "pairs of ids", length);
  const pairs = Array.from({ length: length / 4 }, () => [number(), number()] as const);
  reader.finish();
  return { keyId, kem, publicKey, pairs };
}

const idText = (kem: number): string => `0x${hex(be2(kem))}`;

/**
 * Return the first configuration, in the document's order, that is acceptable and spoken: `channel-keys-unsupported`.
 */
export function chooseKey(
  configs: readonly KeyConfig[],
  kems: readonly number[],
  spoken: readonly number[],
): KeyConfig {
  const offered = configs.filter(
    ({ kem, pairs }) => kems.includes(kem) && pairs.some(([kdf, aead]) => kdf === KDF_SHA256 && aead === AES_256_GCM),
  );
  const lacks = !spoken.includes(KEM_HYBRID) && configs.some(({ kem }) => kem === KEM_HYBRID);
  const got = lacks ? "keys for ML-KEM, which this browser lacks" : configs.map(({ kem }) => idText(kem));
  return (
    offered.find(({ kem }) => spoken.includes(kem)) ??
    refuse("unsupported", "channel-keys-unsupported", kems.map(idText), got)
  );
}
