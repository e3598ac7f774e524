/**
 * JSON that carries an Intel quote or an SNP report for a verification service, and Open Enclave's header: see
 * attest.evidence.quote_forms.
 */

import { anyBase64Bytes } from "./any_base64";
import { part } from "./parts";
import { type Bytes, hex, latin1, utf8 } from "./bytes";
import { type Item, MEDIA, itemOf } from "./envelope";
import { AttestError, demandsOf, type Demand, fail, need, refusalOf, refuse } from "./errors";
import { type JsonObject, type JsonValue, isObject, jsonValue } from "./json";
import { readPemBlocks } from "./pem";
import { Reader } from "./reader";
import { REPORT_BYTES } from "./snp/structure";
import { type Certificate, parseCertificate } from "./x509";

/** The evidence in a document, and certificates that came with it. */
export interface FormContent {
  readonly items: readonly Item[];
  readonly certificates: readonly Certificate[];
}

type Tee = "tdx" | "sgx";

const MAX_CERTIFICATES = 8;
const MAX_UVM_BYTES = 64 * 1024;
const MAA_DATA = ["runtimeData", "initTimeData"] as const;
const MAA_RULES = ["maa-runtime-data", "maa-init-time-data"] as const;

const demand: Demand = demandsOf("malformed", "peer-form-malformed");

/** Require an object that has no members but these. */
function objectOf(value: JsonValue | undefined, field: string, ...permitted: readonly string[]): JsonObject {
  demand(value !== undefined && isObject(value), field, "an object");
  const unknown = permitted.length ? Object.keys(value).filter((name) => !permitted.includes(name)) : [];
  demand(!unknown.length, `${field}.${unknown[0] ?? ""}`, permitted, "an unknown member");
  return value;
}

/** Base64 of either alphabet, padded to whole groups or not at all. */
function bytesOf(members: JsonObject, name: string): Bytes {
  const text = members[name];
  demand(typeof text === "string", name, "base64");
  const found = anyBase64Bytes(text, name);
  demand(found, name, "base64");
  return found;
}

/** True if a member is not there; some write empty text for that. */
const isNothing = (value: JsonValue | undefined): boolean => (value ?? "") === "";

const only = (...items: readonly Item[]): FormContent => ({ items, certificates: [] });
const quoteItem = (quote: Bytes): Item => itemOf("cpu", MEDIA.intelQuote, quote);

async function committedItem(data: Readonly<Record<string, readonly Bytes[]>>): Promise<Item> {
  const { committedDataBytes } = await part(import("./attachment/attachment"));
  return itemOf("committed-data", MEDIA.committedData, committedDataBytes(data));
}

/** The TEE of a quote in base64 by its header, whatever else is wrong with it. */
async function teeOf(text: JsonValue | undefined): Promise<Tee | undefined> {
  if (typeof text !== "string" || text.length < 12) return undefined;
  const head = await refusalOf(() => bytesOf({ quote: text.slice(0, 12) }, "quote"));
  if (head instanceof AttestError) return undefined;
  return latin1(head.subarray(4, 8)) === "\x81\0\0\0" ? "tdx" : "sgx";
}

// -- by their members

/** Evidence that is recognised and not verified. */
function isNamed(members: JsonObject): boolean {
  const has = (...names: readonly string[]): boolean => names.every((name) => name in members);
  const { devices, token } = members;
  return (
    has("attestation_report", "serial_number") ||
    has("attestation_reports") ||
    has("ak_public", "tpm_quote") ||
    has("cuid", "encr_measurement_key") ||
    Array.isArray(token) ||
    (Array.isArray(devices) && devices.some((one) => isObject(one) && "device_id_cert" in one))
  );
}

/** Read a document before it is taken for an Azure VM's; undefined when it is none of these. */
export function firstForms(document: JsonValue): FormContent | undefined {
  if (!isObject(document)) return undefined;
  if (isNamed(document)) return refuse("unsupported", "evidence-unsupported", "evidence of another technology");
  const { evidence, endorsements } = document;
  if (typeof evidence === "string" && typeof endorsements === "string") return azureContainer(document);
  return undefined;
}

