/** Code that is fetched when it is needed: a page that sees no TDX quote needs none of Intel's. One file each. */

export const bundleFormat = () => import("./bundle");
export const azureFormat = () => import("./azure/azure");
export const eventLogFormat = () => import("./eventlog/eventlog");
export const filesFormat = () => import("./files");
export const gpuFormat = () => import("./gpu/gpu");
export const intelFormat = () => import("./intel/intel");
export const amdRoots = () => import("./roots");
