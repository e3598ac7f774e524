/**
 * Intel's revocation lists: that of the PCK certificate's own CA, and that of the root.
 *
 * Unlike the lists of other vendors, these are current up to and including nextUpdate (intel-tdx-sgx.md 14, T07).
 */

import { equal, rfc3339 } from "../bytes";
import type { Crl } from "../crl";
import { signatureHolds } from "../crypto";
import { need, refuse } from "../errors";
import type { Certificate, Issuer } from "../x509";

/**
 * Return the current lists of CA and root, after making sure that none of theirs lists the chain.
 *
 * What any genuine list names is revoked, however old the list; only then are the dates judged.
 */
export async function findPckCrls(crls: readonly Crl[], pck: Certificate, ca: Certificate, root: Issuer, at: number): Promise<readonly Crl[]> {
  await requireNotListed(crls, ca, pck);
  await requireNotListed(crls, root, ca);
  return [await findCrl(crls, ca, at), await findCrl(crls, root, at)];
}

async function isSignedBy(crl: Crl, { subject, spki }: Issuer): Promise<boolean> {
  return equal(crl.issuer, subject) && signatureHolds(crl.tbs, crl.signature, crl.algorithm, spki);
}

/** Require that no genuine list of the issuer names the certificate, whatever its dates: `certificate-revoked`. */
export async function requireNotListed(crls: readonly Crl[], issuer: Issuer, { name: field, serial }: Certificate): Promise<void> {
  for (const crl of crls) {
    // The cheap question first: a list of another issuer may name the number of its own certificate.
    const isListed = crl.revoked.has(serial) && (await isSignedBy(crl, issuer));
    need(!isListed, "revoked", "certificate-revoked", `serial ${serial} not listed`, `listed ${rfc3339(crl.thisUpdate)}`, { field });
  }
}

export const datesOf = ({ thisUpdate, nextUpdate }: Crl): string => `${rfc3339(thisUpdate)} to ${rfc3339(nextUpdate)}`;

/** Return the newest list of the issuer that is genuine and current. */
async function findCrl(crls: readonly Crl[], issuer: Issuer, at: number): Promise<Crl> {
  const { name: field, subject } = issuer;
  const named = crls.filter((crl) => equal(crl.issuer, subject));
  const genuine: Crl[] = [];
  for (const crl of named) if (await isSignedBy(crl, issuer)) genuine.push(crl);
  genuine.sort((a, b) => b.thisUpdate - a.thisUpdate);
  const current = genuine.find((crl) => crl.thisUpdate <= at && at <= crl.nextUpdate);
  if (current) return current;
  const [latest] = genuine;
  const facts = { field, retryable: true };
  if (latest) refuse("endorsement", at < latest.thisUpdate ? "crl-not-yet-valid" : "crl-expired", rfc3339(at), datesOf(latest), facts);
  need(!named.length, "chain", "crl-signature-invalid", `a signature by ${field}`, "another", { field });
  return refuse("endorsement", "crl-missing", "a current CRL", "none", facts);
}
