/** What is loaded once an event log is met. */

// What all formats share is one file this way, and not one for each set of formats that share it.
import "../api";

export { readEventLog } from "./verify";
