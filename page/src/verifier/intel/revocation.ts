/**
 * Intel's revocation lists: that of the PCK certificate's own CA, and that of the root.
 *
 * Unlike the lists of other vendors, these are current up to and including nextUpdate (intel-tdx-sgx.md 14, T07).
 */

import { equal, rfc3339 } from "../bytes";
import type { Crl } from "../crl";
import { signatureHolds } from "../crypto";
import type { AttestError } from "../errors";
import type { Certificate, Issuer } from "../x509";
import { refusal } from "./refusal";

/** The two current lists that a PCK certificate was looked up in. */
export interface PckCrls {
  /** Of the CA that issued it, Platform or Processor. */
  readonly pck: Crl;
  readonly root: Crl;
}

/**
 * Return the current lists of both issuers, after making sure that none of theirs lists the chain.
 *
 * What any genuine list names is revoked, however old the list; only then are the dates judged.
 */
export async function findPckCrls(
  crls: readonly Crl[],
  pck: Certificate,
  ca: Certificate,
  root: Issuer,
  at: number,
): Promise<PckCrls> {
  await requireNotListed(crls, ca, pck);
  await requireNotListed(crls, root, ca);
  return { pck: await findCrl(crls, ca, at), root: await findCrl(crls, root, at) };
}

async function isSignedBy(crl: Crl, { subject, spki }: Issuer): Promise<boolean> {
  return equal(crl.issuer, subject) && signatureHolds(crl.tbs, crl.signature, crl.algorithm, spki);
}

/** Require that no genuine list of the issuer names the certificate, whatever its dates: `certificate-revoked`. */
export async function requireNotListed(crls: readonly Crl[], issuer: Issuer, { name, serial }: Certificate): Promise<void> {
  for (const crl of crls) {
    // The cheap question first: a list of another issuer may name the number of its own certificate.
    if (crl.revoked.has(serial) && (await isSignedBy(crl, issuer))) {
      const [number, got] = [serial.toString(16), `listed by the CRL of ${rfc3339(crl.thisUpdate)}`];
      throw refusal("revoked", "certificate-revoked", name, `serial ${number} not listed`, got);
    }
  }
}

/** Return the newest list of the issuer that is genuine and current. */
async function findCrl(crls: readonly Crl[], issuer: Issuer, at: number): Promise<Crl> {
  const named = crls.filter((crl) => equal(crl.issuer, issuer.subject));
  const genuine: Crl[] = [];
  for (const crl of named) if (await isSignedBy(crl, issuer)) genuine.push(crl);
  genuine.sort((a, b) => b.thisUpdate - a.thisUpdate);
  const current = genuine.find((crl) => crl.thisUpdate <= at && at <= crl.nextUpdate);
  if (!current) throw noCurrentCrl(crls, named.length > 0, genuine[0], issuer, at);
  return current;
}

function noCurrentCrl(
  crls: readonly Crl[],
  isNamed: boolean,
  latest: Crl | undefined,
  issuer: Issuer,
  at: number,
): AttestError {
  const field = `CRL of ${issuer.name}`;
  const moment = rfc3339(at);
  if (latest) {
    const code = at < latest.thisUpdate ? "crl-not-yet-valid" : "crl-expired";
    const got = `${rfc3339(latest.thisUpdate)} to ${rfc3339(latest.nextUpdate)}`;
    return refusal("endorsement", code, field, `thisUpdate <= ${moment} <= nextUpdate`, got, { retryable: true });
  }
  if (isNamed) {
    const [expected, got] = [`a signature by ${issuer.name}`, "one that does not verify"];
    return refusal("chain", "crl-signature-invalid", field, expected, got);
  }
  const others = [...new Set(crls.map((crl) => crl.issuerCommonName ?? "a name without one CN"))].sort();
  const got = others.length ? `lists of ${others.join(", ")}` : "none";
  return refusal("endorsement", "crl-missing", field, `one that is current at ${moment}`, got, { retryable: true });
}
