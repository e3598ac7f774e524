/** Azure evidence as it is written down: the JSON of Trustee and attestation-rs (azure-cvm.md 5 and 9). */

import { type Bytes, base64urlBytes, hexBytes, trimmedEnd } from "../bytes";
import { type Demand, demandsOf, need } from "../errors";
import type { ParsedCpu } from "../formats";
import { readIntelQuote } from "../intel/intel";
import { JsonFloat, type JsonObject, type JsonValue, isInteger, isObject, jsonValue } from "../json";
import { readPemBlocks } from "../pem";
import { snpCpu } from "../snp/evidence";
import { parseReport } from "../snp/structure";
import { MAX_PCRS, PCR_BYTES } from "../tpm/quote";
import { parseCertificate } from "../x509";
import { type HclReport, parseHclReport } from "./structure";

const enum MAX {
  signature = 512,
  message = 1024,
  certificates = 8,
}

/** Evidence as presented. */
export interface AzureEvidence {
  /** 0, 1 or 2; from 2 on the user data repeats the quote's extraData. */
  readonly version: number;
  readonly hcl: HclReport;
  /** What the CPU made: the SNP report in the HCL report with its certificates; or the TD quote beside it. */
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
  let platform: JsonValue | undefined;
  let inner: JsonValue | undefined = jsonValue(data, "Azure evidence");
  if (isObject(inner) && "platform" in inner) {
    ({ platform, evidence: inner } = object(inner, "evidence", ["platform", "evidence"]));
    demand(platform === "az-snp" || platform === "az-tdx", "platform", "az-snp or az-tdx");
  }
  demand(isObject(inner), "evidence", "object");
  const version = versionOf(inner);
  const isOld = !version && "quote" in inner;
  const [quoteName, reportName] = isOld ? ["quote", "report"] : ["tpm_quote", "hcl_report"];
  const members = object(inner, "evidence", [quoteName, reportName, "vcek", "td_quote", "version"]);
  const hasVcek = "vcek" in members;
  const hasQuote = "td_quote" in members;
  demand(!hasVcek || !hasQuote, "evidence", "vcek or td_quote", "both");
  // (2) The paravisor's report, of the type that the rest says.
  const [bytes, ofTpm] = version ? [base64, hexText] : [array, array];
  const hcl = parseHclReport(bytes(members[reportName], reportName));
  const { tee } = hcl;
  requireType(!platform || platform === `az-${tee}`, "platform", platform as string, tee);
  requireType(!hasVcek || tee === "snp", "vcek", "snp", tee);
  requireType(!hasQuote || tee === "tdx", "td_quote", "tdx", tee);
  // (3) What the CPU made, then the pieces of the TPM's quote.
  const { signature, message, pcrs } = object(members[quoteName], quoteName, ["signature", "message", "pcrs"]);
  const made =
    tee === "tdx"
      ? await tdQuote(bytes(members.td_quote, "td_quote"))
      : snpReport(hcl, hasVcek ? certificates(members.vcek, version) : []);
  demand(Array.isArray(pcrs) && pcrs.length <= MAX_PCRS, "pcrs", MAX_PCRS);
  const sized = (value: JsonValue | undefined, field: string, least: number, most: number): Bytes => {
    const found = ofTpm(value, field);
    demand(found.length >= least && found.length <= most, field, most, found.length);
    return found;
  };
  const values = pcrs.map((value) => sized(value, "pcrs", PCR_BYTES, PCR_BYTES));
  const tpm = {
    signature: sized(signature, "signature", 0, MAX.signature),
    message: sized(message, "message", 0, MAX.message),
    pcrs: values,
  };
  return { version, hcl, ...made, tpm };
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
  const cpu = await readIntelQuote(quote);
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
function certificates(value: JsonValue | undefined, version: number): readonly Bytes[] {
  if (version) return [base64(value, "vcek")];
  const blocks = readPemBlocks(text(value, "vcek"));
  const areCertificates =
    blocks.length && blocks.length <= MAX.certificates && blocks.every(({ label }) => label === "CERTIFICATE");
  demand(areCertificates, "vcek", "1 to 8", blocks.length);
  return blocks.map(({ content }) => content);
}
