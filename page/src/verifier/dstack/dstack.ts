/** The part that is loaded once a log or a statement of dstack is met. */

import type { Bytes } from "../bytes";
import type { TdReport } from "../tdx/structure";
import { type DstackJudgement, judgeDstack } from "./judgement";
import { parseStatements } from "./statements";
import { parseDstackLog } from "./structure";

/** Read the log and the statements that the evidence contains. The function that comes back judges them. */
export async function readDstack(
  log: Bytes | undefined,
  statements: Bytes | undefined,
  td: TdReport,
): Promise<() => Promise<DstackJudgement>> {
  const parsed = log && (await parseDstackLog(log));
  const stated = statements ? await parseStatements(statements) : { stated: [], appComposes: [], logs: [] };
  return () => judgeDstack(td, parsed, stated);
}
