/** What is loaded once an event log is met. */

export { replayEventLog } from "./verify";
