/** VCEK and VLEK: what AMD writes into the certificate of a report's signing key (sev-snp.md 8 and 9, check S03). */

import { type Bytes, equal, hasAt, latin1 } from "../bytes";
import { MAX_CANDIDATES } from "../chain";
import { usableKey } from "../crypto";
import { TAG, type Tlv, defect, integer, onlyElement, unlessDefect } from "../der";
import { AttestError, type Demand, demandsOf, refusalOf, refuse } from "../errors";
import type { Given } from "../evidence";
import { withCommonName } from "../pool";
import type { UnknownValue } from "../unknown_values";
import { type Certificate, extensionOf, parseCertificate } from "../x509";
import type { SnpReport } from "./structure";
import { PRODUCTS, type Product, type Tcb, partsOf, tcbBytes } from "./tcb";

/** Signing key: that of the chip (VCEK), or one that AMD issued to a cloud provider (VLEK). */
export type LeafKind = "VCEK" | "VLEK";

/** A leaf with its extensions decoded; not trusted until its chain is verified. */
export interface SnpLeaf {
  readonly certificate: Certificate;
  readonly kind: LeafKind;
  readonly product: Product;
  readonly tcb: Tcb;
  /** 64 bytes (Turin 8) for a VCEK; undefined for a VLEK. */
  readonly hwid?: Bytes;
  /** The cloud provider of a VLEK. */
  readonly cspId?: string;
  /** Levels of spare components that are not 0. */
  readonly unknownValues: readonly UnknownValue[];
  /** As written, such as `Milan-B0`; the stepping in it is known to be wrong for some chips. */
  readonly productName: string;
}

const demand: Demand = demandsOf("chain", "snp-leaf-malformed");

/** Reads the extensions of one certificate: AMD's, by the end of their identifiers. */
class Extensions {
  constructor(private readonly certificate: Certificate) {}

  /** Content of an extension; undefined if it is absent. */
  raw(arcs: string): Bytes | undefined {
    return extensionOf(this.certificate, `1.3.6.1.4.1.3704.1.${arcs}`)?.value;
  }

  read<T>(arcs: string, tag: number, value: (element: Tlv) => T): T {
    return unlessDefect(
      () => value(onlyElement(this.raw(arcs) ?? defect("none"), tag)),
      (got) => refuse("chain", "snp-leaf-malformed", "DER", got, { field: arcs }),
    );
  }

  text(arcs: string): string {
    const found = this.read(arcs, TAG.ia5String, ({ body }) => latin1(body));
    demand(!/[^\0-\x7f]/.test(found), arcs, "ASCII", found);
    return found;
  }

  /** A security patch level. */
  level(arc: number | string): number {
    const found = Number(this.read(`3.${arc}`, TAG.integer, integer));
    demand(found >= 0 && found <= 255, `3.${arc}`, "0 to 255", found);
    return found;
  }
}

/** Decode the extensions: `snp-leaf-malformed`, or `public-key-invalid`. */
export async function readLeaf(certificate: Certificate): Promise<SnpLeaf> {
  const extensions = new Extensions(certificate);
  // (1) What it is, and of which product line.
  const kind = await leafKind(certificate);
  const productName = extensions.text("2");
  const product = productOf(productName, kind, certificate.issuerCommonName);
  // (2) What only others have, and the spare levels.
  requireNoOther(extensions, kind, product);
  const unknownValues = spareLevels(extensions, product);
  // (3) What is compared with a report.
  extensions.read("1", TAG.integer, integer);
  const tcb = Object.fromEntries(partsOf(product).map(([part, , arc]) => [part, extensions.level(arc)]));
  const leaf = { certificate, kind, product, tcb, productName, unknownValues };
  if (kind === "VLEK") return { ...leaf, cspId: extensions.text("5") };
  return { ...leaf, hwid: hwidOf(extensions.raw("4"), product === "Turin" ? 8 : 64) };
}

