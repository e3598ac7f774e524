/** Values of a service's document, each refused by its path. */

import { type Bytes, hex } from "../bytes";
import { base64Bytes } from "../encoding";
import { AttestError, need, refusalOf, refuse } from "../errors";
import { JsonFloat, type JsonObject, type JsonValue, isObject } from "../json";
import { readPemBlocks } from "../pem";
import { type Certificate, parseCertificate } from "../x509";

const CODE = "provider-document-malformed";
const FORM = "provider.form";
const CLAUSE = "docs/providers.md";
/** Certificates of a TLS server; recorded chains have one or two. */
const MAX_CERTIFICATES = 8;
export const DIGEST_BYTES = 32;

/** Require a condition of one field. */
export function demand(holds: unknown, field: string, expected: string, got = "another value"): asserts holds {
  need(holds, "malformed", CODE, expected, got, { field, check: FORM, clause: CLAUSE });
}

export function unsupported(field: string, expected: string, got: string): never {
  return refuse("unsupported", "evidence-unsupported", expected, got.slice(0, 80), { field, check: FORM });
}

export function ambiguous(expected: string, got: string): never {
  return refuse("malformed", "evidence-ambiguous", expected, got, { field: "document", check: FORM, clause: CLAUSE });
}

const placeOf = (path: string, name: string): string => (path ? `${path}.${name}` : name);

/** An object; members of no meaning here are ignored, and nothing is concluded from them. */
export function membersOf(value: JsonValue | undefined, path: string): JsonObject {
  demand(isObject(value), path, "an object");
  return value;
}

export function arrayOf(value: JsonValue | undefined, path: string, most: number): JsonValue[] {
  demand(Array.isArray(value) && value.length <= most, path, `an array of at most ${most} values`);
  return value;
}

/** Whether a member is there and not null. */
export const given = (members: JsonObject, name: string): boolean => (members[name] ?? null) !== null;

export function textAt(members: JsonObject, name: string, path: string): string {
  const text = members[name];
  demand(typeof text === "string", placeOf(path, name), "text");
  return text;
}

/** Bytes in hex, of one of these sizes. */
export function hexAt(members: JsonObject, name: string, path: string, ...sizes: readonly number[]): Bytes {
  const text = textAt(members, name, path);
  const data = unhexed(text);
  demand(
    data && (!sizes.length || sizes.includes(data.length)),
    placeOf(path, name),
    `${sizes.join(" or ")} bytes of hex`,
  );
  return data;
}

export function optionalHexAt(
  members: JsonObject,
  name: string,
  path: string,
  ...sizes: readonly number[]
): Bytes | undefined {
  return given(members, name) ? hexAt(members, name, path, ...sizes) : undefined;
}

/** Decode hex of an even number of digits; undefined for other text. A quote has 10,000 digits. */
export function unhexed(text: string): Bytes | undefined {
  if (text.length % 2 || /[^0-9a-fA-F]/.test(text)) return undefined;
  const data = new Uint8Array(text.length / 2);
  for (let i = 0; i < data.length; i++) data[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return data;
}

export function base64At(members: JsonObject, name: string, path: string): Promise<Bytes> {
  const text = textAt(members, name, path);
  return orMalformed(placeOf(path, name), "base64 with padding", () => base64Bytes(text, name));
}

/** Certificates in PEM, leaf first. */
export function certificatesAt(members: JsonObject, name: string, path: string): Promise<readonly Certificate[]> {
  const pem = textAt(members, name, path);
  return orMalformed(placeOf(path, name), `1 to ${MAX_CERTIFICATES} certificates in PEM`, () => {
    const blocks = readPemBlocks(pem);
    const isWhole = blocks.length === pem.split("-----BEGIN ").length - 1;
    const areAll = blocks.every(({ label }) => label === "CERTIFICATE");
    demand(isWhole && areAll && blocks.length && blocks.length <= MAX_CERTIFICATES, placeOf(path, name), "PEM");
    return blocks.map(({ content }) => parseCertificate(content));
  });
}

/** A certificate in base64 of DER. */
export async function certificateAt(members: JsonObject, name: string, path: string): Promise<Certificate> {
  const der = await base64At(members, name, path);
  return orMalformed(placeOf(path, name), "a certificate in base64", () => parseCertificate(der));
}

async function orMalformed<T>(field: string, expected: string, read: () => T): Promise<T> {
  const found = await refusalOf(read);
  demand(!(found instanceof AttestError), field, expected);
  return found;
}

/** JSON without white space, as Python writes it without escapes; members in their order or in that of their names. */
export function compactText(value: JsonValue, byName = false): string {
  if (Array.isArray(value)) return `[${value.map((member) => compactText(member, byName)).join(",")}]`;
  if (isObject(value)) {
    const names = byName ? Object.keys(value).sort() : Object.keys(value);
    return `{${names.map((name) => `${JSON.stringify(name)}:${compactText(value[name]!, byName)}`).join(",")}}`;
  }
  if (value instanceof JsonFloat) return value.value % 1 ? `${value.value}` : `${value.value}.0`;
  return typeof value === "bigint" ? `${value}` : JSON.stringify(value);
}

export const same = (a: Bytes, b: Bytes): boolean => hex(a) === hex(b);
