/**
 * Endorsements as vendors and their clients keep them. Each form is recognised once, by what only it begins with; what
 * does not belong or cannot be read is passed over, and is then missing. Nothing is trusted.
 */

import { type Bytes, latin1, trimmedEnd, unhex, utf8 } from "./bytes";
import { type DerKind, addSigned, derKind, derWithoutPadding, readPem } from "./certificate_files";
import { hexBytes } from "./encoding";
import { parseCrl } from "./crl";
import { fail, refusalOf } from "./errors";
import { type JsonObject, isObject, jsonValue } from "./json";
import { intelDocument, parsePcsAnswer } from "./intel/document";
import { parseQeIdentity } from "./intel/qe_identity";
import { parseTcbInfo } from "./intel/tcb_info";
import { parseOcsp } from "./ocsp_answers";
import { readPemBlocks } from "./pem";
import type { Found } from "./pool";
import { looksLikeRim, readRimAnswer, readRimDocument } from "./rims";
import { beginsTable, parseTable } from "./snp/certificate_table";
import { parseCertificate } from "./x509";

const MAX_COLLATERAL_BYTES = 4 * 1024 * 1024;
const MAX_CHAIN_CERTIFICATES = 16;
const CHAINS = ["pck_crl_issuer_chain", "tcb_info_issuer_chain", "qe_identity_issuer_chain", "pck_certificate_chain"];
const LISTS = ["root_ca_crl", "pck_crl"];
const DOCUMENTS = { tcb_info: "tcb-info", qe_identity: "qe-identity" } as const;
const ANSWERS = ["tcbInfo", "enclaveIdentity"];
const MEMBERS = [...CHAINS, ...LISTS, ...Object.keys(DOCUMENTS), ...ANSWERS];

/** A member of Intel's collateral. */
const COLLATERAL = new RegExp(`"(?:${MEMBERS.join("|")})"[ \\t\\n\\r]*:`);

/** Add what a file holds. */
export async function readEndorsementFile(given: Bytes, found: Found): Promise<void> {
  const spelled = hexSequence(given);
  const data = spelled && derKind(spelled) ? spelled : given;
  const kind = derKind(data);
  const text = latin1(data);
  const isJson = /^[ \t\n\r\0]*\{/.test(text.slice(0, 64));
  if (beginsTable(data)) await readTable(data, found);
  else if (kind) addDer(kind, data, found);
  else if (looksLikeRim(data)) found.rims.push(readRimDocument(data));
  else if (isJson && isRimAnswer(text)) found.rims.push(await readRimAnswer(data));
  else if (isJson && COLLATERAL.test(text)) await readCollateral(data, found);
  else await readPem(percentDecoded(text), found);
}

const isRimAnswer = (text: string): boolean => /"rim"\s*:\s*"/.test(text) && /"sha256"\s*:/.test(text);

// -- DER

/** The DER SEQUENCE that a whole file of hex digits spells, as mirrors of Intel's root CRL serve it. */
function hexSequence(data: Bytes): Bytes | undefined {
  const text = trimmedEnd(latin1(data), " \t\n\r\0").replace(/^[ \t\n\r\0]+/, "");
  return text.length % 2 === 0 && /^30[0-9A-Fa-f]{8,}$/.test(text) ? unhex(text) : undefined;
}

function addDer(kind: DerKind, der: Bytes, found: Found): void {
  if (kind === "ocsp") found.ocsp.push(parseOcsp(der));
  else addSigned(kind, der, found);
}

// -- several in one file: one that is broken takes none of its neighbours along

async function readTable(table: Bytes, found: Found): Promise<void> {
  for (const { kind, data } of parseTable(table)) {
    if (kind !== "PLATFORM") await refusalOf(() => addSigned(kind === "CRL" ? "crls" : "certificates", data, found));
  }
}

/** Chains as they stand in headers of the PCS, percent-encoded; any other text as it is. */
function percentDecoded(text: string): string {
  const chains = text.match(/-----BEGIN%20[!-~]+/g);
  return chains ? chains.join("\n").replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) => latin1(unhex(digits))) : text;
}

// -- Intel's collateral: JSON bundles in the manner of dcap-qvl or of Intel's quote verification library, and answers
// of the service

async function readCollateral(data: Bytes, found: Found): Promise<void> {
  if (data.length > MAX_COLLATERAL_BYTES) return;
  // A NUL at the end is part of no JSON, and left out.
  let end = data.length;
  while (data[end - 1] === 0) end--;
  const text = data.slice(0, end);
  const value = jsonValue(text, "collateral");
  if (!isObject(value)) return;
  const has = (name: string): boolean => name in value;
  if (ANSWERS.some(has)) {
    addDocument(parsePcsAnswer(text), found);
    return;
  }
  for (const name of CHAINS) await refusalOf(() => found.certificates.push(...chain(textOf(value, name))));
  for (const name of LISTS) await refusalOf(() => found.crls.push(...lists(textOf(value, name))));
  for (const [name, kind] of Object.entries(DOCUMENTS)) {
    await refusalOf(() => {
      const body = utf8(textOf(value, name));
      const signature = `${name}_signature`;
      if (!body.length) return;
      // The signed text with its signature beside it, or the whole answer of the PCS where there is none.
      addDocument(has(signature) ? intelDocument(kind, body, textOf(value, signature)) : parsePcsAnswer(body), found);
    });
  }
}

/** Add a document that can be read: one that cannot is missing. */
function addDocument(document: Found["documents"][number], found: Found): void {
  if (document.kind === "tcb-info") parseTcbInfo(document.body);
  else parseQeIdentity(document.body);
  found.documents.push(document);
}

function malformed(): never {
  return fail("malformed", "collateral-malformed", "");
}

/** A member without the NUL that ends a string of C; an absent one is empty. */
function textOf(value: JsonObject, name: string): string {
  const text = value[name] ?? "";
  return typeof text === "string" ? trimmedEnd(text, "\0") : malformed();
}

function chain(text: string): Found["certificates"] {
  const blocks = readPemBlocks(percentDecoded(text));
  const fits =
    blocks.length > 0 &&
    blocks.length <= MAX_CHAIN_CERTIFICATES &&
    blocks.every(({ label }) => label === "CERTIFICATE");
  if (text.trim() && !fits) malformed();
  return blocks.map(({ content }) => parseCertificate(content));
}

/** One list: PEM in version 1.0 of Intel's structure, hex of DER in 3.0 and at dcap-qvl. */
function lists(text: string): Found["crls"] {
  const found = text.trim();
  if (!found) return [];
  if (!found.startsWith("-----BEGIN X509 CRL-----")) return [parseCrl(derWithoutPadding(hexBytes(found, "CRL")))];
  const [block, ...more] = readPemBlocks(found);
  return block && !more.length ? [parseCrl(block.content)] : malformed();
}
