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
import { AttestError } from "../errors";

/** The highest value of entry 34 whose meaning is known. */
const MAX_OPAQUE_VERSION = 1;
const PDI_DIGITS = 16;
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
  [FWID, [48]],
  [PROTECTED_PCIE_STATUS, [1]],
  [PDIS, [8, GPU_PDIS_BYTES]],
  [LOCK_STATUS, [2]],
  [SWITCH_GPU_PDIS, [SWITCH_GPU_PDIS_BYTES]],
  [OPAQUE_VERSION, [2]],
  [FEATURE_FLAG, [2]],
]);
const TEXTS = [DRIVER_VERSION, CHIP_SKU, 16, PROJECT, PROJECT_SKU, 19, CHIP_INFO];
const ON_OR_OFF = [0x55, 0xaa];
/** Single GPU pass-through, multi GPU pass-through, protected PCIe. */
const FEATURE_FLAGS = [0, 1, 2];

/** What a device says of itself; undefined means "not present in the report". Made by `parseOpaque`. */
export class OpaqueData {
  constructor(readonly entries: ReadonlyMap<number, Bytes>) {}

  /** Version of the driver (`550.90.07`); a switch has none. */
  get driverVersion(): string | undefined {
    return this.#text(DRIVER_VERSION);
  }

  get project(): string | undefined {
    return this.#text(PROJECT);
  }

  get projectSku(): string | undefined {
    return this.#text(PROJECT_SKU);
  }

  get chipSku(): string | undefined {
    return this.#text(CHIP_SKU);
  }

  /** Name of the chip (`GB202`); only newer drivers state it. */
  get chipInfo(): string | undefined {
    return this.#text(CHIP_INFO);
  }

  /** State of the first video decoder: 0xAA enabled, 0x55 disabled. */
  get nvdec0(): number | undefined {
    return this.#unsigned(NVDEC0_STATUS);
  }

  /** SHA-384 of the first mutable firmware in hex; drivers before 550 and switches do not state it. */
  get fwid(): string | undefined {
    return this.#hex(FWID);
  }

  /** Protected PCIe: 0xAA on, 0x55 off. */
  get protectedPcie(): number | undefined {
    return this.#unsigned(PROTECTED_PCIE_STATUS);
  }

  /** Version of the opaque data; 0 when it is not stated. */
  get version(): number {
    return this.#unsigned(OPAQUE_VERSION) ?? 0;
  }

  /** Mode: 0 single GPU pass-through, 1 multi GPU pass-through, 2 protected PCIe. Undefined without version 1. */
  get featureFlag(): number | undefined {
    return this.version >= 1 ? this.#unsigned(FEATURE_FLAG) : undefined;
  }

  /** A switch's own id in the order of the certificate's serial number. */
  get ownPdi(): string | undefined {
    const value = this.#hex(PDIS);
    return value?.length === PDI_DIGITS ? value : undefined;
  }

  /** For each of a GPU's links the id of the switch behind it, turned so that it compares equal to `ownPdi`. */
  get switchPdis(): readonly string[] | undefined {
    const value = this.entries.get(PDIS);
    if (value?.length !== GPU_PDIS_BYTES) return undefined;
    return pieces(hex(value.slice().reverse())).reverse();
  }

  /** The ids of the eight GPUs that a switch knows. BIOS 96.10.52 wrote them under another type. */
  get gpuPdis(): readonly string[] | undefined {
    const value = this.entries.get(SWITCH_GPU_PDIS) ?? this.#oldGpuPdis();
    return value && pieces(hex(value.subarray(0, -SWITCH_PORTS_BYTES)));
  }

  /** Whether a switch's configuration is locked: 1 locked. */
  get lockStatus(): number | undefined {
    return this.#unsigned(LOCK_STATUS);
  }

  /** Types of no known meaning, in the order of the report. */
  get unknown(): readonly number[] {
    return [...this.entries.keys()].filter((type) => !((type >= 1 && type <= 27) || (type >= 32 && type <= 36)));
  }

  /** The VBIOS version of a device that is a GPU by its certificate (`96.00.74.00.1A`): five of its eight bytes. */
  gpuVbiosVersion(): string | undefined {
    const value = this.entries.get(VBIOS_VERSION);
    if (value === undefined) return undefined;
    if (value.length !== VBIOS_BYTES) {
      throw malformed("VBIOS version", undefined, `${VBIOS_BYTES} bytes for a GPU`, `${value.length} bytes`);
    }
    return [3, 2, 1, 0, 4].map((i) => hex(value.subarray(i, i + 1)).toUpperCase()).join(".");
  }

  /** The BIOS version of a device that is a switch by its certificate (`96.10.55.00.01`). */
  switchBiosVersion(): string | undefined {
    const value = this.entries.get(VBIOS_VERSION);
    if (value === undefined) return undefined;
    const found = textOf(value);
    if (!found) throw malformed("VBIOS version", undefined, "printable ASCII for a switch", hex(value));
    return found;
  }

  /** Whether the ids of a switch's GPUs stand under both types. */
  hasTwoGpuLists(): boolean {
    return this.entries.has(SWITCH_GPU_PDIS) && this.#oldGpuPdis() !== undefined;
  }

