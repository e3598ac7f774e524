/**
 * NVIDIA's JSON cut into items of one device each: the array of NVIDIA's SDK, the object that `nvattest
 * collect-evidence` puts around it, one device alone, or Confidential Containers' list (nvidia-gpu.md 16).
 */

import { base64Text, hexBytes, utf8 } from "./bytes";
import { type Item, MEDIA, itemOf } from "./envelope";
import { REQUIRED, malformed, requireMembers } from "./gpu/evidence";
import { type JsonObject, type JsonValue, isObject } from "./json";
import { jsonText } from "./json_text";

/** Devices in one file; the largest board has eight GPUs and four switches. */
const MAX_DEVICES = 32;

/** Items named `gpu0`, `nvswitch0`, …, numbered among their like: `gpu-device-malformed`. */
export function splitNvidiaJson(document: JsonValue): Item[] {
  const [path, devices] = devicesOf(document);
  if (!Array.isArray(devices) || !devices.length || devices.length > MAX_DEVICES) {
    throw malformed(path, `1 to ${MAX_DEVICES} devices`, Array.isArray(devices) ? String(devices.length) : "another value");
  }
  const counts: Record<string, number> = { gpu: 0, nvswitch: 0 };
  return devices.map((device, position) => {
    const value = deviceOf(device, `${path}[${position}]`, path === "device_evidence_list");
    const kind = /^ls10$/i.test(String(value["arch"])) ? "nvswitch" : "gpu";
    const number = counts[kind] ?? 0;
    counts[kind] = number + 1;
    return itemOf(`${kind}${number}`, MEDIA.nvidiaDevice, utf8(jsonText(value, true)));
  });
}

/** The list of devices in the object around it, in which nothing else may be, and where it stands. */
function devicesOf(document: JsonValue): [path: string, devices: JsonValue | undefined] {
  if (!isObject(document)) return ["devices", document];
  for (const [path, members] of Object.entries({ evidences: ["result_code", "result_message"], device_evidence_list: [] as string[] })) {
    if (!(path in document)) continue;
    const unknown = Object.keys(document).find((name) => name !== path && !members.includes(name));
    if (unknown !== undefined) throw malformed("document", `no member but ${[path, ...members].join(", ")}`, unknown.slice(0, 40));
    const { result_code: code = 0 } = document;
    if (code !== 0) throw malformed("result_code", "0, the collection succeeded", "another value");
    return [path, document[path]];
  }
  return ["devices", [document]];
}

/** The object of one device, which has at least a report and a chain; a report in hex is written as base64. */
function deviceOf(device: JsonValue, path: string, maybeHex: boolean): JsonObject {
  requireMembers(device, path, REQUIRED);
  const evidence = device["evidence"] as string;
  // Hex digits alone are no base64 of a report, which begins `EeAB`.
  if (!maybeHex || /[^0-9a-fA-F]/.test(evidence)) return device;
  return { ...device, evidence: base64Text(hexBytes(evidence, `${path}.evidence`)) };
}
