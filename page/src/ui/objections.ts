/** The reasons why a file is not sent, found before anything of it is: limits and kinds that the service states. */

import type { DocumentLimits } from "./document_limits";
import { sizeText } from "./sizes";
import { say } from "./strings";

const BEGINNING = 1024;
/** Types of files that a browser does not know. */
const UNSTATED = ["", "application/octet-stream"];
/** Kinds of files by their first bytes. */
const MARKS: Readonly<Record<string, RegExp>> = { ".pdf": /%PDF-/, ".docx": /^PK\x03\x04/ };

/** Return the reason why a file is not sent, or undefined. */
export async function objection(file: File, stated: DocumentLimits): Promise<string | undefined> {
  const { limits } = say();
  const { bytes } = stated;
  if (bytes !== undefined && file.size > bytes) return limits.tooLarge(sizeText(file.size), sizeText(bytes));
  const beginning = await beginningOf(file);
  if (beginning === undefined) return limits.unreadable;
  if (file.size === 0) return limits.empty;
  return stated.suffixes.length === 0 ? undefined : kindObjection(file, beginning, stated);
}

function kindObjection(file: File, beginning: string, { suffixes, types }: DocumentLimits): string | undefined {
  const { limits } = say();
  const suffix = /\.[^.]*$/.exec(file.name.toLowerCase())?.[0] ?? "";
  if (suffixes.includes(suffix)) {
    return MARKS[suffix]?.test(beginning) === false ? limits.notThatKind(suffix) : undefined;
  }
  // A name without a known extension may be a text file.
  const mayBeText = UNSTATED.includes(file.type) && !beginning.includes("\0");
  return mayBeText || types.includes(file.type) ? undefined : limits.otherKind(suffixes.join(" "));
}

/** The first bytes, one character each. Undefined for a folder or a deleted file. */
async function beginningOf(file: File): Promise<string | undefined> {
  try {
    const bytes = new Uint8Array(await file.slice(0, BEGINNING).arrayBuffer());
    return String.fromCharCode(...bytes);
  } catch {
    return undefined;
  }
}
