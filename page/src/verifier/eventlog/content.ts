/**
 * What the data of an event says, and how far its digest vouches for it.
 *
 * A log is not signed. A replay proves the digests, their register and their order. It proves neither the data nor the
 * type: whoever carries the log can write another type beside a digest. Data counts only where it is what was hashed.
 */

import { type Bytes, equal, hex, latin1, Reader, unsignedLittle, utf8Text } from "../bytes";
import { digest as digestOf } from "../crypto";
import { AttestError } from "../errors";
import type { LogKind } from "./kinds";
import { isExtended, type LogEvent } from "./structure";

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
const GRUB = /^(grub_cmd|(?:grub_)?kernel_cmdline):? /;
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
export async function verification(event: LogEvent, kind: LogKind): Promise<Verification> {
  if (!isExtended(event)) return "unverified";
  const hashes = async (data: Bytes) => equal(await digestOf(kind.hash, data), event.digest);
  const { data, type } = event;
  if (WHOLE_DATA.includes(type) || tagOf(event) === AAEL_TAG) {
    if (await hashes(data)) return "verified";
    throw await mismatch(event, kind, data);
  }
  if (BOOT_VARIABLES.includes(type)) {
    // Revisions of the profile differ in what they hash; either way the value is covered.
    const variable = uefiVariable(data);
    if (variable && (await hashes(data))) return "verified";
    if (variable && (await hashes(variable.value))) return "value only";
    throw await mismatch(event, kind, variable?.value ?? data);
  }
  if (stubText(event) !== null && (await hashes(data))) return "verified";
  if (type === EV_IPL) {
    for (const text of grubHashed(data)) if (await hashes(text)) return "value only";
  }
  return "unverified";
}

async function mismatch({ number, offset, digest }: LogEvent, kind: LogKind, hashed: Bytes): Promise<AttestError> {
  const [field, expected, got] = [`event ${number}`, hex(digest), hex(await digestOf(kind.hash, hashed))];
  const facts = { check: "eventlog.data", field, offset, expected, got, clause: "intel-tdx-sgx.md 19" };
  return new AttestError("verification", "eventlog-data-mismatch", "", facts);
}

// -- data of single kinds

function utf16Text(data: Bytes): string | null {
  try {
    return new TextDecoder("utf-16le", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
}

/** Read UEFI_VARIABLE_DATA; null when its lengths do not add up or its name is no text. */
export function uefiVariable(data: Bytes): UefiVariable | null {
  if (data.length < VARIABLE_HEAD_BYTES) return null;
  const reader = new Reader(data, "variable");
  const guid = guidText(reader.take(16, "GUID"));
  const nameEnds = VARIABLE_HEAD_BYTES + 2 * Number(reader.unsigned64("name length"));
  if (data.length !== nameEnds + Number(reader.unsigned64("data length"))) return null;
  const name = utf16Text(data.slice(VARIABLE_HEAD_BYTES, nameEnds));
  return name === null ? null : { guid, name, value: data.slice(nameEnds) };
}

function guidText(guid: Bytes): string {
  const part = (from: number, to: number) => guid.slice(from, to);
  const parts = [part(0, 4).reverse(), part(4, 6).reverse(), part(6, 8).reverse(), part(8, 10), part(10, 16)];
  return parts.map(hex).join("-");
}

/** The id of a tagged event; null for other events and for one too short to have an id. */
export function tagOf({ type, data }: LogEvent): number | null {
  return type === EV_EVENT_TAG && data.length >= 8 ? Number(unsignedLittle(data.slice(0, 4))) : null;
}

/** Read an AAEL event, `domain operation content`; null when it is none or is written otherwise. */
export function applicationEvent(event: LogEvent): Readonly<Record<string, string>> | null {
  const { data } = event;
  if (tagOf(event) !== AAEL_TAG || Number(unsignedLittle(data.slice(4, 8))) !== data.length - 8) return null;
  const words = /^([^ ]+) ([^ ]+) (.*)$/s.exec(utf8Text(data.slice(8)) ?? "");
  return words && { domain: words[1] ?? "", operation: words[2] ?? "", content: words[3] ?? "" };
}

/** The prefix that GRUB or a fork writes in front of a text that it hashes. */
const grubPrefix = (data: Bytes) => GRUB.exec(latin1(data.slice(0, 40)));

/** What stands behind the prefix, up to its NUL. */
function grubContent(data: Bytes, prefix: string): Bytes {
  const text = data.slice(prefix.length);
  const nul = text.indexOf(0);
  return nul < 0 ? text : text.slice(0, nul);
}

/** What GRUB and its forks hash: the text up to its NUL or with it. */
function grubHashed(data: Bytes): readonly Bytes[] {
  const prefix = grubPrefix(data)?.[0];
  if (prefix === undefined) return [];
  const text = grubContent(data, prefix);
  return [text, data.slice(prefix.length, prefix.length + text.length + 1)];
}

/** Read an EV_IPL event of GRUB; null for others and for text that is no UTF-8. */
export function grubText({ type, data }: LogEvent): { readonly isCommandLine: boolean; readonly text: string } | null {
  const prefix = type === EV_IPL ? grubPrefix(data) : null;
  const text = prefix ? utf8Text(grubContent(data, prefix[0])) : undefined;
  return text === undefined ? null : { isCommandLine: prefix?.[1] !== "grub_cmd", text };
}

/** Read an EV_IPL event of systemd's EFI stub or boot menu: UTF-16 with one NUL at its end; null for others. */
export function stubText({ type, data }: LogEvent): string | null {
  if (type !== EV_IPL || data.length < 4 || grubPrefix(data)) return null;
  const text = utf16Text(data) ?? "";
  return text !== "" && text.indexOf("\0") === text.length - 1 ? text.slice(0, -1) : null;
}

