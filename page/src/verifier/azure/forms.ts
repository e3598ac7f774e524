/** Azure evidence as it is written down: the JSON of Trustee and attestation-rs (azure-cvm.md 5 and 9). */

import { type Bytes, base64urlBytes, hexBytes, trimmedEnd } from "../bytes";
import { readPemBlocks } from "../pem";
import { fail } from "../errors";
import { type JsonObject, JsonFloat, type JsonValue, isInteger, isObject, jsonValue } from "../json";
import type { ParsedCpu } from "../formats";
import { type Certificate, parseCertificate } from "../x509";
import type { SnpEvidence } from "../snp/evidence";
import { parseReport } from "../snp/structure";
import { MAX_PCRS, PCR_BYTES } from "../tpm/quote";
import { type HclReport, TDX, parseHclReport, platformOf } from "./structure";

const [MAX_SIGNATURE_BYTES, MAX_MESSAGE_BYTES, MAX_CERTIFICATES] = [512, 1024, 8];
const PLATFORMS: readonly JsonValue[] = ["az-snp", "az-tdx"];

/** The pieces of a quote, none of them read. */
export interface RawTpmQuote {
  readonly signature: Bytes;
  readonly message: Bytes;
  readonly pcrs: readonly Bytes[];
}

/** Evidence as presented. */
export interface AzureEvidence {
  /** 0, 1 or 2; from 2 on the user data repeats the quote's extraData. */
  readonly version: number;
  readonly hcl: HclReport;
  /** The SNP report in the HCL report with its certificates; or the TD quote beside it. */
  readonly snp: SnpEvidence | undefined;
  readonly td: { readonly raw: Bytes; readonly parsed: ParsedCpu } | undefined;
  readonly tpm: RawTpmQuote;
}

function malformed(field: string, expected: string, got = "another value"): never {
  const facts = { field, expected, got, clause: "azure-cvm.md 9" };
  return fail("malformed", "azure-form-malformed", "", facts);
}

function typeMismatch(source: string, said: string, reportType: number): never {
  return fail("malformed", "hcl-report-type-mismatch", `${source} says ${said}, the HCL report is of another type`, {
    check: "azure.format",
    field: "report_type",
    offset: 0x4c8,
    expected: said,
    got: platformOf(reportType),
    clause: "azure-cvm.md A01, 11.1",
  });
}

/** How one generation names and writes its members. */
interface Form {
  readonly version: number;
  readonly quote: string;
  readonly report: string;
  bytes(value: JsonValue | undefined, path: string): Bytes;
  tpm(value: JsonValue | undefined, path: string): Bytes;
}

/**
 * Read evidence of every version: `json-invalid`, `azure-form-malformed`, `azure-form-unsupported`,
 * `hcl-report-type-mismatch`, and what its parts refuse with.
 */
export async function parseAzureEvidence(data: Bytes, parseQuote: (quote: Bytes) => ParsedCpu | Promise<ParsedCpu>): Promise<AzureEvidence> {
  const [platform, inner] = unwrapped(jsonValue(data, "Azure evidence"));
  const form = formOf(inner);
  const members = object(inner, "evidence", [form.quote, form.report, "vcek", "td_quote", ...(form.version ? ["version"] : [])]);
  if ("vcek" in members && "td_quote" in members) malformed("evidence", "either vcek or td_quote", "both");
  const hcl = parseHclReport(form.bytes(members[form.report], form.report));
  const found = platformOf(hcl.reportType);
  if (platform && platform !== found) typeMismatch("platform", platform, hcl.reportType);
  for (const [hint, said] of [["vcek", "az-snp"], ["td_quote", "az-tdx"]] as const) {
    if (hint in members && said !== found) typeMismatch(hint, said, hcl.reportType);
  }
  const quote = object(members[form.quote], form.quote, ["signature", "message", "pcrs"]);
  const td = hcl.reportType === TDX ? await tdQuote(form.bytes(members.td_quote, "td_quote"), parseQuote) : undefined;
  const snp = td ? undefined : snpEvidence(hcl, members, form);
  return { version: form.version, hcl, snp, td, tpm: tpmQuote(quote, form) };
}

function unwrapped(document: JsonValue): readonly [platform: string | undefined, inner: JsonValue | undefined] {
  if (!isObject(document) || !("platform" in document)) return [undefined, document];
  const { platform = null, evidence } = object(document, "evidence", ["platform", "evidence"]);
  if (!PLATFORMS.includes(platform)) malformed("platform", PLATFORMS.join(" or "));
  return [platform as string, evidence];
}

