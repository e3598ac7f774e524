/**
 * Trust anchors: whose root keys are accepted, pinned by the SHA-256 of their SubjectPublicKeyInfo. Where the key
 * itself is held, a chain needs no root certificate. A root that arrives with evidence is only ever compared with a
 * pin.
 *
 * The simulation's roots are a set of their own: nothing in `vendorAnchors()` leads to them.
 */

import { type Bytes, NO_BYTES, hex, unhex, utf8 } from "./bytes";
import { base64Bytes } from "./encoding";
import { type Curve, ecSpki } from "./crypto";
import { tlv } from "./der";
import type { Issuer } from "./x509";

/** Roles of an anchor. */
export type AnchorRole = "amd-ark" | "intel-sgx-root" | "nvidia-device-root" | "nvidia-rim-root";

export interface Anchor {
  readonly name: string;
  readonly role: AnchorRole;
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

/** A set of anchors. The empty set accepts no root. */
export type TrustAnchors = readonly Anchor[];

export function anchorsOf(anchors: TrustAnchors, role: AnchorRole): TrustAnchors {
  return anchors.filter((anchor) => anchor.role === role);
}

/** The anchor of this role whose key has this digest, if there is one. */
export function pinned(anchors: TrustAnchors, role: AnchorRole, pin: string): Anchor | undefined {
  return anchors.find((anchor) => anchor.role === role && anchor.pin === pin);
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
type Name = readonly (readonly [attribute: Attribute, text: string])[];

/** DER Name: each attribute in an RDN of its own. A country is a PrintableString, the rest UTF8String. */
function derName(name: Name): Bytes {
  const rdns = name.map(([attribute, text]) => {
    const value = tlv(attribute === "country" ? "13" : "0c", hex(utf8(text)));
    return tlv("31", tlv("30", `06035504${ATTRIBUTES[attribute]}`, value));
  });
  return unhex(tlv("30", ...rdns));
}

/** One root of a vendor, and the simulator's root in its place. */
interface VendorRoot {
  readonly name: string;
  readonly role: AnchorRole;
  readonly product: string;
  readonly pin: string;
  readonly simulatedPin: string;
  readonly notBefore: string;
  readonly notAfter: string;
  readonly subject: Name;
  /** Key, if it is built in: the point without its leading 04, base64. */
  readonly key?: { readonly curve: Curve; readonly point: string };
}

type ArkDates = Pick<VendorRoot, "pin" | "simulatedPin" | "notBefore" | "notAfter">;

function ark(product: string, dates: ArkDates): VendorRoot {
  const name = `ARK-${product}`;
  const subject: Name = [
    ["unit", "Engineering"],
    ["country", "US"],
    ["locality", "Santa Clara"],
    ["state", "CA"],
    ["organization", "Advanced Micro Devices"],
    ["commonName", name],
  ];
  return { name, role: "amd-ark", product, subject, ...dates };
}

const ROOTS: readonly VendorRoot[] = [
  ark("Milan", {
    pin: "9f056bee44377e29308cb5ffa895bdfb62d18881fa6bed8d6f075b0204089cb9",
    simulatedPin: "13ba5621789593ad7c6321447b6ee4d70f649eebb9c5da086c2d223ebe103ea1",
    notBefore: "2020-10-22T17:23:05Z",
    notAfter: "2045-10-22T17:23:05Z",
  }),
  ark("Genoa", {
    pin: "429a69c9422aa258ee4d8db5fcda9c6470ef15f8cd5a9cebd6cbc7d90b863831",
    simulatedPin: "74a79e6d4c96d0c50f1794d37e797bd5c71a05a3d007d62c9e7a08c278ed21f0",
    notBefore: "2022-01-26T15:34:37Z",
    notAfter: "2047-01-26T15:34:37Z",
  }),
  ark("Turin", {
    pin: "4f125410563a2ab9a50356f9243f6fe0b6f73de98603f53f90339c70e9d7ad08",
    simulatedPin: "6fb0143057c0690c9e4c528bd9a80a257f08a7ae6da4a073169dfba0b6aaa128",
    notBefore: "2023-05-15T20:03:12Z",
    notAfter: "2048-05-15T20:03:12Z",
  }),
  {
    name: "Intel SGX Root CA",
    role: "intel-sgx-root",
    product: "SGX",
    pin: "a0af031289f5d5d4132f9186068a7fc13628633ba235777472e29b6b6c67a49e",
    simulatedPin: "3dd59826230b942f0a45738183b131c27abed7cdc77dd808fd9c4b03bf8be90e",
    notBefore: "2018-05-21T10:45:10Z",
    notAfter: "2049-12-31T23:59:59Z",
    subject: [
      ["commonName", "Intel SGX Root CA"],
      ["organization", "Intel Corporation"],
      ["locality", "Santa Clara"],
      ["state", "CA"],
      ["country", "US"],
    ],
    key: {
      curve: "P-256",
      point: "C6nEwMDIYZOj/iPWsCzaEKi71OiOSLRFhWGjbnBVJfVnkY4u3IjkDYYL0MxO4mqsyYjlBalTVYxFP2sJBK5zlA==",
    },
  },
  {
    name: "NVIDIA Device Identity CA",
    role: "nvidia-device-root",
    product: "NVIDIA",
    pin: "a90c4eb5acfd3e3d03a25db6a26b84f720ad0503196c627c21ddd48dd85b06a4",
    simulatedPin: "e0f6187a76af3c041fe805cf7068302a8672bedd2cb3b30b9740ec504e4887bd",
    notBefore: "2021-11-05T00:00:00Z",
    notAfter: "9999-12-31T23:59:59Z",
    subject: [
      ["commonName", "NVIDIA Device Identity CA"],
      ["organization", "NVIDIA"],
    ],
    key: {
      curve: "P-384",
      point:
        "DkwUozv4pWJmWNtBKWB+TL9FGcRBJxb00NkXxJeABb3qvq79V7xmCC1xik+LYFLhUW7op8QiuE3oVwcbtY/Tlb6gz6HGPufI" +
        "DWvWOQHZHLvRh9OFfcFrXM6vI4/4wn29",
    },
  },
  {
    name: "NVIDIA CoRIM signing Root CA",
    role: "nvidia-rim-root",
    product: "NVIDIA RIM",
    pin: "dec1dc316477aa851eebdf51327ae9f864bc8d89254657ed1e7eb9168af1e1a3",
    simulatedPin: "d97e254e1e8911884874ae00c1cbb510a30b4cfeedffaa5d5efef25ed50acf77",
    notBefore: "2023-03-16T15:37:34Z",
    notAfter: "2053-03-08T15:37:34Z",
    subject: [
      ["country", "US"],
      ["organization", "NVIDIA"],
      ["commonName", "NVIDIA CoRIM signing Root CA"],
    ],
    key: {
      curve: "P-384",
      point:
        "uECyi9vNM+Iw2lfUzyBldHAwaC1HF7TCgp12QcEyUTm3Tagxwr48d55+K2VIlWYIDk7NlAIQdcV/Ff7euGLI+Qauj93HsSI4" +
        "WX298PpW54RTgz9tC+Q684caR/BXWEeZ",
    },
  },
];

/** The vendors' production roots, and nothing else. */
export function vendorAnchors(): TrustAnchors {
  return ROOTS.map(({ name, role, product, pin, subject, key, ...dates }) => {
    const spki = key ? ecSpki(key.curve, base64Bytes(key.point, name)) : NO_BYTES;
    const notBefore = Date.parse(dates.notBefore);
    const notAfter = Date.parse(dates.notAfter);
    return {
      name,
      role,
      product,
      pin,
      simulated: false,
      held: { name, subject: derName(subject), spki, notBefore, notAfter },
    };
  });
}

/** The simulator's roots, and nothing else. Their private keys are public by design. */
export function simulationAnchors(): TrustAnchors {
  return ROOTS.map(({ name, role, product, simulatedPin }) => ({
    name: `SIMULATED ${name}`,
    role,
    product,
    pin: simulatedPin,
    simulated: true,
  }));
}

/** True if a key is one of the simulator's: for saying so where it is refused. */
export function isSimulatedPin(role: AnchorRole, pin: string): boolean {
  return ROOTS.some((root) => root.role === role && root.simulatedPin === pin);
}
