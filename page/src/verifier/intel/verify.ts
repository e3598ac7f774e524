/**
 * Is this quote genuine: made on Intel hardware, whole, unrevoked, of a platform that Intel knows? T02 to T12.
 *
 * First what needs no collateral, in an order in which a forged quote is called false before anything is called missing;
 * then what Intel's collateral says, every step of it, so that a stale document hides no revocation.
 *
 * Spec: intel-tdx-sgx.md 21.
 */

import { type Bytes, concat, equal, hex, rfc3339 } from "../bytes";
import { type Check, type Taken, type Told, check, taken } from "../checks";
import { ecSpki, ecdsaHolds, sha256 } from "../crypto";
import { AttestError, need, refusalOf, refuse } from "../errors";
import type { Given, ParsedCpu, Registers, Verified } from "../formats";
import type { Certificate } from "../x509";
import { type PckChain, embeddedCertificates, findPckChain, pckCandidates, requireP256 } from "./chain";
import { claimsOf } from "./claims";
import { findQeIdentity, findTcbInfo, listedIn } from "./collateral";
import { type TcbEvaluation, evaluateTcb, findModule, requireIntelQe, requireQe } from "./evaluation";
import type { PckCertificate } from "./pck";
import type { QeIdentity } from "./qe_identity";
import { type Quote, parseQuote } from "./quote";
import type { ComponentLevel, Dated, TcbInfo, TdxModuleIdentity } from "./tcb_info";

const T = "intel-tdx-sgx.md T";
const EARLIER: Told = ["", "an earlier check failed", "not evaluated"];

const dates = ({ tcbEvaluationDataNumber, issueDate, nextUpdate }: Dated): Told => [
  tcbEvaluationDataNumber,
  `${rfc3339(issueDate)} to ${rfc3339(nextUpdate)}`,
];

