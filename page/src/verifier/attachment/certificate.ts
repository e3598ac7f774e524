/**
 * A certificate that carries a quote: the quote, and the key that REPORTDATA commits to. The key is all that is bound:
 * names, dates, other extensions and the signature are not judged.
 */

import { type Bytes, concat, hex, padded, utf8 } from "../bytes";
import type { Json } from "../claims";
import { type Hash, digest, sha256, sha512 } from "../crypto";
import { TAG, onlyElement, unlessDefect } from "../der";
import type { Item } from "../envelope";
import { type Demand, demandsOf, refuse } from "../errors";
import { Procedure, same } from "../procedure";
import { Tagged, type TaggedValue, isTaggedMap, keyOf, readTagged } from "../tagged_cbor";
import { type Certificate, extensionOf, parseCertificate, spkiPin } from "../x509";
import { DICE_EVIDENCE, DSTACK_QUOTE, RA_TLS_QUOTE, UNSUPPORTED_CARRIERS } from "../carriers";
import type { Judge } from "./record";

/** A quote in a certificate, and what commits to the certificate's key. */
export interface CarriedQuote {
  readonly form: string;
  readonly quote: Bytes;
  /** The 64 bytes that the quote's report data must be. */
  readonly reportData: Bytes;
  /** Of the key: as the claims state it to which the report data commits, and as it is. */
  readonly digests?: readonly [stated: Bytes, found: Bytes];
  readonly claims?: Readonly<Record<string, Json>>;
}

const INTEL_QUOTE_TAG = 60000n;
const PUBLIC_KEY_HASH = keyOf("pubkey-hash");
const HASHES: Readonly<Record<string, Hash>> = { 1: "SHA-256", 7: "SHA-384", 8: "SHA-512" };
const STEPS = {
  key: ["certificate.key", "TCG DICE Attestation Architecture 1.1, 6.1; docs/forms.md"],
} as const;

const demand: Demand = demandsOf("malformed", "certificate-evidence-malformed");

/** Return the quote in a certificate. */
export async function carriedQuote(certificate: Certificate): Promise<CarriedQuote> {
  for (const [oid, read] of READERS) {
    const extension = extensionOf(certificate, oid);
    if (extension) return read(certificate, extension.value);
  }
  const known = certificate.extensions.find(({ oid }) => UNSUPPORTED_CARRIERS.includes(oid));
  return refuse("unsupported", "evidence-unsupported", "TCG DICE, RA-TLS, dstack", known?.oid ?? "no evidence");
}

async function raTls({ spki }: Certificate, quote: Bytes): Promise<CarriedQuote> {
  return { form: "RA-TLS", quote, reportData: padded(await sha256(spki), 64) };
}

async function dstack({ spki }: Certificate, value: Bytes): Promise<CarriedQuote> {
  const quote = unlessDefect(
    () => onlyElement(value, TAG.octetString).body,
    () => undefined,
  );
  demand(quote, "dstack quote", "one OCTET STRING");
  return { form: "dstack", quote, reportData: await sha512(concat(utf8("ratls-cert:"), spki)) };
}

async function dice({ spki }: Certificate, value: Bytes): Promise<CarriedQuote> {
  const content = readTagged(value, "TCG DICE evidence");
  if (!(content instanceof Tagged) || content.tag !== INTEL_QUOTE_TAG) {
    return refuse("unsupported", "evidence-unsupported", "TCG DICE evidence of tag 60000", "another");
  }
  const [quote, claims, ...more] = Array.isArray(content.value) ? (content.value as TaggedValue[]) : [];
  demand(
    quote instanceof Uint8Array && claims instanceof Uint8Array && !more.length,
    "TCG DICE evidence",
    "[quote, claims]",
  );
  const stated = readTagged(claims, "claims");
  demand(isTaggedMap(stated), "claims", "a map");
  const digests = await keyDigests(spki, stated.get(PUBLIC_KEY_HASH));
  const others = [...stated].filter(([name]) => name !== PUBLIC_KEY_HASH);
  const shownClaims = Object.fromEntries(others.map(([name, entry]) => [name.replace(/^\w+ /, ""), shownClaim(entry)]));
  return { form: "TCG DICE", quote, reportData: padded(await sha256(claims), 64), digests, claims: shownClaims };
}

async function keyDigests(spki: Bytes, stated: TaggedValue | undefined): Promise<readonly [Bytes, Bytes]> {
  const entry = stated instanceof Uint8Array ? readTagged(stated, "pubkey-hash") : stated;
  const [algorithm, found, ...more] = Array.isArray(entry) ? (entry as TaggedValue[]) : [];
  const hash = typeof algorithm === "bigint" ? HASHES[`${algorithm}`] : undefined;
  demand(hash && found instanceof Uint8Array && !more.length, "pubkey-hash", "[1, 7 or 8, digest]");
  return [found, await digest(hash, spki)];
}

function shownClaim(entry: TaggedValue): Json {
  if (entry instanceof Uint8Array) return hex(entry);
  return typeof entry === "string" || typeof entry === "bigint" ? `${entry}` : "another value";
}

const READERS: ReadonlyMap<string, (certificate: Certificate, value: Bytes) => Promise<CarriedQuote>> = new Map([
  [DICE_EVIDENCE, dice],
  [RA_TLS_QUOTE, raTls],
  [DSTACK_QUOTE, dstack],
]);

/** Read a certificate; its judge requires that the report data of the quote commits to its key. */
export function readCertificateAttachment({ value }: Item): Judge {
  const certificate = parseCertificate(value);
  return async ({ reportData }) => {
    const procedure = new Procedure(STEPS);
    const carried = await procedure.step("key", async ({ tell }) => {
      const found = await carriedQuote(certificate);
      if (found.digests) same("certificate-key-mismatch", "pubkey-hash", ...found.digests);
      tell(...same("certificate-key-mismatch", "REPORT_DATA", found.reportData, reportData));
      return found;
    });
    const { form, claims } = carried;
    const others = claims && Object.keys(claims).length ? { claims } : {};
    return { claims: { form, spki_sha256: await spkiPin(certificate), ...others }, checks: procedure.finish() };
  };
}
