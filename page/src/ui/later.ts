/** What the parts of a page share that are fetched when a person turns to them: the build keeps it in one file. */

import "./confirm";
import "./delivery";
import "./events";
import "./guard";
import "./taking";
