/**
 * The document that travels: all evidence of one Attester as a collection of items (CMW, RFC 9999), JSON or canonical
 * CBOR. The wrapper protects nothing: items of one Attester are tied together by `binding`.
 */

import { type Bytes, base64urlBytes, compareBytes } from "./bytes";
import { type CborValue, cborBytes, cborValue, isMap } from "./cbor";
import { sha384 } from "./crypto";
import { fail } from "./errors";
import { type JsonValue, isObject, jsonValue } from "./json";

export const MAX_ENVELOPE_BYTES = 8 * 1024 * 1024;
export const MAX_ITEM_BYTES = 2 * 1024 * 1024;
const [MAX_ITEMS, MAX_DEPTH, MAX_NAME, MAX_MEDIA_TYPE, MAX_INDICATOR] = [64, 4, 64, 512, 2 ** 32 - 1];
const TYPE_KEY = "__cmwc_t";

const own = (name: string): string => `application/vnd.attest.${name}`;
export const MEDIA = {
  snpReport: "application/vnd.amd.sev-snp.attestation-report",
  snpExtended: own("snp-extended-report"),
  configfsTsm: "application/vnd.veraison.configfs-tsm+json",
  intelQuote: own("intel-quote"),
  nvidiaReport: own("nvidia-report"),
  nvidiaDevice: own("nvidia-device+json"),
  azureCvm: own("azure-cvm+json"),
  eventLog: own("tcg-event-log"),
  binding: own("binding+cbor"),
  endorsements: own("endorsements+cbor"),
} as const;
const ALIASES: Readonly<Record<string, string>> = { "application/vnd.amd.sev.snp.attestation-report": MEDIA.snpReport };

/** One record of a collection. */
export interface Item {
  readonly name: string;
  /** The media type in lower case without its parameters, old names replaced by today's. */
  readonly essence: string;
  readonly value: Bytes;
}

/** All evidence of one Attester as presented. Nothing of it is trusted yet. */
export type Evidence = readonly Item[];

function invalid(problem: string): never {
  return fail("malformed", "envelope-invalid", `evidence envelope: ${problem}`, { field: "envelope", clause: "RFC 9999; formats.md 3" });
}

export function itemOf(name: string, mediaType: string, value: Bytes): Item {
  const essence = (mediaType.split(";")[0] ?? "").trim().toLowerCase();
  return { name, essence: ALIASES[essence] ?? essence, value };
}

/** What a binding lists for this device: SHA-384 of the canonical CBOR of name, media type and bytes. */
export function itemDigest({ name, essence, value }: Item): Promise<Bytes> {
  return sha384(cborBytes([name, essence, value]));
}

/** SHA-384 over all items, independent of JSON or CBOR and of their order. */
export async function evidenceDigest(evidence: Evidence): Promise<Bytes> {
  const digests = await Promise.all(evidence.map(itemDigest));
  return sha384(cborBytes(digests.sort(compareBytes)));
}

/** Printable as a person reads it: no control or format characters, no lone surrogates, no blanks but the space. */
export function isPrintable(text: string): boolean {
  return !/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u.test(text);
}

/** Length in characters, not in UTF-16 units. */
export function characters(text: string): number {
  return [...text].length;
}

/** Refuse documents that two readers could read differently, or that are unreasonably large: `envelope-invalid`. */
export function requireSound(evidence: Evidence): Evidence {
  const names = new Set(evidence.map((item) => item.name));
  if (!evidence.length || evidence.length > MAX_ITEMS) invalid(`${evidence.length} items, expected 1 to ${MAX_ITEMS}`);
  if (names.size !== evidence.length) invalid("two items of one name");
  if (names.has(TYPE_KEY)) invalid(`${TYPE_KEY} names the collection's type and no item`);
  for (const item of evidence) {
    if (item.value.length > MAX_ITEM_BYTES) invalid(`item ${item.name} has more than ${MAX_ITEM_BYTES} bytes`);
  }
  return evidence;
}

/** Read a collection, or a single record as the item `cpu`; JSON or canonical CBOR by the first byte. */
export function parseEnvelope(data: Bytes): Evidence {
  if (data.length > MAX_ENVELOPE_BYTES) invalid(`${data.length} bytes, more than ${MAX_ENVELOPE_BYTES}`);
  const first = data.find((byte) => byte !== 0x20 && !(byte >= 0x09 && byte <= 0x0d));
  const text = first === 0x7b || first === 0x5b;
  const document = text ? jsonValue(data, "evidence envelope") : cborValue(data, "evidence envelope");
  return evidenceOf(document, text);
}

/** The same for a document that was read already. */
export function evidenceOf(document: JsonValue | CborValue, text: boolean): Evidence {
  if (Array.isArray(document)) return requireSound([record("cpu", document as Member[], text)]);
  const members = membersOf(document) ?? invalid("expected a collection or a record");
  const stated = members.find(([label]) => label === TYPE_KEY);
  if (stated && stated[1] !== null && typeof stated[1] !== "string") invalid(`${TYPE_KEY}: expected text`);
  return requireSound(items(members, "", 1, text));
}

type Member = JsonValue | CborValue;
type Members = readonly (readonly [string, Member])[];

function membersOf(value: Member): Members | undefined {
  if (isMap(value as CborValue)) return [...(value as ReadonlyMap<string, CborValue>)];
  return !(value instanceof Uint8Array) && isObject(value as JsonValue) ? Object.entries(value as object) : undefined;
}

function items(members: Members, prefix: string, depth: number, text: boolean): Item[] {
  if (depth > MAX_DEPTH) invalid(`collections nested deeper than ${MAX_DEPTH}`);
  return members.flatMap(([label, member]) => {
    if (label === TYPE_KEY) return [];
    const name = prefix + label;
    if (!name || characters(name) > MAX_NAME || !isPrintable(name)) invalid(`item names have 1 to ${MAX_NAME} printable characters`);
    if (Array.isArray(member)) return [record(name, member as Member[], text)];
    return items(membersOf(member) ?? invalid(`item ${name}: expected a record or a collection`), `${name}/`, depth + 1, text);
  });
}

/** `[media type, value, indicator?]`; the value is base64url in JSON and bytes in CBOR. */
function record(name: string, parts: readonly Member[], text: boolean): Item {
  const [mediaType, value, indicator] = parts;
  if (parts.length !== 2 && parts.length !== 3) invalid(`item ${name}: expected [media type, value, indicator?]`);
  if (typeof mediaType !== "string" || !mediaType || characters(mediaType) > MAX_MEDIA_TYPE || !isPrintable(mediaType)) {
    invalid(`item ${name}: a media type is text of 1 to ${MAX_MEDIA_TYPE} printable characters`);
  }
  const bytes = text && typeof value === "string" ? base64urlBytes(value, `item ${name}`) : value;
  if (!(bytes instanceof Uint8Array)) invalid(`item ${name}: the value is base64url text in JSON and bytes in CBOR`);
  if (parts.length === 3 && !(typeof indicator === "number" && indicator > 0 && indicator <= MAX_INDICATOR)) {
    invalid(`item ${name}: the indicator is an integer of 1 to ${MAX_INDICATOR}`);
  }
  return itemOf(name, mediaType, bytes as Bytes);
}
