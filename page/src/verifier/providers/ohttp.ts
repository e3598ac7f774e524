/** The key configuration for Oblivious HTTP that a machine's Ed25519 key signs (providers.md 2.1). */

import type { Bytes } from "../bytes";
import { need } from "../errors";
import type { JsonObject } from "../json";
import { type Told, same } from "../procedure";
import { DIGEST_BYTES, demand, given, hexAt, membersOf, optionalHexAt, textAt } from "./values";

const SIGNATURE_BYTES = 64;
const ALGORITHM = "ed25519";

export interface OhttpKey {
  readonly signingKey: Bytes;
  readonly keyConfig: Bytes;
  readonly signature: Bytes;
  /** The configuration as it stands a second time in the document. */
  readonly repeated: Bytes | undefined;
}

/** Require the signature to hold, and the second copy to be equal. */
export async function requireSigned({ signingKey, keyConfig, signature, repeated }: OhttpKey): Promise<Told> {
  if (repeated) same("provider-statement-mismatch", "ohttp_key_config", keyConfig, repeated);
  const expected = "Ed25519 by signing_key over key_config";
  need(await holds(signingKey, signature, keyConfig), "signature", "provider-signature-invalid", expected, signature, {
    field: "ohttp_attestation.signature",
  });
  return [expected, signingKey];
}

/** An engine without Ed25519, or a key that is no point, verifies nothing. */
async function holds(key: Bytes, signature: Bytes, signed: Bytes): Promise<boolean> {
  try {
    const imported = await crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", imported, signature, signed);
  } catch {
    return false;
  }
}

/** Read the signed key configuration of a machine, if there is one. */
export function readOhttpKey(machine: JsonObject, path: string): OhttpKey | undefined {
  if (!given(machine, "ohttp_attestation")) return undefined;
  const where = `${path}.ohttp_attestation`;
  const members = membersOf(machine.ohttp_attestation, where);
  demand(textAt(members, "signing_algo", where) === ALGORITHM, `${where}.signing_algo`, ALGORITHM);
  return {
    signingKey: hexAt(members, "signing_key", where, DIGEST_BYTES),
    keyConfig: hexAt(members, "key_config", where),
    signature: hexAt(members, "signature", where, SIGNATURE_BYTES),
    repeated: optionalHexAt(machine, "ohttp_key_config", path),
  };
}
