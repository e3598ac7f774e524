/** Everything at hand that vendors say. Being in the pool gives nothing any trust. */

import { type Bytes, concat, equal, latin1 } from "./bytes";
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
function distinct<T>(entries: readonly T[], bytesOf: (entry: T) => Bytes): T[] {
  return [...new Map(entries.map((entry) => [latin1(bytesOf(entry)), entry])).values()];
}

const derOf = ({ der }: { readonly der: Bytes }): Bytes => der;

/** Both together, those of `first` in front, without repetition. */
export function merged(first: Partial<Endorsements>, second: Partial<Endorsements>): Endorsements {
  const both = <K extends keyof Endorsements>(name: K): Endorsements[K] =>
    [...(first[name] ?? []), ...(second[name] ?? [])] as unknown as Endorsements[K];
  return {
    certificates: distinct(both("certificates"), derOf),
    crls: distinct(both("crls"), derOf),
    documents: distinct(both("documents"), ({ body, signature }) => concat(signature, body)),
    rims: distinct(both("rims"), derOf),
    ocsp: distinct(both("ocsp"), derOf),
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
