/** The certificate of a signer: its chain, the signed timestamp of a certificate log, its use, and its names. */

import { type Bytes, concat, hex, latin1, unhex, unsigned, utf8Text } from "../bytes";
import { hasUsage, isCa } from "../chain";
import { sha256, signatureHolds } from "../crypto";
import { DerReader, TAG, all, oid, onlyElement, tlv } from "../der";
import { need } from "../errors";
import { type Certificate, extensionOf, readCertificate } from "../x509";
import type { TrustedRoot } from "./forms";
import { keysHold } from "./keys";
import { notVerified, requireHolding } from "./refusals";

const SUBJECT_ALTERNATIVE_NAME = "2.5.29.17";
const EXTENDED_KEY_USAGE = "2.5.29.37";
const AUTHORITY_KEY = "2.5.29.35";
const SUBJECT_KEY = "2.5.29.14";
const BASIC_CONSTRAINTS = "2.5.29.19";
const NAME_CONSTRAINTS = "2.5.29.30";
const KEY_USAGE = "2.5.29.15";
const AUTHORITY_ACCESS = "1.3.6.1.5.5.7.1.1";
const SCT_LIST = "1.3.6.1.4.1.11129.2.4.2";
const ISSUER = "1.3.6.1.4.1.57264.1.8";
const CODE_SIGNING = "1.3.6.1.5.5.7.3.3";
const DIGITAL_SIGNATURE = 0;
const KEY_CERT_SIGN = 5;
const UNDERSTOOD = [
  SUBJECT_ALTERNATIVE_NAME,
  EXTENDED_KEY_USAGE,
  AUTHORITY_KEY,
  SUBJECT_KEY,
  BASIC_CONSTRAINTS,
  KEY_USAGE,
  AUTHORITY_ACCESS,
];
const EMAIL = 0x81;
const ADDRESS = 0x86;

export interface Signer {
  readonly identity: string;
  readonly issuer: string;
}

/** Require a certificate for signing code, by an authority that was valid, with the timestamp of a log. */
export async function requireCertificate(leaf: Certificate, root: TrustedRoot, at: number): Promise<void> {
  const issuer = await issuerOf(leaf, root, at);
  await requireTimestamp(leaf, issuer, root);
  requireHolding(hasUsage(leaf, DIGITAL_SIGNATURE), "the certificate is not for signatures");
  const usage = extensionOf(leaf, EXTENDED_KEY_USAGE);
  const usages = usage ? all(onlyElement(usage.value, TAG.sequence).body, (each) => oid(each.next(TAG.oid))) : [];
  requireHolding(usages.includes(CODE_SIGNING), "the certificate is not for signing code");
}

/** Return the authority's certificate that issued a leaf. */
async function issuerOf(leaf: Certificate, { authorities }: TrustedRoot, at: number): Promise<Certificate> {
  // An authority whose certificates cannot be read trusts nothing.
  requireHolding(
    authorities.every((chain) => chain.length > 0),
    "an authority has no certificate",
  );
  const listed = authorities.flat().map(readCertificate);
  requireHolding(isLeaf(leaf) && isValid(leaf, at), "the certificate is none of a signer, or was not valid");
  const { tbs, signature, algorithm } = leaf;
  for (const issuer of listed) {
    if (hex(issuer.subject) !== hex(leaf.issuer) || !isAuthority(issuer) || !isValid(issuer, at)) continue;
    if (await signatureHolds(tbs, signature, algorithm, issuer.spki)) return issuer;
  }
  return notVerified("no authority of the trusted root issued the certificate");
}

const isValid = ({ notBefore, notAfter }: Certificate, at: number): boolean => notBefore <= at && at <= notAfter;

const understands = ({ extensions }: Certificate, ...more: readonly string[]): boolean =>
  extensions.every(({ oid: id, critical }) => !critical || UNDERSTOOD.includes(id) || more.includes(id));

const isLeaf = (leaf: Certificate): boolean =>
  understands(leaf) &&
  !isCa(leaf) &&
  !hasUsage(leaf, KEY_CERT_SIGN) &&
  !extensionOf(leaf, NAME_CONSTRAINTS) &&
  extensionOf(leaf, AUTHORITY_KEY) !== undefined &&
  extensionOf(leaf, SUBJECT_ALTERNATIVE_NAME) !== undefined;

