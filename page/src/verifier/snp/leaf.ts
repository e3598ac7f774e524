/** VCEK and VLEK: what AMD writes into the certificate of a report's signing key (sev-snp.md 8 and 9, check S03). */

import { type Bytes, hex, latin1 } from "../bytes";
import { usableKey } from "../crypto";
import { DerError, TAG, integer, onlyElement } from "../der";
import { fail } from "../errors";
import type { Certificate } from "../x509";
import { PRODUCTS, type Product, type Tcb, hwidBytes } from "./tcb";

/** Which key signed: that of the chip (VCEK) or one that AMD lent to a cloud provider (VLEK). */
export type LeafKind = "vcek" | "vlek";
/** Values of SIGNING_KEY that have a certificate. */
export const LEAF_KINDS: readonly LeafKind[] = ["vcek", "vlek"];

/** Subject CN of such a certificate. */
export function leafName(kind: LeafKind): string {
  return `SEV-${kind.toUpperCase()}`;
}

/** A leaf with its extensions decoded; not trusted until its chain is verified. */
export interface SnpLeaf {
  readonly certificate: Certificate;
  readonly kind: LeafKind;
  readonly product: Product;
  readonly tcb: Tcb;
  /** 64 bytes (Turin 8) for a VCEK; undefined for a VLEK. */
  readonly hwid: Bytes | undefined;
  /** The cloud provider of a VLEK. */
  readonly cspId: string | undefined;
  /** As written, such as `Milan-B0`; the stepping in it is known to be wrong for some chips. */
  readonly productName: string;
}

const ARC = "1.3.6.1.4.1.3704.1.";
const SPLS: readonly (readonly [name: string, suffix: string, title: string])[] = [
  ["bootloader", "3.1", "blSPL"],
  ["tee", "3.2", "teeSPL"],
  ["snp", "3.3", "snpSPL"],
  ["microcode", "3.8", "ucodeSPL"],
];

function malformed(what: string, expected: string, got: string): never {
  return fail("chain", "snp-leaf-malformed", "", {
    check: "snp.leaf",
    field: what,
    expected,
    got,
    clause: "AMD 57230, extensions; sev-snp.md 9",
  });
}

/** AMD's extensions by the end of their identifiers. */
class Extensions {
  private readonly found: ReadonlyMap<string, Bytes>;

  constructor(certificate: Certificate) {
    const own = certificate.extensions.filter(({ oid }) => oid.startsWith(ARC));
    this.found = new Map(own.map(({ oid, value }) => [oid.slice(ARC.length), value]));
  }

  has(suffix: string): boolean {
    return this.found.has(suffix);
  }

  value(suffix: string, name: string): Bytes {
    return this.found.get(suffix) ?? malformed(`${name} (${ARC}${suffix})`, "exactly one such extension", "none");
  }

  requireAbsent(suffix: string, name: string): void {
    const value = this.found.get(suffix);
    if (value) malformed(name, "no such extension", hex(value).slice(0, 40));
  }

  private element(suffix: string, name: string, tag: number, expected: string): Bytes {
    const value = this.value(suffix, name);
    try {
      const element = onlyElement(value, tag);
      if (tag === TAG.integer) integer(element);
      return element.body;
    } catch (error) {
      if (!(error instanceof DerError)) throw error;
      return malformed(name, expected, "other DER");
    }
  }

  /** An INTEGER of 0 to 255; AMD writes those above 127 in two bytes. */
  level(suffix: string, name: string): number {
    const body = this.element(suffix, name, TAG.integer, "an INTEGER");
    const [first = 0, second = 0] = body;
    if (body.length > 2 || (body.length === 2 ? first !== 0 : first > 127)) malformed(name, "0 to 255", "another number");
    return body.length === 2 ? second : first;
  }

  requireInteger(suffix: string, name: string): void {
    this.element(suffix, name, TAG.integer, "an INTEGER");
  }

  text(suffix: string, name: string): string {
    const text = latin1(this.element(suffix, name, TAG.ia5String, "an IA5String"));
    return /[^\0-\x7f]/.test(text) ? malformed(name, "an IA5String", "other DER") : text;
  }
}

/** Decode the extensions: `snp-leaf-malformed`, or `public-key-invalid`. */
export async function readLeaf(certificate: Certificate): Promise<SnpLeaf> {
  const kind = LEAF_KINDS.find((each) => leafName(each) === certificate.commonName);
  if (!kind) return malformed("subject CN", "SEV-VCEK or SEV-VLEK", certificate.name);
  const found = new Extensions(certificate);
  const key = await usableKey(certificate.spki);
  if (key !== "P-384") malformed("public key", "ECDSA P-384", key);
  const productName = found.text("2", "productName");
  const product = productOf(certificate, kind, productName);
  const vcek = kind === "vcek";
  if (vcek) found.requireAbsent("5", "CSP_ID in a VCEK");
  else found.requireAbsent("4", "HWID in a VLEK");
  const tcb = tcbOfLeaf(found, product);
  const hwid = vcek ? hwidOf(found, product) : undefined;
  const cspId = vcek ? undefined : found.text("5", "CSP_ID");
  found.requireInteger("1", "structVersion");
  return { certificate, kind, product, tcb, hwid, cspId, productName };
}

/** Find the product line by the issuer's CN; productName (without its stepping) must agree. */
function productOf({ issuerCommonName }: Certificate, kind: LeafKind, productName: string): Product {
  const prefix = kind === "vcek" ? "SEV-" : "SEV-VLEK-";
  const product = PRODUCTS.find((each) => prefix + each === issuerCommonName);
  if (!product) return malformed("issuer CN", `the intermediate of a ${kind.toUpperCase()}`, issuerCommonName || "no CN");
  return productName.split("-")[0] === product ? product : malformed("productName", product, productName);
}

function tcbOfLeaf(found: Extensions, product: Product): Tcb {
  const turin = product === "Turin";
  for (const suffix of ["3.4", "3.5", "3.6", "3.7"]) {
    // Turin's certificates leave out the first spare; every other one is there and zero.
    const there = suffix !== "3.4" || !turin || found.has(suffix);
    if (there && found.level(suffix, "spare SPL")) malformed(`extension ${suffix}`, "0", "another level");
  }
  if (!turin) found.requireAbsent("3.9", `fmcSPL on ${product}`);
  const levels = SPLS.map(([name, suffix, title]) => [name, found.level(suffix, title)] as const);
  return Object.fromEntries(turin ? [["fmc", found.level("3.9", "fmcSPL")], ...levels] : levels);
}

/** HWID: raw bytes in AMD's certificates, an OCTET STRING around them in others; never anything between. */
function hwidOf(found: Extensions, product: Product): Bytes {
  const size = hwidBytes(product);
  const value = found.value("4", "HWID");
  const wrapped = value.length === size + 2 && value[0] === TAG.octetString && value[1] === size;
  const hwid = wrapped ? value.slice(2) : value;
  return hwid.length === size ? hwid : malformed("HWID", `${size} bytes`, `${value.length} bytes`);
}
