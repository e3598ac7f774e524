/** The part of policies that a page needs first. The build keeps it in one file. */

import "./claims";
import "./kept";
