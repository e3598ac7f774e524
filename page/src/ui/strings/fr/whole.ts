/** Tout ce que dit la page après sa première question au service. */

import type { Strings } from "../en/whole";
import { checks } from "./checks";
import { documents } from "./documents";
import { view } from "./view";

export const whole: Strings = { ...checks, ...documents, ...view };
