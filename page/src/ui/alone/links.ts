/** Links with the digests of what was checked, and none of its content. */

import { rfc3339 } from "../../verifier/bytes";

/** What a link names. */
export interface Named {
  /** SHA-256 of each file of evidence, of endorsements and of logs, hex. */
  readonly files: readonly string[];
  /** Digest of the policy in force. */
  readonly policy: string | undefined;
  /** Moment of the check. */
  readonly at: number;
}

const MOST_FILES = 64;
const DIGEST = /^[0-9a-f]{64}$/;
/** RFC 3339, whole seconds or finer, UTC. */
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/** Parse a time; undefined if it is invalid. */
export function momentOf(text: string): number | undefined {
  const at = MOMENT.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isFinite(at) ? at : undefined;
}

export function linkOf(page: string, { files, policy, at }: Named): string {
  const address = new URL(page);
  address.hash = `files=${files.join(",")}${policy ? `&policy-sha256=${policy}` : ""}&at=${rfc3339(at)}`;
  return address.href;
}

/** Parse the fragment of an address. Undefined if it names no files, `broken` if it is invalid. */
export function namedIn(hash: string): Named | "broken" | undefined {
  const given = new URLSearchParams(hash.slice(1));
  const listed = given.get("files");
  if (listed === null) return undefined;
  const files = listed.split(",");
  const policy = given.get("policy-sha256") ?? undefined;
  const at = momentOf(given.get("at") ?? "");
  const known = new Set(["files", "policy-sha256", "at"]);
  const isWhole =
    [...given.keys()].every((name) => known.has(name)) &&
    files.length <= MOST_FILES &&
    new Set(files).size === files.length &&
    [...files, policy ?? files[0]!].every((digest) => DIGEST.test(digest));
  return isWhole && at !== undefined ? { files, policy, at } : "broken";
}
