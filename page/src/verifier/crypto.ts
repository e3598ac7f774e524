/**
 * Digests and signatures by WebCrypto: a closed table of algorithms. Nothing here knows a date, a name or an anchor.
 */

import { type Bytes, concat, hex, latin1, unhex } from "./bytes";
import { ecdsaRaw, tlv } from "./der";
import { afresh, need, refuse } from "./errors";

export type Hash = "SHA-256" | "SHA-384" | "SHA-512";

export const digest = async (hash: Hash, data: Bytes): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.digest(hash, data));
export const sha256 = (data: Bytes): Promise<Bytes> => digest("SHA-256", data);
export const sha384 = (data: Bytes): Promise<Bytes> => digest("SHA-384", data);
export const sha512 = (data: Bytes): Promise<Bytes> => digest("SHA-512", data);

// -- public keys

export type Curve = "P-256" | "P-384";
export type KeyKind = Curve | "RSA";

/**
 * By curve: what a SubjectPublicKeyInfo begins with, up to the point without its leading 04; and the bytes of a number.
 */
const CURVES = {
  "P-256": ["3059301306072a8648ce3d020106082a8648ce3d03010703420004", 32],
  "P-384": ["3076301006072a8648ce3d020106052b8104002203620004", 48],
} as const;

/** SubjectPublicKeyInfo of an uncompressed point (without its leading 04), or of any key that such a head begins. */
export const ecSpki = (curve: Curve, point: Uint8Array): Bytes => concat(unhex(CURVES[curve][0]), point);

function rsaHex(...numbers: readonly Uint8Array[]): string {
  const written = numbers.map((number) => tlv("02", number[0]! > 127 ? "00" : "", hex(number)));
  return tlv("30", "300d06092a864886f70d0101010500", tlv("03", "00", tlv("30", ...written)));
}

/** SubjectPublicKeyInfo of an RSA key with the exponent 65537. */
export const rsaSpki = (modulus: Uint8Array): Bytes => unhex(rsaHex(modulus, Uint8Array.of(1, 0, 1)));

/** The digits of an INTEGER without the zero that keeps it positive. */
const withoutSign = (number: Bytes): Bytes => (number[0] ? number : number.slice(1));

/**
 * True if this is an RSA key of 2048 to 8192 bits: all its lengths take two bytes then, and the modulus begins at byte
 * 33.
 */
function isRsa(spki: Bytes): boolean {
  const end = 32 + spki[30]! * 256 + spki[31]!;
  const modulus = withoutSign(spki.slice(32, end));
  const exponent = withoutSign(spki.slice(end + 2));
  const size = modulus.length * 8 - Math.clz32(modulus[0]!) + 24;
  // Not every engine refuses an even exponent. Writing the key again is what refuses other encodings.
  return (
    size >= 2048 &&
    size <= 8192 &&
    hex(exponent) > "01" &&
    exponent.at(-1)! % 2 === 1 &&
    rsaHex(modulus, exponent) === hex(spki)
  );
}

/** Kind of a key by its SubjectPublicKeyInfo; `public-key-invalid` for a kind or size that vendors do not use. */
export function keyKind(spki: Bytes): KeyKind {
  for (const curve of ["P-256", "P-384"] as const) {
    const [head, size] = CURVES[curve];
    if (hex(spki.slice(0, head.length / 2)) === head && spki.length === head.length / 2 + size * 2) return curve;
  }
  need(isRsa(spki), "chain", "public-key-invalid", "RSA of 2048 to 8192 bits, P-256, P-384", spki.slice(0, 32));
  return "RSA";
}

type Scheme = "ECDSA" | "RSA-PSS" | "RSASSA-PKCS1-v1_5";

/** Everything that WebCrypto asks of a key and of a signature; each call takes what it knows. */
const parametersOf = (name: Scheme, hash: Hash, namedCurve: KeyKind) => ({
  name,
  hash,
  namedCurve,
  saltLength: Number(hash.slice(4)) / 8,
});

async function importKey(spki: Bytes, parameters: ReturnType<typeof parametersOf>): Promise<CryptoKey> {
  try {
    return await crypto.subtle.importKey("spki", spki, parameters, false, ["verify"]);
  } catch {
    // Not a point of its curve, or numbers that are no key.
    return refuse("chain", "public-key-invalid", parameters.namedCurve, spki);
  }
}

/** Kind of a key that can be used: of an elliptic curve it is a point of it. Refuses with `public-key-invalid`. */
export async function usableKey(spki: Bytes): Promise<KeyKind> {
  const kind = keyKind(spki);
  if (kind !== "RSA") await importKey(spki, parametersOf("ECDSA", "SHA-384", kind));
  return kind;
}

