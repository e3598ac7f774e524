/** Documents of reference values beside a policy: what they contain, who signed them, and what the policy accepts. */

import { told } from "./claims";
import { type Bytes, concat, hex, unhex, utf8 } from "../verifier/bytes";
import { base64Bytes } from "../verifier/encoding";
import { sha256, signatureHolds } from "../verifier/crypto";
import { AttestError, refusalOf, refuse as refuseFor } from "../verifier/errors";
import type { JsonObject } from "../verifier/json";
import { part } from "../verifier/parts";
import { readPemBlocks } from "../verifier/pem";
import {
  type Json,
  anything,
  canonical,
  choice,
  date,
  demand,
  hexOf,
  integer,
  join,
  like,
  listOf,
  maybe,
  moment,
  once,
  parsed,
  record,
  refuse,
  tableOf,
  text,
} from "./decode";
import { isProvenance } from "./kept";
import type { Built } from "./provenance";
import type { Accepted, ReferenceValues, References } from "./references";

const SIZES = [48, 32] as const;

const EXACT = Number.MAX_SAFE_INTEGER;
const KINDS: Readonly<Record<(typeof SIZES)[number], string>> = {
  48: "snp-(?:measurement|(?:id|author)-key-digest)|tdx-(?:mr-(?:td|seam)|rtmr[0-3])|gpu-fwid",
  32: "snp-host-data|sgx-mr-(?:enclave|signer)|nvidia-rim|azure-pcr(?:1?\\d|2[0-3])",
};
const entry = record({
  kind: like(Object.values(KINDS).join("|")),
  values: anything,
  origin: maybe(text),
  expires: maybe(date),
});
const documentOf = record({
  schema: choice(["attest.references/1"]),
  name: text,
  version: integer(1, EXACT),
  origin: text,
  issued: date,
  expires: demand(date),
  values: tableOf((value, path, name): ReferenceValues => {
    const { kind, values, expires } = entry(value, path, name);
    const found = listOf(hexOf(RegExp(`^(?:${KINDS[48]})$`).test(kind) ? 48 : 32))(values, join(path, "values"), name);
    once(found, join(path, "values"));
    return { values: found, expires };
  }),
  revoked: maybe(listOf(record({ value: hexOf(...SIZES), reason: text })), []),
});

interface Document extends ReturnType<typeof documentOf> {
  readonly digest: string;
  /** Signed content. */
  readonly signed: Bytes;
  /** SHA-256 of the file, hex: the subject of its provenance. */
  readonly file: string;
}

async function readDocument(value: Json, text: string): Promise<Document> {
  const found = documentOf(value, "", "");
  const end = found.expires.value;
  if (end !== undefined && moment(end) < moment(found.issued)) refuse("expires", "a moment after issued", end);
  const bytes = utf8(canonical(value));
  const signed = concat(utf8("attest references v1\0"), bytes);
  return { ...found, digest: hex(await sha256(bytes)), signed, file: hex(await sha256(utf8(text))) };
}

// -- signatures

const ALGORITHMS: Readonly<Record<number, string>> = { 44: "Ed25519", 91: "ES256", 120: "ES384" };
const SIGNATURE = "attest.policy-signature/1";
const signatureOf = record({
  schema: choice([SIGNATURE]),
  name: text,
  version: integer(1, EXACT),
  digest: hexOf(32),
  key_id: hexOf(32),
  algorithm: choice(Object.values(ALGORITHMS)),
  signature: (value, path, name) => base64Bytes(text(value, path, name), path),
  signed_at: date,
});
type Signature = ReturnType<typeof signatureOf>;

async function readSignature(value: Json): Promise<Signature> {
  const found = await refusalOf(() => signatureOf(value, "", ""));
  return found instanceof AttestError ? refused("policy-signature-unreadable", "a signature", found.message) : found;
}

/** Read a public key: SubjectPublicKeyInfo, whose length tells its kind. */
async function readKey(pem: string): Promise<Bytes> {
  const found = await refusalOf(() => readPemBlocks(pem));
  const [block] = Array.isArray(found) ? found : [];
  return block?.label === "PUBLIC KEY" && block.content.length in ALGORITHMS
    ? block.content
    : refused("policy-key-invalid", Object.values(ALGORITHMS), block?.label);
}

async function holds({ algorithm, signature }: Signature, spki: Bytes, signed: Bytes): Promise<boolean> {
  if (algorithm !== ALGORITHMS[spki.length]) return false;
  // The DER names of ECDSA with SHA-256 and SHA-384.
  if (algorithm !== "Ed25519") {
    return signatureHolds(signed, signature, unhex(`300a06082a8648ce3d04030${algorithm === "ES256" ? 2 : 3}`), spki);
  }
  const key = await crypto.subtle.importKey("spki", spki, algorithm, false, ["verify"]);
  return crypto.subtle.verify(algorithm, key, signature, signed);
}

/** Files beside a policy. None of them is trusted: the policy says by digest what counts. */
interface Files {
  readonly documents: readonly Document[];
  readonly signatures: readonly Signature[];
  /** By the SHA-256 of their SubjectPublicKeyInfo. */
  readonly keys: ReadonlyMap<string, Bytes>;
}

