/**
 * Recognition of files by content: the first row that fits decides, and a defect is then one of that form. One file
 * speaks for the machine; devices may come beside it, in any number of NVIDIA's files; certificates and lists accompany
 * them.
 */

import { azureJson, isAzureJson, isRawTpmQuote } from "./azure_files";
import { type Bytes, concat, equal, hex, isZero, latin1, trimmedEnd } from "./bytes";
import { carriesEvidence } from "./carriers";
import { base64Bytes, base64urlBytes, hexBytes } from "./encoding";
import { parseCrl } from "./crl";
import { derKind } from "./certificate_files";
import { type Evidence, type Item, MEDIA, evidenceOf, itemOf, numbered, parseEnvelope, requireSound } from "./envelope";
import {
  type Stated,
  answerStatements,
  appComposeStatements,
  isAppCompose,
  isInfo,
  isPacked,
  isQuoteAnswer,
  isUnread,
  quoteAnswerItems,
  statementsItem,
} from "./dstack_files";
import { AttestError, fail, refusalOf, refuse as refuseKind } from "./errors";
import { type JsonValue, isObject, jsonValue } from "./json";
import { isNvidiaJson, splitNvidiaJson } from "./nvidia_json";
import { part } from "./parts";
import { readPemBlocks } from "./pem";
import { type Found, nothingFound } from "./pool";
import { isProviderDocument, isProviderKeys } from "./provider_files";
import { firstForms, isOpenEnclave, lastForms, readOpenEnclave } from "./quote_forms";
import { MAX_FILE_BYTES, type NamedBytes, type Recognised, isBundle, isEnvelope } from "./recognised";
import { REPORT_BYTES } from "./snp/structure";
import { beginsTable } from "./snp/certificate_table";
import { type Certificate, parseCertificate } from "./x509";

export { readEndorsementFile } from "./endorsement_files";

const MAX_FILES = 64;
const MAX_CERTIFICATES = 64;
const PEM_BEGIN = /(?:^|\n)-----BEGIN /;

/** The form of a file. */
export type Form =
  | "cpu"
  | "envelope"
  | "hcl"
  | "tpm"
  | "td-quote"
  | "device"
  | "keys"
  | "table"
  | "bundle"
  | "certificates"
  | "open-enclave"
  | "unsupported"
  | "dstack-info"
  | "app-compose";

interface Content {
  readonly form: Form;
  readonly bytes: Bytes;
  readonly items: readonly Item[];
  /** Certificates that stand in the file beside the evidence. */
  readonly certificates?: readonly Certificate[];
  /** dstack's statements beside a quote. */
  readonly stated?: Stated;
}

function refuse(
  problem: "empty" | "too-large" | "unrecognised" | "ambiguous",
  field: string,
  expected: string,
  got: string | number,
): never {
  return fail("malformed", `evidence-${problem}`, "", { field, expected, got: `${got}` });
}

// -- binary, by the first bytes

function u32(data: Bytes, at: number): number {
  return at + 4 > data.length ? -1 : new DataView(data.buffer, data.byteOffset).getUint32(at, true);
}

/** True if it begins as an SNP report does, and not as an event log. */
function hasVersion(data: Bytes): boolean {
  const version = u32(data, 0);
  return version > 0 && version < 256 && !isEventLog(data);
}

/** True if it begins as an event log of the TCG's does. */
export const isEventLog = (data: Bytes): boolean =>
  latin1(data.subarray(4, 28)) === "\x03".padEnd(24, "\0") && latin1(data.subarray(32, 48)) === "Spec ID Event03\0";

function isTable(data: Bytes): boolean {
  return beginsTable(data) || (data.length >= 24 && isZero(data));
}

/** A report by its version, and behind it a table by its first entry, of a known kind or not. */
function isExtended(data: Bytes): boolean {
  const table = data.slice(REPORT_BYTES);
  const begin = u32(table, 16);
  const length = u32(table, 20);
  return hasVersion(data) && (isTable(table) || (begin >= 48 && length >= 0 && begin + length <= table.length));
}

function isQuote(data: Bytes, versions: readonly number[], teeType: number): boolean {
  const head = u32(data, 0);
  return (
    data.length >= 48 && versions.includes(head & 0xffff) && [2, 3].includes(head >>> 16) && u32(data, 4) === teeType
  );
}

type Row = readonly [form: Form, looks: (data: Bytes) => boolean, media?: string, name?: string];

