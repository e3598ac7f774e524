/**
 * Is this report genuine: made by AMD hardware, whole, current, unrevoked? Checks S01 to S13 of sev-snp.md. Steps whose
 * refusal would be a missing endorsement come last, so that a report that is plainly false is called false.
 */

import type { Anchor } from "../anchors";
import { type Bytes, concat, equal, hasAt, isZero, padded, rfc3339 } from "../bytes";
import { MAX_CANDIDATES, firstOf, requireValid } from "../chain";
import { type Check, type Told, check, same, takeSteps } from "../checks";
import { requireCurrentCrl } from "../crl";
import { ecdsaHolds } from "../crypto";
import { AttestError, need, refusalOf, refuse } from "../errors";
import type { Given, Verified } from "../formats";
import { withCommonName } from "../pool";
import { type Certificate, type Issuer, parseCertificate } from "../x509";
import { findIssuer, findRoot } from "./chain";
import { snpClaims } from "./claims";
import { type LeafKind, type SnpLeaf, readLeaf } from "./leaf";
import type { SnpReport } from "./structure";
import { type Tcbs, covers, tcbBytes, tcbText, tcbsOf } from "./tcb";

/** The signature covers what stands before it. */
const enum SIZE {
  signed = 0x2a0,
  coordinate = 48,
}

/**
 * Check that AMD hardware signed this report and that its certificates speak for it.
 *
 * @param presented DER of what the Attester says is the certificate of the report's key
 */
export async function verifySnp(report: SnpReport, presented: readonly Bytes[], given: Given): Promise<Verified> {
  const { version, key_info } = report;
  // Bits 4:2 are SIGNING_KEY, bit 1 is MASK_CHIP_KEY: the firmware signed, and with a key that has a certificate.
  const kind = (["VCEK", , "VLEK"] as const)[key_info >> 1];
  const signed = (): Told => {
    const expected = "SEV-VCEK or SEV-VLEK";
    need(kind, "signature", "snp-report-unsigned", expected, key_info, { field: "KEY_INFO" });
    return [expected, kind];
  };
  const before = [
    check("snp.format", "pass", "2 to 5", version, "AMD 56860, ATTESTATION_REPORT; sev-snp.md S01"),
    ...(await takeSteps([["snp.signing_key", "AMD 56860, KEY_INFO; sev-snp.md S02", signed]])),
  ];
  const otherwise = (): Promise<unknown> => {
    // Only leaves of the other kind are at hand, or none at all.
    const other = kind === "VCEK" ? "VLEK" : "VCEK";
    const isThere = presented.length || withCommonName(given.endorsements, `SEV-${other}`).length;
    const refused = (): never =>
      isThere
        ? refuse("chain", "snp-signer-kind-mismatch", kind, other)
        : refuse("endorsement", "snp-leaf-missing", kind, "none", { retryable: true });
    return takeSteps([["snp.leaf", `sev-snp.md S0${isThere ? 4 : 3}`, refused]]);
  };
  return firstOf(
    await candidates(report, kind!, presented, given),
    (leaf) => judge(report, leaf, given, before),
    otherwise,
  );
}

/** Leaves of the kind that SIGNING_KEY names, those first whose HWID, SPLs and dates fit. */
async function candidates(
  report: SnpReport,
  kind: LeafKind,
  presented: readonly Bytes[],
  { endorsements, at }: Given,
): Promise<(SnpLeaf | AttestError)[]> {
  const found: (SnpLeaf | AttestError)[] = [];
  for (const each of [...presented, ...withCommonName(endorsements, `SEV-${kind}`)]) {
    const leaf = await refusalOf(() => readLeaf(each instanceof Uint8Array ? parseCertificate(each) : each));
    // Unreadable is a defect of the chain: the Attester presented it as what speaks for its report.
    if (leaf instanceof AttestError) found.push(Object.assign(leaf, { kind: "chain" }));
    else if (leaf.kind === kind) found.push(leaf);
  }
  /** How badly one fits, judged without any signature; only the order of trying depends on it. */
  const misfit = (leaf: SnpLeaf | AttestError): number => {
    if (leaf instanceof AttestError) return 8;
    const { hwid, tcb, product, certificate } = leaf;
    const isOtherChip = hwid && !hasAt(report.chip_id, hwid);
    const isOtherTcb = !equal(tcbBytes(tcb, product), report.reported_tcb);
    return (
      (isOtherChip ? 4 : 0) + (isOtherTcb ? 2 : 0) + (certificate.notBefore <= at && at <= certificate.notAfter ? 0 : 1)
    );
  };
  return found.sort((a, b) => misfit(a) - misfit(b)).slice(0, MAX_CANDIDATES);
}

