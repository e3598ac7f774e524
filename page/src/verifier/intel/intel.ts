/** The format that is fetched once Intel quotes are met. */

export { parseQuote } from "./quote";
export { readIntelQuote } from "./verify";