/** A document, and the ids of the keys that signed it. */
interface Held {
  readonly document: Document;
  readonly signers: readonly string[];
}

async function readFiles(files: readonly string[]): Promise<Files> {
  const documents: Document[] = [];
  const signatures: Signature[] = [];
  const keys = new Map<string, Bytes>();
  for (const file of files) {
    const value = /^\s*\{/.test(file) ? await parsed(file) : undefined;
    if (!value) {
      const key = await readKey(file);
      keys.set(hex(await sha256(key)), key);
    } else if ((value as JsonObject).schema === SIGNATURE) signatures.push(await readSignature(value));
    else documents.push(await readDocument(value, file));
  }
  return { documents, signatures, keys };
}

/** Return the documents by name, each with its signers: a signature by a key that is there has to hold. */
async function heldDocuments(files: Files): Promise<ReadonlyMap<string, Held>> {
  const found = new Map<string, Held>();
  for (const document of files.documents) {
    if (found.has(document.name)) refused("references-collide", "a name once", document.name);
    found.set(document.name, { document, signers: await signersOf(document, files) });
  }
  return found;
}

async function signersOf({ name, version, digest, signed }: Document, { signatures, keys }: Files): Promise<string[]> {
  const signers: string[] = [];
  for (const signature of signatures) {
    const key = keys.get(signature.key_id);
    const isOver = signature.name === name && signature.version === version && signature.digest === digest;
    // A signature by an unknown key, or over another document, has no effect.
    if (!key || !isOver) continue;
    const isValid = await holds(signature, key, signed).catch(() => false);
    if (!isValid) refused("references-not-accepted", "a signature", signature.key_id);
    signers.push(signature.key_id);
  }
  return signers;
}

// -- what a policy may speak of

const refused = (code: string, expected: unknown, got: unknown): never =>
  refuseFor("malformed", code, told(expected), told(got));

/** A document that a policy accepts. */
export interface Voucher {
  readonly document: string;
  /** Names of its values. */
  readonly names: readonly string[];
  /** The policy accepts it by signatures. */
  readonly isSigned: boolean;
  readonly built: Built | undefined;
}

export interface Merged {
  readonly values: References;
  readonly vouchers: readonly Voucher[];
}

/**
 * The policy's own values, and those of the documents that it accepts; names must not collide, and what is revoked
 * counts nowhere.
 */
export async function merged(policy: References, rows: readonly Accepted[], files: readonly string[]): Promise<Merged> {
  const documents = await heldDocuments(await readFiles(files.filter((file) => !isProvenance(file))));
  const subjects = [...documents.values()].map(({ document }) => document.file);
  const built = await builtOf(files.filter(isProvenance), subjects);
  const found: Record<string, ReferenceValues> = { ...policy };
  const revoked = new Set<string>();
  const vouchers: Voucher[] = [];
  for (const accepted of rows) {
    const held = documents.get(accepted.document) ?? refused("references-missing", accepted.document, undefined);
    requireAccepted(accepted, held);
    addValues(found, held.document);
    for (const { value } of held.document.revoked) revoked.add(value);
    const { name, values, file } = held.document;
    const isSigned = accepted.signers.length > 0;
    vouchers.push({ document: name, names: Object.keys(values), isSigned, built: built.get(file) });
  }
  return { values: withoutRevoked(found, revoked), vouchers };
}

/** Provenance that holds, by the SHA-256 of the document. Its code is fetched when there is some. */
async function builtOf(files: readonly string[], subjects: readonly string[]): Promise<ReadonlyMap<string, Built>> {
  if (!files.length) return new Map();
  const { provenanceOf } = await part(import("./provenance"));
  return provenanceOf(files, subjects);
}

/**
 * Require that a document is the pinned one, or that enough of the accepted keys signed it, and that it is new enough.
 */
function requireAccepted(
  { sha256: pin, signers, at_least: least, minimum_version: minimum }: Accepted,
  { document, signers: held }: Held,
): void {
  const { digest, version } = document;
  const counting = new Set(signers.filter((one) => held.includes(one)));
  if (pin !== undefined && pin !== digest) refused("references-not-accepted", pin, digest);
  if (pin === undefined && counting.size < least) {
    refused("references-not-accepted", `${least} of ${told(signers)}`, held);
  }
  if (version < minimum) refused("references-not-accepted", `version ${minimum} or newer`, version);
}

/** Add the values of a document, which end with it. */
function addValues(found: Record<string, ReferenceValues>, { values, expires: end }: Document): void {
  for (const [name, { values: list, expires }] of Object.entries(values)) {
    if (Object.hasOwn(found, name)) refused("references-collide", "a name once", name);
    // The earlier of both ends.
    const ends = [end.value, expires].filter((one) => one !== undefined);
    const [sooner] = ends.sort((a, b) => moment(a) - moment(b));
    found[name] = { values: list, expires: sooner };
  }
}

function withoutRevoked(found: References, revoked: ReadonlySet<string>): References {
  const kept = Object.entries(found).map(([name, { values, expires }]) => {
    const left = values.filter((value) => !revoked.has(value));
    if (!left.length) refused("references-revoked", "a value that is not revoked", name);
    return [name, { values: left, expires }] as const;
  });
  return Object.fromEntries(kept);
}
