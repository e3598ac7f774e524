/**
 * NVIDIA's JSON cut into items of one device each: the array of NVIDIA's SDK, the object that `nvattest
 * collect-evidence` puts around it, one device alone, or Confidential Containers' list (nvidia-gpu.md 16).
 */

import { base64Text, utf8 } from "./bytes";
import { hexBytes } from "./encoding";
import { type Item, MEDIA, itemOf } from "./envelope";
import { fail } from "./errors";
import { type JsonObject, type JsonValue, isObject } from "./json";
import { jsonText } from "./json_text";

/** Devices in one file; the largest board has eight GPUs and four switches. */
const MAX_DEVICES = 32;
/** Lists of devices, and what else may be in the object around each. */
const LISTS: Readonly<Record<string, readonly string[]>> = {
  evidences: ["result_code", "result_message"],
  device_evidence_list: [],
};

function malformed(field: string, expected: string): never {
  return fail("malformed", "gpu-device-malformed", "", {
    check: "nvidia.format",
    field,
    expected,
    got: "another value",
  });
}

/** Whether a document is NVIDIA's by its members, well formed or not. */
export function isNvidiaJson(document: JsonValue): boolean {
  if (Array.isArray(document)) return looksLikeDevice(document[0]);
  return isObject(document) && (Object.keys(LISTS).some((name) => name in document) || looksLikeDevice(document));
}

/** A device is told by two of three members. */
function looksLikeDevice(value: JsonValue | undefined): boolean {
  return isObject(value) && ["arch", "evidence", "certificate"].filter((name) => name in value).length > 1;
}

/** Items named `gpu0`, `nvswitch0`, …, numbered among their like: `gpu-device-malformed`. */
export function splitNvidiaJson(document: JsonValue): Item[] {
  const [path, devices] = devicesOf(document);
  if (!Array.isArray(devices) || !devices.length || devices.length > MAX_DEVICES) {
    return malformed(path, `1 to ${MAX_DEVICES} devices`);
  }
  const counts = { gpu: 0, nvswitch: 0 };
  return devices.map((device) => {
    const value = deviceOf(device, path);
    const kind = typeof value.arch === "string" && /^ls10$/i.test(value.arch) ? "nvswitch" : "gpu";
    return itemOf(`${kind}${counts[kind]++}`, MEDIA.nvidiaDevice, utf8(jsonText(value, true)));
  });
}

/** The list of devices in the object around it, in which nothing else may be, and where it stands. */
function devicesOf(document: JsonValue): readonly [path: string, devices: JsonValue | undefined] {
  if (!isObject(document)) return ["devices", document];
  const [path, members] = Object.entries(LISTS).find(([name]) => name in document) ?? [];
  if (!path || !members) return ["devices", [document]];
  if (!Object.keys(document).every((name) => name === path || members.includes(name))) {
    malformed("document", `${path} and perhaps ${members.join(", ")}`);
  }
  if ("result_code" in document && document.result_code !== 0) malformed("result_code", "0");
  return [path, document[path]];
}

/** The object of one device, which has at least a report and a chain; a report in hex is written as base64. */
function deviceOf(device: JsonValue, path: string): JsonObject {
  if (!isObject(device)) return malformed(path, "objects");
  const { evidence, certificate } = device;
  if (!evidence || !certificate || typeof evidence !== "string" || typeof certificate !== "string") {
    return malformed(path, "texts evidence and certificate");
  }
  // Hex digits alone are no base64 of a report, which begins `EeAB`.
  if (path !== "device_evidence_list" || /[^0-9a-fA-F]/.test(evidence)) return device;
  return { ...device, evidence: base64Text(hexBytes(evidence, path)) };
}
