/**
 * Endorsements from files. Each form is recognised once, by what only it begins with; what does not belong is passed
 * over with a note, what is recognised and cannot be read with a warning, and is then missing. Nothing is trusted.
 */

import type { Bytes } from "./bytes";
import { base64Bytes, latin1 } from "./bytes";
import { parseCrl } from "./crl";
import {
  derKind,
  derWithoutPadding,
  hexSequence,
  isBundle,
  looksLikeCollateral,
  looksLikeOcsp,
  looksLikePem,
  looksLikePercentPem,
  looksLikeRim,
  looksLikeRimAnswer,
} from "./endorsement_forms";
import { AttestError } from "./errors";
import { bundleFormat, gpuFormat, intelFormat } from "./lazy";
import { type Endorsements, type Found, merged, nothingFound } from "./pool";
import { beginsTable, parseTable } from "./snp/table";
import { parseCertificate } from "./x509";

const MAX_FILE_BYTES = 32 * 1024 * 1024;
const [MAX_FILES, MAX_ENDORSEMENTS, MAX_PEM_BLOCKS] = [1024, 2048, 4096];

export interface NamedBytes {
  readonly name: string;
  readonly bytes: Bytes;
}

export interface EndorsementFiles {
  readonly endorsements: Endorsements;
  /** Recognised and passed over, therefore missing. */
  readonly warnings: readonly string[];
}

/** One form: how it looks, and what it adds to what was found; `warn` tells of a part that cannot be read. */
export interface EndorsementReader {
  looks(data: Bytes): boolean;
  read(data: Bytes, found: Found, reading: { at: number; warn(problem: string): void }): void | Promise<void>;
}

/** In the order in which they are asked. */
const READERS: readonly EndorsementReader[] = [
  { looks: isBundle, read: async (data, found, reading) => (await bundleFormat()).readBundle(data, found, reading) },
  { looks: beginsTable, read: readTable },
  { looks: (data) => derKind(data) === "certificate", read: (data, found) => void found.certificates.push(parseCertificate(data)) },
  { looks: (data) => derKind(data) === "crl", read: (data, found) => void found.crls.push(parseCrl(derWithoutPadding(data))) },
  {
    looks: looksLikeCollateral,
    read: async (data, found, { warn }) => (await intelFormat()).readCollateral(data, found, warn),
  },
  {
    looks: looksLikePercentPem,
    read: async (data, found) => void found.certificates.push(...(await intelFormat()).certificates(latin1(data))),
  },
  { looks: looksLikeOcsp, read: async (data, found) => void found.ocsp.push((await gpuFormat()).parseOcsp(data)) },
  { looks: looksLikeRim, read: async (data, found) => void found.rims.push((await gpuFormat()).readRimDocument(data)) },
  { looks: looksLikeRimAnswer, read: async (data, found) => void found.rims.push(await (await gpuFormat()).readRimAnswer(data)) },
  { looks: looksLikePem, read: readPem },
];

function readTable(data: Bytes, found: Found, { warn }: { warn(problem: string): void }): void {
  for (const { kind, data: der } of parseTable(data)) {
    if (kind === "PLATFORM") continue;
    try {
      if (kind === "CRL") found.crls.push(parseCrl(der));
      else found.certificates.push(parseCertificate(der));
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      warn(`${kind} of the certificate table: ${error.message}`);
    }
  }
}

function readPem(data: Bytes, found: Found, { warn }: { warn(problem: string): void }): void {
  const text = latin1(data);
  const parts = text.split(/^(?=-----BEGIN [A-Z0-9 ]{1,40}-----)/m).slice(0, MAX_PEM_BLOCKS);
  // Block by block, so that one that is broken takes none of its neighbours along.
  for (const part of parts) {
    const block = /^-----BEGIN (CERTIFICATE|X509 CRL)-----[\t-\r ]([A-Za-z0-9+/=\t-\r ]*)-----END \1-----/.exec(part);
    if (!block) continue;
    try {
      const der = base64Bytes((block[2] ?? "").replace(/[\t-\r ]/g, ""), "PEM");
      if (block[1] === "CERTIFICATE") found.certificates.push(parseCertificate(der));
      else found.crls.push(parseCrl(derWithoutPadding(der)));
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      warn(error.message);
    }
  }
}

/** Read endorsements out of files of any recognised form; for any bytes at all nothing is thrown. */
export async function readEndorsements(files: readonly NamedBytes[], at: number): Promise<EndorsementFiles> {
  const found = nothingFound();
  const warnings: string[] = [];
  for (const { name, bytes: given } of files.slice(0, MAX_FILES)) {
    const warn = (problem: string): void => void warnings.push(`${name}: ${problem}`);
    const spelled = given.length <= MAX_FILE_BYTES ? hexSequence(given) : undefined;
    const bytes = spelled && derKind(spelled) ? spelled : given;
    const reader = bytes.length <= MAX_FILE_BYTES ? READERS.find((each) => each.looks(bytes)) : undefined;
    try {
      await reader?.read(bytes, found, { at, warn });
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      warn(error.message);
    }
    if (Object.values(found).reduce((count, each) => count + each.length, 0) >= MAX_ENDORSEMENTS) break;
  }
  return { endorsements: merged(found, {}), warnings };
}
