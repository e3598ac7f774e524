/**
 * Reference integrity manifests of NVIDIA: what they say, who signed them, until when.
 *
 * Three questions that are answered apart, because each has its own refusal: whether the XML signature holds, whether
 * its signer leads to a pinned root, and whether all of them are valid at a moment.
 *
 * Spec: specs/nvidia-gpu.md, section 9.
 */

import { type Anchor, type TrustAnchors, anchorsOf, isSimulatedPin } from "../anchors";
import { equal, hex, rfc3339 } from "../bytes";
import { isCa, requireCa, requireIssued } from "../chain";
import { ECDSA_SHA384, sha256, usableKey } from "../crypto";
import { DerError, TAG, bits, onlyElement } from "../der";
import { AttestError, refusal, refusalOf, afresh } from "../errors";
import type { RimDocument } from "../rims";
import { type Certificate, type Issuer, extensionOf, spkiPin } from "../x509";
import { type SignatureState, readSignedDocument } from "../xml/signature";
import { type RimContent, readContent } from "./rim_document";

const ROLE = "nvidia-rim-root";
const KEY_USAGE = "2.5.29.15";

/** L4, which signed the document, with its issuers L3 and L2. */
export type RimSigners = readonly [Certificate, Certificate, Certificate];

/** A readable RIM. Its text is a stranger's word: good for choosing among RIMs, not for relying on. */
export interface ParsedRim extends RimContent {
  /** Digest of the document in hex, which tells issues of one id apart. */
  readonly sha256: string;
  /** As embedded, signer first; the signature was verified with the key of the first. */
  readonly certificates: readonly Certificate[];
  readonly signature: SignatureState;
}