/** Read a document that is nothing else; undefined when it is none of these either. */
export async function lastForms(document: JsonValue): Promise<FormContent | undefined> {
  if (!isObject(document)) return undefined;
  if (isAttestationRs(document)) return trusteeQuote(objectOf(document, "document", "platform", "evidence").evidence);
  if (await isMaa(document)) return maaRequest(document);
  const inner = itaInner(document);
  const isAsked = ["verifier_nonce", "runtime_data", "user_data"].some((name) => name in inner);
  const tee = isAsked ? await teeOf(inner.quote) : undefined;
  if (tee) return itaRequest(tee, inner);
  return typeof document.quote === "string" && !("event_log" in document) ? trusteeQuote(document) : undefined;
}

const isAttestationRs = ({ platform, evidence }: JsonObject): boolean =>
  (platform === "tdx" || platform === "gcp-tdx") && evidence !== undefined;

async function isMaa(document: JsonObject): Promise<boolean> {
  if (!MAA_DATA.some((name) => name in document)) return false;
  return (await teeOf(document.quote)) !== undefined || typeof document.report === "string";
}

/** The request for one TEE, which may stand in a member of its name. */
function itaInner(document: JsonObject): JsonObject {
  const { tdx = null, sgx = null } = document;
  return [tdx, sgx].find((one): one is JsonObject => isObject(one)) ?? document;
}

// -- Trustee, MAA and ITA

function trusteeQuote(document: JsonValue | undefined): FormContent {
  const members = objectOf(document, "evidence", "quote", "cc_eventlog");
  const quote = quoteItem(bytesOf(members, "quote"));
  if ((members.cc_eventlog ?? null) === null) return only(quote);
  return only(quote, itemOf("eventlog", MEDIA.eventLog, bytesOf(members, "cc_eventlog")));
}

async function maaRequest(members: JsonObject): Promise<FormContent> {
  const content = "quote" in members ? only(quoteItem(bytesOf(members, "quote"))) : await maaReport(members);
  const data: Record<string, readonly Bytes[]> = {};
  for (const [i, name] of MAA_DATA.entries()) {
    const found = maaData(members[name], name);
    if (found) data[MAA_RULES[i]!] = [found];
  }
  if (!Object.keys(data).length) return content;
  return { ...content, items: [...content.items, await committedItem(data)] };
}

/** The data of a member; the sidecar writes empty text for none. */
function maaData(value: JsonValue | undefined, field: string): Bytes | undefined {
  if ((value ?? null) === null) return undefined;
  const members = objectOf(value, field, "data", "dataType");
  return members.data === "" ? undefined : bytesOf(members, "data");
}

async function maaReport(request: JsonObject): Promise<FormContent> {
  const report = bytesOf(request, "report");
  if (isOpenEnclave(report)) return readOpenEnclave(report);
  const members = objectOf(jsonValue(report, "report"), "report", "SnpReport", "VcekCertChain", "Endorsements");
  const item = snpItem(bytesOf(members, "SnpReport"));
  const certificates = certificatesOf(bytesOf(members, "VcekCertChain"));
  if (isNothing(members.Endorsements)) return { items: [item], certificates };
  const endorsements = objectOf(jsonValue(bytesOf(members, "Endorsements"), "Endorsements"), "Endorsements", "Uvm");
  const { Uvm: uvm } = endorsements;
  demand(Array.isArray(uvm) && uvm.length < 2, "Uvm", "an array of one");
  return { items: [item, ...uvm.map((one) => uvmItem({ uvm: one }, "uvm"))], certificates };
}

async function itaRequest(tee: Tee, members: JsonObject): Promise<FormContent> {
  const item = quoteItem(bytesOf(members, "quote"));
  const stated = ["runtime_data", "user_data"].filter((name) => (members[name] ?? null) !== null);
  need(stated.length < 2, "unsupported", "evidence-unsupported", "runtime_data or user_data", "both");
  const nonce = members.verifier_nonce ?? null;
  const [name] = stated;
  if (nonce === null && !name) return only(item);
  const parts = nonce === null ? undefined : objectOf(nonce, "verifier_nonce", "val", "iat", "signature");
  const pieces = ["val", "iat"].map((each) => (parts ? bytesOf(parts, each) : new Uint8Array()));
  const data = name ? bytesOf(members, name) : new Uint8Array();
  return only(item, await committedItem({ [`ita-${tee}`]: [...pieces, data] }));
}

// -- Azure's confidential containers

