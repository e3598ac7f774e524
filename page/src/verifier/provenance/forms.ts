/** Forms of Sigstore's documents, as `attest/provenance/forms.py`: closed, one spelling for one content. */

import type { Bytes } from "../bytes";
import { base64Bytes } from "../encoding";
import { AttestError, need, refusalOf } from "../errors";
import { type JsonValue, isObject, jsonValue } from "../json";
import { parseMoment } from "../time";
import { type Certificate, parseCertificate } from "../x509";

const MOST_BYTES = 1 << 20;
const MOST_VALUES = 20_000;

/** Base64 in a document that was read. */
export const bytesOf = (text: string): Bytes => base64Bytes(text, "base64");

// -- shapes

type Shape = (value: JsonValue) => boolean;

const isText: Shape = (value) => typeof value === "string";
const oneOf =
  (...texts: readonly string[]): Shape =>
  (value) =>
    texts.includes(value as string);
const listOf =
  (shape: Shape): Shape =>
  (value) =>
    Array.isArray(value) && value.every(shape);

/** An object that has these members, perhaps those, and no others. */
function record(needed: Readonly<Record<string, Shape>>, optional: Readonly<Record<string, Shape>> = {}): Shape {
  const shapes = new Map(Object.entries({ ...needed, ...optional }));
  return (value) =>
    isObject(value) &&
    Object.entries(value).every(([name, member]) => shapes.get(name)?.(member)) &&
    Object.keys(needed).every((name) => name in value);
}

/** True if an attempt is not refused. */
function succeeds(attempt: () => unknown): boolean {
  try {
    attempt();
    return true;
  } catch (error) {
    if (error instanceof AttestError) return false;
    throw error;
  }
}

const isBytes: Shape = (value) => typeof value === "string" && succeeds(() => bytesOf(value));
const isMoment: Shape = (value) => typeof value === "string" && succeeds(() => parseMoment(value, "time"));
const isUnsigned: Shape = (value) =>
  typeof value === "string" && /^(?:0|[1-9]\d{0,19})$/.test(value) && BigInt(value) < 1n << 64n;

// -- what is common to both documents

const HASHES = oneOf("SHA2_256", "SHA2_384", "SHA2_512", "SHA3_256", "SHA3_384");
const certificate = record({ rawBytes: isBytes });
const chain = record({ certificates: listOf(certificate) });
const logId = record({ keyId: isBytes });

// -- bundles

export interface LogEntry {
  readonly logIndex: string;
  readonly logId: { readonly keyId: string };
  readonly kindVersion: { readonly kind: string; readonly version: string };
  readonly integratedTime?: string;
  readonly inclusionPromise?: { readonly signedEntryTimestamp: string };
  readonly inclusionProof: {
    readonly logIndex: string;
    readonly rootHash: string;
    readonly treeSize: string;
    readonly hashes: readonly string[];
    readonly checkpoint?: { readonly envelope: string };
  };
  readonly canonicalizedBody: string;
}

export interface Envelope {
  readonly payload: string;
  readonly payloadType: string;
  readonly signatures: readonly { readonly sig: string }[];
}

interface Raw {
  readonly rawBytes: string;
}

interface BundleDocument {
  readonly mediaType: string;
  readonly verificationMaterial: {
    readonly certificate?: Raw;
    readonly x509CertificateChain?: { readonly certificates: readonly Raw[] };
    readonly tlogEntries: readonly LogEntry[];
  };
  readonly dsseEnvelope?: Envelope;
}

/** A bundle with one log entry, its proof and checkpoint, and certificates that can be read. */
export interface Bundle {
  readonly mediaType: string;
  readonly leaf: Certificate;
  readonly entry: LogEntry;
  readonly envelope: Envelope | undefined;
}

const BUNDLE = "application/vnd.dev.sigstore.bundle";
const NEWEST = [`${BUNDLE}.v0.3+json`, `${BUNDLE}+json;version=0.3`];
export const OLDEST_BUNDLE = `${BUNDLE}+json;version=0.1`;

