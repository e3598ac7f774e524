/**
 * The opaque data of an NVIDIA report: packed entries of type (u16), size (u16) and value, little-endian.
 *
 * What a device says of itself stands here: versions, firmware id, mode, neighbours. All of it is signed with the
 * report. Types that nobody knows are kept and listed, and serve no check. Whether an entry is about a GPU or a switch
 * follows from the device's certificate, never from the entries.
 *
 * Spec: specs/nvidia-gpu.md, section 4.
 */

import { type Bytes, hex, latin1 } from "../bytes";
import { type AttestError, refusal } from "../errors";

/** The highest value of entry 34 whose meaning is known. */
const MAX_OPAQUE_VERSION = 1;
const CHECK = "nvidia.format";
const PDI_BYTES = 8;
const FWID_BYTES = 48;
/** Of the table of ports behind the GPUs that a switch knows; it is not interpreted. */
const SWITCH_PORTS_BYTES = 64;
const SWITCH_GPU_PDIS_BYTES = 64 + SWITCH_PORTS_BYTES;
const GPU_PDIS_BYTES = 18 * 8;
const VBIOS_BYTES = 8;

const DRIVER_VERSION = 3;
const GPU_INFO = 4;
const VBIOS_VERSION = 6;
const NVDEC0_STATUS = 11;
const CHIP_SKU = 15;
const PROJECT = 17;
const PROJECT_SKU = 18;
const FWID = 20;
const PROTECTED_PCIE_STATUS = 21;
const PDIS = 22;
const LOCK_STATUS = 25;
const SWITCH_GPU_PDIS = 26;
const OPAQUE_VERSION = 34;
const CHIP_INFO = 35;
const FEATURE_FLAG = 36;

/** Bytes of the entries that are interpreted. The first size of `PDIS` is that of a switch, the other of a GPU. */
const SIZES: ReadonlyMap<number, readonly number[]> = new Map([
  [NVDEC0_STATUS, [1]],
  [FWID, [FWID_BYTES]],
  [PROTECTED_PCIE_STATUS, [1]],
  [PDIS, [PDI_BYTES, GPU_PDIS_BYTES]],
  [LOCK_STATUS, [2]],
  [SWITCH_GPU_PDIS, [SWITCH_GPU_PDIS_BYTES]],
  [OPAQUE_VERSION, [2]],
  [FEATURE_FLAG, [2]],
]);
const TEXTS = [DRIVER_VERSION, CHIP_SKU, 16, PROJECT, PROJECT_SKU, 19, CHIP_INFO];
const ON_OR_OFF = [0x55, 0xaa];
/** Single GPU pass-through, multi GPU pass-through, protected PCIe. */
const FEATURE_FLAGS = [0, 1, 2];

/** What a device says of itself; undefined means "not present in the report". Digests and ids in hex. */
export interface OpaqueData {
  /** Version of the driver (`550.90.07`); a switch has none. */
  readonly driverVersion: string | undefined;
  readonly project: string | undefined;
  readonly projectSku: string | undefined;
  readonly chipSku: string | undefined;
  /** Name of the chip (`GB202`); only newer drivers state it. */
  readonly chipInfo: string | undefined;
  /** State of the first video decoder: 0xAA enabled, 0x55 disabled. */
  readonly nvdec0: number | undefined;
  /** SHA-384 of the first mutable firmware; drivers before 550 and switches do not state it. */
  readonly fwid: string | undefined;
  /** Protected PCIe: 0xAA on, 0x55 off. */
  readonly protectedPcie: number | undefined;
  /** Version of the opaque data; 0 when it is not stated. */
  readonly version: number;
  /** Mode: 0 single GPU pass-through, 1 multi GPU pass-through, 2 protected PCIe. Undefined without version 1. */
  readonly featureFlag: number | undefined;
  /** A switch's own id in the order of the certificate's serial number. */
  readonly ownPdi: string | undefined;
  /** For each of a GPU's links the id of the switch behind it, turned so that it compares equal to `ownPdi`. */
  readonly switchPdis: readonly string[] | undefined;
  /** The ids of the eight GPUs that a switch knows. */
  readonly gpuPdis: readonly string[] | undefined;
  /** Whether a switch's configuration is locked: 1 locked. */
  readonly lockStatus: number | undefined;
  /** Types of no known meaning, in the order of the report. */
  readonly unknown: readonly number[];
  /** Version of the VBIOS or BIOS: a GPU writes it as numbers, a switch as text. */
  readonly bios: Bytes | undefined;
}

