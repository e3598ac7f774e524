/** The modules that every part of a page needs: the build keeps them in one file. */

import "./dom";
import "./judge";
import "./labels";
import "./memory";
import "./problems";
import "./state";
import "./strings";
import "./symbols";
