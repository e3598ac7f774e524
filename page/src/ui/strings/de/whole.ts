/** Alles, was die Seite nach ihrer ersten Frage an den Dienst sagt. */

import type { Strings } from "../en/whole";
import { checks } from "./checks";
import { documents } from "./documents";
import { view } from "./view";

export const whole: Strings = { ...checks, ...documents, ...view };
