/** TCB statuses in Intel's spelling, and how several become one (intel-tdx-sgx.md 9, 12). */

/**
 * Statuses of a platform's TCB level; a level of the TDX module or the quoting enclave has three of them.
 */
export const PLATFORM_STATUSES = [
  "UpToDate",
  "SWHardeningNeeded",
  "ConfigurationNeeded",
  "ConfigurationAndSWHardeningNeeded",
  "OutOfDate",
  "OutOfDateConfigurationNeeded",
  "Revoked",
] as const;
export const COMPONENT_STATUSES = ["UpToDate", "OutOfDate", "Revoked"] as const;

export type ComponentStatus = (typeof COMPONENT_STATUSES)[number];
/** Possible results of a whole verification. */
export type TcbStatus =
  (typeof PLATFORM_STATUSES)[number] | "TDRelaunchAdvised" | "TDRelaunchAdvisedConfigurationNeeded";

/** Lower the status of a platform by that of a component: the TDX module, then the quoting enclave (section 12). */
export function converge(status: TcbStatus, component: ComponentStatus): TcbStatus {
  if (component !== "OutOfDate") return component === "Revoked" ? component : status;
  if (status === "UpToDate" || status === "SWHardeningNeeded") return component;
  return status.startsWith("Configuration") ? "OutOfDateConfigurationNeeded" : status;
}
