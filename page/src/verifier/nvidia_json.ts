/**
 * NVIDIA's JSON cut into items of one device each: the array of NVIDIA's SDK, the object that `nvattest
 * collect-evidence` puts around it, a request to NRAS, one of these as text, one device alone, Confidential Containers'
 * list, or the collection of `nvattest collect-evidence-v2` (nvidia-gpu.md 16 and 18).
 */

import { type Bytes, base64Text, hex, latin1, utf8 } from "./bytes";
import { base64Bytes, base64urlBytes, hexBytes } from "./encoding";
import { type Item, MEDIA, itemOf } from "./envelope";
import { fail, refuse } from "./errors";
import { JsonFloat, type JsonObject, type JsonValue, isObject, jsonValue } from "./json";
import { inOrder, jsonText } from "./json_text";
import { isNvidiaCollection } from "./recognised";

/** Devices in one file; the largest board has eight GPUs and four switches. */
const MAX_DEVICES = 32;
/** Names of the list of devices in the object around it. */
const LISTS = ["evidences", "evidence_list", "device_evidence_list"];
/** Members of a device that have a meaning; others are left out, because nothing rests on them. */
const MEMBERS = ["arch", "nonce", "uuid", "nvml", "evidence", "certificate"];
/** Members of a request that hold for each of its devices. */
const HINTS = ["nonce", "arch"];
const TYPE_KEY = "__cmwc_t";
/** The type of the devices in a collection of NVIDIA's SDK. */
const ITEM_TYPE = "tag:nvidia.com,2026:evidence-item/v1";
/** Members of a collection beside its devices. */
const NO_DEVICES = [TYPE_KEY, "nonce", "appraisal-settings"];
const NO_HEX_DIGIT = /[^0-9a-fA-F]/;

function malformed(field: string, expected: string): never {
  return fail("malformed", "gpu-device-malformed", "", {
    check: "nvidia.format",
    field,
    expected,
    got: "another value",
  });
}

/** True if a document is NVIDIA's by its members, well formed or not. */
export function isNvidiaJson(document: JsonValue): boolean {
  if (Array.isArray(document)) return looksLikeDevice(document[0]);
  if (!isObject(document)) return false;
  const isKnown = isText(document) || isNvidiaCollection(document) || LISTS.some((name) => name in document);
  return isKnown || looksLikeDevice(document);
}

/** A device is recognised by two of three members. */
function looksLikeDevice(value: JsonValue | undefined): boolean {
  return isObject(value) && ["arch", "evidence", "certificate"].filter((name) => name in value).length > 1;
}

/** One of the forms as text is the only member of its object; beside others it belongs to another document. */
const isText = (document: JsonObject): boolean => String(Object.keys(document)) === "nvidia_payload";

/** Items named `gpu0`, `nvswitch0`, …, numbered among their like: `gpu-device-malformed` and defects of text. */
export function splitNvidiaJson(document: JsonValue): Item[] {
  if (isObject(document) && isText(document)) return splitText(document.nvidia_payload!, "nvidia_payload");
  const request = isNvidiaCollection(document) ? requestOf(document) : document;
  const [path, devices] = devicesOf(request);
  if (!Array.isArray(devices) || !devices.length || devices.length > MAX_DEVICES) {
    return malformed(path, `1 to ${MAX_DEVICES} devices`);
  }
  const hints = path === "evidence_list" && isObject(request) ? request : {};
  const counts = { gpu: 0, nvswitch: 0 };
  return devices.map((device, i) => {
    const value = deviceOf(device, `${path}[${i}]`, hints);
    const kind = typeof value.arch === "string" && /^ls10$/i.test(value.arch) ? "nvswitch" : "gpu";
    return itemOf(`${kind}${counts[kind]++}`, MEDIA.nvidiaDevice, utf8(jsonText(value, { isSorted: true })));
  });
}

/** Cut what another document holds as text; `what` is its path there. */
export function splitText(text: JsonValue, what: string): Item[] {
  if (typeof text !== "string") return malformed(what, "text");
  return splitNvidiaJson(jsonValue(utf8(text), what));
}

