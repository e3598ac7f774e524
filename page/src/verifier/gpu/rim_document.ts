/**
 * Closed parser of a RIM's SWID document. Anything that is not in these tables is refused.
 *
 * Nothing is judged that is not in the document: neither the id under which a RIM is served nor "driver" or "VBIOS" is.
 *
 * Spec: specs/nvidia-gpu.md, section 9.2. Fetched when a RIM is met.
 */

import type { Bytes } from "../bytes";
import { type XmlElement, elements, isBlank } from "../xml/parse";
import { type SignedDocument, readSignedDocument } from "../xml/signature";
import { malformed } from "../rim_form";

const SWID = "http://standards.iso.org/iso/19770/-2/2015/schema.xsd ";
const RIM = "https://trustedcomputinggroup.org/resource/tcg-reference-integrity-manifest-rim-information-model/ ";
const HASH = "http://www.w3.org/2001/04/xmlenc#sha384 Hash";

/** Patterns of attributes by what their names mean; each is matched whole. */
type Patterns = Readonly<Record<string, string>>;

const NAME = "[A-Za-z0-9_]{1,32}";
const TEXT = "[ -~]{1,256}";
/** Marker of an absent attribute: a text that no document can contain. */
const ABSENT = "\0";
const FALSE = `false|${ABSENT}`;
const ROOT: Patterns = {
  " name": NAME,
  " tagId": "[0-9A-Za-z._:-]{1,128}",
  " version": "1\\.0",
  " tagVersion": "0",
  " corpus": FALSE,
  " patch": FALSE,
  " supplemental": FALSE,
};
const META: Patterns = {
  " colloquialVersion": "[0-9A-Za-z.]{1,64}",
  " edition": "GPU|SWITCH",
  " product": NAME,
  " revision": TEXT,
  " PayloadType": "direct",
  [`${RIM}BindingSpec`]: "RIMIM",
  [`${RIM}BindingSpecVersion`]: "1\\.01",
  [`${RIM}PlatformManufacturerId`]: "5703",
  [`${RIM}PlatformManufacturerStr`]: TEXT,
  [`${RIM}PlatformModel`]: NAME,
  [`${RIM}FirmwareManufacturer`]: TEXT,
  [`${RIM}FirmwareManufacturerId`]: "5703",
};
/**
 * Records of either edition, active or not, are numbered from 0 to 63; a switch's report has only 31 blocks. A
 * measurement has at most 64 alternatives; the most seen is 4.
 */
const RESOURCE: Patterns = {
  " type": "Measurement",
  " index": "[0-9]|[1-5][0-9]|6[0-3]",
  " active": "True|False",
  " alternatives": "[1-9]|[1-5][0-9]|6[0-4]",
  " name": TEXT,
  " size": "48",
};

export type RimEdition = "GPU" | "SWITCH";
/** Index to the digests, 96 hex digits each, of which one has to be found there. */
export type ReferenceValues = ReadonlyMap<number, readonly string[]>;

/** The facts of one RIM, as far as they are used. */
export interface RimContent {
  readonly product: string;
  /** `GPU` for driver and VBIOS alike. */
  readonly edition: RimEdition;
  readonly version: string;
  /** Of active records only. */
  readonly referenceValues: ReferenceValues;
  /** NVIDIA's names of these records by index. */
  readonly names: ReadonlyMap<number, string>;
}

/** Read a RIM, and verify its XML signature with the key of its first certificate. */
export async function readRimDocument(der: Bytes): Promise<RimContent & Omit<SignedDocument, "root">> {
  const { root, ...signed } = await readSignedDocument(der);
  return { ...readContent(root), ...signed };
}

/**
 * Read a SoftwareIdentity whose Signature was taken away.
 *
 * NOTE: Python tells numeric reference values, which newer RIMs may carry, from other unknown attributes
 * (`rim-unsupported`). Here either is a RIM that is passed over.
 *
 * @throws AttestError `rim-malformed`.
 */
function readContent(root: XmlElement): RimContent {
  const identity = attributes(root, "SoftwareIdentity", ROOT, 3);
  const [entity, metaElement, payload] = elements(root) as [XmlElement, XmlElement, XmlElement];
  attributes(entity, "Entity", { " name": TEXT, " role": TEXT });
  const meta = attributes(metaElement, "Meta", META);
  const product = meta(" product");
  if (identity(" name") !== product || product !== meta(`${RIM}PlatformModel`)) malformed();
  return {
    product,
    edition: meta(" edition") as RimEdition,
    version: meta(" colloquialVersion"),
    ...records(payload),
  };
}

/** Return the attributes of an element that is as the table says, with so many children and no text. */
function attributes(element: XmlElement, name: string, patterns: Patterns, children = 0): (of: string) => string {
  const found = element.attributes;
  const of = (attribute: string): string => found.get(attribute) ?? ABSENT;
  const known = Object.entries(patterns);
  const fits =
    element.tag === SWID + name &&
    isBlank(element) &&
    elements(element).length === children &&
    known.every(([attribute, pattern]) => new RegExp(`^(?:${pattern})$`).test(of(attribute))) &&
    known.filter(([attribute]) => found.has(attribute)).length === found.size;
  if (!fits) malformed();
  return of;
}

/** Digests and names of the active records. */
function records(payload: XmlElement): Pick<RimContent, "referenceValues" | "names"> {
  const resources = elements(payload);
  attributes(payload, "Payload", {}, resources.length);
  const seen = new Set<number>();
  const active = new Map<number, readonly string[]>();
  const titles = new Map<number, string>();
  for (const resource of resources) {
    // Whatever else there is has to be the alternatives, in their number.
    const names = Array.from(
      { length: resource.attributes.size - Object.keys(RESOURCE).length },
      (_, number) => `${HASH}${number}`,
    );
    const digests = Object.fromEntries(names.map((name) => [name, "[0-9a-f]{96}"]));
    const of = attributes(resource, "Resource", { ...RESOURCE, ...digests });
    const index = Number(of(" index"));
    if (of(" alternatives") !== String(names.length) || seen.has(index)) malformed();
    seen.add(index);
    if (of(" active") !== "True") continue;
    active.set(index, names.map(of));
    titles.set(index, of(" name"));
  }
  // Nothing would be compared, and nothing would differ.
  if (!active.size) malformed();
  return { referenceValues: active, names: titles };
}
