/** The facts of GPUs and NVSwitches that a person can accept. */

import type { ItemResult } from "../verifier/api";
import { told } from "./claims";
import { type Fact, fact } from "./fact";

/** Versions of all devices of a kind: these, or these and newer ones of the same family. */
function versions(id: string, values: readonly string[]): Fact {
  const newer = (value: string): unknown => ({
    at_least: value,
    ...(id.includes("vbios") && { below: (Number.parseInt(value, 16) + 1).toString(16).toUpperCase() }),
  });
  return fact(id, values, (choice) => ({
    [id]: values.map((value) => (choice === "exact" ? { exactly: value } : newer(value))),
  }));
}

function factsOfKind(items: readonly ItemResult[], kind: string, key: string, count: string): Fact[] {
  const found = items.filter((item) => item.kind === kind);
  if (!found.length) return [];
  const all = (name: string): string[] => [...new Set(found.map(({ claims }) => told(claims[name])))];
  const architectures = all("architecture");
  const isGpu = key === "gpu";
  const demands = { [`devices.${count}`]: found.length, ...(isGpu && { "gpu.architectures": architectures }) };
  return [
    fact(`devices.${count}`, found.length, () => demands, ["exact"], told(architectures)),
    ...(isGpu ? [versions("gpu.driver_versions", all("driver_version"))] : []),
    versions(`${key}.vbios_versions`, all("vbios_version")),
  ];
}

export const deviceFacts = (items: readonly ItemResult[]): Fact[] => [
  ...factsOfKind(items, "nvidia-gpu", "gpu", "gpus"),
  ...factsOfKind(items, "nvidia-switch", "nvswitch", "switches"),
];
