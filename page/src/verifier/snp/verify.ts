/**
 * Verification that a report is genuine: from AMD hardware, complete, current, unrevoked. S01 to S13 of sev-snp.md.
 *
 * `SNP_STEPS` is the clause list, and `verifyWith` the procedure that takes its steps in order. Steps whose refusal
 * would
 * be a missing endorsement come last, so that a report that is plainly false is called false.
 */

import { type Bytes, concat, isZero, padded, rfc3339 } from "../bytes";
import { datesText, requireValid } from "../chain";
import { type Crl, requireCurrentCrl } from "../crl";
import { ecdsaHolds } from "../crypto";
import { AttestError, need, refusalOf, refuse } from "../errors";
import type { Given, Verified } from "../evidence";
import { withCommonName } from "../pool";
import { Procedure, reasonsOf, tolerated } from "../procedure";
import { type NamedValues, requireNamed } from "../unknown_values";
import type { Certificate, Issuer } from "../x509";
import { findIssuer, findRoot } from "./chain";
import { snpClaims } from "./claims";
import { type LeafKind, type SnpLeaf, candidates } from "./leaves";
import type { SnpReport } from "./structure";
import { type Product, type Tcbs, covers, tcbText, tcbsOf } from "./tcb";

/** Every check of a report, in order. Nothing of the report is used before the last one has passed. */
const SNP_STEPS = {
  format: ["snp.format", "AMD 56860, ATTESTATION_REPORT"],
  signingKey: ["snp.signing_key", "AMD 56860, KEY_INFO"],
  leaf: ["snp.leaf", "AMD 57230, extensions"],
  product: ["snp.product", "AMD 56860, CPUID_FAM_ID; AMD 57230, product name"],
  tcb: ["snp.tcb", "AMD 57230, SPL extensions"],
  chipId: ["snp.chip_id", "AMD 57230, HWID"],
  signature: ["snp.signature", "AMD 56860, SIGNATURE"],
  tcbOrder: ["snp.tcb_order", "AMD 56860, COMMITTED_TCB"],
  leafValidity: ["snp.leaf_validity", "RFC 5280, 4.1.2.5"],
  chain: ["snp.chain", "AMD 57230"],
  root: ["snp.root", "AMD 57230, ARK and ASK"],
  chainValidity: ["snp.chain_validity", "RFC 5280, 4.1.2.5"],
  revocation: ["snp.revocation", "RFC 5280, 6.3"],
} as const;

/** The signature covers everything in front of it. */
const SIGNED_BYTES = 0x2a0;
/** Bytes of r and of s in P-384; their fields are longer, and the rest is zero. */
const COORDINATE_BYTES = 48;
/** By SIGNING_KEY, bits 4:2 of KEY_INFO; bit 1, MASK_CHIP_KEY, must be clear: the key has a certificate. */
const SIGNING_KINDS: Readonly<Record<number, LeafKind>> = { 0: "VCEK", 1: "VLEK" };

/**
 * Check that AMD hardware signed this report and that its certificates speak for it.
 *
 * @param presented DER of the certificates that the Attester presents for the report's key
 */
export async function verifySnp(report: SnpReport, presented: readonly Bytes[], given: Given): Promise<Verified> {
  const kind = await new Procedure({ signingKey: SNP_STEPS.signingKey }).step("signingKey", () => signingKind(report));
  const refused: AttestError[] = [];
  for (const leaf of await candidates(report, kind, presented, given)) {
    const found = await refusalOf(() => verifyWith(leaf, report, given));
    if (!(found instanceof AttestError)) return found;
    refused.push(found);
  }
  // Of several, the certificate that got furthest is the report's, and the others are of no account.
  const furthest = refused.sort((one, other) => progress(other) - progress(one))[0];
  throw furthest ?? (await noLeaf(kind, presented, given));
}

/** The number of the step that failed. */
const progress = ({ checks }: AttestError): number => checks.findIndex(({ outcome }) => outcome === "fail");

