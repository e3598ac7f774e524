/** Ce que la page dit avant sa première question au service, et de la réponse. */

import type { First } from "../en/first";
import { shell } from "./shell";
import { verdict } from "./verdict";

export const first: First = { ...shell, ...verdict };
