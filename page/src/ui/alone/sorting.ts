/** Recognition of files by their content alone. */

import { type Bytes, NO_BYTES, hex, latin1 } from "../../verifier/bytes";
import { sha256 } from "../../verifier/crypto";
import { AttestError, refusalOf } from "../../verifier/errors";
import { part } from "../../verifier/parts";
import { nothingFound } from "../../verifier/pool";
import { MAX_FILE_BYTES, type NamedBytes } from "../../verifier/recognised";

/** `unknown` and `large` are not used. */
export type Kind = "evidence" | "endorsement" | "policy" | "log" | "unknown" | "large";

/** A file that a person chose. */
export interface Chosen extends NamedBytes {
  readonly kind: Kind;
  readonly size: number;
  /** Hex; empty for a file that was not read. */
  readonly sha256: string;
  readonly file: File;
}

/** A policy in JSON or YAML, a document of reference values, a signature, a key, or a demanded signer. */
const POLICY =
  /"?schema"?\s*:\s*"?attest\.(?:policy|references|provenance-signer)|"attest\.policy-sig|-----BEGIN PUBLIC KEY-----/;
const SIGSTORE = "application/vnd.dev.sigstore.";
const DSTACK_LOG = /^\s*\[\s*\{[^{}]*"imr"\s*:/;
const HEAD_BYTES = 65_536;

/** Read and recognise a file; a large one is not read. */
export async function chosenOf(file: File): Promise<Chosen> {
  const { name, size } = file;
  const unread = (kind: Kind): Chosen => ({ name, size, kind, file, bytes: NO_BYTES, sha256: "" });
  if (size > MAX_FILE_BYTES) return unread("large");
  const buffer = await file.arrayBuffer().catch(() => undefined);
  if (!buffer) return unread("unknown");
  const bytes = new Uint8Array(buffer);
  return { name, size, file, bytes, kind: await kindOf({ name, bytes }), sha256: hex(await sha256(bytes)) };
}

async function kindOf(file: NamedBytes): Promise<Kind> {
  const { formOf, isEventLog, readEndorsementFile } = await part(import("../../verifier/files"));
  const head = latin1(file.bytes.subarray(0, HEAD_BYTES));
  if (POLICY.test(head) || isOfSigstore(file.bytes)) return "policy";
  if (isEventLog(file.bytes) || DSTACK_LOG.test(head)) return "log";
  const form = await refusalOf(() => formOf(file));
  if (!(form instanceof AttestError)) return /^(?:bundle|certificates)$/.test(form) ? "endorsement" : "evidence";
  if (await holds(file.bytes, readEndorsementFile)) return "endorsement";
  // Malformed evidence is refused. It is not ignored.
  return /-(?:unrecognised|empty)$/.test(form.code) ? "unknown" : "evidence";
}

/** True for a bundle or a trusted root. Documents of services have bundles inside. */
function isOfSigstore(bytes: Bytes): boolean {
  const text = latin1(bytes);
  if (!text.includes(SIGSTORE)) return false;
  try {
    const { mediaType } = JSON.parse(text) as { readonly mediaType?: unknown };
    return typeof mediaType === "string" && mediaType.startsWith(SIGSTORE);
  } catch {
    return false;
  }
}

/** True if the bytes are an endorsement. */
async function holds(
  bytes: Bytes,
  read: (given: Bytes, found: ReturnType<typeof nothingFound>) => Promise<void>,
): Promise<boolean> {
  const found = nothingFound();
  await refusalOf(async () => read(bytes, found));
  return Object.values(found).some((each) => each.length > 0);
}
