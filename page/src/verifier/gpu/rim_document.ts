/**
 * What a RIM says: the closed reading of its SWID document. Whatever is not in the tables here refuses.
 *
 * Nothing is judged that is not in the document: neither the id under which a RIM is served nor "driver" or "VBIOS" is.
 *
 * Spec: specs/nvidia-gpu.md, section 9.2.
 */

import { AttestError, fail } from "../errors";
import { type XmlElement, elements, isBlank } from "../xml/parse";
import { malformed } from "../xml/refusal";

/** Records of either edition, active or not, are numbered from 0; a switch's report has only 31 blocks. */
const INDICES = 64;
/** Of one measurement; the most seen is 4. */
const MAX_ALTERNATIVES = 64;

const SWID = "{http://standards.iso.org/iso/19770/-2/2015/schema.xsd}";
const RIM = "{https://trustedcomputinggroup.org/resource/tcg-reference-integrity-manifest-rim-information-model/}";
const HASH = "{http://www.w3.org/2001/04/xmlenc#sha384}Hash";
const OPAQUE_DATA = "{https://docs.nvidia.com/attestation/specs/latest/opaque-data.html}";

/** Patterns of attributes by name; each is matched whole. */
type Patterns = Readonly<Record<string, string>>;

const NAME = "[A-Za-z0-9_]{1,32}";
const TEXT = "[ -~]{1,256}";
const ROOT: Patterns = { name: NAME, tagId: "[0-9A-Za-z._:-]{1,128}", version: "1\\.0", tagVersion: "0" };
const ROOT_OPTIONAL: Patterns = { corpus: "false", patch: "false", supplemental: "false" };
const META: Patterns = {
  colloquialVersion: "[0-9A-Za-z.]{1,64}",
  edition: "GPU|SWITCH",
  product: NAME,
  revision: TEXT,
  PayloadType: "direct",
  [`${RIM}BindingSpec`]: "RIMIM",
  [`${RIM}BindingSpecVersion`]: "1\\.01",
  [`${RIM}PlatformManufacturerId`]: "5703",
  [`${RIM}PlatformManufacturerStr`]: TEXT,
  [`${RIM}PlatformModel`]: NAME,
  [`${RIM}FirmwareManufacturer`]: TEXT,
  [`${RIM}FirmwareManufacturerId`]: "5703",
};
const RESOURCE: Patterns = {
  type: "Measurement",
  index: "0|[1-9][0-9]?",
  active: "True|False",
  alternatives: "[1-9][0-9]?",
  name: TEXT,
  size: "48",
};
const DIGEST = /^[0-9a-f]{96}$/;

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
}

/**
 * Read a SoftwareIdentity whose Signature was taken away.
 *
 * @throws AttestError `rim-malformed`; or `rim-unsupported`, numeric reference values, which newer RIMs may carry.
 */
export function readContent(root: XmlElement): RimContent {
  try {
    return read(root);
  } catch (error) {
    if (error instanceof AttestError) requireNoNumericValues(root); // which says more than that something is unknown
    throw error;
  }
}

function read(root: XmlElement): RimContent {
  const identity = attributes(root, "SoftwareIdentity", ROOT, ROOT_OPTIONAL);
  const children = elements(root);
  const names = children.map((child) => child.tag).join(", ");
  if (names !== [`${SWID}Entity`, `${SWID}Meta`, `${SWID}Payload`].join(", ")) {
    throw malformed("other children of SoftwareIdentity", { expected: "Entity, Meta, Payload, Signature", got: names });
  }
  const [entity, metaElement, payload] = children as [XmlElement, XmlElement, XmlElement];
  requireEmpty(entity, "Entity");
  attributes(entity, "Entity", { name: TEXT, role: TEXT });
  requireEmpty(metaElement, "Meta");
  const meta = attributes(metaElement, "Meta", META);
  const product = meta("product");
  if (identity("name") !== product || product !== meta(`${RIM}PlatformModel`)) {
    throw malformed("name, product and PlatformModel differ", { field: "Meta.product", got: product });
  }
  return {
    product,
    edition: meta("edition") === "GPU" ? "GPU" : "SWITCH", // META allows no third
    version: meta("colloquialVersion"),
    referenceValues: referenceValues(payload),
  };
}

