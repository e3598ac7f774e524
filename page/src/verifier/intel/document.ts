/**
 * Signed documents of Intel: TCB info and QE identity, as the exact bytes that were signed.
 *
 * Intel signs the text of a JSON value, not its meaning: one blank more breaks the signature. So a document is the
 * slice of the answer that its signature covers, and never serialised again (intel-tdx-sgx.md 8, 17).
 */

import { type Bytes, trimmedEnd, utf8, utf8Text } from "../bytes";
import { hexBytes } from "../encoding";
import { isObject } from "../json";
import { malformed, parsed } from "./json_members";

const KINDS = { tcbInfo: "tcb-info", enclaveIdentity: "qe-identity" } as const;

export type DocumentKind = (typeof KINDS)[keyof typeof KINDS];

/** A TCB info or QE identity as presented: untrusted until its signature is verified. */
export interface IntelDocument {
  /** Its kind, by the member that contains it. */
  readonly kind: DocumentKind;
  /** The JSON value, exactly as it was served and signed. */
  readonly body: Bytes;
  /** r and s, 32 bytes each, big-endian. */
  readonly signature: Bytes;
}

/** Put a body and its signature in hex together: `hex-invalid`. Whoever reads the body judges its size. */
export function intelDocument(kind: DocumentKind, body: Bytes, signature: string): IntelDocument {
  return { kind, body, signature: hexBytes(signature, `${kind} signature`, 64) };
}

/** Take the signed document out of an answer of Intel's service, `{"tcbInfo": {…}, "signature": hex}`. */
export function parsePcsAnswer(data: Bytes): IntelDocument {
  const what = "PCS answer";
  const answer = parsed(data, what);
  if (!isObject(answer)) return malformed(what, "object");
  const [name, ...more] = (Object.keys(KINDS) as (keyof typeof KINDS)[]).filter((each) => each in answer);
  const { signature } = answer;
  if (!name || more.length || typeof signature !== "string") return malformed(what, Object.keys(KINDS));
  return intelDocument(KINDS[name], utf8(memberText(utf8Text(data)!, name)), signature);
}

/** Texts, and the characters that give JSON its structure. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]/gs;
/** Change of the depth for each of them. */
const DEPTH: Readonly<Record<string, number>> = { "{": 1, "[": 1, "}": -1, "]": -1 };

/** Cut a member's value out of the outermost object, in a text that was read before and has this member. */
function memberText(text: string, wanted: string): string {
  let depth = 0;
  let begin = 0;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    // Members end at a comma, or at the brace that ends the object.
    if (depth === 1 && [",", "}"].includes(token)) {
      const found = valueNamed(wanted, text.slice(begin, index));
      if (found !== undefined) return found;
    }
    depth += DEPTH[token] ?? 0;
    if (depth === 1 && ["{", ","].includes(token)) begin = index + 1;
  }
  return malformed("PCS answer", wanted);
}

/** A name, and everything behind its colon. */
const MEMBER = /^[ \t\n\r]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\n\r]*:(.*)$/s;

/** The value of a member that has this name. */
function valueNamed(wanted: string, member: string): string | undefined {
  const [, name = "null", value = ""] = MEMBER.exec(member) ?? [];
  return JSON.parse(name) === wanted ? trimmed(value) : undefined;
}

const trimmed = (text: string): string => trimmedEnd(text, " \t\n\r").replace(/^[ \t\n\r]+/, "");
