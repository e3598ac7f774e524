/** The format that is fetched once evidence of NVIDIA's devices is met. */

import "../shared";

export { parseGpuDevice, parseGpuReport } from "./verify";