/** The numbered procedure with one candidate; what a step finds, those after it use. */
async function judge(
  report: SnpReport,
  candidate: SnpLeaf | AttestError,
  given: Given,
  before: readonly Check[],
): Promise<Verified> {
  const { at, endorsements, unchecked } = given;
  let leaf!: SnpLeaf;
  let tcbs!: Tcbs;
  let intermediate!: Certificate;
  let anchor!: Anchor;
  let root!: Issuer;
  const checks = await takeSteps(
    [
      [
        "snp.leaf",
        "AMD 57230, extensions; sev-snp.md S03, S04",
        () => {
          if (candidate instanceof AttestError) throw candidate;
          leaf = candidate;
          return [leaf.kind, leaf.productName];
        },
      ],
      [
        "snp.product",
        "sev-snp.md S09",
        () => {
          const { product } = leaf;
          const code = "snp-product-mismatch";
          need(product === (report.product ?? product), "chain", code, product, report.product, {
            field: "CPUID_FAM_ID",
          });
          // Refuses those of version 2 only: the other versions were read with this layout before.
          tcbs = tcbsOf(report, product, "chain", code);
          return [product, report.product ?? "version 2"];
        },
      ],
      [
        "snp.tcb",
        "AMD 57230, SPL extensions; sev-snp.md S11",
        () => same("snp-tcb-mismatch", "REPORTED_TCB", tcbText(leaf.tcb), tcbText(tcbs.reported_tcb)),
      ],
      [
        "snp.chip_id",
        "AMD 57230, HWID; sev-snp.md S12",
        () => {
          const { hwid } = leaf;
          // A VLEK has none, and a masked CHIP_ID is zero: the check says so, and appraisal judges it.
          if (!hwid || isZero(report.chip_id)) return [hwid ?? leaf.kind, report.chip_id, "not evaluated"];
          return same("snp-chip-id-mismatch", "CHIP_ID", padded(hwid, 64), report.chip_id);
        },
      ],
      [
        "snp.signature",
        "AMD 56860, SIGNATURE; sev-snp.md S10",
        async () => {
          const { name, spki } = leaf.certificate;
          const numbers = [report.signature_r, report.signature_s];
          const signature = concat(...numbers.map((number) => number.slice(0, SIZE.coordinate).reverse()));
          const isShort = numbers.every((number) => isZero(number.slice(SIZE.coordinate)));
          const holds = isShort && (await ecdsaHolds(spki, "SHA-384", signature, report.raw.slice(0, SIZE.signed)));
          need(holds, "signature", "snp-signature-invalid", name, "another", { field: "SIGNATURE" });
          return [name, "verifies"];
        },
      ],
      [
        "snp.tcb_order",
        "sev-snp.md S13",
        () => {
          const { current_tcb, reported_tcb, committed_tcb } = tcbs;
          const told = [tcbText(current_tcb), [reported_tcb, committed_tcb].map(tcbText)] as const;
          const isOrdered = covers(current_tcb, reported_tcb) && covers(current_tcb, committed_tcb);
          need(isOrdered, "binding", "snp-tcb-inconsistent", ...told, { field: "CURRENT_TCB" });
          return told;
        },
      ],
      ["snp.leaf_validity", "RFC 5280, 4.1.2.5; sev-snp.md S07", () => requireValid(leaf.certificate, at)],
      [
        "snp.chain",
        "AMD 57230; sev-snp.md S06",
        async () => {
          intermediate = await findIssuer(leaf.certificate, given);
          return [leaf.certificate.issuerCommonName, intermediate.name];
        },
      ],
      [
        "snp.root",
        "sev-snp.md S05, S06, S09",
        async () => {
          [anchor, root] = await findRoot(intermediate, leaf.product, given);
          return [leaf.product, [anchor.name, anchor.pin]];
        },
      ],
      [
        "snp.chain_validity",
        "RFC 5280, 4.1.2.5; sev-snp.md S07",
        () => {
          const told = requireValid(intermediate, at);
          // A root that is pinned by its digest alone was judged by its certificate.
          if (anchor.held) requireValid(anchor.held, at);
          return told;
        },
      ],
      [
        "snp.revocation",
        "RFC 5280, 6.3; sev-snp.md S08",
        async () => {
          // Only intermediates can be revoked by number: every VCEK and VLEK has serial 0.
          const { serial } = intermediate;
          const crl = await refusalOf(() => requireCurrentCrl(endorsements.crls, root, { serials: [serial], at }));
          if (!(crl instanceof AttestError)) {
            return [`serial ${serial} not listed`, `CRL of ${rfc3339(crl.thisUpdate)}`];
          }
          const reasons = unchecked.filter((each) => each.check === "revocation").map(({ reason }) => reason);
          if (crl.kind !== "endorsement" || !reasons.length) throw crl;
          return ["a current CRL", `unchecked: ${reasons.join("; ")}`, "not evaluated"];
        },
      ],
    ],
    before,
  );
  const chain = [leaf.certificate, intermediate, root];
  return { kind: "sev-snp", simulated: anchor.simulated, checks, claims: snpClaims(report, leaf, tcbs), chain };
}
