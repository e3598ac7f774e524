/** What a page needs of policies before it fetches the rest: the build keeps it in one file. */

import "./claims";
import "./kept";