const proof = record(
  { logIndex: isUnsigned, rootHash: isBytes, treeSize: isUnsigned, hashes: listOf(isBytes) },
  { checkpoint: record({ envelope: isText }) },
);
const entry = record(
  {
    logIndex: isUnsigned,
    logId,
    kindVersion: record({ kind: isText, version: isText }),
    inclusionProof: proof,
    canonicalizedBody: isBytes,
  },
  { integratedTime: isUnsigned, inclusionPromise: record({ signedEntryTimestamp: isBytes }) },
);
const material = record(
  { tlogEntries: listOf(entry) },
  {
    publicKey: record({ hint: isText }),
    x509CertificateChain: chain,
    certificate,
    timestampVerificationData: record({}, { rfc3161Timestamps: listOf(record({ signedTimestamp: isBytes })) }),
  },
);
const bundle = record(
  { mediaType: oneOf(...NEWEST, `${BUNDLE}+json;version=0.2`, OLDEST_BUNDLE), verificationMaterial: material },
  {
    messageSignature: record({ signature: isBytes }, { messageDigest: record({ algorithm: HASHES, digest: isBytes }) }),
    dsseEnvelope: record({
      payload: isBytes,
      payloadType: isText,
      signatures: listOf(record({ sig: isBytes }, { keyid: isText })),
    }),
  },
);

export function requireReadable(holds: unknown, got: string): asserts holds {
  need(holds, "malformed", "provenance-malformed", "a bundle with one log entry, proof and checkpoint", got);
}

/** Read a JSON document of a bounded number of values: `json-invalid`. */
export function parsed(data: Bytes, what: string): JsonValue {
  const values = data.reduce((count, byte) => count + Number(byte === 0x2c || byte === 0x5b || byte === 0x7b), 0);
  need(values <= MOST_VALUES, "malformed", "json-invalid", `at most ${MOST_VALUES} values`, values, { field: what });
  return jsonValue(data, what);
}

/** Read a bundle: `provenance-malformed`, or `json-invalid`. */
export async function readBundle(data: Bytes): Promise<Bundle> {
  requireReadable(data.length <= MOST_BYTES, `more than ${MOST_BYTES} bytes`);
  const value = parsed(data, "the bundle");
  requireReadable(bundle(value), "another form");
  const { mediaType, verificationMaterial, dsseEnvelope: envelope } = value as unknown as BundleDocument;
  const { tlogEntries, certificate: newest, x509CertificateChain: older } = verificationMaterial;
  const [logged, ...more] = tlogEntries;
  requireReadable(logged && !more.length, `${tlogEntries.length} log entries`);
  const { checkpoint, logIndex, treeSize } = logged.inclusionProof;
  requireReadable(checkpoint && BigInt(logIndex) < BigInt(treeSize), "a proof without a checkpoint or a place");
  requireReadable(
    ["messageSignature", "dsseEnvelope"].filter((name) => name in (value as object)).length === 1,
    "content",
  );
  const keys = ["publicKey", "certificate", "x509CertificateChain"];
  requireReadable(keys.filter((name) => name in verificationMaterial).length === 1, "keys");
  const listed = (NEWEST.includes(mediaType) ? newest && [newest] : older?.certificates) ?? [];
  const leaves = await refusalOf(() => listed.map(({ rawBytes }) => parseCertificate(bytesOf(rawBytes))));
  requireReadable(!(leaves instanceof AttestError), "a certificate that cannot be read");
  const [leaf] = leaves;
  requireReadable(leaf, "no certificate");
  return { mediaType, leaf, entry: logged, envelope };
}

// -- trusted roots

interface Period {
  readonly start: string;
  readonly end?: string;
}

export interface PublicKey {
  readonly rawBytes?: string;
  readonly keyDetails: string;
  readonly validFor?: Period;
}

interface Log {
  readonly publicKey: PublicKey;
}

interface Authority {
  readonly certChain: { readonly certificates: readonly Raw[] };
  readonly validFor: Period;
}

