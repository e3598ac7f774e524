/**
 * The opaque data of an NVIDIA report: packed entries of type (u16), size (u16) and value, little-endian.
 *
 * Statements of a device about itself: versions, firmware id, mode, neighbours. All of them are signed with the
 * report. Unknown types are kept and listed, and affect no check. Whether an entry is about a GPU or a switch
 * follows from the device's certificate, never from the entries.
 *
 * Spec: specs/nvidia-gpu.md, section 4.
 */

import { type Bytes, hex, latin1 } from "../bytes";
import type { Shown } from "../shown";
import { need, refuse } from "../errors";
import type { UnknownValue } from "../unknown_values";

const CHECK = "nvidia.format";
/** Types of entries. */
const TYPE = {
  DRIVER_VERSION: 3,
  OLD_GPU_PDIS: 4,
  BIOS_VERSION: 6,
  NVDEC0: 11,
  CHIP_SKU: 15,
  PROJECT: 17,
  PROJECT_SKU: 18,
  FWID: 20,
  PROTECTED_PCIE: 21,
  PDIS: 22,
  LOCK_STATUS: 25,
  GPU_PDIS: 26,
  OPAQUE_VERSION: 34,
  CHIP_INFO: 35,
  FEATURE_FLAG: 36,
} as const;

const TEXT = /^[ -~]*\0*$/;
const ON_OR_OFF = /^[\x55\xaa]$/;
const TWO_BYTES = /^[^]{2}$/;
const ANYTHING = /^/;
/** 0 to 2, the numbers of `MODES`. */
const KNOWN_MODE = /^[\0-\x02]\0$/;
export const PROTECTED_PCIE = "protected-pcie";
/** Only that it is not protected PCIe. */
const UNPROTECTED = "unprotected";
/** By feature flag: single GPU pass-through, multi GPU pass-through, protected PCIe. */
const MODES = ["spt", "mpt", PROTECTED_PCIE];
const PROTECTED_PCIE_ON = 0xaa;
/** Type and size in front of each value. */
const ENTRY_HEAD_BYTES = 4;
const PDI_BYTES = 8;
/** Links of a GPU. */
const LINK_COUNT = 18;
/** GPUs of a board. */
const GPU_COUNT = 8;
/** Required forms of the interpreted entries, byte by byte. */
const FORMS: Readonly<Record<number, RegExp>> = {
  [TYPE.DRIVER_VERSION]: TEXT,
  // A GPU writes it as numbers, a switch as text.
  [TYPE.BIOS_VERSION]: /^(?:[^]{8}|[ -~]+\0*)$/,
  [TYPE.NVDEC0]: ON_OR_OFF,
  [TYPE.CHIP_SKU]: TEXT,
  16: TEXT,
  [TYPE.PROJECT]: TEXT,
  [TYPE.PROJECT_SKU]: TEXT,
  19: TEXT,
  [TYPE.FWID]: /^[^]{48}$/,
  [TYPE.PROTECTED_PCIE]: ON_OR_OFF,
  // A switch's own id, or one for each link of a GPU.
  [TYPE.PDIS]: /^(?:[^]{8}|[^]{144})$/,
  [TYPE.LOCK_STATUS]: TWO_BYTES,
  // The ids of eight GPUs and as many bytes of ports, which are not interpreted.
  [TYPE.GPU_PDIS]: /^[^]{128}$/,
  [TYPE.OPAQUE_VERSION]: TWO_BYTES,
  [TYPE.CHIP_INFO]: TEXT,
  [TYPE.FEATURE_FLAG]: KNOWN_MODE,
};

/** Types whose values are a closed set, which newer drivers may extend: a policy can name another value. */
const CLOSED_SETS: readonly number[] = [TYPE.NVDEC0, TYPE.PROTECTED_PCIE, TYPE.FEATURE_FLAG];

