/**
 * The XML signature of a RIM: from bytes to the very tree that was signed.
 *
 * XML signatures are broken by what they allow, so one document shape is allowed: an enveloped signature, last child of
 * the root, over the whole document, with one algorithm at each place. Everything else is refused before any signature
 * is computed, and what is read later is read from the bytes that were hashed.
 *
 * Spec: XML Signature 1.1; specs/nvidia-gpu.md, section 9.3.
 */

import { type Bytes, equal, utf8 } from "../bytes";
import { base64Bytes } from "../encoding";
import { ecdsaHolds, keyKind, sha384 } from "../crypto";
import { AttestError, refusalOf } from "../errors";
import { type Certificate, parseCertificate } from "../x509";
import { type XmlElement, canonical, descendants, elements, isBlank, parseXml, text } from "./parse";
import { malformed } from "../rim_form";

/** A RIM carries 4. */
const MAX_CERTIFICATES = 8;
const SIGNATURE_BYTES = 96;
const DIGEST_BYTES = 48;

/** A document and what its signature says. */
export interface SignedDocument {
  /** Without the Signature: of exactly the bytes that were signed if `isSigned`, else unauthenticated. */
  readonly root: XmlElement;
  /** In the order of KeyInfo; the first one's key is the one that verified. */
  readonly certificates: readonly Certificate[];
  /** SignatureValue is the first certificate's, of P-384, over SignedInfo, and that has the document's digest. */
  readonly isSigned: boolean;
}

/**
 * Read a document with an enveloped signature of the one accepted shape, and verify the signature.
 *
 * The signer is not checked here: no key is taken from the document, and no chain is followed.
 *
 * @throws AttestError `rim-malformed`.
 */
export async function readSignedDocument(xml: Bytes): Promise<SignedDocument> {
  const root = parseXml(xml);
  const signature = elements(root).at(-1);
  const signatures = descendants(root).filter(({ tag }) => tag === `${DS}Signature`);
  if (!signature || !isBlank(root) || signatures.length !== 1) malformed();
  // Only what lies in the checked element counts: elements of these names may lie elsewhere in the document.
  const inside = descendants(signature);
  const named = (name: string): XmlElement[] => inside.filter(({ tag }) => tag === DS + name);
  const certificates = named("X509Certificate");
  const fits = certificates.length <= MAX_CERTIFICATES;
  if (!fits || JSON.stringify(outline(signature)) !== JSON.stringify(shape(certificates.length))) malformed();
  // The shape has one of each.
  const info = named("SignedInfo")[0]!;
  const value = named("SignatureValue")[0]!;
  const digest = named("DigestValue")[0]!;
  const read = await refusalOf(() => ({
    value: decoded(value),
    digest: decoded(digest),
    certificates: certificates.map((element) => parseCertificate(decoded(element))),
  }));
  if (read instanceof AttestError || read.value.length !== SIGNATURE_BYTES || read.digest.length !== DIGEST_BYTES) {
    malformed();
  }
  const { spki } = read.certificates[0]!; // the shape has one at least
  const signed = utf8(canonical(root, signature));
  const holds = await refusalOf(
    () => keyKind(spki) === "P-384" && ecdsaHolds(spki, "SHA-384", read.value, utf8(canonical(info))),
  );
  const isSigned = holds === true && equal(await sha384(signed), read.digest);
  return { root: parseXml(signed), certificates: read.certificates, isSigned };
}

// -- the shape of the signature

const DS = "http://www.w3.org/2000/09/xmldsig# ";
const MORE = "http://www.w3.org/2001/04/xmldsig-more#";
const C14N = "http://www.w3.org/2006/12/xml-c14n11";

/**
 * Every element in the order of the document: how deep it lies, its name, its attributes, and whether it has no text.
 */
function outline(element: XmlElement, depth = 0): string[] {
  const own = `${depth}${element.tag}${JSON.stringify([...element.attributes])}${isBlank(element)}`;
  return [own, ...elements(element).flatMap((child) => outline(child, depth + 1))];
}

function shape(certificates: number): string[] {
  return [
    `0${DS}Signature[]true`,
    `1${DS}SignedInfo[]true`,
    `2${DS}CanonicalizationMethod[[" Algorithm","${C14N}"]]true`,
    `2${DS}SignatureMethod[[" Algorithm","${MORE}ecdsa-sha384"]]true`,
    `2${DS}Reference[[" URI",""]]true`,
    `3${DS}Transforms[]true`,
    `4${DS}Transform[[" Algorithm","${DS.trim()}enveloped-signature"]]true`,
    `4${DS}Transform[[" Algorithm","${C14N}"]]true`,
    `3${DS}DigestMethod[[" Algorithm","${MORE}sha384"]]true`,
    `3${DS}DigestValue[]false`,
    `1${DS}SignatureValue[]false`,
    `1${DS}KeyInfo[]true`,
    `2${DS}X509Data[]true`,
    ...Array.from({ length: certificates || 1 }, () => `3${DS}X509Certificate[]false`),
  ];
}

/** Decode strictly, white space aside. */
function decoded(element: XmlElement): Bytes {
  return base64Bytes(text(element).replace(/[ \t\r\n]/g, ""), element.written);
}
