/**
 * Did a Quoting Enclave that Intel certified sign this quote? T02 to T06, which need no collateral.
 *
 *     quote ← attestation key ← QE report ← PCK certificate ← Platform or Processor CA ← Intel SGX Root CA (pinned)
 *
 * The links run in an order in which a quote that is plainly false is called false before anything is called missing, so
 * that forged evidence is never answered with a request for endorsements. What stays open is whether the enclave that
 * signed is Intel's Quoting Enclave, whether anything was revoked, and how current the platform is.
 */

import { concat, equal, hex } from "../bytes";
import { ecdsaHolds, ecSpki, sha256 } from "../crypto";
import { AttestError } from "../errors";
import { type Endorsements, withCommonName } from "../pool";
import { embeddedCertificates, MAX_CANDIDATES, requireP256 } from "./chain";
import { PCK_COMMON_NAME, type PckCertificate, readPck } from "./pck";
import type { Quote } from "./quote";
import { refusal } from "./refusal";

const [PPID_CLEAR, PPID_RSA_3072] = [1, 3];

/**
 * T02, T03: return the PCK certificates that may speak for the quote: its own, or those at hand that are of its platform.
 *
 * A quote with a chain counts with the first certificate of it and no other. For certification data 1 to 3 the PCEID
 * must be the quote's, and for type 1, where it can be read, the PPID. The CPUSVN there is not compared: it counts as
 * the processor does, the certificate as Intel's TCB info does. Those valid at the moment come first: a renewed
 * certificate has the key of the old one.
 */
export function pckCandidates(quote: Quote, endorsements: Endorsements, at: number): readonly PckCertificate[] {
  const [own] = embeddedCertificates(quote);
  if (own) return [readPck(own)];
  const readable: PckCertificate[] = [];
  let refused: AttestError | undefined;
  for (const certificate of withCommonName(endorsements, PCK_COMMON_NAME)) {
    try {
      readable.push(readPck(certificate));
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      refused ??= error;
    }
  }
  if (refused && !readable.length) throw refused;
  const isPast = ({ certificate: { notBefore, notAfter } }: PckCertificate) => Number(at < notBefore || at > notAfter);
  const fitting = readable.filter((pck) => isOfPlatform(pck, quote)).sort((a, b) => isPast(a) - isPast(b));
  return fitting.slice(0, MAX_CANDIDATES);
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
export async function certifyingPck(
  quote: Quote,
  candidates: readonly PckCertificate[],
): Promise<PckCertificate | undefined> {
  for (const pck of candidates) {
    requireP256(pck.certificate);
    if (await ecdsaHolds(pck.certificate.spki, "SHA-256", quote.qeReportSignature, quote.qeReport.raw)) return pck;
  }
  if (!candidates.length) return undefined;
  const expected = "ECDSA P-256 with SHA-256 by the PCK over the 384 bytes of the QE report";
  throw unsigned("qe-report-signature-invalid", "QE report signature", expected);
}

const unsigned = (code: string, field: string, expected: string) =>
  refusal("signature", code, field, expected, "a signature that does not verify");

/** T05: require the QE report to commit to the attestation key: both halves of REPORTDATA, the second with zero. */
export async function requireAttestationKey({ attestationKey, qeAuthData, qeReport }: Quote): Promise<void> {
  const committed = concat(await sha256(concat(attestationKey, qeAuthData)), new Uint8Array(32));
  if (!equal(qeReport.report_data, committed)) {
    const [expected, got] = [hex(committed), hex(qeReport.report_data)];
    throw refusal("binding", "attestation-key-mismatch", "REPORTDATA of the QE report", expected, got);
  }
}

/** T06: require the attestation key's signature over header, descriptor and body. */
export async function requireQuoteSignature({ attestationKey, signature, signedBytes }: Quote): Promise<void> {
  let holds: boolean;
  try {
    holds = await ecdsaHolds(ecSpki("P-256", attestationKey), "SHA-256", signature, signedBytes);
  } catch (error) {
    if (!(error instanceof AttestError)) throw error;
    const got = hex(attestationKey);
    throw refusal("signature", "attestation-key-invalid", "attestation key", "a point of P-256", got);
  }
  if (!holds) {
    const expected = `ECDSA P-256 with SHA-256 over bytes 0 to ${signedBytes.length - 1}`;
    throw unsigned("quote-signature-invalid", "quote signature", expected);
  }
}

/** T02: require a PCK certificate; a quote with certification data 1 to 4 brings none along. */
export function requirePck({ certificationType }: Quote, pck: PckCertificate | undefined): PckCertificate {
  if (pck) return pck;
  const [expected, got] = ["the PCK certificate of this platform", `none, and type ${certificationType} carries none`];
  throw refusal("endorsement", "pck-certificate-missing", "certification data", expected, got);
}
