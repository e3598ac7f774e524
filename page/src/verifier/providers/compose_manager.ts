/** NEAR's compose manager: a second quote of the same machine over the list of what it did (providers.md 2.1). */

import { type Bytes, equal, utf8 } from "../bytes";
import { sha256 } from "../crypto";
import type { Evidence } from "../envelope";
import { need } from "../errors";
import type { JsonObject, JsonValue } from "../json";
import { jsonText } from "../json_text";
import { type Told, same } from "../procedure";
import type { Shown } from "../shown";
import type { Presented } from "./document";
import { dstackItems } from "./dstack_items";
import { DIGEST_BYTES, arrayOf, given, hexAt, membersOf, optionalHexAt } from "./values";

const CODE = "provider-statement-mismatch";
const MAX_ACTIONS = 4096;
/** Order of the members in which older versions of the manager write an action. */
const ORDER = [
  ...["timestamp", "action", "tag", "commit", "file", "file_sha256", "services", "container", "containers", "image"],
];

export interface ComposeManager {
  readonly evidence: Evidence;
  /** Number of actions. */
  readonly count: number;
  /** SHA-256 of the list in each order of members that the manager is known to write. */
  readonly hashes: readonly Bytes[];
  readonly statedHash: Bytes | undefined;
  readonly statedNonce: Bytes | undefined;
}

/**
 * Require the quote to be of the same machine, of the same moment, and over this list. No policy sees this quote, so it
 * counts only as far as the machine's own quote has the same report, from the same platform.
 */
export function requireList(manager: ComposeManager, witness: Presented, machine: Presented): void {
  const agree = (field: string, wanted: Shown, got: Shown): Told => same(CODE, field, wanted, got);
  const found = witness.reportData.slice(0, 32);
  const nonce = witness.reportData.slice(32);
  agree("report and platform of the compose manager's quote", machine.machine, witness.machine);
  agree("nonce of the compose manager's quote", machine.reportData.slice(32), nonce);
  agree("compose_manager_attestation.nonce", nonce, manager.statedNonce ?? nonce);
  agree("compose_manager_attestation.actions_hash", found, manager.statedHash ?? found);
  const isOver = manager.hashes.some((hash) => equal(hash, found));
  need(isOver, "binding", CODE, found, manager.hashes, { field: "compose_manager_attestation.actions" });
}

/** Read the manager's attestation of a machine, if there is one. */
export async function readComposeManager(machine: JsonObject, above: string): Promise<ComposeManager | undefined> {
  const name = "compose_manager_attestation";
  if (!given(machine, name)) return undefined;
  const path = `${above}.${name}`;
  const members = membersOf(machine[name], path);
  const actions = arrayOf(members.actions, `${path}.actions`, MAX_ACTIONS).map((action, number) =>
    ordered(membersOf(action, `${path}.actions[${number}]`)),
  );
  const quote = hexAt(members, "quote", path);
  return {
    evidence: dstackItems(quote, members),
    count: actions.length,
    hashes: await Promise.all([false, true].map((isSorted) => hashOf(actions, isSorted))),
    statedHash: optionalHexAt(members, "actions_hash", path, DIGEST_BYTES),
    statedNonce: optionalHexAt(members, "nonce", path, DIGEST_BYTES),
  };
}

const hashOf = (actions: JsonValue[], isSorted: boolean): Promise<Bytes> =>
  sha256(utf8(jsonText(actions, { isSorted, isUnicode: true })));

/** An action with its members in the manager's order; unknown ones come last. */
function ordered(action: JsonObject): JsonObject {
  const known = ORDER.filter((name) => name in action).map((name) => [name, action[name]!] as const);
  return { ...Object.fromEntries(known), ...action };
}
