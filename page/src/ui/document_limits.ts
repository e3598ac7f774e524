/** Limits and kinds that the service states, shown before a person chooses a file. */

import { sizeText } from "./sizes";
import { saySeen } from "./strings";

type Data = Readonly<Record<string, unknown>>;

export interface DocumentLimits {
  /** Undefined: not stated. */
  readonly bytes: number | undefined;
  readonly count: number | undefined;
  /** File name extensions with the dot, and media types; empty if not stated. */
  readonly suffixes: readonly string[];
  readonly types: readonly string[];
}

const MOST_KINDS = 100;
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
  const { stated } = saySeen();
  const parts = [
    suffixes.length > 0 && stated.kinds(suffixes.join(" ")),
    bytes !== undefined && stated.size(sizeText(bytes)),
    count !== undefined && stated.count(count),
    stated.scan,
  ];
  return parts.filter(Boolean).join(" ");
}
