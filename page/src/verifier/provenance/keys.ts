/** Keys of logs, as a trusted root lists them. */

import { type Bytes, equal, hex } from "../bytes";
import { type Hash, schemeHolds, sha256, usableKey } from "../crypto";
import { ecdsaRaw } from "../der";
import { AttestError, refusalOf } from "../errors";
import { type PublicKey, bytesOf } from "./forms";

type Holds = (signature: Bytes, signed: Bytes) => Promise<boolean>;

const CURVES: Readonly<Record<string, Hash>> = {
  PKIX_ECDSA_P256_SHA_256: "SHA-256",
  PKIX_ECDSA_P384_SHA_384: "SHA-384",
  PKIX_ECDSA_P521_SHA_512: "SHA-512",
};
const RSA = /^(?:PKCS1_RSA_PKCS1V5|PKIX_RSA_PKCS1V15_(?:2048|3072|4096)_SHA256)$/;
/** DER of an Ed25519 key up to its 32 bytes. */
const ED25519 = "302a300506032b6570032100";

/** The check of signatures by a key; undefined for a key of another kind than is stated, or of an unknown one. */
async function checkOf(spki: Bytes, details: string): Promise<Holds | undefined> {
  if (details === "PKIX_ED25519") {
    if (spki.length !== 44 || !hex(spki).startsWith(ED25519)) return undefined;
    return async (signature, signed) => {
      const key = await crypto.subtle.importKey("spki", spki, "Ed25519", false, ["verify"]);
      return crypto.subtle.verify("Ed25519", key, signature, signed);
    };
  }
  const kind = await refusalOf(() => usableKey(spki));
  const hash = CURVES[details];
  if (kind instanceof AttestError) return undefined;
  if (kind === "RSA") {
    return RSA.test(details)
      ? async (...given) => schemeHolds("RSASSA-PKCS1-v1_5", spki, "SHA-256", ...given)
      : undefined;
  }
  return hash && (async (...given) => schemeHolds("ECDSA", spki, hash, ...given, ecdsaRaw));
}

/** True if one of the keys made a signature: the one with this id, and any of them if no key has it. */
export async function keysHold(
  keys: readonly PublicKey[],
  id: Bytes,
  signature: Bytes,
  signed: Bytes,
): Promise<boolean> {
  const found: { readonly id: Bytes; readonly holds: Holds }[] = [];
  for (const { rawBytes = "", keyDetails } of keys) {
    const spki = bytesOf(rawBytes);
    const holds = await checkOf(spki, keyDetails);
    if (holds) found.push({ id: await sha256(spki), holds });
  }
  const named = found.filter((key) => equal(key.id, id));
  for (const { holds } of named.length ? named : found) {
    if (await holds(signature, signed)) return true;
  }
  return false;
}
