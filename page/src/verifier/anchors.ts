/**
 * Trust anchors: whose root keys are accepted, pinned by the SHA-256 of their SubjectPublicKeyInfo. Where the key
 * itself is held, a chain needs no root certificate. A root that arrives with evidence is only ever compared with a
 * pin. Each format has the roots of its own vendor.
 *
 * The simulation's roots are a set of their own: nothing of the vendors' leads to them.
 */

import { type Bytes, NO_BYTES, hex, unhex, utf8 } from "./bytes";
import { base64Bytes } from "./encoding";
import { type Curve, ecSpki } from "./crypto";
import { tlv } from "./der";
import type { Issuer } from "./x509";

/** The accepted roots: the vendors' production roots and nothing else, or the simulator's and nothing else. */
export type TrustAnchors = "vendors" | "simulation";

export interface Anchor {
  readonly name: string;
  /** The product line that it stands for (`Milan`); Intel has one root for all, `SGX`. */
  readonly product: string;
  /** SHA-256 of its SubjectPublicKeyInfo, lower-case hex. */
  readonly pin: string;
  /**
   * Name and key, when the key itself is held, with its dates; both bounds are included. AMD's key is fetched:
   * `roots.ts`.
   */
  readonly held?: Issuer & { readonly notBefore: number; readonly notAfter: number };
  /** It belongs to the simulator, so nothing that rests on it proves anything about hardware. */
  readonly simulated: boolean;
}

/** Attributes of a DER Name by the last arc of their identifier under 2.5.4. */
const ATTRIBUTES = {
  commonName: "03",
  country: "06",
  locality: "07",
  state: "08",
  organization: "0a",
  unit: "0b",
} as const;
type Attribute = keyof typeof ATTRIBUTES;
export type Name = readonly (readonly [attribute: Attribute, text: string])[];

/** DER Name: each attribute in an RDN of its own. A country is a PrintableString, the rest UTF8String. */
function derName(name: Name): Bytes {
  const rdns = name.map(([attribute, text]) => {
    const value = tlv(attribute === "country" ? "13" : "0c", hex(utf8(text)));
    return tlv("31", tlv("30", `06035504${ATTRIBUTES[attribute]}`, value));
  });
  return unhex(tlv("30", ...rdns));
}

/** One root of a vendor, and the simulator's root in its place. */
export interface VendorRoot {
  readonly name: string;
  /** The product line that it stands for (`Milan`); Intel has one root for all, `SGX`. */
  readonly product: string;
  /** SHA-256 of its SubjectPublicKeyInfo, lower-case hex. */
  readonly pin: string;
  readonly simulatedPin: string;
  readonly notBefore: string;
  readonly notAfter: string;
  readonly subject: Name;
  /** Key, if it is built in: the point without its leading 04, base64. */
  readonly key?: { readonly curve: Curve; readonly point: string };
}

/** The anchors that stand for some roots. The simulator's private keys are public by design. */
export function anchorsOf(anchors: TrustAnchors, roots: readonly VendorRoot[]): readonly Anchor[] {
  return roots.map((root) => (anchors === "vendors" ? vendorAnchor(root) : simulationAnchor(root)));
}

function vendorAnchor({ name, product, pin, subject, key, ...dates }: VendorRoot): Anchor {
  const spki = key ? ecSpki(key.curve, base64Bytes(key.point, name)) : NO_BYTES;
  const notBefore = Date.parse(dates.notBefore);
  const notAfter = Date.parse(dates.notAfter);
  return { name, product, pin, simulated: false, held: { name, subject: derName(subject), spki, notBefore, notAfter } };
}

const simulationAnchor = ({ name, product, simulatedPin }: VendorRoot): Anchor => ({
  name: `SIMULATED ${name}`,
  product,
  pin: simulatedPin,
  simulated: true,
});

/** The anchor whose key has this digest, if there is one. */
export const pinned = (anchors: readonly Anchor[], pin: string): Anchor | undefined =>
  anchors.find((anchor) => anchor.pin === pin);

/** True if a key is one of the simulator's: for saying so where it is refused. */
export const isSimulatedPin = (roots: readonly VendorRoot[], pin: string): boolean =>
  roots.some((root) => root.simulatedPin === pin);