function requireNoNumericValues(element: XmlElement): void {
  for (const name of element.attributes.keys()) {
    if (!name.startsWith(OPAQUE_DATA)) continue;
    const problem = "this RIM demands numbers of the versioned opaque data, which cannot be compared here";
    fail("unsupported", "rim-unsupported", problem, { field: name, clause: "nvidia-gpu.md 4.3" });
  }
  elements(element).forEach(requireNoNumericValues);
}

/**
 * Return the attributes of an element that has all the required ones and none but those in the tables.
 *
 * Hashes are passed over in a record, which judges them itself.
 */
function attributes(element: XmlElement, name: string, required: Patterns, optional: Patterns = {}): (of: string) => string {
  if (element.tag !== SWID + name) throw malformed(`expected ${name}`, { field: name, expected: SWID + name, got: element.tag });
  if (!isBlank(element)) throw malformed(`text inside ${name}`, { field: name });
  for (const [attribute, { value }] of element.attributes) {
    const pattern = own(required, attribute) ?? own(optional, attribute);
    if (pattern === undefined) {
      if (required === RESOURCE && attribute.startsWith(HASH)) continue;
      throw malformed(`unknown attribute ${attribute}`, { field: name });
    }
    if (!new RegExp(`^(?:${pattern})$`).test(value)) {
      throw malformed(`attribute ${attribute} of ${name}`, { field: attribute, expected: pattern, got: value.slice(0, 80) });
    }
  }
  for (const attribute of Object.keys(required)) {
    if (!element.attributes.has(attribute)) throw malformed(`${name} without ${attribute}`, { field: attribute });
  }
  return (of) => element.attributes.get(of)?.value ?? "";
}

/** Look up what the table itself has: names in a document may be those of any object's members. */
function own(patterns: Patterns, name: string): string | undefined {
  return Object.hasOwn(patterns, name) ? patterns[name] : undefined;
}

function requireEmpty(element: XmlElement, name: string): void {
  const child = elements(element)[0];
  if (child !== undefined) throw malformed(`children of ${name}`, { field: name, got: child.tag });
}

function referenceValues(payload: XmlElement): ReferenceValues {
  attributes(payload, "Payload", {});
  const seen = new Set<number>();
  const active = new Map<number, readonly string[]>();
  for (const resource of elements(payload)) {
    requireEmpty(resource, "Resource");
    const of = attributes(resource, "Resource", RESOURCE);
    const index = Number(of("index"));
    const digests = alternatives(resource, Number(of("alternatives")), `Resource[${index}]`);
    if (seen.has(index) || index >= INDICES) {
      const problem = seen.has(index) ? "twice" : `beyond the last, ${INDICES - 1}`;
      throw malformed(`measurement ${index} ${problem}`, { field: `Resource[${index}].index` });
    }
    seen.add(index);
    if (of("active") === "True") active.set(index, digests);
  }
  // Nothing would be compared, and nothing would differ.
  if (active.size === 0) throw malformed("no active measurement", { field: "Payload" });
  return active;
}

function alternatives(resource: XmlElement, count: number, path: string): string[] {
  const found = resource.attributes.size - Object.keys(RESOURCE).length;
  const names = Array.from({ length: count }, (_, number) => `${HASH}${number}`);
  if (count > MAX_ALTERNATIVES || found !== count || !names.every((name) => resource.attributes.has(name))) {
    const expected = `Hash0 to Hash${count - 1}, at most ${MAX_ALTERNATIVES}`;
    throw malformed(`${path} with ${found} of ${count} alternatives`, { field: path, expected });
  }
  return names.map((name) => {
    const digest = resource.attributes.get(name)?.value ?? "";
    if (DIGEST.test(digest)) return digest;
    throw malformed(`a hash of ${path}`, { field: path, expected: "96 lower-case hex digits", got: `${digest.length} characters` });
  });
}
