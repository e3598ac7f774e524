/**
 * Signed documents of Intel: TCB info and QE identity, as the exact bytes that were signed.
 *
 * Intel signs the text of a JSON value, not its meaning: one blank more breaks the signature. So a document is the slice
 * of the answer that its signature covers, and never written anew (intel-tdx-sgx.md 8, 17).
 */

import { type Bytes, hexBytes, trimmedEnd, utf8, utf8Text } from "../bytes";
import { isObject } from "../json";
import { malformed, parsed } from "./members";

const KINDS = { tcbInfo: "tcb-info", enclaveIdentity: "qe-identity" } as const;

export type DocumentKind = (typeof KINDS)[keyof typeof KINDS];

/** A TCB info or QE identity as presented: a stranger's word until its signature is verified. */
export interface IntelDocument {
  /** What it says it is, by the member that held it. */
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

/** Cut a member's value out of the outermost object, in a text that was read before and has this member. */
function memberText(text: string, wanted: string): string {
  let depth = 0;
  let at = 0;
  let from = 0;
  let name: unknown;
  for (; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === '"') {
      const start = at++;
      while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
      // Behind the opening brace or a comma a text is a name; behind a colon it is a value.
      if (depth === 1 && !from) name = JSON.parse(text.slice(start, at + 1));
    } else if (depth === 1 && character === ":") from = at + 1;
    else if (depth === 1 && ",}".includes(character)) {
      if (name === wanted) break;
      from = 0;
    }
    if ("{[".includes(character)) depth++;
    if ("}]".includes(character)) depth--;
  }
  return trimmedEnd(text.slice(from, at), " \t\n\r").replace(/^[ \t\n\r]+/, "");
}