function formOf(inner: JsonValue | undefined): Form {
  if (!isObject(inner)) return malformed("evidence", "an object");
  if (!("version" in inner)) {
    const old = "quote" in inner;
    return { version: 0, quote: old ? "quote" : "tpm_quote", report: old ? "report" : "hcl_report", bytes: array, tpm: array };
  }
  const stated = inner.version instanceof JsonFloat ? inner.version.value : inner.version;
  if (stated !== 1 && stated !== 2) {
    const facts = { field: "version", expected: "1, 2 or no version", clause: "azure-cvm.md 9" };
    return fail("unsupported", "azure-form-unsupported", "", facts);
  }
  const tpm = (value: JsonValue | undefined, path: string): Bytes => (typeof value === "string" ? hexBytes(value, path) : malformed(path, "hex"));
  return { version: stated, quote: "tpm_quote", report: "hcl_report", bytes: base64, tpm };
}

function object(value: JsonValue | undefined, path: string, allowed: readonly string[]): JsonObject {
  if (!isObject(value)) return malformed(path, "an object");
  const strange = Object.keys(value).find((name) => !allowed.includes(name));
  return strange === undefined ? value : malformed(path, `only ${[...allowed].sort().join(", ")}`, `a member ${strange.slice(0, 40)}`);
}

function array(value: JsonValue | undefined, path: string): Bytes {
  if (!Array.isArray(value)) return malformed(path, "an array of bytes");
  if (!value.every((byte) => isInteger(byte) && byte >= 0 && byte <= 255)) malformed(path, "integers of 0 to 255");
  return Uint8Array.from(value as number[]);
}

/** Base64 of either alphabet, padded to whole groups or not at all; no text is of both alphabets. */
function base64(value: JsonValue | undefined, path: string): Bytes {
  if (typeof value !== "string") return malformed(path, "base64");
  const body = trimmedEnd(value, "=");
  const padding = value.length - body.length;
  const both = /[+/]/.test(body) && /[-_]/.test(body);
  if (both || padding > 2 || (padding && value.length % 4)) malformed(path, "base64 or base64url, padded or not", "a mixture");
  return base64urlBytes(body.replaceAll("+", "-").replaceAll("/", "_"), path);
}

function tpmQuote({ signature, message, pcrs }: JsonObject, form: Form): RawTpmQuote {
  const path = `${form.quote}.pcrs`;
  if (!Array.isArray(pcrs) || pcrs.length > MAX_PCRS) return malformed(path, `an array of at most ${MAX_PCRS} values`);
  const values = pcrs.map((value, i) => {
    const pcr = form.tpm(value, `${path}[${i}]`);
    return pcr.length === PCR_BYTES ? pcr : malformed(`${path}[${i}]`, `${PCR_BYTES} bytes`, `${pcr.length}`);
  });
  const part = (value: JsonValue | undefined, name: string, most: number): Bytes => {
    const bytes = form.tpm(value, `${form.quote}.${name}`);
    return bytes.length > most ? malformed(`${form.quote}.${name}`, `at most ${most} bytes`, `${bytes.length}`) : bytes;
  };
  return { signature: part(signature, "signature", MAX_SIGNATURE_BYTES), message: part(message, "message", MAX_MESSAGE_BYTES), pcrs: values };
}

/** Read a TD quote; one of SGX is none, whatever its REPORTDATA says. */
async function tdQuote(raw: Bytes, parseQuote: (quote: Bytes) => ParsedCpu | Promise<ParsedCpu>): Promise<AzureEvidence["td"]> {
  const parsed = await parseQuote(raw);
  return parsed.kind === "tdx" ? { raw, parsed } : typeMismatch("td_quote", parsed.kind.toUpperCase(), TDX);
}

function snpEvidence({ hardwareReport }: HclReport, members: JsonObject, form: Form): SnpEvidence {
  const [leaf, issuers] = "vcek" in members ? certificates(members.vcek, form) : [undefined, []];
  return { report: parseReport(hardwareReport), leaves: leaf ? [leaf] : [], issuers, crls: [] };
}

/** The DER of the VCEK, and the certificates that stand behind it in PEM. */
function certificates(value: JsonValue | undefined, form: Form): readonly [Bytes, readonly Certificate[]] {
  if (form.version) return [base64(value, "vcek"), []];
  if (typeof value !== "string") return malformed("vcek", "certificates in PEM");
  const blocks = readPemBlocks(value);
  const [leaf, ...rest] = blocks;
  if (!leaf || blocks.length > MAX_CERTIFICATES || blocks.some(({ label }) => label !== "CERTIFICATE")) {
    return malformed("vcek", `1 to ${MAX_CERTIFICATES} certificates in PEM`, `${blocks.length} blocks`);
  }
  return [leaf.content, rest.map(({ content }) => parseCertificate(content))];
}
