/**
 * Trust anchors: whose root keys are accepted, pinned by the SHA-256 of their SubjectPublicKeyInfo. Where the key
 * itself is held, a chain needs no root certificate. A root that arrives with evidence is only ever compared with a pin.
 *
 * The simulation's roots are a set of their own: nothing in `vendorAnchors()` leads to them.
 */

import { type Bytes, base64Bytes, utf8 } from "./bytes";
import { ecSpki, rsaSpki } from "./crypto";
import { TAG, tlv } from "./der";
import { AMD_ARK_MODULI, INTEL_SGX_ROOT_POINT, NVIDIA_DEVICE_ROOT_POINT, NVIDIA_RIM_ROOT_POINT } from "./roots";
import type { Issuer } from "./x509";

/** What an anchor may vouch for. */
export type AnchorRole = "amd-ark" | "intel-sgx-root" | "nvidia-device-root" | "nvidia-rim-root";

export interface Anchor {
  readonly name: string;
  readonly role: AnchorRole;
  /** The product line that it stands for (`Milan`); Intel has one root for all, `SGX`. */
  readonly product: string;
  /** SHA-256 of its SubjectPublicKeyInfo, lower-case hex. */
  readonly pin: string;
  /** Name and key, when the key itself is held, with its dates; both bounds are included. */
  readonly held?: Issuer & { readonly notBefore: number; readonly notAfter: number };
  /** It belongs to the simulator, so nothing that rests on it proves anything about hardware. */
  readonly simulated: boolean;
}

/** A set of anchors. The empty set accepts nobody. */
export type TrustAnchors = readonly Anchor[];

export function anchorsOf(anchors: TrustAnchors, role: AnchorRole): TrustAnchors {
  return anchors.filter((anchor) => anchor.role === role);
}

/** The anchor of this role whose key has this digest, if there is one. */
export function pinned(anchors: TrustAnchors, role: AnchorRole, pin: string): Anchor | undefined {
  return anchors.find((anchor) => anchor.role === role && anchor.pin === pin);
}

const CN = 3;
const [C, L, ST, O, OU] = [6, 7, 8, 10, 11];

/** DER Name of attributes under 2.5.4, each in an RDN of its own; a country is a PrintableString, the rest UTF8String. */
function derName(...attributes: readonly (readonly [number, string])[]): Bytes {
  const rdns = attributes.map(([kind, text]) => {
    const value = tlv(kind === C ? 0x13 : 0x0c, utf8(text));
    return tlv(TAG.set, tlv(TAG.sequence, Uint8Array.of(6, 3, 0x55, 4, kind), value));
  });
  return tlv(TAG.sequence, ...rdns);
}

type Row = readonly [
  name: string,
  role: AnchorRole,
  product: string,
  pin: string,
  simulatedPin: string,
  notBefore: string,
  notAfter: string,
  spki: () => Bytes,
  attributes: readonly (readonly [number, string])[],
];

const AMD_PREFIX = [[OU, "Engineering"], [C, "US"], [L, "Santa Clara"], [ST, "CA"], [O, "Advanced Micro Devices"]] as const;
const point = (text: string): Bytes => base64Bytes(text, "root");

function ark(product: keyof typeof AMD_ARK_MODULI, pin: string, simulatedPin: string, notBefore: string, notAfter: string): Row {
  const spki = (): Bytes => rsaSpki(base64Bytes(AMD_ARK_MODULI[product], "root"));
  return [`ARK-${product}`, "amd-ark", product, pin, simulatedPin, notBefore, notAfter, spki, [...AMD_PREFIX, [CN, `ARK-${product}`]]];
}

const ROWS: readonly Row[] = [
  ark(
    "Milan",
    "9f056bee44377e29308cb5ffa895bdfb62d18881fa6bed8d6f075b0204089cb9",
    "13ba5621789593ad7c6321447b6ee4d70f649eebb9c5da086c2d223ebe103ea1",
    "2020-10-22T17:23:05Z",
    "2045-10-22T17:23:05Z",
  ),
  ark(
    "Genoa",
    "429a69c9422aa258ee4d8db5fcda9c6470ef15f8cd5a9cebd6cbc7d90b863831",
    "74a79e6d4c96d0c50f1794d37e797bd5c71a05a3d007d62c9e7a08c278ed21f0",
    "2022-01-26T15:34:37Z",
    "2047-01-26T15:34:37Z",
  ),
  ark(
    "Turin",
    "4f125410563a2ab9a50356f9243f6fe0b6f73de98603f53f90339c70e9d7ad08",
    "6fb0143057c0690c9e4c528bd9a80a257f08a7ae6da4a073169dfba0b6aaa128",
    "2023-05-15T20:03:12Z",
    "2048-05-15T20:03:12Z",
  ),
  [
    "Intel SGX Root CA",
    "intel-sgx-root",
    "SGX",
    "a0af031289f5d5d4132f9186068a7fc13628633ba235777472e29b6b6c67a49e",
    "3dd59826230b942f0a45738183b131c27abed7cdc77dd808fd9c4b03bf8be90e",
    "2018-05-21T10:45:10Z",
    "2049-12-31T23:59:59Z",
    () => ecSpki("P-256", point(INTEL_SGX_ROOT_POINT)),
    [[CN, "Intel SGX Root CA"], [O, "Intel Corporation"], [L, "Santa Clara"], [ST, "CA"], [C, "US"]],
  ],
  [
    "NVIDIA Device Identity CA",
    "nvidia-device-root",
    "NVIDIA",
    "a90c4eb5acfd3e3d03a25db6a26b84f720ad0503196c627c21ddd48dd85b06a4",
    "e0f6187a76af3c041fe805cf7068302a8672bedd2cb3b30b9740ec504e4887bd",
    "2021-11-05T00:00:00Z",
    "9999-12-31T23:59:59Z",
    () => ecSpki("P-384", point(NVIDIA_DEVICE_ROOT_POINT)),
    [[CN, "NVIDIA Device Identity CA"], [O, "NVIDIA"]],
  ],
  [
    "NVIDIA CoRIM signing Root CA",
    "nvidia-rim-root",
    "NVIDIA RIM",
    "dec1dc316477aa851eebdf51327ae9f864bc8d89254657ed1e7eb9168af1e1a3",
    "d97e254e1e8911884874ae00c1cbb510a30b4cfeedffaa5d5efef25ed50acf77",
    "2023-03-16T15:37:34Z",
    "2053-03-08T15:37:34Z",
    () => ecSpki("P-384", point(NVIDIA_RIM_ROOT_POINT)),
    [[C, "US"], [O, "NVIDIA"], [CN, "NVIDIA CoRIM signing Root CA"]],
  ],
];

/** The vendors' production roots, and nothing else. */
export function vendorAnchors(): TrustAnchors {
  return ROWS.map(([name, role, product, pin, , notBefore, notAfter, spki, attributes]) => {
    const dates = { notBefore: Date.parse(notBefore), notAfter: Date.parse(notAfter) };
    return { name, role, product, pin, simulated: false, held: { name, subject: derName(...attributes), spki: spki(), ...dates } };
  });
}

/** The simulator's roots, and nothing else. Their private keys are public by design. */
export function simulationAnchors(): TrustAnchors {
  return ROWS.map(([name, role, product, , pin]) => ({ name: `SIMULATED ${name}`, role, product, pin, simulated: true }));
}

/** Whether a key is one of the simulator's: for saying so where it is refused. */
export function isSimulatedPin(role: AnchorRole, pin: string): boolean {
  return ROWS.some((row) => row[1] === role && row[4] === pin);
}
