/** What the page says before its first question to the service, and of the answer. */

import { type Shell, shell } from "./shell";
import { type Verdict, verdict } from "./verdict";

export type First = Shell & Verdict;
export const first: First = { ...shell, ...verdict };