/** The VBIOS version of a device that is a GPU by its certificate (`96.00.74.00.1A`): five of its eight bytes. */
export function gpuVbiosVersion({ bios }: OpaqueData): string | undefined {
  if (bios && bios.length !== VBIOS_BYTES) throw malformed("VBIOS version", `${VBIOS_BYTES} bytes for a GPU`, `${bios.length} bytes`);
  return bios && [3, 2, 1, 0, 4].map((i) => hex(bios.subarray(i, i + 1)).toUpperCase()).join(".");
}

/** The BIOS version of a device that is a switch by its certificate (`96.10.55.00.01`). */
export function switchBiosVersion({ bios }: OpaqueData): string | undefined {
  const found = bios && textOf(bios);
  if (bios && !found) throw malformed("VBIOS version", "printable ASCII for a switch", hex(bios));
  return found;
}

/**
 * Read the opaque data of a report.
 *
 * @param offset where it begins in the report, for errors.
 * @throws AttestError `gpu-report-malformed`: an entry overruns, a type stands twice, or a value that is interpreted
 *   has another size or meaning than is known; `gpu-opaque-unsupported`: a layout or version that is newer.
 */
export function parseOpaque(data: Bytes, offset: number): OpaqueData {
  // (1) Which layout: the newer one begins with its name, and would be an entry of 16,708 bytes here.
  if (latin1(data.subarray(0, 6)) === "NVDAOD") throw unsupported(`NVDAOD ${[...data.subarray(8, 11)].join(".")}`);
  // (2) Framing: entries follow each other without gaps, and end with the data.
  const { entries, places } = cut(data, offset);
  const unsigned = (type: number): number | undefined => maybe(entries.get(type), unsignedOf);
  const hexOf = (type: number, size: number): string | undefined => maybe(entries.get(type), (value) => (value.length === size ? hex(value) : undefined));
  // A text of NULs alone states nothing.
  const text = (type: number): string | undefined => maybe(entries.get(type), textOf) || undefined;
  // (3) The version says whether the entries mean what we think.
  requireSize(OPAQUE_VERSION, entries.get(OPAQUE_VERSION), places);
  const version = unsigned(OPAQUE_VERSION) ?? 0;
  if (version > MAX_OPAQUE_VERSION) throw unsupported(`version ${version}`);
  // (4) Values that are interpreted.
  for (const [type, value] of entries) {
    requireSize(type, value, places);
    requireValue(type, value, places, version >= 1);
  }
  // BIOS 96.10.52 wrote the ids of a switch's GPUs under another type.
  const [old, listed] = [hexOf(GPU_INFO, SWITCH_GPU_PDIS_BYTES), hexOf(SWITCH_GPU_PDIS, SWITCH_GPU_PDIS_BYTES)];
  if (old && listed) throw malformed("opaque data", "one list of GPU PDIs", "types 4 and 26", offset);
  const links = entries.get(PDIS);
  return {
    driverVersion: text(DRIVER_VERSION),
    project: text(PROJECT),
    projectSku: text(PROJECT_SKU),
    chipSku: text(CHIP_SKU),
    chipInfo: text(CHIP_INFO),
    nvdec0: unsigned(NVDEC0_STATUS),
    fwid: hexOf(FWID, FWID_BYTES),
    protectedPcie: unsigned(PROTECTED_PCIE_STATUS),
    version,
    featureFlag: version >= 1 ? unsigned(FEATURE_FLAG) : undefined,
    ownPdi: hexOf(PDIS, PDI_BYTES),
    switchPdis: links?.length === GPU_PDIS_BYTES ? pieces(hex(links.slice().reverse())).reverse() : undefined,
    gpuPdis: maybe(listed ?? old, (digits) => pieces(digits.slice(0, -2 * SWITCH_PORTS_BYTES))),
    lockStatus: unsigned(LOCK_STATUS),
    unknown: [...entries.keys()].filter((type) => !((type >= 1 && type <= 27) || (type >= 32 && type <= 36))),
    bios: entries.get(VBIOS_VERSION),
  };
}

