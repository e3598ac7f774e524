/**
 * The compose hash: SHA-256 of app-compose, an event of RTMR3, and the content of MRCONFIGID, as
 * `attest.evidence.dstack.compose`.
 *
 * Spec: dstack.md 5.
 */

import { type Bytes, concat, equal, hex, isZero, padded } from "../bytes";
import { sha256 } from "../crypto";
import { need, refuse } from "../errors";
import type { Told } from "../procedure";
import type { DstackFacts } from "./facts";
import { keccak256 } from "./keccak";

const CONFIG_ID_BYTES = 48;
/** Numbers of the key providers in MRCONFIGID of version 2. */
const KINDS: ReadonlyMap<string, number> = new Map([
  ["none", 0],
  ["local-sgx", 1],
  ["kms", 2],
  ["tpm", 3],
]);

/** The compose hash in MRCONFIGID; only version 1 has it in clear. */
export const composeHashOf = (id: Bytes): Bytes | undefined =>
  id[0] === 1 && isZero(id.subarray(33)) ? id.slice(1, 33) : undefined;

/**
 * Compare app-compose, the event of RTMR3 and MRCONFIGID as far as each is there: `dstack-compose-mismatch`,
 * `dstack-config-id-mismatch` or `dstack-config-id-unknown`.
 */
export async function judgeCompose(
  configId: Bytes,
  facts: DstackFacts,
  appComposes: readonly (readonly [path: string, text: Bytes])[],
): Promise<Told> {
  const stated = facts.digests.get("compose_hash");
  const signed = stated ?? composeHashOf(configId);
  if (!signed) return ["a compose hash in RTMR3 or MRCONFIGID", "neither has one", "not evaluated"];
  const compared = stated ? [requireConfigId(configId, stated, facts)] : [];
  for (const [path, text] of appComposes) {
    const found = await sha256(text);
    need(equal(found, signed), "binding", "dstack-compose-mismatch", signed, found, { field: path });
    compared.push(`SHA-256 of ${path}`);
  }
  return [`compose hash ${hex(signed)}`, compared.join("; ") || "MRCONFIGID alone has it"];
}

/** Compare MRCONFIGID with the events, and say what was compared. */
function requireConfigId(configId: Bytes, composeHash: Bytes, facts: DstackFacts): string {
  const [version = 0] = configId;
  const field = "MRCONFIGID";
  if (isZero(configId)) return "the event in RTMR3; MRCONFIGID is not set";
  if (version === 3) return "the event in RTMR3; MRCONFIGID of version 3 covers a document that is not available";
  if (version !== 1 && version !== 2) {
    return refuse("verification", "dstack-config-id-unknown", "version 1, 2 or 3", `${version}`, { field });
  }
  const digest = version === 1 ? composeHash : secondVersion(composeHash, facts);
  const wanted = padded(concat(Uint8Array.of(version), digest), CONFIG_ID_BYTES);
  need(equal(configId, wanted), "binding", "dstack-config-id-mismatch", wanted, configId, { field });
  return `the event in RTMR3; MRCONFIGID of version ${version}`;
}

/** The digest that MRCONFIGID of version 2 has; a fact that the log lacks counts as empty. */
function secondVersion(composeHash: Bytes, { digests, keyProvider }: DstackFacts): Bytes {
  const kind = KINDS.get(keyProvider?.name ?? "") ?? 0;
  const empty = new Uint8Array();
  return keccak256(concat(composeHash, digests.get("app_id") ?? empty, Uint8Array.of(kind), keyProvider?.id ?? empty));
}
