/**
 * Reference integrity manifests of NVIDIA: what they say, who signed them, until when.
 *
 * Three questions that are answered apart, because each has its own refusal: whether the XML signature holds, whether
 * its signer leads to a pinned root, and whether all of them are valid at a moment.
 *
 * Spec: specs/nvidia-gpu.md, section 9.
 */

import type { TrustAnchors } from "../anchors";
import { RIM_ROOTS } from "./anchors";
import { hex } from "../bytes";
import { isCa, requireCa, requireIssued } from "../chain";
import { ECDSA_SHA384, sha256 } from "../crypto";
import { TAG, bits, onlyElement, unlessDefect } from "../der";
import { need } from "../errors";
import { part } from "../parts";
import type { RimDocument } from "../rims";
import { type Certificate, extensionOf } from "../x509";
import type { SignedDocument } from "../xml/signature";
import { requireP384 } from "./certificates";
import { type Root, findRoot } from "./chain";
import type { RimContent } from "./rim_document";

const KEY_USAGE = "2.5.29.15";

/** A readable RIM. Its text is untrusted: it only selects among RIMs. */
export interface ParsedRim extends RimContent, Omit<SignedDocument, "root"> {
  /** Digest of the document in hex, which tells issues of one id apart. */
  readonly sha256: string;
}

/** Few, because a RIM may have 256 KiB, and the Attester may present what it likes. */
const REMEMBERED = 32;
const remembered = new Map<string, Promise<ParsedRim>>();

/**
 * Read a RIM and verify its XML signature with the key of its first certificate: a pure function of the bytes,
 * remembered in a bounded table by their digest. Neither dates nor anchors are looked at.
 *
 * @throws AttestError `rim-malformed`; callers ignore such a RIM, so a cached one is not changed.
 */
export async function readRim(document: RimDocument): Promise<ParsedRim> {
  const digest = hex(await sha256(document.der));
  let rim = remembered.get(digest);
  if (!rim) {
    if (remembered.size === REMEMBERED) remembered.clear();
    rim = readAnew(document, digest);
    remembered.set(digest, rim);
  }
  return rim;
}

async function readAnew({ der }: RimDocument, sha256: string): Promise<ParsedRim> {
  const { readRimDocument } = await part(import("./rim_document"));
  return { ...(await readRimDocument(der)), sha256 };
}

// -- who signed

/**
 * Return the pinned root that the signers lead to: L4, which signed the document, with its issuers L3 and L2.
 *
 * Refuses with `rim-chain-length`, `rim-signer-unexpected`, `root-not-trusted`, `simulated-root-refused`, or by the
 * rules of chains.
 */
export async function findSigners({ certificates }: ParsedRim, anchors: TrustAnchors): Promise<Root> {
  need(certificates.length === 4, "chain", "rim-chain-length", 4, certificates.length);
  const [signer, l3, l2, embedded] = certificates as [Certificate, Certificate, Certificate, Certificate];
  // It may sign documents, and issues nothing.
  const usage = extensionOf(signer, KEY_USAGE);
  const got = unlessDefect(
    () => `CA:${isCa(signer)}, keyUsage ${usage && hex(bits(onlyElement(usage.value, TAG.bitString)).bytes)}`,
    String,
  );
  const unexpected = "rim-signer-unexpected";
  const signs = "CA:false, keyUsage 80";
  need(got.startsWith(signs), "chain", unexpected, signs, got, { field: signer.name });
  await requireP384(signer, unexpected);
  for (const issuer of [l3, l2]) {
    requireCa(issuer);
    await requireP384(issuer, unexpected);
  }
  await requireIssued(signer, l3, ECDSA_SHA384);
  await requireIssued(l3, l2, ECDSA_SHA384);
  return findRoot(RIM_ROOTS, l2, [embedded], anchors);
}
