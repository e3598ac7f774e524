/** X.509 v2 certificate revocation lists (RFC 5280, section 5.1). */

import { type Bytes, NO_BYTES, equal, rfc3339 } from "./bytes";
import { signatureHolds } from "./crypto";
import { TAG, all, defect, integer, reading, time } from "./der";
import { need, refuse } from "./errors";
import {
  type Extension,
  type Issuer,
  commonNameOf,
  readExtension,
  readExtensions,
  requireSameAlgorithm,
  signedParts,
} from "./x509";

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

/** A delta, an indirect or a partial list has a critical extension; an entry that is not in it would prove nothing. */
function requireWhole(extensions: readonly Extension[]): void {
  if (extensions.some(({ critical }) => critical)) defect("critical extension");
}

/** Read one list: `crl-malformed`. */
export function parseCrl(der: Bytes): Crl {
  return reading("crl", () => {
    const { tbs, inside, algorithm, signature } = signedParts(der, 1024 * 1024);
    if (integer(inside.next(TAG.integer)) !== 1n) defect("version");
    requireSameAlgorithm(inside.next().whole, algorithm);
    const issuer = inside.next().whole;
    const thisUpdate = time(inside.next());
    const nextUpdate = time(inside.next());
    const serials = all(inside.maybe(TAG.sequence)?.body ?? NO_BYTES, (reader) => {
      const entry = reader.sequence();
      const serial = integer(entry.next(TAG.integer));
      time(entry.next());
      requireWhole(all(entry.maybe(TAG.sequence)?.body ?? NO_BYTES, readExtension));
      entry.end();
      return serial;
    });
    requireWhole(readExtensions(inside.next(0xa0).body));
    inside.end();
    const issuerCommonName = commonNameOf(issuer);
    return {
      der,
      tbs,
      signature,
      algorithm,
      issuer,
      issuerCommonName,
      thisUpdate,
      nextUpdate,
      revoked: new Set(serials),
    };
  });
}

/**
 * Return a current, genuine list of the issuer, after making sure that no genuine one names a serial.
 *
 * A stale or future list counts as missing, but what it lists is revoked all the same once its signature verifies. A
 * list of another issuer does not belong here and is passed over.
 *
 * @param isEndIncluded Intel's lists are current up to and including nextUpdate
 *
 * Refuses with `certificate-revoked`; `crl-signature-invalid`; `crl-missing`, `crl-expired` or `crl-not-yet-valid`.
 */
export async function requireCurrentCrl(
  crls: readonly Crl[],
  { name: field, subject, spki }: Issuer,
  { serials, at, isEndIncluded }: { serials: readonly bigint[]; at: number; isEndIncluded?: boolean },
): Promise<Crl> {
  const named = crls.filter(({ issuer }) => equal(issuer, subject));
  const hold = await Promise.all(
    named.map(({ tbs, signature, algorithm }) => signatureHolds(tbs, signature, algorithm, spki)),
  );
  const genuine = named.filter((_, i) => hold[i]);
  const listing = genuine.find(({ revoked }) => serials.some((serial) => revoked.has(serial)));
  need(
    !listing,
    "revoked",
    "certificate-revoked",
    `serial ${serials.join(", ")} not listed`,
    listing && `listed ${rfc3339(listing.thisUpdate)}`,
    { field },
  );
  // The newest first; of several of one moment the first that came.
  genuine.sort((a, b) => b.thisUpdate - a.thisUpdate);
  const current = genuine.find(
    ({ thisUpdate, nextUpdate }) => thisUpdate <= at && (at < nextUpdate || (isEndIncluded && at === nextUpdate)),
  );
  if (current) return current;
  const [newest] = genuine;
  if (newest) {
    const code = at < newest.thisUpdate ? "crl-not-yet-valid" : "crl-expired";
    const dates = `${rfc3339(newest.thisUpdate)} to ${rfc3339(newest.nextUpdate)}`;
    refuse("endorsement", code, rfc3339(at), dates, { field, retryable: true });
  }
  need(!named.length, "chain", "crl-signature-invalid", `a signature by ${field}`, "another", { field });
  return refuse("endorsement", "crl-missing", `a CRL of ${field}`, "none", { field, retryable: true });
}