/** Verify a TDX or SGX quote; the refusal carries every check. */
async function verifyIntelQuote(quote: Quote, given: Given): Promise<Verified> {
  const { tee, td, version, qeReport, attestationKey, signedBytes } = quote;
  const { endorsements, at, unchecked } = given;
  // What a step finds, those after it use; what it did not find, they leave out.
  let embedded!: readonly Certificate[];
  let candidates!: readonly PckCertificate[];
  let certifying: PckCertificate | undefined;
  let chain: PckChain | undefined;
  let info: TcbInfo | undefined;
  let identity: QeIdentity | undefined;
  let qeLevel: ComponentLevel | undefined;
  let module: TdxModuleIdentity | undefined;
  let evaluation: TcbEvaluation | undefined;
  /** The reasons for which a check was left out; empty when nobody asked for that. */
  const reasonsFor = (name: string): string =>
    unchecked.flatMap(({ check, reason }) => (check === name ? [`unchecked: ${reason}`] : [])).join("; ");
  const unjudged = reasonsFor("tcb");
  const leftOut: Told = ["", unjudged, "not evaluated"];
  const atHand = () => ({ endorsements, root: chain!.root, at });
  const tcbInfo = (): Promise<TcbInfo> => findTcbInfo(tee, chain!.pck, atHand());
  const qeIdentity = (): Promise<QeIdentity> => findQeIdentity(tee, atHand());

  const steps: readonly Taken[] = [
    [
      "pck_certificate",
      `Intel SGX PCK certificate; ${T}02, T03`,
      async () => {
        embedded = embeddedCertificates(quote);
        candidates = await pckCandidates(quote, embedded, given);
        return ["FMSPC", candidates.map(({ fmspc }) => hex(fmspc))];
      },
    ],
    [
      "qe_report_signature",
      `${T}04`,
      async () => {
        for (const pck of candidates) {
          const { certificate } = pck;
          requireP256(certificate);
          if (await ecdsaHolds(certificate.spki, "SHA-256", quote.qeReportSignature, quote.report)) certifying ??= pck;
          if (certifying) return [certificate.name, "verifies"];
        }
        // What is missing is told after all that can be false.
        need(!candidates.length, "signature", "qe-report-signature-invalid", "the PCK");
        return [""];
      },
    ],
    [
      // Both halves of REPORTDATA, the second with zero.
      "attestation_key",
      `${T}05`,
      async () => {
        const told = [
          concat(await sha256(concat(attestationKey, quote.qeAuthData)), new Uint8Array(32)),
          qeReport.report_data,
        ] as const;
        need(equal(...told), "binding", "attestation-key-mismatch", ...told, { field: "REPORTDATA" });
        return told;
      },
    ],
    [
      "quote_signature",
      `${T}06`,
      async () => {
        const holds = await refusalOf(() =>
          ecdsaHolds(ecSpki("P-256", attestationKey), "SHA-256", quote.signature, signedBytes),
        );
        need(
          !(holds instanceof AttestError),
          "signature",
          "attestation-key-invalid",
          "a point of P-256",
          attestationKey,
        );
        need(holds, "signature", "quote-signature-invalid", attestationKey, "another");
        return [attestationKey, "verifies"];
      },
    ],
    [
      "pck_chain",
      `${T}02`,
      async () => {
        // A quote with certification data 1 to 4 brings none along.
        const pck =
          certifying ?? refuse("endorsement", "pck-certificate-missing", "a certificate", quote.certificationType);
        chain = await findPckChain(pck, embedded, given);
        return [chain.anchor.name, chain.anchor.pin];
      },
    ],
    [
      "revocation",
      `${T}07`,
      async () => {
        const { pck, issuer, root } = chain!;
        const { crls } = endorsements;
        const found = [await listedIn(crls, issuer, pck.certificate, at), await listedIn(crls, root, issuer, at)];
        const refused = found.filter((each) => each instanceof AttestError);
        // What any genuine list names is revoked, however old the list; only then are the dates judged.
        const failure = refused.find(({ kind }) => kind === "revoked") ?? refused[0];
        const told = found.map((each) =>
          each instanceof AttestError ? each.code : `${rfc3339(each.thisUpdate)} to ${rfc3339(each.nextUpdate)}`,
        );
        const reasons = reasonsFor("revocation");
        // Only that nothing current is at hand can be tolerated; what a list says counts all the same.
        if (failure && (failure.kind !== "endorsement" || !reasons)) throw failure;
        return failure ? [told, reasons, "not evaluated"] : ["not listed", told];
      },
    ],
    [
      "tcb_info",
      `${T}08, T09`,
      async () => {
        if (unjudged) return leftOut;
        info = await tcbInfo();
        return dates(info);
      },
    ],
    [
      "qe_identity",
      `${T}08, T10`,
      async () => {
        if (unjudged) {
          requireIntelQe(tee, qeReport);
          return [qeReport.mr_signer, unjudged];
        }
        identity = await qeIdentity();
        qeLevel = requireQe(identity, qeReport);
        return dates(identity);
      },
    ],
    [
      "module",
      `${T}11`,
      () => {
        if (!td || !info) return ["", td ? unjudged : "SGX has none", "not evaluated"];
        module = findModule(info, td);
        return [td.mr_signer_seam, td.tee_tcb_svn];
      },
    ],
    [
      "tcb",
      `${T}12`,
      async () => {
        const { pck } = chain!;
        if (unjudged) {
          // What genuine, current collateral at hand says against the platform still counts; that nothing fits, or that
          // nothing covers this platform, is what is tolerated.
          const found = await refusalOf(async () => {
            const info = await tcbInfo();
            const identity = await qeIdentity();
            const level = requireQe(identity, qeReport);
            evaluateTcb(info, identity, pck, td, td ? findModule(info, td) : undefined, level);
          });
          if (
            found &&
            !["endorsement", "signature", "chain"].includes(found.kind) &&
            found.code !== "tcb-not-supported"
          ) {
            throw found;
          }
        }
        if (!info || !identity || !qeLevel) return leftOut;
        evaluation = evaluateTcb(info, identity, pck, td, module, qeLevel);
        return ["not Revoked", [evaluation.tcb_status, ...evaluation.advisory_ids]];
      },
    ],
  ];

  const checks: Check[] = [check(`${tee}.format`, "pass", "3 to 5", [version, quote.paddingBytes], `${T}01`)];
  const failures: AttestError[] = [];
  let isOver = false;
  for (const [name, clause, step] of steps) {
    const [made, failure] = await taken(`${tee}.${name}`, clause, async () => {
      const told = isOver ? EARLIER : await step();
      return failures.length ? EARLIER : told;
    });
    checks.push(made);
    if (!failure) continue;
    failures.push(failure);
    // Behind the chain a missing piece does not keep a later one from being called false.
    isOver = !chain || failure.kind !== "endorsement";
  }
  const [worst] = failures.sort((a, b) => a.exitCode - b.exitCode);
  if (worst) throw Object.assign(worst, { checks });
  const { anchor, pck, issuer, root } = chain!;
  return {
    kind: tee,
    simulated: anchor.simulated,
    checks,
    claims: claimsOf(quote, pck, evaluation),
    chain: [pck.certificate, issuer, root],
  };
}

/** Read a quote, as the row of its media type wants it. */
export function readIntelQuote(value: Bytes): ParsedCpu {
  const quote = parseQuote(value);
  const { td, tee: kind, report_data: reportData } = quote;
  return {
    kind,
    reportData,
    verify: (given) => verifyIntelQuote(quote, given),
    ...(td && { registers: registersOf(td) }),
  };
}

function registersOf({ rtmr0, rtmr1, rtmr2, rtmr3 }: NonNullable<Quote["td"]>): Registers {
  return { log: "ccel", values: new Map([rtmr0, rtmr1, rtmr2, rtmr3].map((value, i) => [`RTMR${i}`, value])) };
}
