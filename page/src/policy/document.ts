/** The policy document of the Python engine (docs/policy.md), read for a page: closed, strict, and never partly. */

import { hex, utf8 } from "../verifier/bytes";
import { UNCHECKED_NAMES } from "../verifier/checks";
import { sha256 } from "../verifier/crypto";
import type { JsonObject } from "../verifier/json";
import { part } from "../verifier/parts";
import { KINDS, NAME, DEVICES, OTHER_CPUS, type Others, type ReadBodies, readBodies, speaksOf, unread } from "./bodies";
import {
  type Json,
  type Reader,
  boolean,
  canonical,
  choice,
  demand,
  integer,
  like,
  listOf,
  maybe,
  once,
  parsed,
  record,
  tableOf,
  text,
} from "./decode";
import { partsOf } from "./kept";
import type { Merged, Voucher } from "./reference_documents";
import { type Accepted, type References, acceptedDocuments, ownValues } from "./references";

export interface Policy extends ReadBodies {
  readonly name: string;
  readonly version: number;
  /** SHA-256 of its canonical JSON, as hex: the same that Python names it by. */
  readonly digest: string;
  /** Why the simulator's evidence is accepted, where it is. */
  readonly simulated: string | undefined;
  /** Checks that verification leaves out. */
  readonly unchecked: readonly { readonly check: string; readonly reason: string }[];
  /** The document itself. */
  readonly document: JsonObject;
  /** Files that came with it: documents of reference values, their signatures, and keys. */
  readonly files: readonly string[];
  /** The documents of reference values that it accepts. */
  readonly vouchers: readonly Voucher[];
}

const exactInteger = integer(0, Number.MAX_SAFE_INTEGER);
const stated: Reader<boolean | number | string> = (value, ...place) => {
  if (typeof value === "boolean") return boolean(value, ...place);
  return typeof value === "string" ? text(value, ...place) : exactInteger(value, ...place);
};
/** Verifiers whose tokens are taken: no token comes to a page, and evidence is judged by all the rest. */
const verifiers = listOf(
  record({
    issuer: text,
    maximum_age: maybe(integer(1, 86_400)),
    policy_ids: maybe(demand(listOf(text))),
    statements: maybe(tableOf(listOf(stated))),
  }),
);

const HEAD = {
  schema: choice(["attest.policy/1"]),
  name: like(NAME),
  version: integer(1, 2 ** 31),
  description: maybe(text),
  simulated: maybe(demand(choice(["refuse"]))),
  unchecked: maybe(tableOf(text, UNCHECKED_NAMES), {}),
  verifiers: maybe(verifiers, []),
  references: maybe(acceptedDocuments),
  reference_values: maybe(ownValues, {}),
};
const head = record({
  ...HEAD,
  ...unread([...Object.keys(KINDS), "azure", "dstack", "devices", "any_of", "all_of", "at_least"]),
}) as Reader<{ [K in keyof typeof HEAD]: ReturnType<(typeof HEAD)[K]> }>;

/**
 * Read a policy: `policy-unreadable`, `policy-invalid` with a path, or what is wrong with its documents of reference
 * values.
 *
 * @param kept its text, or what `together` made of it and of those documents, their signatures, and keys
 */
export async function loadPolicy(kept: string): Promise<Policy> {
  const [text = "", ...files] = partsOf(kept);
  const top = await parsed(text);
  const {
    name,
    version,
    simulated,
    unchecked,
    references,
    reference_values: own,
    verifiers: trusted,
  } = head(top, "", "");
  once(
    trusted.map(({ issuer }) => issuer),
    "verifiers",
    ".issuer",
  );
  const { values, vouchers } = await known(own, references, files);
  const { judge, tolerances } = readBodies(top, Object.keys(HEAD), values, unchecked.rim, await othersIn(top));
  return {
    name,
    version,
    digest: hex(await sha256(utf8(canonical(top)))),
    simulated: simulated?.unchecked,
    unchecked: Object.entries(unchecked).map(([check, reason]) => ({ check, reason })),
    tolerances,
    judge,
    document: top as JsonObject,
    files,
    vouchers,
  };
}

/** The code for everything that a policy speaks of beside SEV-SNP reports. */
async function othersIn(top: Json): Promise<Others> {
  const [cpus, devices] = await Promise.all([
    speaksOf(OTHER_CPUS, top) ? part(import("./other_cpus")) : undefined,
    speaksOf(DEVICES, top) ? part(import("./devices")) : undefined,
  ]);
  return { cpus, devices };
}

/** The policy's own values with those of the documents that it accepts, whose code is fetched when it names some. */
async function known(
  own: References,
  rows: readonly Accepted[] | undefined,
  files: readonly string[],
): Promise<Merged> {
  if (!rows) return { values: own, vouchers: [] };
  const { merged } = await part(import("./reference_documents"));
  return merged(own, rows, files);
}
