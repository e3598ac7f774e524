/**
 * Is this report genuine: made by AMD hardware, whole, current, unrevoked? Checks S01 to S13 of sev-snp.md. Steps whose
 * refusal would be a missing endorsement come last, so that a report that is plainly false is called false.
 */

import type { Anchor } from "../anchors";
import { type Bytes, concat, equal, hex, isZero, padded, rfc3339 } from "../bytes";
import { requireValid } from "../chain";
import { type Check, type Step, type Told, check, runSteps } from "../checks";
import { type Crl, requireCurrentCrl } from "../crl";
import { ecdsaHolds } from "../crypto";
import { AttestError, fail } from "../errors";
import type { Given, Verified } from "../formats";
import { type Endorsements, merged, withCommonName } from "../pool";
import { type Certificate, type Issuer, parseCertificate } from "../x509";
import { MAX_CANDIDATES, findIssuer, findRoot, requireAnchorValid } from "./chain";
import { snpClaims } from "./claims";
import type { SnpEvidence } from "./evidence";
import { LEAF_KINDS, type LeafKind, type SnpLeaf, leafName, readLeaf } from "./leaf";
import { SIGNED_BYTES, type SnpReport } from "./structure";
import { type Product, type Tcb, covers, sameTcb, tcbOf, tcbText } from "./tcb";
import { named } from "../pool";

const COORDINATE_BYTES = 48;
const TCBS = ["reported_tcb", "current_tcb", "committed_tcb", "launch_tcb"] as const;

/** One report with one candidate leaf, filled in step by step. */
interface Attempt {
  readonly report: SnpReport;
  readonly candidate: SnpLeaf | AttestError;
  readonly given: Given;
  readonly crls: readonly Crl[];
  leaf: SnpLeaf;
  product: Product;
  tcbs: Readonly<Record<(typeof TCBS)[number], Tcb>>;
  intermediate: Certificate;
  anchor: Anchor;
  root: Issuer;
  crl: Crl | undefined;
}

/** An attempt after its last step. */
export type VerifiedSnp = Attempt;

/** Check that AMD hardware signed this report and that its certificates speak for it. */
export async function verifySnp(evidence: SnpEvidence, given: Given): Promise<Verified & { readonly attempt: VerifiedSnp }> {
  const { report } = evidence;
  const kind = signingKind(report);
  const endorsements = merged({ certificates: evidence.issuers }, given.endorsements);
  const crls = [...evidence.crls, ...endorsements.crls];
  let best: AttestError | undefined;
  for (const candidate of await candidates(evidence, kind, endorsements, given.at)) {
    const attempt = { report, candidate, given: { ...given, endorsements }, crls } as unknown as Attempt;
    try {
      const checks = await runSteps(PROCEDURE, attempt, before(report));
      const chain = [attempt.leaf.certificate, attempt.intermediate, attempt.root];
      return { kind: "sev-snp", simulated: attempt.anchor.simulated, checks, claims: snpClaims(attempt), chain, attempt };
    } catch (error) {
      if (!(error instanceof AttestError) || error.exitCode === 3) throw error;
      best ??= error;
    }
  }
  throw best ?? noLeaf(evidence, kind, endorsements);
}

function before({ version, key_info }: SnpReport): Check[] {
  return [
    check("snp.format", "pass", "1184 bytes of a known version, reserved bytes zero", `version ${version}`, "AMD 56860, ATTESTATION_REPORT; sev-snp.md S01"),
    check("snp.signing_key", "pass", KEY_INFO, `KEY_INFO 0x${key_info.toString(16)}`, "AMD 56860, KEY_INFO; sev-snp.md S02"),
  ];
}

// -- which certificate may have signed

const KEY_INFO = "SIGNING_KEY 0 (VCEK) or 1 (VLEK), MASK_CHIP_KEY 0";

/** Give an error that stands before the procedure its only check. */
function withCheck(error: AttestError): AttestError {
  const { check: id = "", expected = "", got = "", clause = "" } = error.facts;
  error.checks = [check(id, "fail", expected, got, clause)];
  return error;
}

