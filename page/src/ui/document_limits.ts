/** Limits and kinds that the service states: shown in advance, and checked before anything is sent. */

import { sizeText } from "./amounts";
import type { Data } from "./delivery";
import { say } from "./strings";

export interface DocumentLimits {
  /** Undefined: not stated. */
  readonly bytes: number | undefined;
  readonly count: number | undefined;
  /** File name extensions with the dot, and media types; empty if not stated. */
  readonly suffixes: readonly string[];
  readonly types: readonly string[];
}

const MOST_KINDS = 100;
const BEGINNING = 1024;
/** Types of files that a browser does not know. */
const UNSTATED = ["", "application/octet-stream"];
const objectOf = (value: unknown): Data => (typeof value === "object" && value ? value : {}) as Data;
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value.slice(0, MOST_KINDS) : []);
const numberOf = (value: unknown): number | undefined => (typeof value === "number" && value > 0 ? value : undefined);
const isText = (value: unknown): value is string => typeof value === "string";

/** Read the limits. They arrive unauthenticated; the service enforces its own in any case. */
export function limitsOf(stated: unknown): DocumentLimits {
  const limits = objectOf(stated);
  const kinds = listOf(limits.document_kinds).map(objectOf);
  return {
    bytes: numberOf(limits.document_bytes),
    count: numberOf(limits.documents),
    suffixes: kinds
      .flatMap(({ suffixes }) => listOf(suffixes))
      .filter(isText)
      .filter((one) => /^\.[a-z0-9]{1,10}$/.test(one)),
    types: kinds.map(({ media_type: type }) => type).filter(isText),
  };
}

/** Say kinds and limits, and what a scan needs. */
export function limitsText({ bytes, count, suffixes }: DocumentLimits): string {
  const { limits } = say();
  const parts = [
    suffixes.length > 0 && limits.kinds(suffixes.join(" ")),
    bytes !== undefined && limits.size(sizeText(bytes)),
    count !== undefined && limits.count(count),
    limits.scan,
  ];
  return parts.filter(Boolean).join(" ");
}

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
