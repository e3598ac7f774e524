/**
 * What are these files? Each is recognised by content, by the first row that fits; once a form is decided, a defect is a
 * defect of that form. One file speaks for the machine; devices may come beside it, in any number of NVIDIA's files;
 * certificates and lists accompany them.
 */

// As each format's, so that what is shared is one file.
import "./api";
import { type Bytes, base64Bytes, base64urlBytes, concat, hexBytes, isZero, latin1 } from "./bytes";
import { parseCrl } from "./crl";
import { derKind, isBundle } from "./endorsement_forms";
import type { NamedBytes } from "./endorsements";
import { type Evidence, type Item, MEDIA, evidenceOf, itemOf, parseEnvelope, requireSound } from "./envelope";
import { AttestError, fail } from "./errors";
import { isAzureJson, isNvidiaJson, isRawTpmQuote } from "./evidence_forms";
import { isObject, jsonValue } from "./json";
import { azureFormat, gpuFormat } from "./lazy";
import { readPemBlocks } from "./pem";
import type { Found } from "./pool";
import { type Recognised, isEnvelope } from "./recognition";
import { REPORT_BYTES } from "./snp/structure";
import { beginsTable } from "./snp/table";
import { nothingFound } from "./pool";
import { parseCertificate } from "./x509";

const [MAX_FILES, MAX_FILE_BYTES, MAX_CERTIFICATES] = [64, 16 * 1024 * 1024, 64];
const CLAUSE = "CLI.md, Inputs";

/** What a file turns out to be. */
type Form = "cpu" | "envelope" | "hcl" | "tpm" | "td-quote" | "device" | "table" | "bundle" | "certificates";

interface Content {
  readonly form: Form;
  readonly items?: readonly Item[];
  readonly bytes?: Bytes;
}

function refuse(code: string, problem: string, expected: string, got?: string, kind: "malformed" | "unsupported" = "malformed"): never {
  return fail(kind, code, problem, { expected, got, clause: CLAUSE });
}

// -- binary, by the first bytes

interface Row {
  readonly form: Form;
  readonly media?: string;
  readonly name?: string;
  looks(data: Bytes): boolean;
}

function u32(data: Bytes, at: number): number {
  return at + 4 > data.length ? -1 : new DataView(data.buffer, data.byteOffset).getUint32(at, true);
}

function isEventLog(data: Bytes): boolean {
  return latin1(data.subarray(4, 28)) === `\x03${"\0".repeat(23)}` && latin1(data.subarray(32, 48)) === "Spec ID Event03\0";
}

/** Whether it begins as an SNP report does. */
function hasVersion(data: Bytes): boolean {
  const version = u32(data, 0);
  return version > 0 && version < 256 && !isEventLog(data);
}

function isTable(data: Bytes): boolean {
  return beginsTable(data) || (data.length >= 24 && isZero(data));
}

/** A report by its version, and behind it a table by its first entry, of a known kind or not. */
function isExtended(data: Bytes): boolean {
  const table = data.slice(REPORT_BYTES);
  const [begin, length] = [u32(table, 16), u32(table, 20)];
  return hasVersion(data) && (isTable(table) || (begin >= 48 && length >= 0 && begin + length <= table.length));
}

function isQuote(data: Bytes, versions: readonly number[], teeType: number): boolean {
  const head = u32(data, 0);
  return data.length >= 48 && versions.includes(head & 0xffff) && [2, 3].includes(head >>> 16) && u32(data, 4) === teeType;
}

const ROWS: readonly Row[] = [
  { form: "cpu", media: MEDIA.snpReport, looks: (data) => data.length === REPORT_BYTES && hasVersion(data) },
  { form: "cpu", media: MEDIA.snpExtended, looks: isExtended },
  { form: "table", looks: isTable },
  { form: "bundle", looks: isBundle },
  { form: "certificates", looks: (data) => derKind(data) !== undefined },
  { form: "td-quote", media: MEDIA.intelQuote, looks: (data) => isQuote(data, [4, 5], 0x81) },
  { form: "cpu", media: MEDIA.intelQuote, looks: (data) => isQuote(data, [3, 4, 5], 0) },
  { form: "hcl", looks: (data) => latin1(data.subarray(0, 4)) === "HCLA" && isZero(data.subarray(5, 8)) },
  { form: "tpm", looks: isRawTpmQuote },
  // Of a switch too: only its certificate would tell.
  { form: "device", media: MEDIA.nvidiaReport, name: "gpu0", looks: (data) => data[0] === 0x11 && data[1] === 0xe0 },
  { form: "envelope", looks: ([first = 0]) => first === 0x82 || first === 0x83 || (first >= 0xa0 && first <= 0xbb) },
];

