/**
 * The XML signature of a RIM: from bytes to the very tree that was signed.
 *
 * XML signatures are broken by what they allow, so one document shape is allowed: an enveloped signature, last child of
 * the root, over the whole document, with one algorithm at each place. Everything else is refused before any signature
 * is computed, and what is read later is read from the bytes that were hashed.
 *
 * Spec: XML Signature 1.1; specs/nvidia-gpu.md, section 9.3.
 */

import { type Bytes, base64Bytes, equal } from "../bytes";
import { ecdsaHolds, keyKind, sha384 } from "../crypto";
import { AttestError } from "../errors";
import { type Certificate, parseCertificate } from "../x509";
import { canonical } from "./canonical";
import { type XmlElement, elements, isBlank, parseXml, text } from "./parse";
import { malformed } from "./refusal";

/** A RIM carries 4. */
export const MAX_CERTIFICATES = 8;
const SIGNATURE_BYTES = 96;
const DIGEST_BYTES = 48;

/**
 * `valid`: both halves hold. `signed-info-invalid`: SignatureValue is not the first certificate's over SignedInfo.
 * `digest-mismatch`: SignedInfo is signed, the document is another. `unverifiable`: the first certificate has no P-384
 * key.
 */
export type SignatureState = "valid" | "signed-info-invalid" | "digest-mismatch" | "unverifiable";

/** A document and what its signature says. */
export interface SignedDocument {
  /** Without the Signature: of exactly the bytes that were signed if `state` is `valid`, else as nobody vouches for it. */
  readonly root: XmlElement;
  /** In the order of KeyInfo; the first one's key is the one that verified. */
  readonly certificates: readonly Certificate[];
  readonly state: SignatureState;
}

/**
 * Read a document with an enveloped signature of the one accepted shape, and verify the signature.
 *
 * Whose certificate it is, is not judged here.
 *
 * @throws AttestError `rim-malformed`.
 */
export async function readSignedDocument(xml: Bytes): Promise<SignedDocument> {
  const root = parseXml(xml);
  const signature = findSignature(root);
  const [info, value, keys] = elements(signature) as [XmlElement, XmlElement, XmlElement];
  const certificates = elements(elements(keys)[0] as XmlElement).map(certificateOf);
  const signed = canonical(root, signature);
  const state =
    (await signerState(certificates[0] as Certificate, decoded(value, "SignatureValue"), canonical(info))) ??
    (equal(await sha384(signed), statedDigest(info)) ? "valid" : "digest-mismatch");
  return { root: parseXml(signed), certificates, state };
}

/** Verify SignedInfo with the key of one given certificate: no key is taken from the document, no chain followed. */
async function signerState(signer: Certificate, value: Bytes, info: Bytes): Promise<SignatureState | undefined> {
  try {
    if (keyKind(signer.spki) !== "P-384") return "unverifiable";
    return (await ecdsaHolds(signer.spki, "SHA-384", value, info)) ? undefined : "signed-info-invalid";
  } catch (error) {
    if (error instanceof AttestError) return "unverifiable"; // no point of the curve
    throw error;
  }
}

function statedDigest(info: XmlElement): Bytes {
  const reference = elements(info)[2] as XmlElement;
  return decoded(elements(reference)[2] as XmlElement, "DigestValue");
}

// -- the shape of the signature

const DS = "http://www.w3.org/2000/09/xmldsig#";
const MORE = "http://www.w3.org/2001/04/xmldsig-more#";
const C14N = "http://www.w3.org/2006/12/xml-c14n11";

/** What an element has to be: its attributes, and either its children or what its text decodes to. */
interface Shape {
  readonly name: string;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly children?: readonly Shape[];
  /** Bytes in base64, 0 for any number of them; absent for an element without text. */
  readonly size?: number;
  /** How often the last child may stand at most. */
  readonly repeated?: number;
}

function algorithm(name: string, identifier: string): Shape {
  return { name, attributes: { Algorithm: identifier } };
}

const REFERENCE: Shape = {
  name: "Reference",
  attributes: { URI: "" },
  children: [
    {
      name: "Transforms",
      children: [algorithm("Transform", `${DS}enveloped-signature`), algorithm("Transform", C14N)],
    },
    algorithm("DigestMethod", `${MORE}sha384`),
    { name: "DigestValue", size: DIGEST_BYTES },
  ],
};
const SIGNATURE: Shape = {
  name: "Signature",
  children: [
    {
      name: "SignedInfo",
      children: [algorithm("CanonicalizationMethod", C14N), algorithm("SignatureMethod", `${MORE}ecdsa-sha384`), REFERENCE],
    },
    { name: "SignatureValue", size: SIGNATURE_BYTES },
    {
      name: "KeyInfo",
      children: [{ name: "X509Data", children: [{ name: "X509Certificate", size: 0 }], repeated: MAX_CERTIFICATES }],
    },
  ],
};

/** Require the one Signature, last child of the root, to have the one shape. */
function findSignature(root: XmlElement): XmlElement {
  const last = elements(root).at(-1);
  const tag = `{${DS}}Signature`;
  if (last?.tag !== tag || count(root, tag) !== 1 || !isBlank(root)) throw malformed("Signature");
  requireShape(last, SIGNATURE);
  return last;
}

function count(element: XmlElement, tag: string): number {
  return elements(element).reduce((sum, child) => sum + count(child, tag), element.tag === tag ? 1 : 0);
}

function requireShape(element: XmlElement, { name, attributes = {}, children = [], size, repeated = 1 }: Shape): void {
  const inside = elements(element);
  const wanted = Object.entries(attributes);
  const most = children.length && children.length - 1 + repeated;
  const fits =
    element.tag === `{${DS}}${name}` &&
    wanted.length === element.attributes.size &&
    wanted.every(([attribute, value]) => element.attributes.get(attribute)?.value === value) &&
    (size === undefined ? isBlank(element) : [0, decoded(element, name).length].includes(size)) &&
    inside.length >= children.length &&
    inside.length <= most;
  if (!fits) throw malformed(name);
  inside.forEach((child, position) => requireShape(child, children[Math.min(position, children.length - 1)] as Shape));
}

/** Decode strictly, white space aside. */
function decoded(element: XmlElement, field: string): Bytes {
  return asMalformed(field, () => base64Bytes(text(element).replace(/[ \t\r\n]/g, ""), field));
}

function certificateOf(element: XmlElement): Certificate {
  return asMalformed("X509Certificate", () => parseCertificate(decoded(element, "X509Certificate")));
}

function asMalformed<T>(field: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof AttestError) throw malformed(field);
    throw error;
  }
}