const ROWS: readonly Row[] = [
  ["open-enclave", isOpenEnclave],
  ["cpu", (data) => data.length === REPORT_BYTES && hasVersion(data), MEDIA.snpReport],
  ["cpu", isExtended, MEDIA.snpExtended],
  ["table", isTable],
  ["bundle", isBundle],
  ["certificates", (data) => (derKind(data) ?? "").startsWith("c")],
  ["td-quote", (data) => isQuote(data, [4, 5], 0x81), MEDIA.intelQuote],
  ["cpu", (data) => isQuote(data, [3, 4, 5], 0), MEDIA.intelQuote],
  ["hcl", (data) => latin1(data.subarray(0, 4)) === "HCLA" && isZero(data.subarray(5, 8))],
  ["tpm", isRawTpmQuote],
  // AWS Nitro's document, by its first bytes; Arm's CCA token, by its tag.
  ["unsupported", (data) => isNitro(data) || /^d90(?:18f|38b)/.test(hex(data.subarray(0, 3)))],
  // Of a switch too: only its certificate would tell.
  ["device", (data) => data[0] === 0x11 && data[1] === 0xe0, MEDIA.nvidiaReport, "gpu0"],
  ["envelope", (data) => /^(?:8[23]|a|b[\dab])/.test(hex(data.subarray(0, 1)))],
];

/** COSE_Sign1 of ES384, tagged or not, over a map with the name of a Nitro enclave's module. */
function isNitro(data: Bytes): boolean {
  return (
    /^(?:d2)?8444a1013822a059.{4}[ab]/.test(hex(data.subarray(0, 12))) &&
    latin1(data.subarray(0, 512)).includes("module_id")
  );
}

async function binary(bytes: Bytes): Promise<Content | undefined> {
  if (isPacked(bytes)) fail("unsupported", "evidence-unsupported", "", { got: "dstack" });
  const row = ROWS.find(([, looks]) => looks(bytes));
  if (!row) return undefined;
  const [form, , media, name = "cpu"] = row;
  if (form === "unsupported") refusedByName();
  if (form === "open-enclave") return { form: "cpu", bytes, ...(await readOpenEnclave(bytes)) };
  if (form === "envelope") return { form, bytes, items: parseEnvelope(bytes) };
  return { form, bytes, items: media ? [itemOf(name, media, bytes)] : [] };
}

function refusedByName(): never {
  return refuseKind("unsupported", "evidence-unsupported", "evidence that this version verifies");
}

// -- JSON, by its members

async function json(name: string, bytes: Bytes): Promise<Content> {
  const document = jsonValue(bytes, name);
  const cpu = (media: string): Content => ({ form: "cpu", bytes, items: [itemOf("cpu", media, bytes)] });
  if (isEnvelope(document)) return { form: "envelope", bytes, items: evidenceOf(document, bytes.length, true) };
  const ofProvider = providerJson(document, bytes);
  if (ofProvider) return ofProvider;
  if (isConfigfs(document)) return cpu(MEDIA.configfsTsm);
  const first = firstForms(document);
  if (first) return { form: "cpu", bytes, ...first };
  if (isSample(document)) return cpu(MEDIA.sample);
  if (isAzureJson(document)) return cpu(MEDIA.azureCvm);
  const ofDstack = await dstackJson(document, name, bytes);
  if (ofDstack) return ofDstack;
  if (isNvidiaJson(document)) return { form: "device", bytes, items: splitNvidiaJson(document) };
  const last = await lastForms(document);
  return last ? { form: "cpu", bytes, ...last } : refuse("unrecognised", name, "evidence", "JSON");
}

const isSample = (document: JsonValue): boolean => isObject(document) && "svn" in document && "report_data" in document;

const isConfigfs = (document: JsonValue): boolean =>
  isObject(document) && "provider" in document && "outblob" in document;

function providerJson(document: JsonValue, bytes: Bytes): Content | undefined {
  if (isProviderKeys(document)) return { form: "keys", bytes, items: [] };
  return isProviderDocument(document)
    ? { form: "cpu", bytes, items: [itemOf("document", MEDIA.providerDocument, bytes)] }
    : undefined;
}

