/** Reference values: names for measurements, and the documents that a policy accepts (docs/reference-values.md). */

import { told } from "./claims";
import {
  type Reader,
  choice,
  date,
  hexOf,
  integer,
  join,
  listOf,
  maybe,
  moment,
  record,
  refuse,
  tableOf,
  text,
} from "./decode";
import { type Row, ask } from "./rules";

export interface ReferenceValues {
  /** Digests of one size, as hex. */
  readonly values: readonly string[];
  /** Last moment that counts. */
  readonly expires: string | undefined;
}

export type References = Readonly<Record<string, ReferenceValues>>;

/** True if a moment is not over, the last one included. */
export const inTime = ({ expires }: { readonly expires?: string | undefined } = {}, at: number): boolean =>
  expires === undefined || at <= moment(expires);

/** A measurement that must be among reference values, which are spoken of by name. */
export function measured(references: References, size: number, claim?: string): Row {
  const fitting = Object.keys(references).filter((name) => references[name]?.values[0]?.length === 2 * size);
  const of = (name: string): ReferenceValues => references[name]!; // one of those that fit
  return ask(
    listOf(choice(fitting)),
    [
      "",
      (found: string, names, at) => names.some((name) => of(name).values.includes(found) && inTime(of(name), at)),
      (names) =>
        told(
          names.map((name) => ({ [name]: of(name).values })),
          " or ",
        ),
    ],
    claim,
  );
}

// -- the policy's own

/** The values of one name are all of one size. */
const digests: Reader<string[]> = (value, ...place) =>
  listOf(hexOf((value as string[] | null | undefined)?.[0]?.length === 64 ? 32 : 48))(value, ...place);
export const ownValues: Reader<Record<string, ReferenceValues>> = tableOf(
  record({ values: digests, origin: text, expires: maybe(date) }),
);

// -- documents

/** Documents that a policy accepts: one digest, or any document that enough of these keys signed. */
const row = record({
  document: text,
  sha256: maybe(hexOf(32)),
  signers: maybe(listOf(hexOf(32)), []),
  at_least: maybe(integer(1, 64), 1),
  minimum_version: maybe(integer(1, Number.MAX_SAFE_INTEGER), 1),
});
export const acceptedDocuments = listOf((value, path, name) => {
  const found = row(value, path, name);
  if (!found.sha256 === !found.signers.length) refuse(path, "either sha256 or signers", value);
  const keys = new Set(found.signers).size || 1;
  if (found.at_least > keys) refuse(join(path, "at_least"), `at most ${keys}`, found.at_least);
  return found;
});
export type Accepted = ReturnType<typeof acceptedDocuments>[number];
