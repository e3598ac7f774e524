/** Digests and signatures by WebCrypto: a closed table of algorithms. Nothing here knows a date, a name or an anchor. */

import { type Bytes, concat, hasAt, hex, latin1, unhex } from "./bytes";
import { DerError, DerReader, TAG, type Tlv, ecdsaRaw, integer, onlyElement, tlv, wholeBits } from "./der";
import { afresh, fail } from "./errors";

export type Hash = "SHA-256" | "SHA-384" | "SHA-512";

export async function digest(hash: Hash, data: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest(hash, data));
}

export const sha256 = (data: Bytes): Promise<Bytes> => digest("SHA-256", data);
export const sha384 = (data: Bytes): Promise<Bytes> => digest("SHA-384", data);
export const sha512 = (data: Bytes): Promise<Bytes> => digest("SHA-512", data);

// -- public keys

export type Curve = "P-256" | "P-384";
export type KeyKind = Curve | "RSA";

const EC_HEADS: readonly (readonly [Curve, Bytes, number])[] = [
  ["P-256", unhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004"), 64],
  ["P-384", unhex("3076301006072a8648ce3d020106052b8104002203620004"), 96],
];
const RSA_ALGORITHM = unhex("300d06092a864886f70d0101010500");
const [MIN_RSA_BITS, MAX_RSA_BITS] = [2048, 8192];

/** SubjectPublicKeyInfo of an uncompressed point (without its leading 04), or of any key that `head` begins. */
export function ecSpki(curve: Curve, point: Uint8Array): Bytes {
  const row = EC_HEADS[curve === "P-256" ? 0 : 1];
  return concat(row?.[1] ?? new Uint8Array(), point);
}

/** SubjectPublicKeyInfo of an RSA key. */
export function rsaSpki(modulus: Uint8Array, exponent: Uint8Array = Uint8Array.of(1, 0, 1)): Bytes {
  const written = (number: Uint8Array): Bytes => tlv(TAG.integer, (number[0] ?? 0) >= 0x80 ? concat(Uint8Array.of(0), number) : number);
  const key = tlv(TAG.sequence, written(modulus), written(exponent));
  return tlv(TAG.sequence, RSA_ALGORITHM, tlv(TAG.bitString, Uint8Array.of(0), key));
}

/** Kind of a key by its SubjectPublicKeyInfo; `public-key-invalid` for a kind or size that vendors do not use. */
export function keyKind(spki: Bytes): KeyKind {
  for (const [curve, head, size] of EC_HEADS) {
    if (hasAt(spki, head) && spki.length === head.length + size) return curve;
  }
  const size = rsaBits(spki);
  if (size >= MIN_RSA_BITS && size <= MAX_RSA_BITS) return "RSA";
  return fail("chain", "public-key-invalid", "", {
    expected: "RSA of 2048 to 8192 bits, P-256 or P-384",
    got: `${hex(spki.slice(0, 32))}…`,
  });
}

/** Digits of an INTEGER above zero without those that are zero; none of another one. */
function positive(element: Tlv): Bytes {
  if (integer(element) <= 0n) return new Uint8Array();
  return element.body[0] === 0 ? element.body.slice(1) : element.body;
}

/** Bits of an RSA modulus; 0 for anything else. */
function rsaBits(spki: Bytes): number {
  try {
    const outer = new DerReader(onlyElement(spki, TAG.sequence).body);
    if (hex(outer.next(TAG.sequence).whole) !== hex(RSA_ALGORITHM)) return 0;
    const key = new DerReader(onlyElement(wholeBits(outer.next(TAG.bitString), "key"), TAG.sequence).body);
    outer.end();
    const modulus = positive(key.next(TAG.integer));
    const exponent = positive(key.next(TAG.integer));
    key.end();
    const one = exponent.length === 1 && exponent[0] === 1;
    return one || !exponent.length ? 0 : modulus.length * 8 - Math.clz32(modulus[0] ?? 0) + 24;
  } catch (error) {
    if (error instanceof DerError) return 0;
    throw error;
  }
}

async function importKey(spki: Bytes, parameters: EcKeyImportParams | RsaHashedImportParams): Promise<CryptoKey> {
  try {
    return await crypto.subtle.importKey("spki", spki, parameters, false, ["verify"]);
  } catch {
    // Not a point of its curve, or numbers that are no key.
    return fail("chain", "public-key-invalid", "the public key cannot be read");
  }
}

/** Kind of a key that can be used: of an elliptic curve it is a point of it. Refuses with `public-key-invalid`. */
export async function usableKey(spki: Bytes): Promise<KeyKind> {
  const namedCurve = keyKind(spki);
  if (namedCurve !== "RSA") await importKey(spki, { name: "ECDSA", namedCurve });
  return namedCurve;
}

// -- signatures

/** Whether an ECDSA signature holds; `signature` is r and s of the curve's size each, big-endian. */
export async function ecdsaHolds(spki: Bytes, hash: Hash, signature: Bytes, signed: Bytes): Promise<boolean> {
  const namedCurve = keyKind(spki);
  if (namedCurve === "RSA") return false;
  const key = await importKey(spki, { name: "ECDSA", namedCurve });
  return crypto.subtle.verify({ name: "ECDSA", hash }, key, signature, signed);
}

/** The same for a signature in DER, as certificates have it. */
export async function ecdsaDerHolds(spki: Bytes, hash: Hash, signature: Bytes, signed: Bytes): Promise<boolean> {
  const raw = ecdsaRaw(signature, keyKind(spki) === "P-256" ? 32 : 48);
  return raw !== undefined && ecdsaHolds(spki, hash, raw, signed);
}

/** Whether an RSA signature holds, RSASSA-PSS (with a salt as long as the digest) or RSASSA-PKCS1-v1_5. */
export async function rsaHolds(
  scheme: "RSA-PSS" | "RSASSA-PKCS1-v1_5",
  spki: Bytes,
  hash: Hash,
  signature: Bytes,
  signed: Bytes,
): Promise<boolean> {
  if (keyKind(spki) !== "RSA") return false;
  const key = await importKey(spki, { name: scheme, hash });
  const parameters = scheme === "RSA-PSS" ? { name: scheme, saltLength: Number(hash.slice(4)) / 8 } : { name: scheme };
  return crypto.subtle.verify(parameters, key, signature, signed);
}

/** The signature algorithms that vendor certificates use, by name; anything else is refused. */
export type SignatureAlgorithm =
  | "RSASSA-PSS with SHA-384, MGF1-SHA-384, salt 48"
  | "ECDSA with SHA-256"
  | "ECDSA with SHA-384";

export const RSA_PSS_SHA384: SignatureAlgorithm = "RSASSA-PSS with SHA-384, MGF1-SHA-384, salt 48";
export const ECDSA_SHA256: SignatureAlgorithm = "ECDSA with SHA-256";
export const ECDSA_SHA384: SignatureAlgorithm = "ECDSA with SHA-384";

/**
 * Every DER spelling of AMD's algorithm: hash parameters NULL or absent, trailerField 1 written out or left to its
 * default (sev-snp.md 8). No other parameter may differ.
 */
function pssSpellings(): string[] {
  const nothing = new Uint8Array();
  const hashes = [tlv(TAG.null), nothing];
  const trailers = [nothing, unhex("a303020101")];
  const sha384 = unhex("0609608648016503040202");
  const spellings = hashes.flatMap((hash) =>
    hashes.flatMap((mgf) =>
      trailers.map((trailer) => {
        const mask = tlv(TAG.sequence, unhex("06092a864886f70d010108"), tlv(TAG.sequence, sha384, mgf));
        const salt = unhex("a203020130");
        const parameters = tlv(TAG.sequence, tlv(0xa0, tlv(TAG.sequence, sha384, hash)), tlv(0xa1, mask), salt, trailer);
        return tlv(TAG.sequence, unhex("06092a864886f70d01010a"), parameters);
      }),
    ),
  );
  return spellings.map(hex);
}

let algorithms: ReadonlyMap<string, SignatureAlgorithm> | undefined;

/** The algorithm that a DER AlgorithmIdentifier names; undefined when it is not in the table. */
export function algorithmOf(identifier: Bytes): SignatureAlgorithm | undefined {
  algorithms ??= new Map<string, SignatureAlgorithm>([
    ...pssSpellings().map((spelling) => [spelling, RSA_PSS_SHA384] as const),
    ["300a06082a8648ce3d040302", ECDSA_SHA256],
    ["300a06082a8648ce3d040303", ECDSA_SHA384],
  ]);
  return algorithms.get(hex(identifier));
}

const REMEMBERED = 512;
/** Certificates and answers are smaller; a list may have a mebibyte. */
const REMEMBERED_BYTES = 16 * 1024;
const remembered = new Map<string, Promise<boolean>>();

/**
 * Whether a signature of a certificate, list or answer holds: a pure function of four byte strings, remembered in a
 * bounded table, as chains share their upper certificates. What is remembered knows of no date, name or anchor.
 *
 * @param signature as it stands in the BIT STRING
 * @param algorithm the DER AlgorithmIdentifier; one that is not in the table never verifies
 * @param spki of the supposed signer: `public-key-invalid` when it is no key
 */
export function signatureHolds(signed: Bytes, signature: Bytes, algorithm: Bytes, spki: Bytes): Promise<boolean> {
  if (signed.length > REMEMBERED_BYTES) return verifies(signed, signature, algorithm, spki);
  const key = [signed, signature, algorithm, spki].map(latin1).join("\u{ffff}");
  let holds = remembered.get(key);
  if (holds === undefined) {
    if (remembered.size === REMEMBERED) remembered.clear();
    holds = verifies(signed, signature, algorithm, spki);
    remembered.set(key, holds);
  }
  return afresh(holds);
}

async function verifies(signed: Bytes, signature: Bytes, algorithm: Bytes, spki: Bytes): Promise<boolean> {
  const kind = keyKind(spki);
  const named = algorithmOf(algorithm);
  if (named === RSA_PSS_SHA384) return kind === "RSA" && rsaHolds("RSA-PSS", spki, "SHA-384", signature, signed);
  if (named === undefined || kind === "RSA") return false;
  return ecdsaDerHolds(spki, named === ECDSA_SHA256 ? "SHA-256" : "SHA-384", signature, signed);
}