  /** A text; one of NULs alone states nothing. */
  #text(type: number): string | undefined {
    const value = this.entries.get(type);
    return (value && textOf(value)) || undefined;
  }

  #unsigned(type: number): number | undefined {
    return this.entries.get(type)?.reduceRight((value, byte) => value * 256 + byte, 0);
  }

  #hex(type: number): string | undefined {
    const value = this.entries.get(type);
    return value && hex(value);
  }

  #oldGpuPdis(): Bytes | undefined {
    const value = this.entries.get(GPU_INFO);
    return value?.length === SWITCH_GPU_PDIS_BYTES ? value : undefined;
  }
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
  if (latin1(data.subarray(0, 6)) === "NVDAOD") {
    throw unsupported(`the versioned layout (NVDAOD), version ${[...data.subarray(8, 11)].join(".")}`, offset);
  }
  // (2) Framing: entries follow each other without gaps, and end with the data.
  const { entries, places } = cut(data, offset);
  const opaque = new OpaqueData(entries);
  // (3) The version says whether the entries mean what we think.
  requireSize(OPAQUE_VERSION, entries.get(OPAQUE_VERSION), places);
  if (opaque.version > MAX_OPAQUE_VERSION) throw unsupported(`version ${opaque.version}`, offset);
  // (4) Values that are interpreted.
  for (const [type, value] of entries) {
    requireSize(type, value, places);
    requireValue(type, value, places, opaque.version >= 1);
  }
  if (opaque.hasTwoGpuLists()) {
    throw malformed("opaque data", offset, "one list of GPU PDIs", "one under type 4 and one under type 26");
  }
  return opaque;
}

type Places = ReadonlyMap<number, number>;

/** Cut the data into entries, each with its offset in the report. */
function cut(data: Bytes, offset: number): { entries: Map<number, Bytes>; places: Places } {
  const entries = new Map<number, Bytes>();
  const places = new Map<number, number>();
  for (let at = 0; at < data.length; ) {
    const [type0, type1, size0, size1] = data.subarray(at, at + 4);
    if (type0 === undefined || type1 === undefined || size0 === undefined || size1 === undefined) {
      throw malformed("opaque data", offset + at, "type and size of an entry, 4 bytes", `${data.length - at} bytes`);
    }
    const [type, size] = [type0 | (type1 << 8), size0 | (size1 << 8)];
    const value = data.slice(at + 4, at + 4 + size);
    if (value.length < size) throw malformed(name(type), offset + at, `${size} bytes`, `${value.length} bytes`);
    if (entries.has(type)) throw malformed(name(type), offset + at, "each type at most once", `type ${type} twice`);
    entries.set(type, value);
    places.set(type, offset + at);
    at += 4 + size;
  }
  return { entries, places };
}

function requireSize(type: number, value: Bytes | undefined, places: Places): void {
  const sizes = SIZES.get(type);
  if (value && sizes && !sizes.includes(value.length)) {
    throw malformed(name(type), places.get(type), `${sizes.join(" or ")} bytes`, `${value.length} bytes`);
  }
}

/** Refuse text that cannot be shown, and words of a closed set that are not in it. */
function requireValue(type: number, value: Bytes, places: Places, versioned: boolean): void {
  const shown = hex(value.subarray(0, 64));
  if (TEXTS.includes(type) && textOf(value) === undefined) {
    throw malformed(name(type), places.get(type), "printable ASCII", shown);
  }
  if (type === VBIOS_VERSION && value.length !== VBIOS_BYTES && !textOf(value)) {
    throw malformed(name(type), places.get(type), "8 bytes, or printable ASCII", shown);
  }
  const onOrOff = type === NVDEC0_STATUS || type === PROTECTED_PCIE_STATUS;
  const allowed = onOrOff ? ON_OR_OFF : type === FEATURE_FLAG && versioned ? FEATURE_FLAGS : undefined;
  const number = value.reduceRight((sum, byte) => sum * 256 + byte, 0);
  if (allowed && !allowed.includes(number)) {
    throw malformed(name(type), places.get(type), allowed.map(numeral).join(" or "), numeral(number));
  }
}

export function numeral(value: number): string {
  return `0x${value.toString(16)}`;
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

function unsupported(got: string, offset: number): AttestError {
  const expected = `the layout without a name in front, version at most ${MAX_OPAQUE_VERSION}`;
  const facts = { field: "opaque data", offset, expected, got, check: "nvidia.format", clause: "nvidia-gpu.md 4.3" };
  return new AttestError("unsupported", "gpu-opaque-unsupported", `opaque data is not supported: ${got}`, facts);
}

/** Make the refusal of a report that is not what its format says; for the caller to throw. */
export function malformed(field: string, offset: number | undefined, expected: string, got: string): AttestError {
  const facts = { field, offset, expected, got, check: "nvidia.format", clause: "nvidia-gpu.md 2 to 4" };
  return new AttestError("malformed", "gpu-report-malformed", `${field}: expected ${expected}, got ${got}`, facts);
}
