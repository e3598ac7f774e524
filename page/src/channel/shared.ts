/** What the parts of the channel need that are fetched on demand: the build keeps it in one file. */

import "./algorithms";
import "./channel";
import "./cursor";
import "./index";
import "./keys";
import "./offer";
