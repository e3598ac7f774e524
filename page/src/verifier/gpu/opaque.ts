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
import { type Shown, need } from "../errors";

const CHECK = "nvidia.format";
/** Types of entries. */
const enum TYPE {
  DRIVER_VERSION = 3,
  OLD_GPU_PDIS = 4,
  BIOS_VERSION = 6,
  NVDEC0 = 11,
  CHIP_SKU = 15,
  PROJECT = 17,
  PROJECT_SKU = 18,
  FWID = 20,
  PROTECTED_PCIE = 21,
  PDIS = 22,
  LOCK_STATUS = 25,
  GPU_PDIS = 26,
  OPAQUE_VERSION = 34,
  CHIP_INFO = 35,
  FEATURE_FLAG = 36,
}

const TEXT = /^[ -~]*\0*$/;
const ON_OR_OFF = /^[\x55\xaa]$/;
const TWO_BYTES = /^[^]{2}$/;
/** What the entries have to be that are interpreted, byte for byte. */
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
  [TYPE.FEATURE_FLAG]: TWO_BYTES,
};

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
  /** Version of the VBIOS or BIOS as written. */
  readonly bios: Bytes | undefined;
}

/** Require a report to be what its format says: `gpu-report-malformed`. */
export function wellFormed(condition: unknown, field: string, expected: Shown, got: Shown): asserts condition {
  need(condition, "malformed", "gpu-report-malformed", expected, got, { field, check: CHECK });
}

/** Unsigned, little-endian. */
export const unsigned = (value: Bytes): number => value.reduceRight((sum, byte) => sum * 256 + byte, 0);

/**
 * Read the opaque data of a report.
 *
 * @throws AttestError `gpu-report-malformed`: an entry overruns, a type stands twice, or a value that is interpreted
 *   has another size or meaning than is known; `gpu-opaque-unsupported`: a layout or version that is newer.
 */
export function parseOpaque(data: Bytes): OpaqueData {
  const supported = (condition: boolean, got: Shown): void =>
    need(condition, "unsupported", "gpu-opaque-unsupported", "version 0 or 1", got, { check: CHECK });
  // (1) Which layout: the newer one begins with its name, and would be an entry of 16,708 bytes here.
  supported(!latin1(data).startsWith("NVDAOD"), data.slice(0, 11));
  // (2) Framing: entries follow each other without gaps, and end with the data.
  const entries = new Map<number, Bytes>();
  for (let at = 0; at < data.length;) {
    const type = unsigned(data.slice(at, at + 2));
    const value = data.slice(at + 4, (at += 4 + unsigned(data.slice(at + 2, at + 4))));
    wellFormed(at <= data.length && !entries.has(type), field(type), "whole, once", value);
    entries.set(type, value);
  }
  const required = (type: number, form = /^/): void => {
    const value = entries.get(type);
    wellFormed(!value || form.test(latin1(value)), field(type), String(form), value);
  };
  const maybe = <T>(type: number, read: (value: Bytes) => T, size?: number): T | undefined => {
    const value = entries.get(type);
    return value && value.length === (size ?? value.length) ? read(value) : undefined;
  };
  // (3) The version says whether the entries mean what we think.
  required(TYPE.OPAQUE_VERSION, TWO_BYTES);
  const version = maybe(TYPE.OPAQUE_VERSION, unsigned) ?? 0;
  supported(version < 2, version);
  // (4) Values that are interpreted.
  for (const type of entries.keys()) required(type, FORMS[type]);
  if (version) required(TYPE.FEATURE_FLAG, /^[\0-\x02]\0$/);
  // A text of NULs alone states nothing.
  const text = (type: number): string | undefined => maybe(type, latin1)?.split("\0")[0] || undefined;
  // BIOS 96.10.52 wrote the ids of a switch's GPUs under another type.
  const [old, listed] = [TYPE.OLD_GPU_PDIS, TYPE.GPU_PDIS].map((type) =>
    maybe(type, (value) => pdis(value.slice(0, 64)), 128),
  );
  wellFormed(!old || !listed, "GPUs", 1, 2);
  return {
    driverVersion: text(TYPE.DRIVER_VERSION),
    project: text(TYPE.PROJECT),
    projectSku: text(TYPE.PROJECT_SKU),
    chipSku: text(TYPE.CHIP_SKU),
    chipInfo: text(TYPE.CHIP_INFO),
    nvdec0: maybe(TYPE.NVDEC0, unsigned),
    fwid: maybe(TYPE.FWID, hex),
    protectedPcie: maybe(TYPE.PROTECTED_PCIE, unsigned),
    version,
    featureFlag: version ? maybe(TYPE.FEATURE_FLAG, unsigned) : undefined,
    ownPdi: maybe(TYPE.PDIS, hex, 8),
    switchPdis: maybe(TYPE.PDIS, (value) => pdis(value.slice().reverse()).reverse(), 144),
    gpuPdis: old ?? listed,
    lockStatus: maybe(TYPE.LOCK_STATUS, unsigned),
    unknown: [...entries.keys()].filter((type) => !((type >= 1 && type <= 27) || (type >= 32 && type <= 36))),
    bios: entries.get(TYPE.BIOS_VERSION),
  };
}

const field = (type: number): string => `type ${type}`;

const pdis = (value: Bytes): string[] => hex(value).match(/.{16}/g) ?? [];
