/**
 * The XML signature of a RIM: from bytes to the very tree that was signed.
 *
 * XML signatures are broken by what they allow, so one document shape is allowed: an enveloped signature, last child of
 * the root, over the whole document, with one algorithm at each place. Everything else is refused before any signature
 * is computed, and what is read later is read from the bytes that were hashed.
 *
 * Spec: XML Signature 1.1; specs/nvidia-gpu.md, section 9.3.
 */

import { type Bytes, base64Bytes, equal, utf8 } from "../bytes";
import { ecdsaHolds, keyKind, sha384 } from "../crypto";
import { AttestError, refusalOf } from "../errors";
import { type Certificate, parseCertificate } from "../x509";
import { type XmlElement, canonical, descendants, elements, isBlank, malformed, parseXml, text } from "./parse";

/** A RIM carries 4. */
const MAX_CERTIFICATES = 8;
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
 * Whose certificate it is, is not judged here: no key is taken from the document, no chain followed.
 *
 * @throws AttestError `rim-malformed`.
 */
export async function readSignedDocument(xml: Bytes): Promise<SignedDocument> {
  const root = parseXml(xml);
  const all = descendants(root);
  const signature = elements(root).at(-1);
  const named = (name: string): XmlElement[] => all.filter(({ tag }) => tag === DS + name);
  const certificates = named("X509Certificate");
  const fits = signature && isBlank(root) && named("Signature").length === 1 && certificates.length <= MAX_CERTIFICATES;
  if (!fits || JSON.stringify(outline(signature)) !== JSON.stringify(shape(certificates.length))) throw malformed("Signature");
  const [info, value, digest] = ["SignedInfo", "SignatureValue", "DigestValue"].flatMap(named) as [XmlElement, XmlElement, XmlElement];
  const read = await refusalOf(() => ({
    value: decoded(value),
    digest: decoded(digest),
    certificates: certificates.map((element) => parseCertificate(decoded(element))),
  }));
  if (read instanceof AttestError || read.value.length !== SIGNATURE_BYTES || read.digest.length !== DIGEST_BYTES) throw malformed("Signature");
  const { spki } = read.certificates[0] as Certificate; // the shape has one at least
  const signed = utf8(canonical(root, signature));
  const holds = await refusalOf(() => (keyKind(spki) === "P-384" ? ecdsaHolds(spki, "SHA-384", read.value, utf8(canonical(info))) : undefined));
  const same = equal(await sha384(signed), read.digest);
  const state = holds === true ? (same ? "valid" : "digest-mismatch") : holds === false ? "signed-info-invalid" : "unverifiable";
  return { root: parseXml(signed), certificates: read.certificates, state };
}

// -- the shape of the signature

const DS = "http://www.w3.org/2000/09/xmldsig# ";
const MORE = "http://www.w3.org/2001/04/xmldsig-more#";
const C14N = "http://www.w3.org/2006/12/xml-c14n11";

/** An element as JSON can compare it: its name, its attributes, whether it has text, and its children. */
type Outline = readonly [name: string, attributes: readonly string[], hasText: boolean, ...children: unknown[]];

function outline(element: XmlElement): Outline {
  return [element.tag, [...element.attributes].flat(), !isBlank(element), ...elements(element).map(outline)];
}

const part = (name: string, ...children: readonly Outline[]): Outline => [DS + name, [], false, ...children];
const algorithm = (name: string, identifier: string): Outline => [DS + name, [" Algorithm", identifier], false];
const encoded = (name: string): Outline => [DS + name, [], true];

function shape(certificates: number): Outline {
  const transforms = part("Transforms", algorithm("Transform", `${DS.trim()}enveloped-signature`), algorithm("Transform", C14N));
  const reference = [transforms, algorithm("DigestMethod", `${MORE}sha384`), encoded("DigestValue")];
  return part(
    "Signature",
    part(
      "SignedInfo",
      algorithm("CanonicalizationMethod", C14N),
      algorithm("SignatureMethod", `${MORE}ecdsa-sha384`),
      [`${DS}Reference`, [" URI", ""], false, ...reference],
    ),
    encoded("SignatureValue"),
    part("KeyInfo", part("X509Data", ...Array.from({ length: Math.max(certificates, 1) }, () => encoded("X509Certificate")))),
  );
}

/** Decode strictly, white space aside. */
function decoded(element: XmlElement): Bytes {
  return base64Bytes(text(element).replace(/[ \t\r\n]/g, ""), element.written);
}