async function leafKind({ commonName, name, spki }: Certificate): Promise<LeafKind> {
  demand(commonName === "SEV-VCEK" || commonName === "SEV-VLEK", "subject", "SEV-VCEK or SEV-VLEK", name);
  const key = await usableKey(spki);
  demand(key === "P-384", "public key", "P-384", key);
  return commonName === "SEV-VCEK" ? "VCEK" : "VLEK";
}

/** The product line, which the issuer's name states too. */
function productOf(productName: string, kind: LeafKind, issuerName: string | undefined): Product {
  const product = PRODUCTS.find((each) => each === productName.split("-")[0]);
  const wanted = `SEV-${kind === "VCEK" ? "" : "VLEK-"}${product ?? ""}`;
  demand(product && issuerName === wanted, "issuer", productName, issuerName);
  return product;
}

/** A VCEK names no provider and a VLEK no chip; only Turin has an FMC. */
function requireNoOther(extensions: Extensions, kind: LeafKind, product: Product): void {
  const foreign = [kind === "VCEK" ? "5" : "4", ...(product === "Turin" ? [] : ["3.9"])];
  for (const arcs of foreign) demand(!extensions.raw(arcs), arcs, "none", extensions.raw(arcs));
}

/** The levels of spare components that are not 0, which AMD may have given a meaning; Turin may omit the first. */
function spareLevels(extensions: Extensions, product: Product): readonly UnknownValue[] {
  const stated = [4, 5, 6, 7].filter((arc) => arc > 4 || product !== "Turin" || extensions.raw("3.4"));
  return stated.flatMap((arc) => {
    const level = extensions.level(arc);
    const field = `3.${arc} (spl${arc})`;
    const unknown = {
      name: `spl${arc}:${level}`,
      refuse: (): never => refuse("chain", "snp-leaf-malformed", "0", `${level}, which is not understood`, { field }),
    };
    return level ? [unknown] : [];
  });
}

/** HWID: raw bytes in AMD's certificates, an OCTET STRING around them in others; never anything between. */
function hwidOf(value: Bytes | undefined, size: number): Bytes {
  const [tag, length] = value ?? [];
  const hwid = value?.length === size + 2 && tag === TAG.octetString && length === size ? value.slice(2) : value;
  demand(hwid?.length === size, "HWID", size, hwid?.length);
  return hwid;
}

// -- candidates

/** Return the leaves of the kind that SIGNING_KEY names, those first whose HWID, levels and dates fit. */
export async function candidates(
  report: SnpReport,
  kind: LeafKind,
  presented: readonly Bytes[],
  { endorsements, at }: Given,
): Promise<readonly (SnpLeaf | AttestError)[]> {
  const found: (SnpLeaf | AttestError)[] = [];
  for (const each of [...presented, ...withCommonName(endorsements, `SEV-${kind}`)]) {
    const leaf = await refusalOf(() => readLeaf(each instanceof Uint8Array ? parseCertificate(each) : each));
    // Unreadable is a defect of the chain: the Attester presented it as the certificate of its report's key.
    if (leaf instanceof AttestError) found.push(Object.assign(leaf, { kind: "chain" }));
    else if (leaf.kind === kind) found.push(leaf);
  }
  return found.sort((a, b) => misfit(a, report, at) - misfit(b, report, at)).slice(0, MAX_CANDIDATES);
}

/** Mismatch of a leaf, without any signature; it affects only the order of attempts. */
function misfit(leaf: SnpLeaf | AttestError, report: SnpReport, at: number): number {
  if (leaf instanceof AttestError) return 16;
  const { hwid, tcb, product, certificate, unknownValues } = leaf;
  const isOtherChip = hwid !== undefined && !hasAt(report.chip_id, hwid);
  const isOtherTcb = !equal(tcbBytes(tcb, product), report.reported_tcb);
  const isCurrent = certificate.notBefore <= at && at <= certificate.notAfter;
  return (isOtherChip ? 8 : 0) + (isOtherTcb ? 4 : 0) + (isCurrent ? 0 : 2) + (unknownValues.length ? 1 : 0);
}
