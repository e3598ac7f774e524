/** Was die Seite vor ihrer ersten Frage an den Dienst sagt, und zu dessen Antwort. */

import type { First } from "../en/first";
import { shell } from "./shell";
import { verdict } from "./verdict";

export const first: First = { ...shell, ...verdict };