/** Take every step with one candidate for the certificate of the report's key. */
async function verifyWith(candidate: SnpLeaf | AttestError, report: SnpReport, given: Given): Promise<Verified> {
  const { at } = given;
  const procedure = new Procedure(SNP_STEPS);
  const { leaf, tcbs } = await judgeReport(procedure, report, candidate, given.tolerances.spls);
  const { certificate, product } = leaf;
  await procedure.step("leafValidity", (step) => {
    requireValid(certificate, at);
    step.tell(rfc3339(at), datesText(certificate));
  });
  const intermediate = await procedure.step("chain", async (step) => {
    const issuer = await findIssuer(
      certificate,
      given,
      (each) => findRoot(each, product, given),
      (each) => requireValid(each, at),
      async (each) => findCrl((await findRoot(each, product, given)).issuer, each.serial, given),
    );
    step.tell(`issued by ${certificate.issuerCommonName ?? "no CN"}`, `signature of ${issuer.name} verifies`);
    return issuer;
  });
  const { anchor, issuer: root } = await procedure.step("root", async (step) => {
    const found = await findRoot(intermediate, product, given);
    step.tell(`a pinned root of ${product}`, `${found.anchor.name}, key ${found.anchor.pin}`);
    return found;
  });
  await procedure.step("chainValidity", (step) => {
    requireValid(intermediate, at);
    // A root that is pinned by its digest alone was judged by its certificate.
    if (anchor.held) requireValid(anchor.held, at);
    step.tell(rfc3339(at), datesText(intermediate));
  });
  await procedure.step("revocation", async (step) => {
    // Only intermediates can be revoked by number: every VCEK and VLEK has serial 0.
    const { serial } = intermediate;
    const found = await findCrl(root, serial, given);
    if (typeof found === "string") step.tell(`a current CRL of ${anchor.name}`, found, "not evaluated");
    else step.tell(`serial ${serial} not listed by ${anchor.name}`, `not listed, CRL of ${rfc3339(found.thisUpdate)}`);
  });
  return {
    kind: "sev-snp",
    simulated: anchor.simulated,
    checks: procedure.finish(),
    claims: snpClaims(report, leaf, tcbs),
    chain: [certificate, intermediate, root],
  };
}

interface JudgedReport {
  readonly leaf: SnpLeaf;
  readonly tcbs: Tcbs;
}

/** Take the steps that compare the report with the certificate of its key. */
async function judgeReport(
  procedure: Procedure<typeof SNP_STEPS>,
  report: SnpReport,
  candidate: SnpLeaf | AttestError,
  spls: NamedValues,
): Promise<JudgedReport> {
  await procedure.step("format", (step) =>
    step.tell("1184 bytes of a known version, reserved bytes zero", `version ${report.version}`),
  );
  await procedure.step("signingKey", (step) =>
    step.tell("SIGNING_KEY 0 (VCEK) or 1 (VLEK), MASK_CHIP_KEY 0", `KEY_INFO ${report.key_info}`),
  );
  const leaf = await procedure.step("leaf", (step) => {
    if (candidate instanceof AttestError) throw candidate;
    const { kind, productName, unknownValues } = candidate;
    const accepted = requireNamed(unknownValues, spls);
    const got = accepted ? `${productName}; ${accepted}` : productName;
    step.tell(`a ${kind} with AMD's extensions`, got, accepted ? "warning" : "pass");
    return candidate;
  });
  const tcbs = await procedure.step("product", (step) => {
    const found = requireProduct(report, leaf.product);
    step.tell(leaf.product, `CPUID: ${report.product ?? "not in version 2"}`);
    return found;
  });
  await procedure.step("tcb", (step) => {
    requireTcb(leaf, tcbs);
    step.tell(tcbText(leaf.tcb), tcbText(tcbs.reported_tcb));
  });
  await procedure.step("chipId", (step) => {
    if (!leaf.hwid) step.tell("HWID of a VCEK", "a VLEK has none", "not evaluated");
    // Appraisal judges a masked CHIP_ID.
    else if (isZero(report.chip_id)) step.tell(leaf.hwid, "CHIP_ID is masked (all zero)", "not evaluated");
    else {
      requireChipId(leaf.hwid, report.chip_id);
      step.tell(leaf.hwid, report.chip_id);
    }
  });
  await procedure.step("signature", async (step) => {
    await requireSignature(report, leaf.certificate);
    step.tell("ECDSA P-384 with SHA-384 over bytes 0x000 to 0x29f", `verifies with ${leaf.certificate.name}`);
  });
  await procedure.step("tcbOrder", (step) => {
    requireTcbOrder(tcbs);
    const { current_tcb, reported_tcb, committed_tcb } = tcbs;
    const got = `reported ${tcbText(reported_tcb)}; committed ${tcbText(committed_tcb)}`;
    step.tell(`REPORTED_TCB and COMMITTED_TCB at most ${tcbText(current_tcb)}`, got);
  });
  return { leaf, tcbs };
}

