/**
 * Did a Quoting Enclave that Intel certified sign this quote? T02 to T06, which need no collateral.
 *
 *     quote ← attestation key ← QE report ← PCK certificate ← Platform or Processor CA ← Intel SGX Root CA (pinned)
 *
 * The links run in an order in which a quote that is plainly false is called false before anything is called missing, so
 * that forged evidence is never answered with a request for endorsements. What stays open is whether the enclave that
 * signed is Intel's Quoting Enclave, whether anything was revoked, and how current the platform is.
 */

import { concat, equal } from "../bytes";
import { ecdsaHolds, ecSpki, sha256 } from "../crypto";
import { AttestError, need, refusalOf, refuse } from "../errors";
import { type Endorsements, withCommonName } from "../pool";
import { currentFirst, embeddedCertificates, requireP256 } from "./chain";
import { PCK_COMMON_NAME, type PckCertificate, readPck } from "./pck";
import type { Quote } from "./quote";

const [PPID_CLEAR, PPID_RSA_3072] = [1, 3];

/**
 * T02, T03: return the PCK certificates that may speak for the quote: its own, or those at hand that are of its platform.
 *
 * A quote with a chain counts with the first certificate of it and no other. For certification data 1 to 3 the PCEID
 * must be the quote's, and for type 1, where it can be read, the PPID. The CPUSVN there is not compared: it counts as
 * the processor does, the certificate as Intel's TCB info does.
 */
export async function pckCandidates(quote: Quote, endorsements: Endorsements, at: number): Promise<readonly PckCertificate[]> {
  const [own] = embeddedCertificates(quote);
  if (own) return [readPck(own)];
  const found = [];
  for (const certificate of withCommonName(endorsements, PCK_COMMON_NAME)) found.push(await refusalOf(() => readPck(certificate)));
  const readable = found.filter((each) => !(each instanceof AttestError)) as PckCertificate[];
  if (found[0] instanceof AttestError && !readable.length) throw found[0];
  return currentFirst(readable.filter((pck) => isOfPlatform(pck, quote)), ({ certificate }) => certificate, at);
}

function isOfPlatform({ ppid, pceId }: PckCertificate, { certificationType, certificationData }: Quote): boolean {
  if (certificationType === PPID_CLEAR && !equal(certificationData.slice(0, ppid.length), ppid)) return false;
  return certificationType > PPID_RSA_3072 || equal(certificationData.slice(-pceId.length), pceId);
}

/**
 * T04: return the PCK certificate whose key signed the QE report: `qe-report-signature-invalid` or `public-key-invalid`.
 *
 * @returns undefined when there is no candidate: what is missing is told by requirePck, after all that can be false.
 */
export async function certifyingPck({ qeReport, qeReportSignature }: Quote, candidates: readonly PckCertificate[]): Promise<PckCertificate | undefined> {
  for (const pck of candidates) {
    requireP256(pck.certificate);
    if (await ecdsaHolds(pck.certificate.spki, "SHA-256", qeReportSignature, qeReport.raw)) return pck;
  }
  need(!candidates.length, "signature", "qe-report-signature-invalid", "a signature by the PCK", "another");
  return undefined;
}

/** T05: require the QE report to commit to the attestation key: both halves of REPORTDATA, the second with zero. */
export async function requireAttestationKey({ attestationKey, qeAuthData, qeReport: { report_data } }: Quote): Promise<void> {
  const committed = concat(await sha256(concat(attestationKey, qeAuthData)), new Uint8Array(32));
  need(equal(report_data, committed), "binding", "attestation-key-mismatch", committed, report_data, { field: "REPORTDATA of the QE report" });
}

/** T06: require the attestation key's signature over header, descriptor and body. */
export async function requireQuoteSignature({ attestationKey, signature, signedBytes }: Quote): Promise<void> {
  const holds = await refusalOf(() => ecdsaHolds(ecSpki("P-256", attestationKey), "SHA-256", signature, signedBytes));
  need(!(holds instanceof AttestError), "signature", "attestation-key-invalid", "a point of P-256", attestationKey);
  need(holds, "signature", "quote-signature-invalid", "a signature by the attestation key", "another");
}

/** T02: require a PCK certificate; a quote with certification data 1 to 4 brings none along. */
export function requirePck({ certificationType }: Quote, pck: PckCertificate | undefined): PckCertificate {
  return pck ?? refuse("endorsement", "pck-certificate-missing", "the PCK certificate of this platform", `certification data ${certificationType}`);
}
