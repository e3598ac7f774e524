/**
 * Statements of an event's data, and the part that its digest authenticates.
 *
 * A log is not signed. A replay proves the digests, their register and their order. It proves neither the data nor the
 * type: a party that forwards the log can write another type beside a digest. Only data that was hashed counts.
 */

import { type Bytes, equal, hex, latin1, unsignedLittle, utf8Text } from "../bytes";
import { type Hash, digest as digestOf } from "../crypto";
import { refuse } from "../errors";
import type { LogEvent } from "./structure";

/** An event that dstack extends at run time; no type of the TCG. */
export const EV_RUNTIME = 0x0800_0001;
export const EV_SEPARATOR = 0x4;
const EV_EVENT_TAG = 0x6;
const EV_IPL = 0xd;
export const EV_VARIABLE_DRIVER_CONFIG = 0x8000_0001;
export const EV_BOOT_APPLICATION = 0x8000_0003;
export const EV_VARIABLE_AUTHORITY = 0x8000_00e0;
/** EV_EFI_VARIABLE_BOOT and EV_EFI_VARIABLE_BOOT2. */
export const BOOT_VARIABLES: readonly number[] = [0x8000_0002, 0x8000_000c];
/** Types whose digest is over the whole event data; also EV_EFI_ACTION and EV_EFI_GPT_EVENT. */
const WHOLE_DATA = [EV_SEPARATOR, 0x8000_0007, EV_VARIABLE_DRIVER_CONFIG, EV_VARIABLE_AUTHORITY, 0x8000_0006];
/** Application events of the attestation agents of Confidential Containers and Alibaba Cloud ("LEAA"). */
const AAEL_TAG = 0x4141_454c;
const VARIABLE_HEAD_BYTES = 32;

/**
 * The whole data was hashed; or its value was, and not the name or prefix that says what it is; or the digest is of
 * something that the log does not hold, or proves nothing.
 */
export type Verification = "verified" | "value only" | "unverified";

/** The data of a variable event: UEFI_VARIABLE_DATA. */
export interface UefiVariable {
  readonly guid: string;
  readonly name: string;
  readonly value: Bytes;
}

/** Recompute the digest of an event from its data: `eventlog-data-mismatch` where it is always what was hashed. */
export async function verification(event: LogEvent, hash: Hash): Promise<Verification> {
  const { data, type, number, digest, withheld } = event;
  if (withheld) return "unverified";
  const isHash = async (hashed: Bytes): Promise<boolean> => equal(await digestOf(hash, hashed), digest);
  // Revisions of the profile differ in what they hash of a boot variable; either way the value is covered.
  const value = bootVariableValue(event);
  if ((value !== undefined || mayBeWhole(event)) && (await isHash(data))) return "verified";
  if (value && (await isHash(value))) return "value only";
  const isFirmware = isWholeData(event) || BOOT_VARIABLES.includes(type);
  if (!isFirmware) return grubVerification(event, isHash);
  const got = await digestOf(hash, value ?? data);
  return refuse("verification", "eventlog-data-mismatch", digest, got, { field: `event ${number}` });
}

/** True if the digest of such an event may be over its whole data. */
const mayBeWhole = (event: LogEvent): boolean =>
  isWholeData(event) || event.type === EV_RUNTIME || stubText(event) !== undefined;

/** True if the digest of such an event is always over its whole data. */
const isWholeData = (event: LogEvent): boolean => WHOLE_DATA.includes(event.type) || tagOf(event) === AAEL_TAG;

const bootVariableValue = ({ type, data }: LogEvent): Bytes | undefined =>
  BOOT_VARIABLES.includes(type) ? uefiVariable(data)?.value : undefined;

/** GRUB and its forks hash the text up to its NUL or with it. */
async function grubVerification(event: LogEvent, isHash: (hashed: Bytes) => Promise<boolean>): Promise<Verification> {
  const grub = grubParts(event);
  if (!grub) return "unverified";
  const { from, text } = grub;
  const withNul = event.data.slice(from, from + text.length + 1);
  return (await isHash(text)) || (await isHash(withNul)) ? "value only" : "unverified";
}

// -- data of single kinds

function utf16Text(data: Bytes): string | undefined {
  try {
    return new TextDecoder("utf-16le", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return undefined;
  }
}

/** Read UEFI_VARIABLE_DATA; undefined when its lengths do not add up or its name is no text. */
export function uefiVariable(data: Bytes): UefiVariable | undefined {
  if (data.length < VARIABLE_HEAD_BYTES) return undefined;
  const nameLength = Number(unsignedLittle(data.slice(16, 24)));
  const size = Number(unsignedLittle(data.slice(24, 32)));
  const nameEnds = VARIABLE_HEAD_BYTES + 2 * nameLength;
  const name = data.length === nameEnds + size ? utf16Text(data.slice(VARIABLE_HEAD_BYTES, nameEnds)) : undefined;
  // The first three parts of a GUID are little-endian.
  const guid = hex(data.slice(0, 16)).replace(/(..)(..)(..)(..)(..)(..)(..)(..)(....)/, "$4$3$2$1-$6$5-$8$7-$9-");
  return name === undefined ? name : { guid, name, value: data.slice(nameEnds) };
}

/** The id of a tagged event; undefined for other events and for one too short to have an id. */
export const tagOf = ({ type, data }: LogEvent): number | undefined =>
  type === EV_EVENT_TAG && data.length >= 8 ? Number(unsignedLittle(data.slice(0, 4))) : undefined;

/** Read an AAEL event, `domain operation content`; undefined when it is none or is written otherwise. */
export function applicationEvent(event: LogEvent): Readonly<Record<string, string>> | undefined {
  const { data } = event;
  if (tagOf(event) !== AAEL_TAG || Number(unsignedLittle(data.slice(4, 8))) !== data.length - 8) return undefined;
  return /^(?<domain>[^ ]+) (?<operation>[^ ]+) (?<content>.*)$/s.exec(utf8Text(data.slice(8)) ?? "")?.groups;
}

/**
 * The text of an EV_IPL event behind the prefix that GRUB or a fork writes in front of what it hashes, up to its NUL.
 */
function grubParts({
  type,
  data,
}: LogEvent): { readonly isCommandLine: boolean; readonly from: number; readonly text: Bytes } | undefined {
  const prefix = /^(?:(grub_cmd)|(?:grub_)?kernel_cmdline):? /.exec(latin1(data.slice(0, 40)));
  if (type !== EV_IPL || !prefix) return undefined;
  const from = prefix[0].length;
  const nul = data.indexOf(0, from);
  return { isCommandLine: !prefix[1], from, text: data.slice(from, nul < 0 ? data.length : nul) };
}

/** Read an EV_IPL event of GRUB; undefined for others and for text that is not UTF-8. */
export function grubText(event: LogEvent, isCommandLine: boolean): string | undefined {
  const parts = grubParts(event);
  return parts?.isCommandLine === isCommandLine ? utf8Text(parts.text) : undefined;
}

/** Read an EV_IPL event of systemd's EFI stub or boot menu: UTF-16 with one NUL at its end; undefined for others. */
export function stubText(event: LogEvent): string | undefined {
  const text = event.type === EV_IPL && !grubParts(event) ? utf16Text(event.data) : undefined;
  return text && text.length > 1 && text.indexOf("\0") === text.length - 1 ? text.slice(0, -1) : undefined;
}
