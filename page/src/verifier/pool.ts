/** Pool of available endorsements. A member of the pool is not trusted. */

import { type Bytes, concat, equal, latin1 } from "./bytes";
import type { Crl } from "./crl";
import type { IntelDocument } from "./intel/document";
import type { OcspAnswer } from "./ocsp_answers";
import type { RimDocument } from "./rims";
import type { Certificate } from "./x509";

/** Endorsements as presented: from files, caches, services or the evidence; in the order of their bytes. */
export interface Endorsements {
  readonly certificates: readonly Certificate[];
  readonly crls: readonly Crl[];
  /** TCB infos and QE identities of Intel. */
  readonly documents: readonly IntelDocument[];
  /** Reference integrity manifests of NVIDIA. */
  readonly rims: readonly RimDocument[];
  /** Answers about the revocation of single certificates. */
  readonly ocsp: readonly OcspAnswer[];
}

/** Endorsements that are still being collected. */
export type Found = { -readonly [K in keyof Endorsements]: Endorsements[K][number][] };

export const nothingFound = (): Found => ({ certificates: [], crls: [], documents: [], rims: [], ocsp: [] });

type Entry = Endorsements[keyof Endorsements][number];

const bytesOf = (entry: Entry): string => latin1("der" in entry ? entry.der : concat(entry.signature, entry.body));

/**
 * Both together, without repetition, in the order of their bytes: the order of arrival decides nothing. Of equal ones
 * the last stays: a list out of an expired bundle gives way to a current one.
 */
export function merged(first: Partial<Endorsements>, second: Partial<Endorsements>): Endorsements {
  const both: Record<string, Entry[]> = nothingFound();
  for (const name of Object.keys(both) as (keyof Endorsements)[]) {
    const entries: Entry[] = [...(first[name] ?? []), ...(second[name] ?? [])];
    const unique = new Map(entries.map((entry) => [bytesOf(entry), entry]));
    both[name] = [...unique].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, entry]) => entry);
  }
  return both as unknown as Endorsements;
}

/** The certificates whose subject is this DER Name. */
export function named(pool: Endorsements, subject: Bytes): readonly Certificate[] {
  return pool.certificates.filter((certificate) => equal(certificate.subject, subject));
}

/** The certificates whose subject has this CN. */
export function withCommonName(pool: Endorsements, name: string): readonly Certificate[] {
  return pool.certificates.filter((certificate) => certificate.commonName === name);
}
