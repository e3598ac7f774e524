/** TCB statuses in Intel's spelling, and how several become one (intel-tdx-sgx.md 9, 12). */

/** What a TCB level of a platform can say; what a level of the TDX module or the quoting enclave can are three of it. */
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

export type PlatformStatus = (typeof PLATFORM_STATUSES)[number];
export type ComponentStatus = (typeof COMPONENT_STATUSES)[number];
/** What a whole verification can come to. */
export type TcbStatus = PlatformStatus | "TDRelaunchAdvised" | "TDRelaunchAdvisedConfigurationNeeded";

/** The one column of the table in which a status changes; UpToDate keeps it, Revoked replaces it. */
const WITH_OUT_OF_DATE: Partial<Record<TcbStatus, TcbStatus>> = {
  UpToDate: "OutOfDate",
  SWHardeningNeeded: "OutOfDate",
  ConfigurationNeeded: "OutOfDateConfigurationNeeded",
  ConfigurationAndSWHardeningNeeded: "OutOfDateConfigurationNeeded",
};

/** Lower the status of a platform by that of a component: the TDX module, then the quoting enclave. */
export function converge(status: TcbStatus, component: ComponentStatus): TcbStatus {
  if (component === "UpToDate") return status;
  return component === "Revoked" ? component : (WITH_OUT_OF_DATE[status] ?? status);
}