function binary(data: Bytes): Content | undefined {
  const row = ROWS.find(({ looks }) => looks(data));
  if (!row) return undefined;
  if (row.form === "envelope") return { form: "envelope", items: parseEnvelope(data) };
  return row.media ? { form: row.form, items: [itemOf(row.name ?? "cpu", row.media, data)], bytes: data } : { form: row.form, bytes: data };
}

// -- JSON, by its members

async function json(name: string, data: Bytes): Promise<Content> {
  const document = jsonValue(data, name);
  if (isEnvelope(document)) return { form: "envelope", items: evidenceOf(document, true) };
  if (isObject(document) && "provider" in document && "outblob" in document) return { form: "cpu", items: [itemOf("cpu", MEDIA.configfsTsm, data)] };
  if (isAzureJson(document)) return { form: "cpu", items: [itemOf("cpu", MEDIA.azureCvm, data)] };
  if (isNvidiaJson(document)) return { form: "device", items: (await gpuFormat()).splitNvidiaJson(document) };
  return refuse("evidence-unrecognised", `${name} is JSON of no known kind`, "evidence", "JSON");
}

// -- one file

/** Text is decoded once, and what comes out is looked at as binary: there is no hex of base64. */
async function recognise({ name, bytes }: NamedBytes): Promise<Content> {
  if (bytes.length > MAX_FILE_BYTES) refuse("evidence-too-large", `${name} is too large`, `at most ${MAX_FILE_BYTES} bytes`);
  const found = binary(bytes);
  if (found) return found;
  const text = latin1(bytes).trim();
  if (!text) refuse("evidence-empty", `${name} is empty`, "evidence", `${bytes.length} bytes`);
  if (/^[{[]/.test(text)) return json(name, bytes);
  if (/[^\0-\x7f]/.test(text)) refuse("evidence-unrecognised", `${name} is in no known form`, "evidence", "binary data");
  if (/^-----BEGIN /m.test(text)) return { form: "certificates", bytes };
  return binary(encoded(name, text)) ?? refuse("evidence-unrecognised", `${name} is in no known form`, "evidence", "something else");
}

function encoded(name: string, text: string): Bytes {
  const plain = text.replace(/^0x/, "").replace(/\s+/g, "");
  if (text.length >= 64 && /^[0-9a-fA-F]+$/.test(plain)) return hexBytes(plain, name);
  const letters = text.replace(/\s+/g, "");
  if (text.length < 64 || !/^[\w+/-]+={0,2}$/.test(letters)) refuse("evidence-unrecognised", `${name} is in no known form`, "evidence", "text");
  return /[-_]/.test(letters) || letters.length % 4 ? base64urlBytes(letters, name) : base64Bytes(letters, name);
}

/** Certificates that came with the evidence; one that is unreadable is a defect of the evidence's chain. */
function addCertificates(data: Bytes, name: string, found: Found): void {
  const kind = derKind(data);
  if (kind === "crl") found.crls.push(parseCrl(data));
  else if (kind) found.certificates.push(certificate(data, name));
  else {
    for (const { label, content } of readPemBlocks(data)) {
      if (label === "X509 CRL") found.crls.push(parseCrl(content));
      else if (label === "CERTIFICATE") found.certificates.push(certificate(content, name));
      else refuse("evidence-unrecognised", `${name} has a PEM block ${label}`, "CERTIFICATE or X509 CRL", label);
    }
    const begins = latin1(data).match(/^-----BEGIN /gm)?.length ?? 0;
    if (begins !== readPemBlocks(data).length) refuse("evidence-unrecognised", `${name} is PEM with a block that does not end`, "evidence", "PEM");
  }
  if (found.certificates.length + found.crls.length > MAX_CERTIFICATES) {
    refuse("evidence-too-large", "too many certificates came with the evidence", `at most ${MAX_CERTIFICATES}`);
  }
}

function certificate(der: Bytes, name: string): Found["certificates"][number] {
  try {
    return parseCertificate(der);
  } catch (error) {
    if (!(error instanceof AttestError)) throw error;
    return fail("chain", error.code, `${name} has a certificate that cannot be read`, { field: name, clause: "sev-snp.md 19" });
  }
}

// -- files together

/** Recognise files of one Attester and put them together. */
export async function readFiles(files: readonly NamedBytes[]): Promise<Recognised> {
  if (!files.length) refuse("evidence-empty", "no file was given", "evidence", "nothing");
  if (files.length > MAX_FILES) refuse("evidence-too-large", `${files.length} files`, `${MAX_FILES} files`);
  const found = nothingFound();
  const contents: Content[] = [];
  for (const file of files) {
    const content = await recognise(file);
    if (content.form === "certificates") addCertificates(content.bytes ?? file.bytes, file.name, found);
    contents.push(content);
  }
  return { evidence: requireSound(await together(contents)), presented: found };
}

async function together(contents: readonly Content[]): Promise<Evidence> {
  const of = (form: Form): readonly Content[] => contents.filter((content) => content.form === form);
  const [hcl, tpm, table] = [onlyOne(of("hcl")), onlyOne(of("tpm")), onlyOne(of("table"))];
  const speaks = [...of("cpu"), ...of("envelope"), ...of("hcl"), ...(hcl ? [] : of("td-quote"))];
  if (!speaks.length && !of("device").length) refuse("evidence-empty", "no file is evidence", "evidence", "endorsements");
  let items = [...(onlyOne(speaks)?.items ?? [])];
  if (hcl ?? tpm) {
    if (!hcl?.bytes || !tpm?.bytes) refuse("azure-incomplete", "HCL report and TPM quote belong together", "both", "one");
    else {
      const { azureJson, readRawTpmQuote } = await azureFormat();
      items = [itemOf("cpu", MEDIA.azureCvm, azureJson(hcl.bytes, readRawTpmQuote(tpm.bytes), of("td-quote")[0]?.bytes))];
    }
  }
  if (table?.bytes) items = withTable(items, table.bytes);
  for (const device of of("device").flatMap((content) => content.items ?? [])) items.push(renamed(device, items));
  const bundle = onlyOne(of("bundle"));
  if (bundle?.bytes) items.push(bundleItem(bundle.bytes, items));
  return items;
}

function onlyOne(found: readonly Content[]): Content | undefined {
  if (found.length > 1) refuse("evidence-ambiguous", "several files could be the evidence", "one", `${found.length}`);
  return found[0];
}

/** A plain report and a table are an extended report; anything else has its certificates already. */
function withTable([report, ...others]: readonly Item[], table: Bytes): Item[] {
  if (report?.essence !== MEDIA.snpReport || others.length) {
    return refuse("evidence-ambiguous", "a certificate table came beside evidence that is not a plain SNP report", "a plain report, or no table");
  }
  return [itemOf(report.name, MEDIA.snpExtended, concat(report.value, table))];
}

/** An endorsement bundle beside the evidence is an item of it. */
function bundleItem(bundle: Bytes, items: readonly Item[]): Item {
  const names = ["endorsements", ...items.map((_, number) => `endorsements${number}`)];
  const name = names.find((each) => !items.some((item) => item.name === each)) ?? "endorsements";
  return itemOf(name, MEDIA.endorsements, bundle);
}

/** Give a device the next free number; a binding knows items by name, so no other one is renamed. */
function renamed(device: Item, items: readonly Item[]): Item {
  const prefix = device.name.replace(/\d+$/, "");
  let number = 0;
  while (items.some(({ name }) => name === `${prefix}${number}`)) number += 1;
  return { ...device, name: `${prefix}${number}` };
}

