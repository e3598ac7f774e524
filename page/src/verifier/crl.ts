/** X.509 v2 certificate revocation lists (RFC 5280, section 5.1). */

import { type Bytes, equal, rfc3339 } from "./bytes";
import { signatureHolds } from "./crypto";
import { TAG, all, defect, integer, reading, time } from "./der";
import { AttestError, fail } from "./errors";
import { type Issuer, commonNameOf, readExtension, readExtensions, requireSameAlgorithm, signedParts } from "./x509";

export const MAX_CRL_BYTES = 1024 * 1024;

/** A list as presented. */
export interface Crl {
  readonly der: Bytes;
  readonly tbs: Bytes;
  readonly signature: Bytes;
  readonly algorithm: Bytes;
  readonly issuer: Bytes;
  readonly issuerCommonName: string | undefined;
  /** First moment at which it is current, included. */
  readonly thisUpdate: number;
  /** End of its currency, excluded. */
  readonly nextUpdate: number;
  readonly revoked: ReadonlySet<bigint>;
}

/**
 * Read one list: `crl-malformed`. One with a critical extension is refused: it would be a delta, an indirect or a
 * partial list, and an entry that is not in it would prove nothing.
 */
export function parseCrl(der: Bytes): Crl {
  return reading("crl", () => {
    const { tbs, inside, algorithm, signature } = signedParts(der, MAX_CRL_BYTES);
    const version = integer(inside.next(TAG.integer));
    requireSameAlgorithm(inside.next().whole, algorithm);
    const issuer = inside.next().whole;
    const [thisUpdate, nextUpdate] = [time(inside.next()), time(inside.next())];
    const revoked = new Set<bigint>();
    let critical = false;
    for (const entry of all(inside.maybe(TAG.sequence)?.body ?? new Uint8Array(), (reader) => reader.sequence())) {
      revoked.add(integer(entry.next(TAG.integer)));
      time(entry.next());
      const extensions = all(entry.maybe(TAG.sequence)?.body ?? new Uint8Array(), readExtension);
      critical ||= extensions.some((extension) => extension.critical);
      entry.end();
    }
    critical = readExtensions(inside.next(0xa0).body).some((extension) => extension.critical) || critical;
    inside.end();
    if (version !== 1n || critical) defect("expected version 2 without critical extensions");
    const issuerCommonName = commonNameOf(issuer);
    return { der, tbs, signature, algorithm, issuer, issuerCommonName, thisUpdate, nextUpdate, revoked };
  });
}

async function genuineLists(named: readonly Crl[], issuer: Issuer): Promise<Crl[]> {
  const genuine: Crl[] = [];
  for (const crl of named) {
    if (await signatureHolds(crl.tbs, crl.signature, crl.algorithm, issuer.spki)) genuine.push(crl);
  }
  return genuine;
}

/**
 * Return a current, genuine list of the issuer, after making sure that no genuine one names a serial.
 *
 * A stale or future list counts as missing, but what it lists is revoked all the same once its signature verifies. A
 * list of another issuer does not belong here and is passed over.
 *
 * Refuses with `certificate-revoked`; `crl-signature-invalid`; `crl-missing`, `crl-expired` or `crl-not-yet-valid`.
 */
export async function requireCurrentCrl(
  crls: readonly Crl[],
  issuer: Issuer,
  { serials, at, check }: { serials: readonly bigint[]; at: number; check?: string },
): Promise<Crl> {
  const named = crls.filter((crl) => equal(crl.issuer, issuer.subject));
  const genuine = await genuineLists(named, issuer);
  for (const crl of genuine) {
    for (const serial of serials) {
      if (crl.revoked.has(serial)) {
        fail("revoked", "certificate-revoked", `${issuer.name} revoked the certificate with serial ${serial}`, {
          check,
          expected: `serial ${serial} not listed`,
          got: `listed by the CRL of ${rfc3339(crl.thisUpdate)}`,
        });
      }
    }
  }
  const latest = (lists: readonly Crl[]): Crl | undefined =>
    lists.reduce<Crl | undefined>((best, crl) => (best && best.thisUpdate >= crl.thisUpdate ? best : crl), undefined);
  const current = latest(genuine.filter((crl) => crl.thisUpdate <= at && at < crl.nextUpdate));
  if (current) return current;
  throw noCurrentCrl(named.length > 0, latest(genuine), issuer, at, check);
}

function noCurrentCrl(named: boolean, latest: Crl | undefined, issuer: Issuer, at: number, check?: string): AttestError {
  if (latest) {
    const early = at < latest.thisUpdate;
    const code = early ? "crl-not-yet-valid" : "crl-expired";
    return new AttestError("endorsement", code, `the CRL of ${issuer.name} is not current at ${rfc3339(at)}`, {
      check,
      expected: `thisUpdate <= ${rfc3339(at)} < nextUpdate`,
      got: `${rfc3339(latest.thisUpdate)} to ${rfc3339(latest.nextUpdate)}`,
      retryable: true,
    });
  }
  if (named) {
    const problem = `the CRL in the name of ${issuer.name} is not signed by it`;
    return new AttestError("chain", "crl-signature-invalid", problem, {
      check,
      expected: `a signature by ${issuer.name}`,
      got: "one that does not verify",
    });
  }
  return new AttestError("endorsement", "crl-missing", `no certificate revocation list of ${issuer.name} is at hand`, {
    check,
    expected: `a CRL of ${issuer.name} that is current at ${rfc3339(at)}`,
    got: "none",
    retryable: true,
  });
}
