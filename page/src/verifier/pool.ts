/** Everything at hand that vendors say. Being in the pool gives nothing any trust. */

import { type Bytes, compareBytes, equal } from "./bytes";
import type { Crl } from "./crl";
import type { IntelDocument } from "./intel/document";
import type { OcspAnswer } from "./ocsp_answers";
import type { RimDocument } from "./rims";
import type { Certificate } from "./x509";

/** What vendors say, as presented: from files, caches, services or beside the evidence; in the order of arrival. */
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

export function nothingFound(): Found {
  return { certificates: [], crls: [], documents: [], rims: [], ocsp: [] };
}

/** Of equal ones the last stays, in the place of the first: a list out of an expired bundle gives way to a current one. */
function distinct<T extends { readonly der: Bytes }>(entries: readonly T[]): T[] {
  const kept: T[] = [];
  for (const entry of entries) {
    const at = kept.findIndex((other) => compareBytes(other.der, entry.der) === 0);
    kept[at < 0 ? kept.length : at] = entry;
  }
  return kept;
}

/** Both together, those of `first` in front, without repetition. */
export function merged(first: Partial<Endorsements>, second: Partial<Endorsements>): Endorsements {
  const both = <K extends keyof Endorsements>(name: K): Endorsements[K][number][] => [...(first[name] ?? []), ...(second[name] ?? [])];
  return {
    certificates: distinct(both("certificates") as Certificate[]),
    crls: distinct(both("crls") as Crl[]),
    documents: both("documents"),
    rims: distinct(both("rims") as RimDocument[]),
    ocsp: distinct(both("ocsp") as OcspAnswer[]),
  };
}

/** The certificates whose subject is this DER Name. */
export function named(pool: Endorsements, subject: Bytes): readonly Certificate[] {
  return pool.certificates.filter((certificate) => equal(certificate.subject, subject));
}

/** The certificates whose subject has this CN. */
export function withCommonName(pool: Endorsements, name: string): readonly Certificate[] {
  return pool.certificates.filter((certificate) => certificate.commonName === name);
}
