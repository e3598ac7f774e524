/** Alles, was die Seite nach ihrer ersten Frage an den Dienst sagt. */

import type { Rest } from "../en/rest";
import { checks } from "./checks";
import { documents } from "./documents";
import { view } from "./view";

export const rest: Rest = { ...checks, ...documents, ...view };
