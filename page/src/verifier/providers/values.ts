/** Values of a service's document, each refused by its path. */

import type { Bytes } from "../bytes";
import { base64Bytes, unhexed } from "../encoding";
import { AttestError, need, refusalOf, refuse } from "../errors";
import { type JsonObject, type JsonValue, isObject } from "../json";
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

/** True if a member is there and not null. */
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
