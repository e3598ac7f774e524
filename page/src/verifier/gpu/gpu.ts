/** The format that is fetched once evidence of NVIDIA's devices is met. */

export { parseGpuDevice, parseGpuReport } from "./verify";
