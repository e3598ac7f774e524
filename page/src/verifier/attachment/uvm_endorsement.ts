/**
 * The endorsement of a utility VM's measurement, as Azure's confidential containers carry it: COSE_Sign1 over JSON. The
 * certificates' dates are compared with each other and not with the moment of appraisal; revocation is not judged.
 */

import type { TrustAnchors } from "../anchors";
import { type Bytes, NO_BYTES, base64urlText, equal, hex } from "../bytes";
import { cborBytes } from "../cbor";
import { requireCa } from "../chain";
import { type Hash, ecdsaHolds, keyKind, schemeHolds, sha256, signatureHolds } from "../crypto";
import { TAG, all, oid, onlyElement, unlessDefect } from "../der";
import { hexBytes } from "../encoding";
import { type Item, isText } from "../envelope";
import { type Demand, demandsOf, need } from "../errors";
import type { ParsedCpu } from "../evidence";
import { isObject, jsonValue } from "../json";
import { Procedure, same } from "../procedure";
import { Tagged, type TaggedValue, isTaggedMap, keyOf, readTagged } from "../tagged_cbor";
import { type Certificate, extensionOf, parseCertificate } from "../x509";
import type { Judge } from "./record";

const MAX_BYTES = 64 * 1024;
const MAX_CHAIN = 8;
const MAX_TEXT = 4096;
/** By base64url of the SHA-256 of the certificate, as identifiers name them. */
const MICROSOFT_ROOTS: Readonly<Record<string, string>> = {
  I__iuL25oXEVFdTP_aBLx_eT1RPHbCQ_ECBQfYZpt9s: "Microsoft Supply Chain RSA Root CA 2022",
};
const SIMULATED_ROOTS: Readonly<Record<string, string>> = {
  e6siJO4gUs_e4iNeBH0766dJf2tHtxglFORfFuRQHYI: "SIMULATED UVM Root CA",
};
const COSE_SIGN1 = 18n;
const MEASUREMENT = "x-ms-sevsnpvm-launchmeasurement";
const SVN = "x-ms-sevsnpvm-guestsvn";
const EXTENDED_KEY_USAGE = "2.5.29.37";
const DID = /^did:x509:0:sha256:([\w-]{43})::eku:((?:\d{1,10}\.){1,24}\d{1,10})$/;
const PSS: Readonly<Record<string, Hash>> = { "-37": "SHA-256", "-38": "SHA-384", "-39": "SHA-512" };
/** By algorithm: the curve of its key, and the hash. */
const ECDSA: Readonly<Record<string, readonly [curve: string, hash: Hash]>> = {
  "-7": ["P-256", "SHA-256"],
  "-9": ["P-256", "SHA-256"],
  "-35": ["P-384", "SHA-384"],
  "-51": ["P-384", "SHA-384"],
};
const STEPS = {
  signature: ["uvm.signature", "RFC 9052, 4.4"],
  chain: ["uvm.chain", "RFC 9360, x5chain; RFC 5280"],
  issuer: ["uvm.issuer", "did:x509, version 0"],
  measurement: ["uvm.measurement", "docs/forms.md"],
} as const;

interface UvmEndorsement {
  readonly algorithm: bigint;
  readonly protected: Bytes;
  readonly payload: Bytes;
  readonly signature: Bytes;
  /** Leaf first. */
  readonly chain: readonly Certificate[];
  readonly issuer: string;
  readonly feed: string;
  readonly measurement: Bytes;
  readonly svn: number;
}

const demand: Demand = demandsOf("malformed", "uvm-endorsement-malformed");

/** The four members of a COSE_Sign1 but the unprotected header, which nothing rests on. */
function partsOf(data: Bytes): Pick<UvmEndorsement, "protected" | "payload" | "signature"> {
  demand(data.length <= MAX_BYTES, "endorsement", MAX_BYTES, data.length);
  const document = readTagged(data, "UVM endorsement");
  const value = document instanceof Tagged && document.tag === COSE_SIGN1 ? document.value : undefined;
  const [head, unprotected, payload, signature, ...more] = Array.isArray(value) ? (value as TaggedValue[]) : [];
  const isSigned = head instanceof Uint8Array && payload instanceof Uint8Array && signature instanceof Uint8Array;
  demand(isSigned && isTaggedMap(unprotected) && !more.length, "endorsement", "COSE_Sign1");
  return { protected: head, payload, signature };
}

function parse(data: Bytes): UvmEndorsement {
  const parts = partsOf(data);
  const header = readTagged(parts.protected, "protected header");
  demand(isTaggedMap(header), "protected header", "a map");
  const get = (name: bigint | string): TaggedValue | undefined => header.get(keyOf(name));
  demand(get(2n) === undefined && get(3n) === "application/json", "protected header", "JSON");
  const [measurement, svn] = statementOf(parts.payload);
  const algorithm = get(1n);
  demand(typeof algorithm === "bigint", "alg", "a number");
  const chain = chainOf(get(33n));
  return { ...parts, algorithm, chain, issuer: textOf(get("iss")), feed: textOf(get("feed")), measurement, svn };
}

function textOf(value: TaggedValue | undefined): string {
  demand(isText(value, MAX_TEXT), "iss, feed", "text");
  return value;
}

