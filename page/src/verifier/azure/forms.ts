/** Azure evidence as it is written down: the JSON of Trustee and attestation-rs (azure-cvm.md 5 and 9). */

import { type Bytes, trimmedEnd } from "../bytes";
import { base64urlBytes, hexBytes } from "../encoding";
import { type Demand, demandsOf, need } from "../errors";
import type { ParsedCpu } from "../evidence";
import { JsonFloat, type JsonObject, type JsonValue, isInteger, isObject, jsonValue } from "../json";
import { readPemBlocks } from "../pem";
import { snpCpu } from "../snp/evidence";
import { parseReport } from "../snp/structure";
import { MAX_PCRS, PCR_BYTES } from "../tpm/quote";
import { parseCertificate } from "../x509";
import { type HclReport, parseHclReport } from "./structure";
import { part } from "../parts";

const MAX_SIGNATURE_BYTES = 512;
const MAX_MESSAGE_BYTES = 1024;
const MAX_CERTIFICATES = 8;

/** Evidence as presented. */
export interface AzureEvidence {
  /** 0, 1 or 2; from 2 on the user data repeats the quote's extraData. */
  readonly version: number;
  readonly hcl: HclReport;
  /** Evidence of the CPU: the SNP report in the HCL report with its certificates, or the TD quote beside it. */
  readonly cpu: ParsedCpu;
  /** Of the SNP report. */
  readonly vmpl?: number;
  /** The TD quote. */
  readonly quote?: Bytes;
  /** The pieces of the TPM's quote, none of them read. */
  readonly tpm: { readonly signature: Bytes; readonly message: Bytes; readonly pcrs: readonly Bytes[] };
}

const demand: Demand = demandsOf("malformed", "azure-form-malformed");
const requireType: Demand = demandsOf("malformed", "hcl-report-type-mismatch", "azure.format");

/**
 * Read evidence of every version: `json-invalid`, `azure-form-malformed`, `azure-form-unsupported`,
 * `hcl-report-type-mismatch`, and what its parts refuse with.
 */
export async function parseAzureEvidence(data: Bytes): Promise<AzureEvidence> {
  // (1) The members, by the version.
  const form = membersOf(data);
  const { version, members } = form;
  // (2) The paravisor's report, of the type that the rest says.
  const bytes = version ? base64 : array;
  const hcl = parseHclReport(bytes(form.report, form.reportName));
  requireTypes(hcl.tee, form);
  // (3) What the CPU made, then the pieces of the TPM's quote.
  const pieces = object(form.quote, form.quoteName, ["signature", "message", "pcrs"]);
  const made = hcl.tee === "tdx" ? await tdQuote(bytes(members.td_quote, "td_quote")) : snpReport(hcl, leavesOf(form));
  return { version, hcl, ...made, tpm: tpmPieces(pieces, version) };
}

/** The members of a form, whose names depend on the version. */
interface Form {
  readonly version: number;
  readonly platform: JsonValue | undefined;
  readonly members: JsonObject;
  readonly quoteName: string;
  readonly quote: JsonValue | undefined;
  readonly reportName: string;
  readonly report: JsonValue | undefined;
}

function membersOf(data: Bytes): Form {
  const { platform, inner } = unwrapped(jsonValue(data, "Azure evidence"));
  demand(isObject(inner), "evidence", "object");
  const version = versionOf(inner);
  const isOld = !version && "quote" in inner;
  const quoteName = isOld ? "quote" : "tpm_quote";
  const reportName = isOld ? "report" : "hcl_report";
  const members = object(inner, "evidence", [quoteName, reportName, "vcek", "td_quote", "version"]);
  demand(!("vcek" in members && "td_quote" in members), "evidence", "vcek or td_quote", "both");
  return {
    version,
    platform,
    members,
    quoteName,
    quote: members[quoteName],
    reportName,
    report: members[reportName],
  };
}

/** The inner object, out of the one that attestation-rs puts around it. */
function unwrapped(document: JsonValue): { platform: JsonValue | undefined; inner: JsonValue | undefined } {
  if (!isObject(document) || !("platform" in document)) return { platform: undefined, inner: document };
  const { platform, evidence } = object(document, "evidence", ["platform", "evidence"]);
  demand(platform === "az-snp" || platform === "az-tdx", "platform", "az-snp or az-tdx");
  return { platform, inner: evidence };
}

