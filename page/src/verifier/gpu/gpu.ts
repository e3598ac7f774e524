/** What NVIDIA's evidence is to the rest of the verifier. */

export { judgeSet } from "./topology";
export { parseGpuDevice, parseGpuReport } from "./verify";