// -- signatures

/**
 * True if a signature holds: RSASSA-PSS with a salt as long as the digest, RSASSA-PKCS1-v1_5 or ECDSA. No scheme never
 * does.
 *
 * @param raw makes r and s, of these bytes each, of what stands for an ECDSA signature; they are what stands there
 * unless it is given
 */
export async function schemeHolds(
  scheme: Scheme | undefined,
  spki: Bytes,
  hash: Hash,
  signature: Bytes,
  signed: Bytes,
  raw?: typeof ecdsaRaw,
): Promise<boolean> {
  const kind = keyKind(spki);
  if (!scheme || (kind === "RSA") === (scheme === "ECDSA")) return false;
  const plain = raw && kind !== "RSA" ? raw(signature, CURVES[kind][1]) : signature;
  const parameters = parametersOf(scheme, hash, kind);
  return plain !== undefined && crypto.subtle.verify(parameters, await importKey(spki, parameters), plain, signed);
}

/** True if an ECDSA signature holds; `signature` is r and s of the curve's size each, big-endian. */
export const ecdsaHolds = (...given: [spki: Bytes, hash: Hash, signature: Bytes, signed: Bytes]): Promise<boolean> =>
  schemeHolds("ECDSA", ...given);

/** The signature algorithms that vendor certificates use; anything else is refused. */
export type SignatureAlgorithm = "RSA-PSS SHA-384" | "ECDSA SHA-256" | "ECDSA SHA-384" | `RSASSA-PKCS1-v1_5 ${Hash}`;

/** With MGF1-SHA-384 and a salt of 48 bytes. */
export const RSA_PSS_SHA384: SignatureAlgorithm = "RSA-PSS SHA-384";
export const ECDSA_SHA256: SignatureAlgorithm = "ECDSA SHA-256";
export const ECDSA_SHA384: SignatureAlgorithm = "ECDSA SHA-384";

/**
 * Every DER spelling of AMD's algorithm: hash parameters NULL or absent, trailerField 1 written out or left to its
 * default (sev-snp.md 8). No other parameter may differ.
 */
function pssSpellings(): string[] {
  const sha384 = ["", "0500"].map((parameters) => tlv("30", "0609608648016503040202", parameters));
  return sha384.flatMap((hash) =>
    sha384.flatMap((mask) =>
      ["", "a303020101"].map((trailer) => {
        const masks = tlv("a1", tlv("30", "06092a864886f70d010108", mask));
        return tlv("30", "06092a864886f70d01010a", tlv("30", tlv("a0", hash), masks, "a203020130", trailer));
      }),
    ),
  );
}

/** The algorithm that a DER AlgorithmIdentifier names; undefined when it is not in the table. */
export function algorithmOf(identifier: Bytes): SignatureAlgorithm | undefined {
  const text = hex(identifier);
  if (text === "300a06082a8648ce3d040302") return ECDSA_SHA256;
  if (text === "300a06082a8648ce3d040303") return ECDSA_SHA384;
  if (text === "300d06092a864886f70d01010b0500") return "RSASSA-PKCS1-v1_5 SHA-256";
  if (text === "300d06092a864886f70d01010c0500") return "RSASSA-PKCS1-v1_5 SHA-384";
  if (text === "300d06092a864886f70d01010d0500") return "RSASSA-PKCS1-v1_5 SHA-512";
  return pssSpellings().includes(text) ? RSA_PSS_SHA384 : undefined;
}

const remembered = new Map<string, Promise<boolean>>();

/**
 * True if a signature of a certificate, list or answer holds: a pure function of four byte strings, remembered in a
 * bounded table, as chains share their upper certificates. What is remembered knows of no date, name or anchor.
 *
 * @param signature as it stands in the BIT STRING
 * @param algorithm the DER AlgorithmIdentifier; one that is not in the table never verifies
 * @param spki of the supposed signer: `public-key-invalid` when it is no key
 */
export function signatureHolds(signed: Bytes, signature: Bytes, algorithm: Bytes, spki: Bytes): Promise<boolean> {
  const key = [signed, signature, algorithm, spki].map(latin1).join("\u{ffff}");
  const [scheme, hash] = (algorithmOf(algorithm)?.split(" ") ?? []) as [Scheme?, Hash?];
  const known = remembered.get(key) ?? schemeHolds(scheme, spki, hash!, signature, signed, ecdsaRaw);
  // Certificates and answers are smaller than 16 KiB; a list may have a mebibyte.
  if (remembered.size > 511) remembered.clear();
  if (signed.length < 16384) remembered.set(key, known);
  return afresh(known);
}