async function dstackJson(document: JsonValue, name: string, bytes: Bytes): Promise<Content | undefined> {
  if (isQuoteAnswer(document)) {
    return { form: "cpu", bytes, items: await quoteAnswerItems(document), stated: answerStatements(document) };
  }
  if (isUnread(document)) return fail("unsupported", "evidence-unsupported", "", { field: name, got: "dstack" });
  if (isInfo(document)) return { form: "dstack-info", bytes, items: [], stated: { info: document } };
  return isAppCompose(document)
    ? { form: "app-compose", bytes, items: [], stated: appComposeStatements(bytes) }
    : undefined;
}

// -- one file

/** Text is decoded once, and what comes out is looked at as binary: there is no hex of base64. */
async function recognise({ name, bytes }: NamedBytes): Promise<Content> {
  if (bytes.length > MAX_FILE_BYTES) refuse("too-large", name, `${MAX_FILE_BYTES} bytes`, bytes.length);
  const found = await binary(bytes);
  if (found) return found;
  const whole = latin1(bytes);
  const text = trimmedEnd(whole.replace(/^[\t-\r ]+/, ""), "\t\n\v\f\r ");
  if (!text) refuse("empty", name, "evidence", "nothing");
  if (/^[{[]/.test(text)) return json(name, bytes);
  if (/[^\0-\x7f]/.test(text)) refuse("unrecognised", name, "evidence", "binary data");
  if (PEM_BEGIN.test(whole)) return { form: "certificates", bytes, items: [] };
  if (/^eyJ[\w-]+\.[\w-]+\.[\w-]*$/.test(text)) refusedByName(); // a token
  return (await binary(encoded(name, text))) ?? refuse("unrecognised", name, "evidence", "something else");
}

function encoded(name: string, text: string): Bytes {
  const plain = text.replace(/^0x/, "").replace(/[\t-\r ]+/g, "");
  if (text.length >= 64 && /^[0-9a-fA-F]+$/.test(plain)) return hexBytes(plain, name);
  const letters = text.replace(/[\r\n]+/g, "");
  if (text.length < 64 || !/^[\w+/-]+={0,2}$/.test(letters)) refuse("unrecognised", name, "evidence", "text");
  return /[-_]/.test(letters) || letters.length % 4 ? base64urlBytes(letters, name) : base64Bytes(letters, name);
}

/** Certificates that came with the evidence; one that is unreadable is a defect of the evidence's chain. */
async function addCertificates(data: Bytes, name: string, found: Found): Promise<void> {
  const add = async (kind: string, der: Bytes): Promise<void> => {
    if (/^crls|^X509 CRL$/.test(kind)) found.crls.push(parseCrl(der));
    else if (/^cert/i.test(kind)) {
      const certificate = await refusalOf(() => parseCertificate(der));
      if (certificate instanceof AttestError) fail("chain", certificate.code, "", { field: name });
      else found.certificates.push(certificate);
    } else refuse("unrecognised", name, "CERTIFICATE or X509 CRL", kind);
  };
  const kind = derKind(data);
  if (kind) await add(kind, data);
  else {
    const text = latin1(data);
    const blocks = readPemBlocks(text);
    if (text.split(PEM_BEGIN).length - 1 !== blocks.length) {
      refuse("unrecognised", name, "blocks that end", "PEM");
    }
    for (const { label, content } of blocks) await add(label, content);
  }
  const count = found.certificates.length + found.crls.length;
  if (count > MAX_CERTIFICATES) refuse("too-large", name, `${MAX_CERTIFICATES} certificates`, count);
}

/**
 * Certificates and lists, added to what was found; the first certificate may carry a quote, and then is evidence. What
 * cannot be read is a refusal of files that have evidence among them.
 */
async function certificateFile(content: Content, name: string, found: Found): Promise<Content | AttestError> {
  const before = found.certificates.length;
  const refused = await refusalOf(() => addCertificates(content.bytes, name, found));
  const [leaf] = found.certificates.slice(before);
  if (!leaf || !carriesEvidence(leaf) || !beginsWith(content.bytes, leaf)) return refused ?? content;
  if (refused) throw refused;
  found.certificates.splice(before, 1);
  const { carriedQuote } = await part(import("./attachment/attachment"));
  const { quote } = await carriedQuote(leaf);
  const items = [itemOf("cpu", MEDIA.intelQuote, quote), itemOf("certificate", MEDIA.attestedCertificate, leaf.der)];
  const isTdx = isQuote(quote, [4, 5], 0x81);
  return { form: isTdx ? "td-quote" : "cpu", bytes: content.bytes, items };
}

/** True if the first thing in a file is this certificate: in PEM, a list may stand in front of it. */
function beginsWith(data: Bytes, leaf: Certificate): boolean {
  if (derKind(data)) return true;
  const [first] = readPemBlocks(latin1(data));
  return first !== undefined && equal(first.content, leaf.der);
}

/** The form of one file, which need not be evidence without others. */
export async function formOf(file: NamedBytes): Promise<Form> {
  const content = await recognise(file);
  if (content.form !== "certificates") return content.form;
  const read = await certificateFile(content, file.name, nothingFound());
  return read instanceof AttestError ? content.form : read.form;
}

// -- files together

/** Recognise files of one Attester and put them together. */
export async function readFiles(files: readonly NamedBytes[]): Promise<Recognised> {
  if (!files.length) refuse("empty", "files", "evidence", "nothing");
  if (files.length > MAX_FILES) refuse("too-large", "files", `${MAX_FILES} files`, files.length);
  const found = nothingFound();
  const contents: Content[] = [];
  let refused: AttestError | undefined;
  for (const file of files) {
    const content = await recognise(file);
    found.certificates.push(...(content.certificates ?? []));
    const read = content.form === "certificates" ? await certificateFile(content, file.name, found) : content;
    if (read instanceof AttestError) refused ??= read;
    else contents.push(read);
  }
  if (refused && contents.some(({ items, form }) => items.length || form === "hcl")) throw refused;
  return { evidence: requireSound(together(contents)), presented: found };
}

function together(contents: readonly Content[]): Evidence {
  const of = (...forms: readonly Form[]): readonly Content[] => contents.filter(({ form }) => forms.includes(form));
  const hcl = onlyOne(of("hcl"));
  const tpm = onlyOne(of("tpm"));
  const table = onlyOne(of("table"));
  const machine = machineItems(of, hcl, tpm);
  const items = table ? withTable(machine, table.bytes) : [...machine];
  onlyOne(of("dstack-info"));
  onlyOne(of("app-compose"));
  const stated = contents.flatMap((content) => (content.stated ? [content.stated] : []));
  if (stated.length) items.push(statementsItem(stated));
  for (const device of of("device").flatMap((content) => content.items)) items.push(numbered(device, items));
  const keys = onlyOne(of("keys"));
  if (keys) items.push(itemOf("keys", MEDIA.providerKeys, keys.bytes));
  const bundle = onlyOne(of("bundle"));
  if (bundle) items.push(bundleItem(bundle.bytes, items));
  return items;
}

/** The items of the one file that speaks for the machine; of an Azure VM several files are one item. */
function machineItems(
  of: (...forms: readonly Form[]) => readonly Content[],
  hcl: Content | undefined,
  tpm: Content | undefined,
): readonly Item[] {
  const speaks = hcl ? of("cpu", "envelope", "hcl") : of("cpu", "envelope", "td-quote");
  if (!speaks.length && !of("device").length) refuse("empty", "files", "evidence", "endorsements");
  const stated = onlyOne(speaks)?.items ?? [];
  return hcl || tpm ? [azureItem(hcl, tpm, of("td-quote")[0])] : stated;
}

/** The pieces of an Azure VM's vTPM as one item; a TD quote belongs to them where the VM is one of Intel's. */
function azureItem(hcl: Content | undefined, tpm: Content | undefined, tdQuote: Content | undefined): Item {
  if (!hcl || !tpm) {
    return fail("malformed", "azure-incomplete", "", { expected: "HCL report and TPM quote", got: "one of them" });
  }
  return itemOf("cpu", MEDIA.azureCvm, azureJson(hcl.bytes, tpm.bytes, tdQuote?.bytes));
}

function onlyOne(found: readonly Content[]): Content | undefined {
  if (found.length > 1) refuse("ambiguous", "files", "one", found.length);
  return found[0];
}

/** A plain report and a table are an extended report; anything else has its certificates already. */
function withTable([report, ...others]: readonly Item[], table: Bytes): Item[] {
  if (report?.essence !== MEDIA.snpReport || others.length) {
    return refuse("ambiguous", "certificate table", MEDIA.snpReport, report?.essence ?? "none");
  }
  return [itemOf(report.name, MEDIA.snpExtended, concat(report.value, table))];
}

/** An endorsement bundle beside the evidence is an item of it. */
function bundleItem(bundle: Bytes, items: readonly Item[]): Item {
  const item = itemOf("endorsements", MEDIA.endorsements, bundle);
  return items.some(({ name }) => name === item.name) ? numbered(item, items) : item;
}
