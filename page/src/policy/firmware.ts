/** Firmware that lacks the fix of a bulletin, by the table of firmware floors (docs/firmware.md). Fetched on demand. */

import { told, type Claims, claimOf, ordinal } from "./claims";
import { type FirmwareEntry, entries } from "firmware-table";
import type { Result } from "../verifier/api";
import type { Row } from "./row";

/** A component of one device that lacks the fixes of some bulletins. */
export interface OldFirmware {
  readonly item: string;
  readonly component: string;
  readonly found: string;
  /** The bulletins with their levels, the highest first. */
  readonly fixes: string;
}

type Cpuid = Readonly<Record<"model" | "stepping", number>>;
type Level = readonly [product: string, component: string, level: string, cpuid?: Cpuid | undefined];

/** Sort key of a component's level; undefined for a text that is not a level. */
function rank(component: string, level: string): string | number | undefined {
  if (component === "driver") return ordinal(level, 10);
  if (component === "vbios") return ordinal(level, 16);
  return component === "tcb_date" ? Date.parse(level) : Number(level);
}

const levelsOf = (component: string, claims: Claims): Level[] => {
  const architecture = told(claims.architecture);
  return [[architecture, component, told(claims[`${component}_version`])]];
};

/** The levels that verified evidence of a kind states. */
function stated(kind: string, claims: Claims): Level[] {
  if (kind.startsWith("azure-")) {
    const inner = kind.slice("azure-".length);
    return stated(inner === "snp" ? "sev-snp" : inner, (claims[inner] ?? {}) as Claims);
  }
  if (kind === "sev-snp") {
    const cpuid = claims.cpuid as unknown as Cpuid | undefined;
    const product = told(claims.product).toLowerCase();
    const levels = Object.entries((claims.reported_tcb ?? {}) as Claims);
    return levels.map(([part, level]): Level => [product, part, told(level), cpuid]);
  }
  if (kind === "nvidia-gpu") return ["driver", "vbios"].flatMap((component) => levelsOf(component, claims));
  if (kind === "nvidia-switch") return [["ls10", "vbios", told(claims.vbios_version)]];
  return claimOf(claims, "tcb_date") === undefined ? [] : [[kind, "tcb_date", told(claims.tcb_date)]];
}

/** True if an entry is about this processor; without its CPUID it is only known to be of the product. */
function isOfLine({ models, stepping }: FirmwareEntry, cpuid: Cpuid | undefined): boolean {
  if (!models && stepping === undefined) return true;
  if (!cpuid) return false;
  const [low, high] = models ?? [0, 255];
  return low <= cpuid.model && cpuid.model <= high && (stepping ?? cpuid.stepping) === cpuid.stepping;
}

function unmet([product, component, level, cpuid]: Level): FirmwareEntry[] {
  const found = rank(component, level);
  if (found === undefined) return [];
  const of = (text: string): string | number => rank(component, text)!; // of the table, which is read in Python
  return entries
    .filter((one) => one.product === product && one.component === component && isOfLine(one, cpuid))
    .filter(({ from, level: fixed }) => found < of(fixed) && (from === undefined || found >= of(from)))
    .sort((one, other) => Number(of(one.level) < of(other.level)) - Number(of(one.level) > of(other.level)));
}

/** Judge all devices of verified evidence; simulated ones have no firmware. */
export const oldFirmware = ({ items, simulated }: Pick<Result, "items" | "simulated">): OldFirmware[] =>
  simulated
    ? []
    : items.flatMap(({ name, kind, claims }) =>
        stated(kind, claims).flatMap((level) => {
          const fixes = unmet(level).map((one) => `${one.advisory} (${one.level}, ${one.published})`);
          const [, component, found] = level;
          return fixes.length ? [{ item: name, component, found, fixes: fixes.join(", ") }] : [];
        }),
      );

/** A row for each component that lacks the fix of a bulletin; no choice makes it newer. */
export const firmwareRows = (result: Pick<Result, "items" | "simulated">): Row[] =>
  oldFirmware(result).map(({ item, component, found, fixes }) => ({
    id: `firmware.${item}.${component}`,
    subject: item,
    reported: `${component} ${found}`,
    value: undefined,
    demanded: `the fix of ${fixes}`,
    outcome: "warning",
    kinds: [],
  }));

/** Age of a component's firmware by the table, and what newer levels of it fixed. */
export interface FirmwareAge {
  readonly component: string;
  readonly found: string;
  /** The newest entry whose level it has; undefined where the table has none so old. */
  readonly since: FirmwareEntry | undefined;
  readonly later: readonly FirmwareEntry[];
}

/** Return the age of all firmware of some kinds of device; simulated ones have none. */
export const firmwareAges = ({ items, simulated }: Pick<Result, "items" | "simulated">, kind: RegExp): FirmwareAge[] =>
  simulated
    ? []
    : items
        .filter((item) => kind.test(item.kind))
        .flatMap((item) => stated(item.kind, item.claims))
        .map((level) => ({ component: level[1], found: level[2], since: newest(level), later: unmet(level) }));

function newest([product, component, level, cpuid]: Level): FirmwareEntry | undefined {
  const found = rank(component, level);
  if (found === undefined) return undefined;
  return entries
    .filter((one) => one.product === product && one.component === component && isOfLine(one, cpuid))
    .filter((one) => rank(component, one.level)! <= found) // of the table, which is read in Python
    .sort((one, other) => other.published.localeCompare(one.published))[0];
}
