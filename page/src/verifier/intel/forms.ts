/**
 * Intel's collateral as others keep it: JSON bundles in the manner of dcap-qvl or of Intel's quote verification library,
 * and answers of the service.
 *
 * Each part of a bundle is read for itself, so that one that is broken takes none of its neighbours along. What cannot be
 * read is told, and is then missing (intel-tdx-sgx.md 14, 17, 18).
 */

import { type Bytes, hexBytes, trimmedEnd, utf8 } from "../bytes";
import { parseCrl } from "../crl";
import { derWithoutPadding } from "../endorsement_forms";
import { AttestError } from "../errors";
import { isObject, type JsonObject, jsonValue } from "../json";
import { readPemBlocks } from "../pem";
import type { Found } from "../pool";
import { parseCertificate } from "../x509";
import { type DocumentKind, type IntelDocument, intelDocument, parsePcsAnswer } from "./document";
import { malformed } from "./members";
import { parseQeIdentity } from "./qe_identity";
import { parseTcbInfo } from "./tcb_info";

/** Two documents, two lists and four chains, each within its own limit; the largest bundle seen has 35 KiB. */
const MAX_COLLATERAL_BYTES = 4 * 1024 * 1024;
/** In one chain; Intel's have two or three. */
const MAX_CHAIN_CERTIFICATES = 16;
const CHAINS = ["pck_crl_issuer_chain", "tcb_info_issuer_chain", "qe_identity_issuer_chain", "pck_certificate_chain"];
const LISTS = ["root_ca_crl", "pck_crl"];
const DOCUMENTS: Readonly<Record<string, DocumentKind>> = { tcb_info: "tcb-info", qe_identity: "qe-identity" };
const ANSWERS = ["tcbInfo", "enclaveIdentity"];
const MEMBERS = [...CHAINS, ...LISTS, ...Object.keys(DOCUMENTS), ...ANSWERS];
const PEM_LIST = "-----BEGIN X509 CRL-----";
const PERCENT_CHAIN = /-----BEGIN%20[!-~]+/g;

/** Read a JSON object of any of these forms; `warn` tells of a part that cannot be read. */
export function readCollateral(data: Bytes, found: Found, warn: (problem: string) => void): void {
  if (data.length > MAX_COLLATERAL_BYTES) throw malformed("collateral", `at most ${MAX_COLLATERAL_BYTES} bytes`, `${data.length}`);
  // A NUL at the end is part of no JSON, and left out.
  const text = withoutNul(data);
  const value = jsonValue(text, "collateral");
  if (!isObject(value) || !MEMBERS.some((name) => name in value)) return;
  const take = (name: string, read: () => void): void => {
    try {
      read();
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      warn(`${name}: ${error.message}`);
    }
  };
  if (ANSWERS.some((name) => name in value)) {
    take("PCS answer", () => found.documents.push(checked(parsePcsAnswer(text))));
    return;
  }
  for (const name of CHAINS) take(name, () => found.certificates.push(...certificates(textOf(value, name))));
  for (const name of LISTS) take(name, () => found.crls.push(...lists(textOf(value, name))));
  for (const name of Object.keys(DOCUMENTS)) take(name, () => found.documents.push(...documents(value, name)));
}

function withoutNul(data: Bytes): Bytes {
  let end = data.length;
  while (end > 0 && data[end - 1] === 0) end--;
  return data.slice(0, end);
}

/** Return a member without the NUL that ends a string of C; an absent one is empty. */
function textOf(value: JsonObject, name: string): string {
  const text = value[name] ?? "";
  if (typeof text !== "string") throw malformed(name, "text", "another value");
  return trimmedEnd(text, "\0");
}

/** Read a chain, in PEM or as it stands in headers of the PCS, percent-encoded. */
export function certificates(text: string) {
  const chains = text.match(PERCENT_CHAIN);
  const plain = chains ? chains.map(percentDecoded).join("\n") : text;
  const blocks = readPemBlocks(utf8(plain));
  const fits = blocks.length > 0 && blocks.length <= MAX_CHAIN_CERTIFICATES && blocks.every(({ label }) => label === "CERTIFICATE");
  if (text.trim() && !fits) {
    throw malformed("chain", `1 to ${MAX_CHAIN_CERTIFICATES} PEM certificates`, `${blocks.length} PEM blocks`);
  }
  return blocks.map(({ content }) => parseCertificate(content));
}

const percentDecoded = (text: string) =>
  text.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));

/** Read one list: PEM in version 1.0 of Intel's structure, hex of DER in 3.0 and at dcap-qvl. */
function lists(text: string) {
  const found = text.trim();
  if (!found) return [];
  if (!found.startsWith(PEM_LIST)) return [parseCrl(derWithoutPadding(hexBytes(found, "CRL")))];
  const [block, ...more] = readPemBlocks(utf8(found));
  if (!block || more.length) throw malformed("CRL", "one PEM list", "none or several");
  return [parseCrl(block.content)];
}

/** Take the signed text with its signature beside it, or the whole answer of the PCS where there is none. */
function documents(value: JsonObject, name: string): IntelDocument[] {
  const body = utf8(textOf(value, name));
  const kind = DOCUMENTS[name];
  if (!body.length || !kind) return [];
  const signature = `${name}_signature`;
  return [checked(signature in value ? intelDocument(kind, body, textOf(value, signature)) : parsePcsAnswer(body))];
}

/** Require that a document can be read, so that whoever gave it hears about it now. */
function checked(document: IntelDocument): IntelDocument {
  if (document.kind === "tcb-info") parseTcbInfo(document.body);
  else parseQeIdentity(document.body);
  return document;
}
