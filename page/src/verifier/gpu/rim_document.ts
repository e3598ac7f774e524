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
  const [entity, metaElement, payload, ...more] = elements(root);
  if (!entity || !metaElement || !payload || more.length) throw malformed("SoftwareIdentity");
  attributes(entity, "Entity", { name: TEXT, role: TEXT }, {}, true);
  const meta = attributes(metaElement, "Meta", META, {}, true);
  const product = meta("product");
  if (identity("name") !== product || product !== meta(`${RIM}PlatformModel`)) throw malformed("Meta.product");
  return {
    product,
    edition: meta("edition") === "GPU" ? "GPU" : "SWITCH", // META allows no third
    version: meta("colloquialVersion"),
    referenceValues: referenceValues(payload),
  };
}

function requireNoNumericValues(element: XmlElement): void {
  for (const field of element.attributes.keys()) {
    if (field.startsWith(OPAQUE_DATA)) fail("unsupported", "rim-unsupported", "", { field, clause: "nvidia-gpu.md 4.3" });
  }
  elements(element).forEach(requireNoNumericValues);
}

/**
 * Return the attributes of an element that has all the required ones, none but those in the tables, and no text.
 *
 * Hashes are passed over in a record, which judges them itself.
 */
function attributes(
  element: XmlElement,
  name: string,
  required: Patterns,
  optional: Patterns = {},
  empty = false,
): (of: string) => string {
  const found = element.attributes;
  const known = { ...required, ...optional };
  const fits =
    element.tag === SWID + name &&
    isBlank(element) &&
    !(empty && elements(element).length) &&
    Object.keys(required).every((attribute) => found.has(attribute)) &&
    [...found].every(([attribute, { value }]) =>
      // The names of a document may be those of any object's members.
      Object.hasOwn(known, attribute)
        ? new RegExp(`^(?:${known[attribute]})$`).test(value)
        : required === RESOURCE && attribute.startsWith(HASH),
    );
  if (!fits) throw malformed(name);
  return (of) => found.get(of)?.value ?? "";
}

function referenceValues(payload: XmlElement): ReferenceValues {
  attributes(payload, "Payload", {});
  const seen = new Set<number>();
  const active = new Map<number, readonly string[]>();
  for (const resource of elements(payload)) {
    const of = attributes(resource, "Resource", RESOURCE, {}, true);
    const index = Number(of("index"));
    const count = Number(of("alternatives"));
    const digests = Array.from({ length: count }, (_, number) => of(HASH + number));
    const whole = resource.attributes.size === Object.keys(RESOURCE).length + count && digests.every((digest) => DIGEST.test(digest));
    if (!whole || count > MAX_ALTERNATIVES || index >= INDICES || seen.has(index)) throw malformed(`Resource[${index}]`);
    seen.add(index);
    if (of("active") === "True") active.set(index, digests);
  }
  // Nothing would be compared, and nothing would differ.
  if (active.size === 0) throw malformed("Payload");
  return active;
}