function chainOf(value: TaggedValue | undefined): readonly Certificate[] {
  const ders = Array.isArray(value) ? (value as TaggedValue[]) : [];
  const found = ders.slice(0, MAX_CHAIN).flatMap((der) => (der instanceof Uint8Array ? [parseCertificate(der)] : []));
  demand(found.length === ders.length && found.length > 1, "x5chain", "2 to 8 certificates", ders.length);
  return found;
}

function statementOf(payload: Bytes): readonly [measurement: Bytes, svn: number] {
  const document = jsonValue(payload, "payload");
  const members = isObject(document) ? document : {};
  const { [MEASUREMENT]: measurement, [SVN]: svn } = members;
  demand(typeof measurement === "string", MEASUREMENT, "hex");
  const isNumber = typeof svn === "number" || typeof svn === "string";
  demand(isNumber && /^\d{1,10}$/.test(String(svn)), SVN, "a number");
  return [hexBytes(measurement, MEASUREMENT, 48), Number(svn)];
}

/** Read an endorsement; its judge requires that Microsoft endorsed the measurement of an SNP report. */
export function readUvmEndorsement({ value }: Item): Judge {
  const endorsement = parse(value);
  return (cpu, anchors) => judge(endorsement, cpu, anchors);
}

async function judge(endorsement: UvmEndorsement, cpu: ParsedCpu, anchors: TrustAnchors): ReturnType<Judge> {
  const { chain, issuer, feed, svn, measurement } = endorsement;
  const procedure = new Procedure(STEPS);
  await procedure.step("signature", async ({ tell }) => {
    const holds = await isSigned(endorsement);
    need(holds, "signature", "uvm-signature-invalid", "a signature by the first certificate", endorsement.algorithm);
    tell("COSE_Sign1 by the first certificate", endorsement.algorithm);
  });
  await procedure.step("chain", async ({ tell }) => {
    await requireChain(chain);
    tell("each certificate issued by the next", chain.length);
  });
  const [root, simulated] = await procedure.step("issuer", async ({ tell }) => {
    const found = await requireIssuer(endorsement, anchors);
    tell("an identifier of a known root and the signer's purpose", issuer);
    return found;
  });
  await procedure.step("measurement", ({ tell }) => {
    const { snp } = cpu;
    need(snp, "unsupported", "evidence-unsupported", "a UVM endorsement beside an SNP report", cpu.kind);
    tell(...same("uvm-measurement-mismatch", "MEASUREMENT", measurement, snp.measurement));
  });
  const claims = { issuer, feed, svn, measurement: hex(measurement), root };
  return { claims, checks: procedure.finish(), simulated };
}

function isSigned({ algorithm, protected: head, payload, signature, chain }: UvmEndorsement): Promise<boolean> {
  const { spki } = chain[0]!;
  const message = cborBytes(["Signature1", head, NO_BYTES, payload]);
  const kind = keyKind(spki);
  const pss = PSS[`${algorithm}`];
  const ecdsa = ECDSA[`${algorithm}`];
  if (kind === "RSA") return schemeHolds(pss && "RSA-PSS", spki, pss!, signature, message);
  return ecdsa?.[0] === kind ? ecdsaHolds(spki, ecdsa[1], signature, message) : Promise.resolve(false);
}

async function requireChain(chain: readonly Certificate[]): Promise<void> {
  const holds = (condition: unknown, expected: string): void => {
    need(condition, "chain", "uvm-chain-invalid", expected, "another", { field: "x5chain" });
  };
  for (const [i, parent] of chain.slice(1).entries()) {
    const child = chain[i]!;
    requireCa(parent);
    const isNamed = equal(child.issuer, parent.subject);
    holds(
      isNamed && (await signatureHolds(child.tbs, child.signature, child.algorithm, parent.spki)),
      `a certificate of ${parent.name}`,
    );
  }
  const begins = Math.max(...chain.map(({ notBefore }) => notBefore));
  holds(begins <= Math.min(...chain.map(({ notAfter }) => notAfter)), "overlapping dates");
}

async function requireIssuer(
  { chain, issuer }: UvmEndorsement,
  anchors: TrustAnchors,
): Promise<readonly [root: string, simulated: boolean]> {
  const [, pin = "", purpose = ""] = DID.exec(issuer) ?? [];
  const pins = await Promise.all(chain.slice(1).map(async ({ der }) => base64urlText(await sha256(der))));
  const isOfChain = pins.includes(pin) && purposesOf(chain[0]!).includes(purpose);
  need(isOfChain, "chain", "uvm-issuer-mismatch", "did:x509 of the chain", issuer, { field: "iss" });
  const isSimulated = pin in SIMULATED_ROOTS && anchors === "simulation";
  const root = MICROSOFT_ROOTS[pin] ?? (isSimulated ? SIMULATED_ROOTS[pin] : undefined);
  need(root, "chain", "uvm-root-not-trusted", Object.keys(MICROSOFT_ROOTS), pin, { field: "iss" });
  return [root, isSimulated];
}

function purposesOf(leaf: Certificate): readonly string[] {
  const extension = extensionOf(leaf, EXTENDED_KEY_USAGE);
  if (!extension) return [];
  return unlessDefect(
    () => all(onlyElement(extension.value, TAG.sequence).body, (reader) => oid(reader.next(TAG.oid))),
    () => [],
  );
}
