/** The format that is fetched once Intel quotes are met. */

import "../shared";

export { readIntelQuote } from "./verify";
