/** The entry of a transparency log: its place in the log's tree, the log's promise, and what was logged (RFC 6962). */

import { type Bytes, base64Text, concat, equal, hex, utf8 } from "../bytes";
import { sha256 } from "../crypto";
import { AttestError, refusalOf } from "../errors";
import { type JsonObject, type JsonValue, isObject, jsonValue } from "../json";
import type { Certificate } from "../x509";
import { type Envelope, type LogEntry, type PublicKey, bytesOf } from "./forms";
import { keysHold } from "./keys";
import { requireHolding } from "./refusals";

/** A note of a log: origin, size, root hash, perhaps more, an empty line, and signatures. */
const CHECKPOINT = /^([^\n]+\n(\d+)\n([^\n]+)\n(?:[^\n]+\n)*)\n((?:\u2014 [!-~]+ [!-~]+\n)+)$/;

/** Require the log to have the entry: its proof, the signed state of its tree, and its promise. */
export async function requireLogged(entry: LogEntry, keys: readonly PublicKey[]): Promise<void> {
  const { inclusionProof: proof, logId, inclusionPromise } = entry;
  const root = bytesOf(proof.rootHash);
  requireHolding(equal(await rootOf(entry), root), "the inclusion proof leads to another root hash");
  const id = bytesOf(logId.keyId);
  await requireCheckpoint(proof, root, id, keys);
  const promise = bytesOf(inclusionPromise!.signedEntryTimestamp);
  const holds = await keysHold(keys, id, promise, promisedBytes(entry, hex(id)));
  requireHolding(holds, "no log of the trusted root made the promise");
}

/** The canonical JSON (RFC 8785) that the promise signs, which has no greater integers than a number holds. */
function promisedBytes({ canonicalizedBody, integratedTime, logIndex }: LogEntry, id: string): Bytes {
  requireHolding(Number.isSafeInteger(Number(logIndex)), "an index that the promise cannot state");
  const body = JSON.stringify(canonicalizedBody);
  return utf8(`{"body":${body},"integratedTime":${integratedTime},"logID":"${id}","logIndex":${logIndex}}`);
}

/** The root hash to which a proof leads: first hashes of either side, then those on the left alone. */
async function rootOf({ canonicalizedBody, inclusionProof: proof }: LogEntry): Promise<Bytes> {
  const index = BigInt(proof.logIndex);
  const inner = bitsOf(index ^ (BigInt(proof.treeSize) - 1n));
  const border = (index >> BigInt(inner)).toString(2).replaceAll("0", "").length;
  requireHolding(proof.hashes.length === inner + border, "an inclusion proof of another length");
  let hash = await sha256(concat(Uint8Array.of(0), bytesOf(canonicalizedBody)));
  for (const [level, text] of proof.hashes.entries()) {
    const other = bytesOf(text);
    const isLeft = level < inner && !((index >> BigInt(level)) & 1n);
    hash = await sha256(concat(Uint8Array.of(1), ...(isLeft ? [hash, other] : [other, hash])));
  }
  return hash;
}

const bitsOf = (value: bigint): number => (value ? value.toString(2).length : 0);

async function requireCheckpoint(
  { treeSize, checkpoint }: LogEntry["inclusionProof"],
  root: Bytes,
  id: Bytes,
  keys: readonly PublicKey[],
): Promise<void> {
  const [, note = "", size, hash = "", signatures = ""] = CHECKPOINT.exec(checkpoint!.envelope) ?? [];
  requireHolding(note && size === treeSize, "the signed checkpoint is not of the size of the proof");
  requireHolding(equal(bytesOf(hash), root), "the signed checkpoint has another root hash");
  const signed = signatures
    .trimEnd()
    .split("\n")
    .map((line) => bytesOf(line.split(" ")[2]!));
  requireHolding(
    signed.every(({ length }) => length > 4),
    "a signature of the checkpoint is too short",
  );
  const own = signed.find((one) => equal(one.slice(0, 4), id.slice(0, 4)));
  const holds = own && (await keysHold(keys, id, own.slice(4), utf8(note)));
  requireHolding(holds, "no log of the trusted root signed the checkpoint");
}

/** Require that exactly this envelope, signed under this certificate, was logged. */
export async function requireSameContent(entry: LogEntry, envelope: Envelope, leaf: Certificate): Promise<void> {
  const body = await refusalOf(() => jsonValue(bytesOf(entry.canonicalizedBody), "the log entry"));
  requireHolding(!(body instanceof AttestError) && isObject(body), "a log entry that cannot be read");
  const spec = body.spec;
  requireHolding(body.kind === "dsse" && body.apiVersion === "0.0.1" && isObject(spec), "a log entry of another kind");
  const digest = hex(await sha256(bytesOf(envelope.payload)));
  requireHolding(isDigest(spec.payloadHash, digest), "another payload was logged");
  const { signatures } = spec;
  const isOne = Array.isArray(signatures) && signatures.length === 1;
  const [logged] = isOne ? signatures : [];
  const [signature] = envelope.signatures;
  const verifier = base64Text(utf8(pemOf(leaf.der)));
  const isSame = isObject(logged) && logged.signature === signature!.sig && logged.verifier === verifier;
  requireHolding(isSame, "another signature or certificate was logged");
}

const isDigest = (value: JsonValue | undefined, digest: string): value is JsonObject =>
  isObject(value) && value.algorithm === "sha256" && value.value === digest;

function pemOf(der: Bytes): string {
  const lines = base64Text(der).match(/.{1,64}/g)!;
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}