/** Statements of a device about itself; undefined means "not present in the report". Digests and ids in hex. */
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
  /**
   * One of `MODES`, or `unprotected`. From version 1 on the feature flag decides. Drivers before 580 write none, and
   * their status of protected PCIe decides; whether one GPU or several are passed through is then not stated.
   */
  readonly mode: string | undefined;
  /** The status of protected PCIe contradicts the feature flag. */
  readonly contradictsMode: boolean;
  /** A switch's own id in the order of the certificate's serial number. */
  readonly ownPdi: string | undefined;
  /** For each of a GPU's links the id of the switch behind it, turned so that it compares equal to `ownPdi`. */
  readonly switchPdis: readonly string[] | undefined;
  /** The ids of the eight GPUs that a switch knows. */
  readonly gpuPdis: readonly string[] | undefined;
  /** Lock status of a switch's configuration: 1 is locked. */
  readonly lockStatus: number | undefined;
  /** Types of no known meaning, in the order of the report. */
  readonly unknown: readonly number[];
  /** Values that are not in the closed set of their type, which state nothing. */
  readonly unknownValues: readonly UnknownValue[];
  /** Version of the VBIOS or BIOS as written. */
  readonly bios: Bytes | undefined;
}

/** Require a report to be what its format says: `gpu-report-malformed`. */
export function wellFormed(condition: unknown, field: string, expected: Shown, got: Shown): asserts condition {
  need(condition, "malformed", "gpu-report-malformed", expected, got, { field, check: CHECK });
}

/** Unsigned, little-endian. */
export const unsigned = (value: Bytes): number => value.reduceRight((sum, byte) => sum * 256 + byte, 0);

/** The entries of a report by type. */
class Entries {
  private readonly values = new Map<number, Bytes>();

  /** Entries follow each other without gaps, and end with the data. */
  constructor(data: Bytes) {
    let at = 0;
    while (at < data.length) {
      const type = unsigned(data.slice(at, at + 2));
      const begin = at + ENTRY_HEAD_BYTES;
      at = begin + unsigned(data.slice(at + 2, begin));
      const value = data.slice(begin, at);
      wellFormed(at <= data.length && !this.values.has(type), field(type), "whole, once", value);
      this.values.set(type, value);
    }
  }

  types(): readonly number[] {
    return [...this.values.keys()];
  }

  value(type: number): Bytes | undefined {
    return this.values.get(type);
  }

  /** Require an entry to be of a form, if it is there; text is malformed, anything else is not understood. */
  require(type: number, form: RegExp): void {
    const value = this.values.get(type);
    if (!value || form.test(latin1(value))) return;
    wellFormed(form !== TEXT && type !== TYPE.BIOS_VERSION, field(type), String(form), value);
    requireSupported(false, value, String(form), field(type));
  }

  /** The value of a closed set, if it is there and not in it. */
  unknown(type: number): readonly UnknownValue[] {
    const value = this.values.get(type);
    if (!value || this.understood(type) !== undefined) return [];
    const refuse = (): never => unsupported(value, String(FORMS[type]), field(type));
    return [{ name: `${type}:${hex(value)}`, refuse }];
  }

  /** The number of an entry, if it is there and in the closed set of its type. */
  understood(type: number): number | undefined {
    const value = this.values.get(type);
    return value && FORMS[type]?.test(latin1(value)) ? unsigned(value) : undefined;
  }

  /** Read an entry, if it is there and of this size. */
  maybe<T>(type: number, read: (value: Bytes) => T, size?: number): T | undefined {
    const value = this.values.get(type);
    if (!value || (size !== undefined && value.length !== size)) return undefined;
    return read(value);
  }

  /** Read a text; one of NULs alone states nothing. */
  text(type: number): string | undefined {
    const [text] = this.maybe(type, latin1)?.split("\0") ?? [];
    return text === "" ? undefined : text;
  }
}

const field = (type: number): string => `type ${type}`;

/**
 * Read the opaque data of a report.
 *
 * @throws AttestError `gpu-report-malformed`: an entry overruns, a type stands twice, or a value that is interpreted
 *   has another size or meaning than is known; `gpu-opaque-unsupported`: a layout or version that is newer.
 */