/** S02: the firmware signed, and with a key that has a certificate. */
function signingKind({ key_info }: SnpReport): LeafKind {
  const [key, masked] = [(key_info >> 2) & 7, (key_info >> 1) & 1];
  const kind = LEAF_KINDS[key];
  if (kind && !masked) return kind;
  const got = `SIGNING_KEY ${key}, MASK_CHIP_KEY ${masked}`;
  const clause = "AMD 56860, KEY_INFO; sev-snp.md S02";
  const facts = { check: "snp.signing_key", field: "KEY_INFO", offset: 0x48, expected: KEY_INFO, got, clause };
  throw withCheck(new AttestError("signature", "snp-report-unsigned", "", facts));
}

/** Leaves of the kind that SIGNING_KEY names, those first whose HWID, SPLs and dates fit. */
async function candidates({ report, leaves }: SnpEvidence, kind: LeafKind, pool: Endorsements, at: number): Promise<(SnpLeaf | AttestError)[]> {
  const readable: SnpLeaf[] = [];
  const refused: AttestError[] = [];
  const take = async (read: () => Promise<SnpLeaf>): Promise<void> => {
    try {
      const leaf = await read();
      if (leaf.kind === kind) readable.push(leaf);
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      // Unreadable is a defect of the chain: the Attester presented it as what speaks for its report.
      const { expected, got, field } = error.facts;
      refused.push(new AttestError("chain", error.code, error.message, { expected, got, field }));
    }
  };
  for (const der of leaves) await take(async () => readLeaf(parseCertificate(der)));
  for (const certificate of withCommonName(pool, leafName(kind))) await take(() => readLeaf(certificate));
  readable.sort((a, b) => misfit(report, a, at) - misfit(report, b, at));
  return [...readable, ...refused].slice(0, MAX_CANDIDATES);
}

/** How badly a leaf fits, judged without any signature; only the order of trying depends on it. */
function misfit(report: SnpReport, { hwid, tcb, product, certificate }: SnpLeaf, at: number): number {
  const chip = hwid && !equal(report.chip_id.slice(0, hwid.length), hwid) ? 4 : 0;
  const { fmc, bootloader, tee, snp, microcode } = tcb;
  const bytes = product === "Turin" ? [fmc, bootloader, tee, snp, 0, 0, 0, microcode] : [bootloader, tee, 0, 0, 0, 0, snp, microcode];
  const level = bytes.every((byte, i) => byte === report.reported_tcb[i]) ? 0 : 2;
  return chip + level + (certificate.notBefore <= at && at <= certificate.notAfter ? 0 : 1);
}

/** S03 and S04: only leaves of the other kind are at hand, or none at all. */
function noLeaf({ leaves }: SnpEvidence, kind: LeafKind, pool: Endorsements): AttestError {
  const other = leafName(kind === "vcek" ? "vlek" : "vcek");
  const wanted = leafName(kind);
  if (leaves.length || withCommonName(pool, other).length) {
    const facts = { check: "snp.leaf", field: "KEY_INFO", offset: 0x48, expected: wanted, got: other, clause: "sev-snp.md S04" };
    return withCheck(new AttestError("chain", "snp-signer-kind-mismatch", "", facts));
  }
  const facts = { check: "snp.leaf", expected: `a ${wanted} certificate`, got: "none", clause: "sev-snp.md S03", retryable: true };
  return withCheck(new AttestError("endorsement", "snp-leaf-missing", "", facts));
}

// -- the steps

function takeLeaf(attempt: Attempt): void {
  if (attempt.candidate instanceof AttestError) throw attempt.candidate;
  attempt.leaf = attempt.candidate;
}