/** Require what the form says of the CPU to be what the paravisor's report is. */
function requireTypes(tee: HclReport["tee"], { platform, members }: Form): void {
  requireType(!platform || platform === `az-${tee}`, "platform", `az-${tee}`, tee);
  requireType(!("vcek" in members) || tee === "snp", "vcek", "snp", tee);
  requireType(!("td_quote" in members) || tee === "tdx", "td_quote", "tdx", tee);
}

/** The pieces of the TPM's quote, within what a TPM gives out. */
function tpmPieces({ signature, message, pcrs }: JsonObject, version: number): AzureEvidence["tpm"] {
  const read = version ? hexText : array;
  demand(Array.isArray(pcrs) && pcrs.length <= MAX_PCRS, "pcrs", MAX_PCRS);
  const sized = (value: JsonValue | undefined, field: string, least: number, most: number): Bytes => {
    const found = read(value, field);
    demand(found.length >= least && found.length <= most, field, most, found.length);
    return found;
  };
  const values = pcrs.map((value) => sized(value, "pcrs", PCR_BYTES, PCR_BYTES));
  return {
    signature: sized(signature, "signature", 0, MAX_SIGNATURE_BYTES),
    message: sized(message, "message", 0, MAX_MESSAGE_BYTES),
    pcrs: values,
  };
}

function versionOf(inner: JsonObject): number {
  if (!("version" in inner)) return 0;
  const stated = inner.version instanceof JsonFloat ? inner.version.value : inner.version;
  const isKnown = stated === 1 || stated === 2;
  need(isKnown, "unsupported", "azure-form-unsupported", "1, 2 or none", "another", { field: "version" });
  return stated;
}

function object(value: JsonValue | undefined, field: string, allowed: readonly string[]): JsonObject {
  demand(isObject(value), field, "object");
  const strange = Object.keys(value).find((name) => !allowed.includes(name));
  demand(strange === undefined, field, allowed, strange?.slice(0, 40));
  return value;
}

// -- how the versions write bytes

function array(value: JsonValue | undefined, field: string): Bytes {
  demand(Array.isArray(value) && value.every((byte) => isInteger(byte) && byte >= 0 && byte <= 255), field, "bytes");
  return Uint8Array.from(value as number[]);
}

function text(value: JsonValue | undefined, field: string): string {
  demand(typeof value === "string", field, "text");
  return value;
}

const hexText = (value: JsonValue | undefined, field: string): Bytes => hexBytes(text(value, field), field);

/** Base64 of either alphabet, padded to whole groups or not at all; no text is of both alphabets. */
function base64(value: JsonValue | undefined, field: string): Bytes {
  const whole = text(value, field);
  const body = trimmedEnd(whole, "=");
  const padding = whole.length - body.length;
  const isMixed = /[+/]/.test(body) && /[-_]/.test(body);
  demand(!isMixed && padding < 3 && !(padding && whole.length % 4), field, "base64");
  return base64urlBytes(body.replaceAll("+", "-").replaceAll("/", "_"), field);
}

// -- what the CPU made

type Made = Pick<AzureEvidence, "cpu" | "vmpl" | "quote">;

/** Read a TD quote; one of SGX is none, whatever its REPORTDATA says. */
async function tdQuote(quote: Bytes): Promise<Made> {
  // Loaded where it is met, as by its own media type.
  const { readIntelQuote } = await part(import("../intel/intel"));
  const cpu = readIntelQuote(quote);
  requireType(cpu.kind === "tdx", "td_quote", cpu.kind, "tdx");
  return { quote, cpu };
}

function snpReport({ hardwareReport }: HclReport, leaves: readonly Bytes[]): Made {
  const report = parseReport(hardwareReport);
  return {
    vmpl: report.vmpl,
    cpu: snpCpu(report, leaves.slice(0, 1), { certificates: leaves.slice(1).map(parseCertificate) }),
  };
}

/** DER of the VCEK, and of the certificates that stand behind it in PEM. */
function leavesOf({ members, version }: Form): readonly Bytes[] {
  if (!("vcek" in members)) return [];
  const value = members.vcek;
  if (version) return [base64(value, "vcek")];
  const blocks = readPemBlocks(text(value, "vcek"));
  const areCertificates =
    blocks.length && blocks.length <= MAX_CERTIFICATES && blocks.every(({ label }) => label === "CERTIFICATE");
  demand(areCertificates, "vcek", "1 to 8", blocks.length);
  return blocks.map(({ content }) => content);
}