function maybe<T, R>(value: T | undefined, read: (value: T) => R): R | undefined {
  return value === undefined ? undefined : read(value);
}

function unsignedOf(value: Bytes): number {
  return value.reduceRight((sum, byte) => sum * 256 + byte, 0);
}

type Places = ReadonlyMap<number, number>;

/** Cut the data into entries, each with its offset in the report. */
function cut(data: Bytes, offset: number): { entries: Map<number, Bytes>; places: Places } {
  const entries = new Map<number, Bytes>();
  const places = new Map<number, number>();
  for (let at = 0; at < data.length; ) {
    const [type, size] = [unsignedOf(data.slice(at, at + 2)), unsignedOf(data.slice(at + 2, at + 4))];
    const end = at + 4 + size;
    if (end > data.length || at + 4 > data.length) throw malformed(name(type), `${end - at} bytes`, `${data.length - at} bytes`, offset + at);
    if (entries.has(type)) throw malformed(name(type), "each type at most once", "twice", offset + at);
    entries.set(type, data.slice(at + 4, end));
    places.set(type, offset + at);
    at = end;
  }
  return { entries, places };
}

function requireSize(type: number, value: Bytes | undefined, places: Places): void {
  const sizes = SIZES.get(type);
  if (value && sizes && !sizes.includes(value.length)) {
    throw malformed(name(type), `${sizes.join(" or ")} bytes`, `${value.length} bytes`, places.get(type));
  }
}

/** Refuse text that cannot be shown, and words of a closed set that are not in it. */
function requireValue(type: number, value: Bytes, places: Places, versioned: boolean): void {
  const text = textOf(value);
  const unreadable = type === VBIOS_VERSION ? value.length !== VBIOS_BYTES && !text : TEXTS.includes(type) && text === undefined;
  if (unreadable) throw malformed(name(type), "printable ASCII", hex(value.subarray(0, 64)), places.get(type));
  const onOrOff = type === NVDEC0_STATUS || type === PROTECTED_PCIE_STATUS;
  const allowed = onOrOff ? ON_OR_OFF : type === FEATURE_FLAG && versioned ? FEATURE_FLAGS : undefined;
  const number = unsignedOf(value);
  if (allowed && !allowed.includes(number)) throw malformed(name(type), allowed.join(" or "), String(number), places.get(type));
}

/** Text without the NULs behind it; undefined for what is not printable ASCII. */
function textOf(value: Bytes): string | undefined {
  return /^([ -~]*)\0*$/.exec(latin1(value))?.[1];
}

function pieces(digits: string): string[] {
  return digits.match(/.{16}/g) ?? [];
}

function name(type: number): string {
  return `opaque data, type ${type}`;
}

function unsupported(got: string): AttestError {
  const expected = `the layout without a name in front, version at most ${MAX_OPAQUE_VERSION}`;
  return refusal("unsupported", "gpu-opaque-unsupported", expected, got, { check: CHECK, clause: "nvidia-gpu.md 4.3" });
}

/** Make the refusal of a report that is not what its format says; for the caller to throw. */
export function malformed(field: string, expected: string, got: string, offset?: number): AttestError {
  return refusal("malformed", "gpu-report-malformed", expected, got, { field, offset, check: CHECK, clause: "nvidia-gpu.md 2 to 4" });
}
