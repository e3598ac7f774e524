/**
 * The document that travels: all evidence of one Attester as a collection of items (CMW, RFC 9999), JSON or canonical
 * CBOR. The wrapper protects nothing: items of one Attester are tied together by `binding`.
 */

import { type Bytes, compareBytes } from "./bytes";
import { base64urlBytes } from "./encoding";
import { type CborValue, cborBytes, cborValue, isMap } from "./cbor";
import { sha384 } from "./crypto";
import { need } from "./errors";
import { type JsonValue, isObject } from "./json";

export const MAX_ENVELOPE_BYTES = 8 * 1024 * 1024;
export const MAX_ITEM_BYTES = 2 * 1024 * 1024;
const MAX_ITEMS = 64;
const MAX_DEPTH = 4;
const MAX_VALUES = 4096;
const MAX_NAME = 64;
const MAX_MEDIA_TYPE = 512;
const MAX_INDICATOR = 2 ** 32 - 1;
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
  attestedCertificate: own("attested-certificate"),
  committedData: own("committed-data+cbor"),
  uvmEndorsement: own("uvm-endorsement+cose"),
  dstackLog: own("dstack-event-log+json"),
  dstackStatements: own("dstack-statements+json"),
  providerDocument: own("provider-document+json"),
  providerKeys: own("provider-keys+json"),
  sample: own("sample+json"),
  sampleDevice: own("sample-device+json"),
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

/** Require what every envelope must be; two readers could otherwise read it differently: `envelope-invalid`. */
function demand(holds: unknown, expected: string, got?: number): asserts holds {
  need(holds, "malformed", "envelope-invalid", expected, got, { field: "envelope", clause: "RFC 9999" });
}

export function itemOf(name: string, mediaType: string, value: Bytes): Item {
  const essence = mediaType.replace(/;.*/s, "").trim().toLowerCase();
  return { name, essence: ALIASES[essence] ?? essence, value };
}

/** Entry of a binding for this device: SHA-384 of the canonical CBOR of name, media type and bytes. */
export function itemDigest({ name, essence, value }: Item): Promise<Bytes> {
  return sha384(cborBytes([name, essence, value]));
}

/** SHA-384 over all items, independent of JSON or CBOR and of their order. */
export async function evidenceDigest(evidence: Evidence): Promise<Bytes> {
  const digests = await Promise.all(evidence.map(itemDigest));
  return sha384(cborBytes(digests.sort(compareBytes)));
}

/**
 * True if this is text of 1 to `most` characters (not UTF-16 units), each printable as a person reads it: no control or
 * format characters, no lone surrogates, no blanks but the space.
 */
export function isText(value: unknown, most: number): value is string {
  if (typeof value !== "string" || value === "" || Array.from(value).length > most) return false;
  return !/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u.test(value);
}

/** Refuse documents that two readers could read differently, or that are unreasonably large: `envelope-invalid`. */
export function requireSound(evidence: Evidence): Evidence {
  const names = new Set(evidence.map((item) => item.name));
  demand(evidence.length && evidence.length <= MAX_ITEMS, `1 to ${MAX_ITEMS} items`, evidence.length);
  demand(names.size === evidence.length && !names.has(TYPE_KEY), "names of one item each");
  for (const { value } of evidence) {
    demand(value.length <= MAX_ITEM_BYTES, `items of ${MAX_ITEM_BYTES} bytes`, value.length);
  }
  return evidence;
}

/** Read a collection, or a single record as the item `cpu`, in canonical CBOR. */
export function parseEnvelope(data: Bytes): Evidence {
  const document = data.length > MAX_ENVELOPE_BYTES ? null : cborValue(data, "envelope", MAX_VALUES);
  return evidenceOf(document, data.length, false);
}

type Member = JsonValue | CborValue;

/** The same for a document that was read already. */
export function evidenceOf(document: Member, size: number, isJson: boolean): Evidence {
  demand(size <= MAX_ENVELOPE_BYTES, `${MAX_ENVELOPE_BYTES} bytes`, size);
  if (Array.isArray(document)) return requireSound([record("cpu", document, isJson)]);
  const members = membersOf(document);
  demand(
    members.every(([label, value]) => label !== TYPE_KEY || value === null || typeof value === "string"),
    TYPE_KEY,
  );
  return requireSound(items(members, "", 1, isJson));
}

function membersOf(value: Member): readonly (readonly [string, Member])[] {
  if (isMap(value as CborValue)) return [...(value as ReadonlyMap<string, CborValue>)];
  demand(isObject(value as JsonValue) && !(value instanceof Uint8Array), "a collection or a record");
  return Object.entries(value as object);
}

function items(members: ReturnType<typeof membersOf>, prefix: string, depth: number, isJson: boolean): Item[] {
  demand(depth <= MAX_DEPTH, `${MAX_DEPTH} collections deep`);
  return members.flatMap(([label, member]) => {
    if (label === TYPE_KEY) return [];
    const name = prefix + label;
    demand(isText(name, MAX_NAME), `names of ${MAX_NAME} printable characters`);
    return Array.isArray(member)
      ? [record(name, member, isJson)]
      : items(membersOf(member), `${name}/`, depth + 1, isJson);
  });
}

/** `[media type, value, indicator?]`; the value is base64url in JSON and bytes in CBOR. */
function record(name: string, parts: readonly Member[], isJson: boolean): Item {
  const [mediaType, value, indicator = 1] = parts;
  const form = "[media type, value, indicator?]";
  demand(parts.length === 2 || parts.length === 3, form);
  demand(isText(mediaType, MAX_MEDIA_TYPE), form);
  const bytes = isJson && typeof value === "string" ? base64urlBytes(value, name) : value;
  demand(bytes instanceof Uint8Array, form);
  demand(typeof indicator === "number" && indicator > 0 && indicator <= MAX_INDICATOR, form);
  return itemOf(name, mediaType, bytes);
}

/** Give an item the next free number; a binding knows items by name, so no other one is renamed. */
export function numbered(item: Item, items: readonly Item[]): Item {
  const prefix = item.name.replace(/\d+$/, "");
  let number = 0;
  while (items.some(({ name }) => name === `${prefix}${number}`)) number += 1;
  return { ...item, name: `${prefix}${number}` };
}
