/** The modules that every page needs until its first verdict: the build keeps them in one file. */

import "./dom";
import "./facts";
import "./incomplete";
import "./judge";
import "./labels";
import "./memory";
import "./moments";
import "./problems";
import "./state";
import "./status";
import "./strings";
import "./symbols";
