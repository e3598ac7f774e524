/** The table of firmware floors of the Python package (docs/firmware.md): the build takes its file. */
declare module "firmware-table" {
  export interface FirmwareEntry {
    readonly product: string;
    readonly component: string;
    /** The first level that has the fix. */
    readonly level: string;
    readonly published: string;
    readonly advisory: string;
    readonly fixes: string;
    /** The bulletin's address. */
    readonly source: string;
    /** The first level that the entry is about. */
    readonly from?: string;
    /** The processors that the entry is about, by CPUID. */
    readonly models?: readonly [first: number, last: number];
    readonly stepping?: number;
  }
  export const entries: readonly FirmwareEntry[];
}
