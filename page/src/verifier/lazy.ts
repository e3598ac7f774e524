/**
 * Code that is fetched when it is needed, and hardly ever is: vendors' own files, event logs, a root that no certificate
 * brings. What evidence on the wire needs is one file: a border between two costs more than it spares.
 */

export const amdRoots = () => import("./roots");
export const eventLogFormat = () => import("./eventlog/eventlog");
export const filesFormat = () => import("./files");