export function parseOpaque(data: Bytes): OpaqueData {
  // (1) Which layout: the newer one begins with its name, and would be an entry of 16,708 bytes here.
  requireSupported(!latin1(data).startsWith("NVDAOD"), data.slice(0, 11));
  // (2) Framing.
  const entries = new Entries(data);
  // (3) The version says whether the entries mean what their tables say.
  entries.require(TYPE.OPAQUE_VERSION, TWO_BYTES);
  const version = entries.maybe(TYPE.OPAQUE_VERSION, unsigned) ?? 0;
  requireSupported(version < 2, version);
  // (4) Values that are interpreted.
  for (const type of entries.types()) {
    if (!CLOSED_SETS.includes(type)) entries.require(type, FORMS[type] ?? ANYTHING);
  }
  // Without a version the flag has no meaning.
  const featureFlag = version ? entries.understood(TYPE.FEATURE_FLAG) : undefined;
  const protectedPcie = entries.understood(TYPE.PROTECTED_PCIE);
  const closed = entries.types().filter((type) => CLOSED_SETS.includes(type));
  return {
    driverVersion: entries.text(TYPE.DRIVER_VERSION),
    project: entries.text(TYPE.PROJECT),
    projectSku: entries.text(TYPE.PROJECT_SKU),
    chipSku: entries.text(TYPE.CHIP_SKU),
    chipInfo: entries.text(TYPE.CHIP_INFO),
    nvdec0: entries.understood(TYPE.NVDEC0),
    fwid: entries.maybe(TYPE.FWID, hex),
    protectedPcie,
    version,
    featureFlag,
    ...modeOf(version, featureFlag, protectedPcie),
    ownPdi: entries.maybe(TYPE.PDIS, hex, PDI_BYTES),
    switchPdis: entries.maybe(TYPE.PDIS, turnedPdis, LINK_COUNT * PDI_BYTES),
    gpuPdis: gpuPdis(entries),
    lockStatus: entries.maybe(TYPE.LOCK_STATUS, unsigned),
    unknown: entries.types().filter((type) => !isKnown(type)),
    unknownValues: closed.flatMap((type) => (type !== TYPE.FEATURE_FLAG || version ? entries.unknown(type) : [])),
    bios: entries.value(TYPE.BIOS_VERSION),
  };
}

/** The mode, and whether the status of protected PCIe contradicts it. */
function modeOf(version: number, flag = -1, status?: number): Pick<OpaqueData, "mode" | "contradictsMode"> {
  const isProtected = status === PROTECTED_PCIE_ON;
  const older = isProtected ? PROTECTED_PCIE : UNPROTECTED;
  const mode = version || status === undefined ? MODES[flag] : older;
  return { mode, contradictsMode: (mode === PROTECTED_PCIE) !== isProtected };
}

function requireSupported(holds: boolean, got: Shown, expected = "version 0 or 1", name?: string): void {
  if (!holds) unsupported(got, expected, name);
}

function unsupported(got: Shown, expected: string, name?: string): never {
  return refuse("unsupported", "gpu-opaque-unsupported", expected, got, { check: CHECK, field: name });
}

/** Types that the specification names, interpreted or not. */
const isKnown = (type: number): boolean => (type >= 1 && type <= 27) || (type >= 32 && type <= 36);

/** The ids of a switch's GPUs; BIOS 96.10.52 wrote them under another type. */
function gpuPdis(entries: Entries): readonly string[] | undefined {
  const read = (value: Bytes): readonly string[] => pdis(value.slice(0, GPU_COUNT * PDI_BYTES));
  const old = entries.maybe(TYPE.OLD_GPU_PDIS, read, 2 * GPU_COUNT * PDI_BYTES);
  const listed = entries.maybe(TYPE.GPU_PDIS, read, 2 * GPU_COUNT * PDI_BYTES);
  wellFormed(!old || !listed, "GPUs", 1, 2);
  return old ?? listed;
}

const pdis = (value: Bytes): string[] => hex(value).match(/.{16}/g) ?? [];

/** Ids that are written with their last byte first. */
const turnedPdis = (value: Bytes): readonly string[] => pdis(value.slice().reverse()).reverse();