function requireProduct(attempt: Attempt): void {
  const { report, leaf } = attempt;
  const { product } = leaf;
  const mismatch = (facts: { field?: string | undefined; offset?: number; expected: string; got?: string | undefined }): never =>
    fail("chain", "snp-product-mismatch", "", facts);
  if (report.product && report.product !== product) {
    mismatch({ field: "CPUID_FAM_ID", offset: 0x188, expected: product, got: report.product });
  }
  attempt.product = product;
  try {
    const entries = TCBS.map((name) => [name, tcbOf(report[name], product, name.toUpperCase())] as const);
    attempt.tcbs = Object.fromEntries(entries) as Attempt["tcbs"];
  } catch (error) {
    if (!(error instanceof AttestError)) throw error;
    // Version 2 only: the other versions were read with this layout before.
    mismatch({ field: error.facts.field, expected: `TCB_VERSION of ${product}`, got: error.facts.got });
  }
}

function requireTcb({ leaf, tcbs }: Attempt): void {
  if (sameTcb(leaf.tcb, tcbs.reported_tcb)) return;
  const facts = { field: "REPORTED_TCB", offset: 0x180, expected: tcbText(leaf.tcb), got: tcbText(tcbs.reported_tcb) };
  fail("binding", "snp-tcb-mismatch", "", facts);
}

function requireChip({ leaf, report }: Attempt): void {
  const { hwid } = leaf;
  // A masked CHIP_ID has nothing to compare: the check says so, and appraisal judges it.
  if (!hwid || isZero(report.chip_id) || equal(report.chip_id, padded(hwid, 64))) return;
  const facts = { field: "CHIP_ID", offset: 0x1a0, expected: hex(hwid), got: hex(report.chip_id) };
  fail("binding", "snp-chip-id-mismatch", "", facts);
}

async function requireSignature({ leaf, report }: Attempt): Promise<void> {
  const halves = [report.signature_r, report.signature_s];
  const short = halves.every((half) => isZero(half.subarray(COORDINATE_BYTES)));
  const raw: Bytes = concat(...halves.map((half) => half.slice(0, COORDINATE_BYTES).reverse()));
  if (short && (await ecdsaHolds(leaf.certificate.spki, "SHA-384", raw, report.raw.slice(0, SIGNED_BYTES)))) return;
  fail("signature", "snp-signature-invalid", "", {
    field: "SIGNATURE",
    offset: 0x2a0,
    expected: `ECDSA P-384 with SHA-384 by ${leaf.certificate.name} over bytes 0x000 to 0x29f`,
    got: "a signature that does not verify",
  });
}

function requireOrder({ tcbs }: Attempt): void {
  for (const name of ["reported_tcb", "committed_tcb"] as const) {
    if (covers(tcbs.current_tcb, tcbs[name])) continue;
    const facts = { field: name.toUpperCase(), expected: `no component above ${tcbText(tcbs.current_tcb)}`, got: tcbText(tcbs[name]) };
    fail("binding", "snp-tcb-inconsistent", "", facts);
  }
}

/** Only intermediates can be revoked by number: every VCEK and VLEK has serial 0. */
async function requireUnrevoked(attempt: Attempt): Promise<void> {
  const { crls, root, intermediate, given } = attempt;
  try {
    attempt.crl = await requireCurrentCrl(crls, root, { serials: [intermediate.serial], at: given.at });
  } catch (error) {
    const tolerated = error instanceof AttestError && error.kind === "endorsement" && reasons(given).length > 0;
    if (!tolerated) throw error;
  }
}

function reasons({ unchecked }: Given): string[] {
  return unchecked.filter((each) => each.check === "revocation").map(({ reason }) => reason);
}

// -- the numbered procedure, and how each step is told

function tellChip({ leaf, report }: Attempt): Told {
  if (!leaf.hwid) return ["HWID of a VCEK", "a VLEK has none", "not evaluated"];
  if (isZero(report.chip_id)) return [hex(leaf.hwid), "CHIP_ID is masked (all zero)", "not evaluated"];
  return [hex(leaf.hwid), hex(report.chip_id)];
}

