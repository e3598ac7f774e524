/**
 * Signed documents of Intel: TCB info and QE identity, as the exact bytes that were signed.
 *
 * Intel signs the text of a JSON value, not its meaning: one blank more breaks the signature. So a document is the slice
 * of the answer that its signature covers, and never written anew (intel-tdx-sgx.md 8, 17).
 */

import { type Bytes, hexBytes, trimmedEnd, utf8, utf8Text } from "../bytes";
import { isObject, jsonValue } from "../json";
import { malformed, MAX_DOCUMENT_BYTES } from "./members";

const SIGNATURE_BYTES = 64;
const KINDS: Readonly<Record<string, DocumentKind>> = { tcbInfo: "tcb-info", enclaveIdentity: "qe-identity" };

export type DocumentKind = "tcb-info" | "qe-identity";

/** A TCB info or QE identity as presented: a stranger's word until its signature is verified. */
export interface IntelDocument {
  /** What it says it is, by the member that held it. */
  readonly kind: DocumentKind;
  /** The JSON value, exactly as it was served and signed. */
  readonly body: Bytes;
  /** r and s, 32 bytes each, big-endian. */
  readonly signature: Bytes;
}

/** Put a body and its signature in hex together: `hex-invalid` or `collateral-malformed` (too large). */
export function intelDocument(kind: DocumentKind, body: Bytes, signature: string): IntelDocument {
  requireSize(body, kind);
  return { kind, body, signature: hexBytes(signature, `${kind} signature`, SIGNATURE_BYTES) };
}

function requireSize(data: Bytes, what: string): void {
  if (data.length > MAX_DOCUMENT_BYTES) throw malformed(what, `at most ${MAX_DOCUMENT_BYTES} bytes`, `${data.length}`);
}

/** Take the signed document out of an answer of Intel's service, `{"tcbInfo": {…}, "signature": hex}`. */
export function parsePcsAnswer(data: Bytes): IntelDocument {
  const what = "PCS answer";
  requireSize(data, what);
  const answer = jsonValue(data, what);
  if (!isObject(answer)) throw malformed(what, "an object", "another JSON value");
  const [name, ...more] = Object.keys(KINDS).filter((each) => each in answer);
  const kind = KINDS[name ?? ""];
  const { signature } = answer;
  if (!name || !kind || more.length || typeof signature !== "string") {
    throw malformed(what, "tcbInfo or enclaveIdentity, and signature as text", "other members");
  }
  return intelDocument(kind, utf8(memberText(utf8Text(data) ?? "", name)), signature);
}

/** Cut a member's value out of the outermost object, in a text that was read before and has this member. */
function memberText(text: string, wanted: string): string {
  let [depth, at, from] = [0, 0, 0];
  let name: unknown;
  for (; at < text.length; at++) {
    const character = text[at] ?? "";
    if (character === '"') {
      const start = at++;
      while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
      // Behind the opening brace or a comma a text is a name; behind a colon it is a value.
      if (depth === 1 && !from) name = JSON.parse(text.slice(start, at + 1));
    } else if (depth === 1 && character === ":") from = at + 1;
    else if (depth === 1 && (character === "," || character === "}")) {
      if (name === wanted) break;
      from = 0;
    }
    if ("{[".includes(character)) depth++;
    if ("}]".includes(character)) depth--;
  }
  return trimmedEnd(text.slice(from, at), " \t\n\r").replace(/^[ \t\n\r]+/, "");
}
