/**
 * The evidence formats that are verified: one row for each media type. A row names the module that reads an item; what
 * it returns knows its report data and nonce, and its procedure. `verify.ts` knows no format by name.
 *
 * A format is fetched when its evidence is met. SEV-SNP is not: an Azure VM has it, too.
 */

import type { Bytes } from "./bytes";
import { MEDIA } from "./envelope";
import type { ParsedCpu, ParsedDevice } from "./evidence";
import { readSnp } from "./snp/evidence";
import { part } from "./parts";

/** Reads an item, and refuses what is malformed. */
type Parse<T> = (value: Bytes) => T | Promise<T>;
/** Fetches the code of a format. */
type Load<T> = () => Promise<Parse<T>>;

const snp: Load<ParsedCpu> = () => Promise.resolve(readSnp);

/** Evidence of CPUs by media type, in lower case and without parameters. */
export const CPU_FORMATS: ReadonlyMap<string, Load<ParsedCpu>> = new Map<string, Load<ParsedCpu>>([
  [MEDIA.snpReport, snp],
  [MEDIA.snpExtended, snp],
  [MEDIA.configfsTsm, async () => (await part(import("./snp/configfs"))).readConfigfsTsm],
  [MEDIA.intelQuote, async () => (await part(import("./intel/intel"))).readIntelQuote],
  [MEDIA.azureCvm, async () => (await part(import("./azure/azure"))).readAzure],
  [MEDIA.sample, async () => (await part(import("./sample/sample"))).readSample],
]);

/** Evidence of devices, in the same form. */
export const DEVICE_FORMATS: ReadonlyMap<string, Load<ParsedDevice>> = new Map<string, Load<ParsedDevice>>([
  [MEDIA.nvidiaReport, async () => (await part(import("./gpu/gpu"))).parseGpuReport],
  [MEDIA.nvidiaDevice, async () => (await part(import("./gpu/gpu"))).parseGpuDevice],
  [MEDIA.sampleDevice, async () => (await part(import("./sample/sample"))).readSampleDevice],
]);

/** Begin to fetch the code of these items' formats; a part that cannot be fetched is told when it is needed. */
export function prefetch(items: readonly { readonly essence: string }[]): void {
  for (const { essence } of items) {
    const load = CPU_FORMATS.get(essence) ?? DEVICE_FORMATS.get(essence);
    load?.().catch(() => undefined);
  }
}

/** Read every item of one of these formats, in order; their code is fetched together. */
export async function readItems<T>(
  items: readonly { readonly name: string; readonly essence: string; readonly value: Bytes }[],
  formats: ReadonlyMap<string, Load<T>>,
): Promise<readonly (readonly [name: string, parsed: T])[]> {
  const known = items.flatMap((item) => {
    const load = formats.get(item.essence);
    return load ? [{ item, load }] : [];
  });
  const parsers = await Promise.all(known.map(({ load }) => load()));
  const found: [string, T][] = [];
  for (const [i, { item }] of known.entries()) found.push([item.name, await parsers[i]!(item.value)]);
  return found;
}