function tellRevocation({ crl, anchor, intermediate, given }: Attempt): Told {
  if (!crl) return [`a current CRL of ${anchor.name}`, `unchecked: ${reasons(given).join("; ")}`, "not evaluated"];
  const dates = `${rfc3339(crl.thisUpdate)} to ${rfc3339(crl.nextUpdate)}`;
  return [`serial ${intermediate.serial} not listed by ${anchor.name}`, `not listed, CRL of ${dates}`];
}

function dates({ name, notBefore, notAfter }: Certificate): string {
  return `${name}: ${rfc3339(notBefore)} to ${rfc3339(notAfter)}`;
}

const PROCEDURE: readonly Step<Attempt>[] = [
  {
    id: "snp.leaf",
    clause: "AMD 57230, extensions; sev-snp.md S03, S04",
    run: takeLeaf,
    tell: ({ leaf }) => [`a ${leaf.kind.toUpperCase()} with AMD's extensions`, leaf.productName],
  },
  {
    id: "snp.product",
    clause: "sev-snp.md S09",
    run: requireProduct,
    tell: ({ product, report }) => [product, `CPUID: ${report.product ?? "not in version 2"}`],
  },
  {
    id: "snp.tcb",
    clause: "AMD 57230, SPL extensions; sev-snp.md S11",
    run: requireTcb,
    tell: ({ leaf, tcbs }) => [tcbText(leaf.tcb), tcbText(tcbs.reported_tcb)],
  },
  { id: "snp.chip_id", clause: "AMD 57230, HWID; sev-snp.md S12", run: requireChip, tell: tellChip },
  {
    id: "snp.signature",
    clause: "AMD 56860, SIGNATURE; sev-snp.md S10",
    run: requireSignature,
    tell: ({ leaf }) => ["ECDSA P-384 with SHA-384 over bytes 0x000 to 0x29f", `verifies with ${leaf.certificate.name}`],
  },
  {
    id: "snp.tcb_order",
    clause: "sev-snp.md S13",
    run: requireOrder,
    tell: ({ tcbs }) => [
      `REPORTED_TCB and COMMITTED_TCB at most ${tcbText(tcbs.current_tcb)}`,
      `reported ${tcbText(tcbs.reported_tcb)}; committed ${tcbText(tcbs.committed_tcb)}`,
    ],
  },
  {
    id: "snp.leaf_validity",
    clause: "RFC 5280, 4.1.2.5; sev-snp.md S07",
    run: ({ leaf, given }) => requireValid(leaf.certificate, given.at),
    tell: ({ leaf, given }) => [rfc3339(given.at), dates(leaf.certificate)],
  },
  {
    id: "snp.chain",
    clause: "AMD 57230; sev-snp.md S06",
    run: async (attempt) => {
      const { certificate } = attempt.leaf;
      attempt.intermediate = await findIssuer(certificate, named(attempt.given.endorsements, certificate.issuer));
    },
    tell: ({ leaf, intermediate }) => [`issued by ${leaf.certificate.issuerCommonName}`, `signature of ${intermediate.name} verifies`],
  },
  {
    id: "snp.root",
    clause: "sev-snp.md S05, S06, S09",
    run: async (attempt) => {
      [attempt.anchor, attempt.root] = await findRoot(attempt.intermediate, attempt.product, attempt.given);
    },
    tell: ({ product, anchor }) => [`a pinned root of ${product}`, `${anchor.name}, key ${anchor.pin}`],
  },
  {
    id: "snp.chain_validity",
    clause: "RFC 5280, 4.1.2.5; sev-snp.md S07",
    run: ({ intermediate, anchor, given }) => {
      requireValid(intermediate, given.at);
      requireAnchorValid(anchor, given.at);
    },
    tell: ({ intermediate, given }) => [rfc3339(given.at), dates(intermediate)],
  },
  { id: "snp.revocation", clause: "RFC 5280, 6.3; sev-snp.md S08", run: requireUnrevoked, tell: tellRevocation },
];
