/**
 * From a VCEK or VLEK to a pinned root of AMD's: ASK or ASVK, then the ARK. Several certificates can bear a wanted name
 * (there are two SEV-Genoa); the one whose key verifies the child counts.
 */

import { type Anchor, anchorsOf, isSimulatedPin, pinned } from "../anchors";
import { equal } from "../bytes";
import { MAX_CANDIDATES, firstOf, requireCa, requireIssued, requireValid } from "../chain";
import { RSA_PSS_SHA384 } from "../crypto";
import { need, refusal } from "../errors";
import type { Given } from "../formats";
import { amdRoots } from "../lazy";
import { named } from "../pool";
import { type Certificate, type Issuer, spkiPin } from "../x509";
import type { Product } from "./tcb";

/** The certificate that issued `child`, of those that bear the name; `snp-issuer-missing` when there is none. */
export const findIssuer = (child: Certificate, { endorsements }: Given): Promise<Certificate> =>
  firstOf(
    named(endorsements, child.issuer).slice(0, MAX_CANDIDATES),
    async (candidate) => {
      await requireIssued(child, candidate, RSA_PSS_SHA384);
      requireCa(candidate);
      return candidate;
    },
    () => refusal("endorsement", "snp-issuer-missing", child.issuerCommonName!, "none", { retryable: true }),
  );

type Root = readonly [anchor: Anchor, issuer: Issuer];

/** The pinned root that issued an ASK or ASVK, with its name and key. */
export async function findRoot(
  child: Certificate,
  product: Product,
  { endorsements, anchors, at }: Given,
): Promise<Root> {
  const presented = named(endorsements, child.issuer);
  const pins = await Promise.all(presented.map(spkiPin));
  const roots: (readonly [anchor: Anchor | undefined, issuer: Issuer, presented?: Certificate])[] = [
    ...presented
      .slice(0, MAX_CANDIDATES)
      .map((certificate, i) => [pinned(anchors, "amd-ark", pins[i]!), certificate, certificate] as const),
    ...anchorsOf(anchors, "amd-ark").map((anchor) => [anchor, anchor.held!] as const),
  ];
  const attempt = async ([anchor, named, certificate]: (typeof roots)[number]): Promise<Root> => {
    // AMD's keys are large, and hardly ever missing from what comes along.
    const issuer = certificate ?? { ...named, spki: (await amdRoots()).arkKey(anchor!.product) };
    await requireIssued(child, issuer, RSA_PSS_SHA384);
    if (certificate) {
      await requireIssued(certificate, issuer, RSA_PSS_SHA384);
      requireCa(certificate);
      requireValid(certificate, at);
    }
    need(anchor!.product === product, "chain", "snp-product-mismatch", product, anchor!.name);
    return [anchor!, issuer];
  };
  return firstOf(
    roots.filter(([anchor, issuer]) => anchor && issuer && equal(issuer.subject, child.issuer)),
    attempt,
    () => {
      if (!pins.length) return refusal("endorsement", "snp-root-missing", child.issuerCommonName!, "none");
      const isSimulated = pins.some((pin) => isSimulatedPin("amd-ark", pin));
      return refusal("chain", isSimulated ? "simulated-root-refused" : "root-not-trusted", "a pinned key", pins[0]!);
    },
  );
}