function azureContainer(document: JsonObject): FormContent {
  const members = objectOf(document, "document", "evidence", "endorsements", "uvm_endorsements", "endorsed_tcb");
  const item = snpItem(bytesOf(members, "evidence"));
  const certificates = azureCertificates(bytesOf(members, "endorsements"));
  const items = isNothing(members.uvm_endorsements) ? [item] : [item, uvmItem(members, "uvm_endorsements")];
  return { items, certificates };
}

/** Certificates in PEM, or the answer of Azure's THIM service. */
function azureCertificates(data: Bytes): readonly Certificate[] {
  if (!/^[\t-\r ]*\{/.test(latin1(data))) return certificatesOf(data);
  const names = ["vcekCert", "certificateChain", "tcbm", "cacheControl"];
  const { vcekCert, certificateChain } = objectOf(jsonValue(data, "endorsements"), "endorsements", ...names);
  demand(typeof vcekCert === "string" && typeof certificateChain === "string", "endorsements", "text");
  return certificatesOf(utf8(`${vcekCert}\n${certificateChain}`));
}

function certificatesOf(text: Bytes): readonly Certificate[] {
  const blocks = readPemBlocks(latin1(text));
  const areCertificates = blocks.every(({ label }) => label === "CERTIFICATE");
  demand(blocks.length && blocks.length <= MAX_CERTIFICATES && areCertificates, "certificates", "PEM", blocks.length);
  return blocks.map(({ content }) => parseCertificate(content));
}

function snpItem(report: Bytes): Item {
  demand(report.length === REPORT_BYTES, "report", REPORT_BYTES, report.length);
  return itemOf("cpu", MEDIA.snpReport, report);
}

function uvmItem(members: JsonObject, name: string): Item {
  const data = bytesOf(members, name);
  demand(data.length <= MAX_UVM_BYTES, name, MAX_UVM_BYTES, data.length);
  return itemOf("uvm-endorsement", MEDIA.uvmEndorsement, data);
}

// -- Open Enclave

const REPORT_HEAD_BYTES = 16;
const EVIDENCE_HEAD_BYTES = 32;
/** The format a3a21e87-1b4d-4014-b70a-a125d2fbcd8c. */
const SGX_ECDSA = "a3a21e871b4d4014b70aa125d2fbcd8c";

function numberAt(data: Bytes, at: number, size: number): number {
  const digits = [...data.subarray(at, at + size)].reverse();
  return digits.reduce((value, byte) => value * 256 + byte, 0);
}

/** Recognise a header by its version and by a size that fits what follows. */
export function isOpenEnclave(data: Bytes): boolean {
  const version = numberAt(data, 0, 4);
  if (version === 1) {
    return [1, 2].includes(numberAt(data, 4, 4)) && numberAt(data, 8, 8) === data.length - REPORT_HEAD_BYTES;
  }
  const isKnown = (version === 2 || version === 3) && data.length !== REPORT_BYTES;
  return isKnown && data.length > EVIDENCE_HEAD_BYTES && numberAt(data, 24, 8) === data.length - EVIDENCE_HEAD_BYTES;
}

/** Read Open Enclave's evidence as a quote and the claims behind it. */
export async function readOpenEnclave(data: Bytes): Promise<FormContent> {
  const reader = new Reader(data, "Open Enclave evidence");
  const version = reader.unsigned(4, "version");
  const known = (holds: unknown): void => {
    need(holds, "unsupported", "evidence-unsupported", "a remote report, or evidence of version 3");
  };
  if (version === 1) known(reader.unsigned(4, "report type") === 2);
  else {
    known(version === 3 && hex(reader.take(16, "format")) === SGX_ECDSA);
    reader.take(4, "alignment");
  }
  const content = reader.take(Number(reader.unsigned64("size")), "quote");
  reader.finish();
  const { parseQuote } = await part(import("./intel/intel"));
  const { paddingBytes } = parseQuote(content);
  const end = content.length - paddingBytes;
  const claims = content.slice(end);
  const quote = quoteItem(content.slice(0, end));
  if (version === 1) {
    const isPadded = !claims.some(Boolean);
    return isPadded ? only(quote) : fail("malformed", "open-enclave-malformed", "", { field: "report" });
  }
  return claims.length ? only(quote, await committedItem({ "open-enclave": [claims] })) : only(quote);
}
