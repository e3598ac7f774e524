/** The record of a service that may be sealed to. Fetched once a policy is met. */

import { base64urlText, concat, unhex, utf8 } from "../verifier/bytes";
import { sha256 } from "../verifier/crypto";
import { AttestError, need } from "../verifier/errors";
import { KEM_HYBRID, spokenKems } from "./algorithms";
import { encapsulate } from "./hpke";
import { type KeyConfig, chooseKey } from "./keys";
import type { Offer } from "./offer";

const RECORD_MS = 5 * 60 * 1000;

/** A service that may be sealed to, for a while. */
export interface ChannelRecord {
  readonly key: KeyConfig;
  readonly digest: string;
  /** Record that a request names, so that the service knows which one its client relies on. */
  readonly proof: string;
  readonly begins: number;
  readonly ends: number;
}

/** Make the record of an offer: `not-affirmed` unless it was verified, is fresh, and the person's policy is met. */
export async function recordOf(
  offer: Offer,
  affirmed: boolean,
  kems: readonly number[] = [KEM_HYBRID],
): Promise<ChannelRecord> {
  const { result, digest, at } = offer;
  if (result.error) throw new AttestError("verification", result.error.code, result.error.message);
  const { outcome, freshness, evidence_digest: evidence } = result;
  need(
    outcome === "verified" && freshness === "matched" && affirmed && evidence,
    "verification",
    "not-affirmed",
    "a machine that meets the policy",
    outcome,
  );
  const key = chooseKey(offer.keys, kems, spokenKems());
  // Sealed to once, and thrown away: a browser that cannot says so now, and not when something was typed.
  await encapsulate(key.kem, key.publicKey);
  const proof = await sha256(concat(utf8("attest channel evidence v1\0"), unhex(evidence)));
  return { key, digest, proof: base64urlText(proof), begins: at, ends: at + RECORD_MS };
}