const isAuthority = (issuer: Certificate): boolean =>
  understands(issuer, NAME_CONSTRAINTS) &&
  isCa(issuer) &&
  extensionOf(issuer, BASIC_CONSTRAINTS)?.critical === true &&
  extensionOf(issuer, SUBJECT_KEY) !== undefined &&
  hasUsage(issuer, KEY_CERT_SIGN);

// -- the timestamp of the certificate log (RFC 6962, section 3)

/** Parts of a structure of TLS, one after the other. */
class TlsReader {
  private at = 0;

  constructor(private readonly data: Bytes) {}

  take(size: number): Bytes {
    requireHolding(size <= this.data.length - this.at, "a timestamp of the certificate log is cut");
    this.at += size;
    return this.data.slice(this.at - size, this.at);
  }

  /** Bytes behind their length, which has two bytes. */
  vector(): Bytes {
    return this.take(Number(unsigned(this.take(2))));
  }

  end(): void {
    requireHolding(this.at === this.data.length, "not one timestamp of the certificate log");
  }
}

async function requireTimestamp(leaf: Certificate, issuer: Certificate, root: TrustedRoot): Promise<void> {
  const extension = extensionOf(leaf, SCT_LIST);
  requireHolding(extension, "the certificate has no timestamp of a certificate log");
  const outer = new TlsReader(onlyElement(extension.value, TAG.octetString).body);
  const list = new TlsReader(outer.vector());
  outer.end();
  const timestamp = new TlsReader(list.vector());
  list.end();
  const version = timestamp.take(1);
  const log = timestamp.take(32);
  const moment = timestamp.take(8);
  const extensions = timestamp.vector();
  const [hash] = timestamp.take(2);
  const signature = timestamp.vector();
  timestamp.end();
  requireHolding(version[0] === 0 && hash === 4, "a timestamp of another kind");
  const tbs = withoutTimestamps(leaf);
  const signed = concat(
    unhex("0000"),
    moment,
    unhex("0001"),
    await sha256(issuer.spki),
    sized(tbs.length, 3),
    tbs,
    sized(extensions.length, 2),
    extensions,
  );
  const holds = await keysHold(root.certificateLogs, log, signature, signed);
  requireHolding(holds, "no certificate log of the trusted root signed the timestamp");
}

const sized = (value: number, size: number): Bytes => unhex(value.toString(16).padStart(2 * size, "0"));

/** The signed part of a certificate as it was before the timestamps were added. */
function withoutTimestamps({ tbs }: Certificate): Bytes {
  const parts = all(onlyElement(tbs, TAG.sequence).body, (reader) => reader.next());
  const kept = parts.map(({ tag, body, whole }) => {
    if (tag !== 0xa3) return hex(whole);
    const extensions = all(onlyElement(body, TAG.sequence).body, (reader) => reader.next());
    const others = extensions.filter((each) => oid(new DerReader(each.body).next(TAG.oid)) !== SCT_LIST);
    return tlv("a3", tlv("30", ...others.map((each) => hex(each.whole))));
  });
  return unhex(tlv("30", ...kept));
}

// -- names

/** Require the demanded names: `provenance-identity-mismatch` or `provenance-issuer-mismatch`. */
export function requireSigner(leaf: Certificate, { identity, issuer }: Signer): void {
  const names = all(onlyElement(extensionOf(leaf, SUBJECT_ALTERNATIVE_NAME)!.value, TAG.sequence).body, (reader) =>
    reader.next(),
  );
  const found = names.filter(({ tag }) => tag === EMAIL || tag === ADDRESS).map(({ body }) => latin1(body));
  need(found.includes(identity), "verification", "provenance-identity-mismatch", identity, found, {
    field: "identity",
  });
  const stated = extensionOf(leaf, ISSUER);
  const name = stated && issuerName(stated.value);
  need(name === issuer, "verification", "provenance-issuer-mismatch", issuer, name, { field: "issuer" });
}

function issuerName(value: Bytes): string | undefined {
  const reader = new DerReader(value);
  const name = reader.maybe(0x0c);
  return name && reader.done ? utf8Text(name.body) : undefined;
}