interface RootDocument {
  readonly tlogs: readonly Log[];
  readonly ctlogs: readonly Log[];
  readonly certificateAuthorities: readonly Authority[];
}

/** Trust material that was valid at one time. */
export interface TrustedRoot {
  readonly logs: readonly PublicKey[];
  readonly certificateLogs: readonly PublicKey[];
  /** DER certificates of each authority. */
  readonly authorities: readonly (readonly Bytes[])[];
}

const period = record({ start: isMoment }, { end: isMoment });
const RSA_SIZES = ["2048", "3072", "4096"];
const DETAILS = oneOf(
  "PKCS1_RSA_PKCS1V5",
  "PKCS1_RSA_PSS",
  "PKIX_RSA_PKCS1V5",
  "PKIX_RSA_PSS",
  ...RSA_SIZES.flatMap((size) => ["PKCS1V15", "PSS"].map((scheme) => `PKIX_RSA_${scheme}_${size}_SHA256`)),
  "PKIX_ECDSA_P256_HMAC_SHA_256",
  "PKIX_ECDSA_P256_SHA_256",
  "PKIX_ECDSA_P384_SHA_384",
  "PKIX_ECDSA_P521_SHA_512",
  "PKIX_ED25519",
  "PKIX_ED25519_PH",
  "PKIX_ECDSA_P384_SHA_256",
  "PKIX_ECDSA_P521_SHA_256",
  "LMS_SHA256",
  "LMOTS_SHA256",
  "ML_DSA_65",
  "ML_DSA_87",
);
const publicKey = record({ keyDetails: DETAILS }, { rawBytes: isBytes, validFor: period });
const logs = listOf(
  record({ baseUrl: isText, hashAlgorithm: HASHES, publicKey, logId }, { checkpointKeyId: logId, operator: isText }),
);
const authorities = listOf(
  record(
    { subject: record({ organization: isText, commonName: isText }), certChain: chain, validFor: period },
    { uri: isText, operator: isText },
  ),
);
const root = record(
  {
    mediaType: oneOf("application/vnd.dev.sigstore.trustedroot+json;version=0.1"),
    tlogs: logs,
    certificateAuthorities: authorities,
    ctlogs: logs,
  },
  { timestampAuthorities: authorities },
);

/** Read trust material, and keep what was valid then: `provenance-root-invalid`, `provenance-root-not-valid`. */
export async function readTrustedRoot(data: Bytes | undefined, at: number): Promise<TrustedRoot> {
  const isShort = data !== undefined && data.length <= MOST_BYTES;
  const value = isShort ? await refusalOf(() => parsed(data, "the trusted root")) : null;
  const isRoot = !(value instanceof AttestError) && root(value);
  need(
    isRoot,
    "malformed",
    "provenance-root-invalid",
    "a TrustedRoot of Sigstore in JSON",
    data ? "another form" : "none",
  );
  const { tlogs, ctlogs, certificateAuthorities } = value as unknown as RootDocument;
  const keysOf = (listed: readonly Log[], name: string): PublicKey[] =>
    valid(
      listed.map((log) => log.publicKey),
      at,
      name,
    );
  return {
    authorities: valid(certificateAuthorities, at, "certificate_authorities").map(({ certChain }) =>
      certChain.certificates.map(({ rawBytes }) => bytesOf(rawBytes)),
    ),
    logs: keysOf(tlogs, "tlogs"),
    certificateLogs: keysOf(ctlogs, "ctlogs"),
  };
}

function valid<T extends { readonly validFor?: Period }>(listed: readonly T[], at: number, field: string): T[] {
  const found = listed.filter(
    ({ validFor: { start, end } = { start: "0001-01-01T00:00:00Z" } }) =>
      parseMoment(start, field) <= at && (end === undefined || at <= parseMoment(end, field)),
  );
  need(found.length, "endorsement", "provenance-root-not-valid", "material that was valid at the log's time", "none", {
    field,
  });
  return found;
}
