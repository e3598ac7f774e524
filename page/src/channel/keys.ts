/**
 * Key configurations: which keys of a service may be sealed to, and how (RFC 9458, section 3).
 *
 *     KeyConfig   key_id (1) ‖ kem_id (2) ‖ public key ‖ n (2) ‖ { kdf_id (2) ‖ aead_id (2) } * n/4       big-endian
 *     document    { length (2) ‖ KeyConfig }*
 *
 * Evidence commits to the whole document, so a service that was verified can be neither weakened nor joined by anybody.
 */

import { type Bytes, Reader, concat, utf8 } from "../verifier/bytes";
import { sha256 } from "../verifier/crypto";
import { AttestError, fail, refusal } from "../verifier/errors";
import { AES_256_GCM, KDF_SHA256, KEM_HYBRID, PUBLIC_BYTES } from "./hpke";

const [MAX_CONFIGS, MAX_DOCUMENT_BYTES] = [16, 32 * 1024];
const CLAUSE = "RFC 9458, section 3";

export interface KeyConfig {
  readonly keyId: number;
  readonly kem: number;
  /** Raw; empty where the KEM is not spoken here. */
  readonly publicKey: Bytes;
  /** KDF and AEAD ids. */
  readonly pairs: readonly (readonly [number, number])[];
}

/** What a binding of context `channel/v1` carries as its key, 32 bytes. */
export function documentDigest(document: Bytes): Promise<Bytes> {
  return sha256(concat(utf8("attest ohttp keys v1\0"), document));
}

/** Read a document; one defect anywhere refuses all of it: `channel-keys-malformed`. */
export function parseKeyDocument(document: Bytes): readonly KeyConfig[] {
  const malformed = (got: string): never => fail("malformed", "channel-keys-malformed", "", { got, clause: CLAUSE });
  if (document.length > MAX_DOCUMENT_BYTES) malformed(`${document.length} bytes`);
  const found: KeyConfig[] = [];
  try {
    for (const reader = new Reader(document, "key configurations"); reader.remaining; ) {
      found.push(configOf(reader.take(reader.unsigned(2, "length", "big"), "configuration")));
    }
  } catch (error) {
    return malformed(error instanceof AttestError ? error.message : "");
  }
  const ids = new Set(found.map(({ keyId }) => keyId));
  if (!found.length || found.length > MAX_CONFIGS || ids.size !== found.length) malformed(`${found.length} configurations with ${ids.size} ids`);
  return found;
}

function configOf(data: Bytes): KeyConfig {
  const reader = new Reader(data, "key configuration");
  const [keyId, kem] = [reader.unsigned(1, "key_id"), reader.unsigned(2, "kem_id", "big")];
  const size = PUBLIC_BYTES[kem];
  // A KEM that is not spoken here: its length lets a reader pass over it.
  if (size === undefined) return { keyId, kem, publicKey: reader.take(0, "key"), pairs: [] };
  const publicKey = reader.take(size, "public key");
  const length = reader.unsigned(2, "algorithms length", "big");
  if (!length || length % 4) throw refusal("malformed", "channel-keys-malformed", "pairs of ids", `${length} bytes`);
  const pairs = Array.from({ length: length / 4 }, () => [reader.unsigned(2, "kdf_id", "big"), reader.unsigned(2, "aead_id", "big")] as const);
  reader.finish();
  return { keyId, kem, publicKey, pairs };
}

/** Return the first configuration, in the document's order, that is acceptable and spoken: `channel-keys-unsupported`. */
export function chooseKey(configs: readonly KeyConfig[], kems: readonly number[], spoken: readonly number[]): KeyConfig {
  const offered = configs.filter(({ kem, pairs }) => kems.includes(kem) && pairs.some(([kdf, aead]) => kdf === KDF_SHA256 && aead === AES_256_GCM));
  const chosen = offered.find(({ kem }) => spoken.includes(kem));
  if (chosen) return chosen;
  const lacks = !spoken.includes(KEM_HYBRID) && configs.some(({ kem }) => kem === KEM_HYBRID);
  const got = lacks ? "keys for ML-KEM, which this browser lacks" : configs.map(({ kem }) => `0x${kem.toString(16).padStart(4, "0")}`).join();
  throw refusal("unsupported", "channel-keys-unsupported", kems.map((kem) => `0x${kem.toString(16).padStart(4, "0")}`).join(), got, { clause: CLAUSE });
}
