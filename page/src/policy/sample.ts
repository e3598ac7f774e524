/** Demands of a policy on Trustee's sample evidence, which proves nothing: the section `sample`. */

import { maybe, text } from "./decode";
import { type Row, among, section, spare } from "./rules";

export const sampleRows: Row = section({
  launch_digest: among(text),
  ...spare({ svn: among(text) }),
  // Read as in Python, and of no effect: the page accepts no sample device under a policy.
  device_svn: maybe((...given) => among(text)(...given).slice(1), []),
});
