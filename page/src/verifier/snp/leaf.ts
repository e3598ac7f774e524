/** VCEK and VLEK: what AMD writes into the certificate of a report's signing key (sev-snp.md 8 and 9, check S03). */

import { type Bytes, latin1 } from "../bytes";
import { usableKey } from "../crypto";
import { TAG, type Tlv, defect, integer, onlyElement, unlessDefect } from "../der";
import { type Demand, demandsOf } from "../errors";
import { type Certificate, extensionOf } from "../x509";
import { PRODUCTS, type Product, type Tcb, partsOf } from "./tcb";

/** Which key signed: that of the chip (VCEK) or one that AMD lent to a cloud provider (VLEK). */
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
  /** As written, such as `Milan-B0`; the stepping in it is known to be wrong for some chips. */
  readonly productName: string;
}

const demand: Demand = demandsOf("chain", "snp-leaf-malformed");

/** Decode the extensions: `snp-leaf-malformed`, or `public-key-invalid`. */
export async function readLeaf(certificate: Certificate): Promise<SnpLeaf> {
  const { commonName, issuerCommonName, name, spki } = certificate;
  // AMD's extensions, by the end of their identifiers.
  const extension = (arcs: string): Bytes | undefined => extensionOf(certificate, `1.3.6.1.4.1.3704.1.${arcs}`)?.value;
  const read = <T>(arcs: string, tag: TAG, value: (element: Tlv) => T): T =>
    unlessDefect(
      () => value(onlyElement(extension(arcs) ?? defect("none"), tag)),
      (got) => demand(false, arcs, "DER", got) as never,
    );
  const text = (arcs: string): string => {
    const found = read(arcs, TAG.ia5String, ({ body }) => latin1(body));
    demand(!/[^\0-\x7f]/.test(found), arcs, "ASCII", found);
    return found;
  };
  const level = (arc: number | string, most = 255): number => {
    const found = Number(read(`3.${arc}`, TAG.integer, integer));
    demand(found >= 0 && found <= most, `3.${arc}`, `0 to ${most}`, found);
    return found;
  };
  // (1) What it is, and of which product line.
  const isVcek = commonName === "SEV-VCEK";
  demand(isVcek || commonName === "SEV-VLEK", "subject", "SEV-VCEK or SEV-VLEK", name);
  const key = await usableKey(spki);
  demand(key === "P-384", "public key", "P-384", key);
  const productName = text("2");
  const [product] = productName.split("-") as [Product];
  demand(
    PRODUCTS.includes(product) && issuerCommonName === `SEV-${isVcek ? "" : "VLEK-"}${product}`,
    "issuer",
    productName,
    issuerCommonName,
  );
  // (2) What stands only in others. Turin's certificates leave out the first spare level; every other one is there and zero.
  const isTurin = product === "Turin";
  for (const arcs of [isVcek ? "5" : "4", isTurin ? "" : "3.9"]) {
    demand(!extension(arcs), arcs, "none", extension(arcs));
  }
  for (const arc of "4567") if (!isTurin || arc > "4" || extension("3.4")) level(arc, 0);
  // (3) What is compared with a report.
  read("1", TAG.integer, integer);
  return {
    certificate,
    kind: isVcek ? "VCEK" : "VLEK",
    product,
    tcb: Object.fromEntries(partsOf(product).map(([part, , arc]) => [part, level(arc)])),
    productName,
    ...(isVcek ? { hwid: hwidOf(extension("4"), isTurin ? 8 : 64) } : { cspId: text("5") }),
  };
}

/** HWID: raw bytes in AMD's certificates, an OCTET STRING around them in others; never anything between. */
function hwidOf(value: Bytes | undefined, size: number): Bytes {
  const [tag, length] = value ?? [];
  const hwid = value?.length === size + 2 && tag === TAG.octetString && length === size ? value.slice(2) : value;
  demand(hwid?.length === size, "HWID", size, hwid?.length);
  return hwid;
}
