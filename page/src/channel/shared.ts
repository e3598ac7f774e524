/** The needs of those parts of the channel that are fetched on demand. The build keeps it in one file. */

import "./algorithms";
import "./channel";
import "./cursor";
import "./index";
import "./keys";
import "./offer";