/** A RIM whose signature holds and whose signers lead to a pinned root. */
export interface VerifiedRim {
  readonly parsed: ParsedRim;
  readonly signers: RimSigners;
  readonly anchor: Anchor;
  /** The root as a signer. */
  readonly root: Issuer;
  /** First moment at which all four of its certificates are valid, included; it may be later than the last. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** Few, because a RIM may have 256 KiB, and the Attester may present what it likes. */
const REMEMBERED = 32;
const remembered = new Map<string, Promise<ParsedRim>>();

/**
 * Read a RIM and verify its XML signature with the key of its first certificate: a pure function of the bytes,
 * remembered in a bounded table by their digest. Neither dates nor anchors are looked at.
 *
 * @throws AttestError `rim-malformed` or `rim-unsupported`.
 */
export async function readRim(document: RimDocument): Promise<ParsedRim> {
  const digest = hex(await sha256(document.der));
  let rim = remembered.get(digest);
  if (!rim) {
    if (remembered.size === REMEMBERED) remembered.clear();
    rim = readAnew(document, digest);
    remembered.set(digest, rim);
  }
  return afresh(rim);
}

async function readAnew(document: RimDocument, digest: string): Promise<ParsedRim> {
  const { root, certificates, state } = await readSignedDocument(document.der);
  const content = await readContent(root);
  // Nothing can be compared with values that nobody signed.
  const referenceValues = state === "valid" ? content.referenceValues : new Map<number, readonly string[]>();
  return { ...content, referenceValues, sha256: digest, certificates, signature: state };
}

/** Require both halves of the XML signature to hold: `rim-signature-invalid`. */
export function requireSignature({ signature }: ParsedRim): void {
  if (signature !== "valid") throw refusal("signature", "rim-signature-invalid", "valid", signature);
}

// -- who signed

/**
 * Return the signers with the pinned root that they lead to, and the window of all of them; dates are judged by
 * `requireWindow`.
 *
 * Refuses with `rim-chain-length`, `rim-signer-unexpected`, `root-not-trusted`, `simulated-root-refused`, or by the
 * rules of chains.
 */
export async function findSigners(parsed: ParsedRim, anchors: TrustAnchors): Promise<VerifiedRim> {
  const [signer, l3, l2, embedded, ...more] = parsed.certificates;
  if (!signer || !l3 || !l2 || !embedded || more.length) {
    throw refusal("chain", "rim-chain-length", "signer, L3, L2 and root", String(parsed.certificates.length));
  }
  requireSigner(signer);
  await requireP384(signer);
  for (const issuer of [l3, l2]) {
    requireCa(issuer);
    await requireP384(issuer);
  }
  await requireIssued(signer, l3, ECDSA_SHA384);
  await requireIssued(l3, l2, ECDSA_SHA384);
  const anchor = await findRoot(l2, embedded, anchors);
  // The dates of the root are those that are held; else those of the embedded one, whose key was compared with the pin.
  const all = [signer, l3, l2, anchor.held ?? embedded];
  return {
    parsed,
    signers: [signer, l3, l2],
    anchor,
    root: anchor.held ?? embedded,
    notBefore: Math.max(...all.map((certificate) => certificate.notBefore)),
    notAfter: Math.min(...all.map((certificate) => certificate.notAfter)),
  };
}

/** The pinned root that issued L2. A root that is held by its key needs no certificate, and gets none. */
async function findRoot(l2: Certificate, embedded: Certificate, anchors: TrustAnchors): Promise<Anchor> {
  const pin = await spkiPin(embedded);
  let first: AttestError | undefined;
  for (const anchor of anchorsOf(anchors, ROLE)) {
    const { held } = anchor;
    if (held ? !equal(held.subject, l2.issuer) : anchor.pin !== pin) continue;
    const found = await refusalOf(async () => {
      await requireIssued(l2, held ?? embedded, ECDSA_SHA384);
      if (held) return;
      await requireIssued(embedded, embedded, ECDSA_SHA384);
      requireCa(embedded);
    });
    if (!(found instanceof AttestError)) return anchor;
    first ??= found;
  }
  const code = isSimulatedPin(ROLE, pin) ? "simulated-root-refused" : "root-not-trusted";
  throw first ?? refusal("chain", code, "a pinned NVIDIA RIM root key", `SHA-256 of the key ${pin}`);
}

/** Require a certificate that may sign documents and may not issue certificates. */
function requireSigner(certificate: Certificate): void {
  const usage = extensionOf(certificate, KEY_USAGE);
  let got: string | undefined;
  try {
    const octets = usage ? bits(onlyElement(usage.value, TAG.bitString)).bytes : new Uint8Array();
    const ca = isCa(certificate);
    if (ca || octets[0] !== 0x80) got = `CA:${ca}, keyUsage ${hex(octets) || "absent"}`;
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    got = error.message;
  }
  if (got !== undefined) throw unexpected(certificate, got);
}

async function requireP384(certificate: Certificate): Promise<void> {
  const kind = await usableKey(certificate.spki);
  if (kind !== "P-384") throw unexpected(certificate, kind);
}

function unexpected({ name }: Certificate, got: string): AttestError {
  const expected = "P-384 keys; a signer with keyUsage digitalSignature that is no CA";
  return refusal("chain", "rim-signer-unexpected", expected, got, { field: name });
}

// -- until when

/**
 * Require `notBefore <= at <= notAfter` of the RIM's window: `rim-not-yet-valid` or `rim-expired`. A RIM outside it is a
 * stale endorsement: NVIDIA issues the same id anew.
 */
export function requireWindow({ notBefore, notAfter }: VerifiedRim, at: number): void {
  if (notBefore <= at && at <= notAfter) return;
  const code = at < notBefore ? "rim-not-yet-valid" : "rim-expired";
  throw refusal("endorsement", code, `${rfc3339(notBefore)} to ${rfc3339(notAfter)}`, rfc3339(at), { retryable: true });
}

// -- names at the RIM service; undefined for a part that cannot stand in an id

/** Id of a driver's RIM; the chip of a Blackwell is that of opaque field 35. */
export function driverRimId(product: string, driverVersion: string): string | undefined {
  return rimId(product.startsWith("GH") ? "NV_GPU_DRIVER" : "NV_GPU_CC_DRIVER", product, driverVersion);
}

/** Id of a GPU VBIOS's RIM: upper case, the version without dots. */
export function vbiosRimId(project: string, projectSku: string, chipSku: string, version: string): string | undefined {
  return rimId("NV_GPU_VBIOS", project, projectSku, chipSku, version.replaceAll(".", ""))?.toUpperCase();
}

/** Id of an LS10 BIOS's RIM; project, SKU and chip SKU are constants. */
export function switchBiosRimId(version: string): string | undefined {
  return rimId("NV_SWITCH_BIOS_5612_0002_890", version.replaceAll(".", "").toUpperCase());
}

function rimId(kind: string, ...parts: readonly string[]): string | undefined {
  const plain = parts.every((part) => /^[0-9A-Za-z.-]{1,24}$/.test(part) && /[^.]/.test(part));
  return plain ? [kind, ...parts].join("_") : undefined;
}