/** The list of devices in the object around it, and where it stands. */
function devicesOf(document: JsonValue): readonly [path: string, devices: JsonValue | undefined] {
  if (!isObject(document)) return ["devices", document];
  const [path, another] = LISTS.filter((name) => name in document);
  if (!path) return ["devices", [document]];
  if (another) malformed("document", "one list of devices");
  const { result_code: code = 0 } = document;
  if (path === "evidences" && code !== 0 && !(code instanceof JsonFloat && !code.value)) malformed("result_code", "0");
  return [path, document[path]];
}

/** One device without the members that have no meaning, with the hints of the request around it. */
function deviceOf(device: JsonValue, path: string, request: JsonObject): JsonObject {
  if (!isObject(device)) return malformed(path, "an object");
  const { evidence, certificate } = device;
  if (!evidence || !certificate || typeof evidence !== "string" || typeof certificate !== "string") {
    return malformed(path, "texts evidence and certificate");
  }
  const kept = Object.entries(device).filter(([name]) => MEMBERS.includes(name));
  const hints = HINTS.flatMap((name) => hintOf(request[name], device[name], `${path}.${name}`, name));
  return { ...Object.fromEntries([...kept, ...hints]), evidence: reportText(evidence, `${path}.evidence`) };
}

/** The device's own hint or that of the request around it; where there are both, they must agree. */
function hintOf(
  whole: JsonValue | undefined,
  own: JsonValue | undefined,
  path: string,
  name: string,
): (readonly [string, JsonValue])[] {
  const hints = [own, whole].filter((hint) => hint !== undefined && hint !== null);
  const texts = hints.length > 1 ? hints.map((hint) => lowered(hint, path)) : [];
  if (texts[0] !== texts[1]) malformed(path, "that of the request");
  return hints.slice(0, 1).map((hint) => [name, hint] as const);
}

const lowered = (hint: JsonValue, path: string): string =>
  typeof hint === "string" ? hint.toLowerCase() : malformed(path, "text");

/** A report in base64; no base64 of one is of hex digits alone, and none begins with such a digit. */
function reportText(text: string, path: string): string {
  if (!NO_HEX_DIGIT.test(text)) return base64Text(hexBytes(text, path));
  const decoded = latin1(base64Bytes(text, path));
  return NO_HEX_DIGIT.test(decoded) ? text : base64Text(hexBytes(decoded, path));
}

// -- collections of NVIDIA's SDK

/** A collection as a request to NRAS, devices in the order of their labels. */
function requestOf(collection: JsonObject): JsonObject {
  const labels = Object.keys(collection).filter((label) => !NO_DEVICES.includes(label));
  const devices = inOrder(labels).map((label) => collectedDevice(collection[label], label));
  return { evidence_list: devices, nonce: collectedNonce(collection, "collection") };
}

function collectedDevice(item: JsonValue | undefined, path: string): JsonObject {
  if (!isObject(item) || item[TYPE_KEY] !== ITEM_TYPE) return malformed(path, ITEM_TYPE);
  return {
    evidence: base64Text(recordOf(item.evidence, "application/vnd.nvidia.spdm-measurement-transcript", path)),
    certificate: base64Text(recordOf(item.certificate, "application/vnd.nvidia.pem-cert-chain", path)),
    nonce: collectedNonce(item, path),
  };
}

const collectedNonce = ({ nonce }: JsonObject, path: string): JsonValue =>
  nonce === undefined ? null : hex(recordOf(nonce, "application/octet-stream", path));

/** Decode `[media type, base64url]`. */
function recordOf(value: JsonValue | undefined, wanted: string, path: string): Bytes {
  const [media, text] = Array.isArray(value) && value.length === 2 ? value : [];
  if (typeof media !== "string" || typeof text !== "string") return malformed(path, "[media type, base64url]");
  if (media !== wanted) return refuse("unsupported", "evidence-unsupported", wanted, media, { field: path });
  return base64urlBytes(text, path);
}