// -- what the steps require

/** S02: the firmware signed, and with a key that has a certificate. */
function signingKind({ key_info }: SnpReport): LeafKind {
  const kind = SIGNING_KINDS[key_info >> 2];
  const isMasked = (key_info & 2) !== 0;
  need(kind && !isMasked, "signature", "snp-report-unsigned", "SEV-VCEK or SEV-VLEK", key_info, { field: "KEY_INFO" });
  return kind;
}

/** S03, S04: only leaves of the other kind are available, or none. */
function noLeaf(kind: LeafKind, presented: readonly Bytes[], { endorsements }: Given): Promise<never> {
  const other = kind === "VCEK" ? "VLEK" : "VCEK";
  const isThere = presented.length > 0 || withCommonName(endorsements, `SEV-${other}`).length > 0;
  const procedure = new Procedure({
    leaf: ["snp.leaf", isThere ? "AMD 57230, extensions" : "AMD 57230, certificates"],
  });
  return procedure.step("leaf", () => {
    if (isThere) return refuse("chain", "snp-signer-kind-mismatch", kind, other);
    return refuse("endorsement", "snp-leaf-missing", kind, "none", { retryable: true });
  });
}

/** S09: report and certificate are of one product line. Return the TCBs, read by its layout. */
function requireProduct(report: SnpReport, product: Product): Tcbs {
  const isSame = report.product === undefined || report.product === product;
  need(isSame, "chain", "snp-product-mismatch", product, report.product, { field: "CPUID_FAM_ID" });
  // Refuses those of version 2 only: the other versions were read with this layout before.
  return tcbsOf(report, product, "chain", "snp-product-mismatch");
}

/** S11: the TCB in the certificate equals REPORTED_TCB. */
function requireTcb({ tcb }: SnpLeaf, { reported_tcb }: Tcbs): void {
  const expected = tcbText(tcb);
  const got = tcbText(reported_tcb);
  need(expected === got, "binding", "snp-tcb-mismatch", expected, got, { field: "REPORTED_TCB" });
}

/** S12: the certificate is that of this chip. Turin's HWID has 8 bytes, and the field is filled up with zeros. */
function requireChipId(hwid: Bytes, chipId: Bytes): void {
  const expected = padded(hwid, chipId.length);
  const isSame = expected.every((byte, i) => byte === chipId[i]);
  need(isSame, "binding", "snp-chip-id-mismatch", expected, chipId, { field: "CHIP_ID" });
}

/** S10: the certificate's key signed the report. R and S are little-endian. */
async function requireSignature(report: SnpReport, { name, spki }: Certificate): Promise<void> {
  const numbers = [report.signature_r, report.signature_s];
  const areShort = numbers.every((number) => isZero(number.slice(COORDINATE_BYTES)));
  const signature = concat(...numbers.map((number) => number.slice(0, COORDINATE_BYTES).reverse()));
  const holds = areShort && (await ecdsaHolds(spki, "SHA-384", signature, report.raw.slice(0, SIGNED_BYTES)));
  need(holds, "signature", "snp-signature-invalid", `a signature by ${name}`, "another", { field: "SIGNATURE" });
}

/** S13: no other TCB is above the current one. */
function requireTcbOrder({ current_tcb, reported_tcb, committed_tcb }: Tcbs): void {
  for (const [field, tcb] of Object.entries({ REPORTED_TCB: reported_tcb, COMMITTED_TCB: committed_tcb })) {
    const expected = `no component above ${tcbText(current_tcb)}`;
    need(covers(current_tcb, tcb), "binding", "snp-tcb-inconsistent", expected, tcbText(tcb), { field });
  }
}

/** S08: return the current CRL, or the reasons for which it may be missing. */
async function findCrl(root: Issuer, serial: bigint, { endorsements, at, unchecked }: Given): Promise<Crl | string> {
  const found = await refusalOf(() => requireCurrentCrl(endorsements.crls, root, { serials: [serial], at }));
  return found instanceof AttestError ? reasonsOf(tolerated(found, unchecked, "revocation")) : found;
}
