/** The format that is fetched once Intel quotes are met. */

import "../shared";

export { parseQuote } from "./quote";
export { readIntelQuote } from "./verify";
