/** The modules that read a policy and judge by it: the build keeps them in one file. */

import "./appraise";
import "./bodies";
import "./cpu";
import "./decode";
import "./devices";
import "./document";
import "./dstack";
import "./eventlog";
import "./judge";
import "./references";
import "./rules";
import "./sample";
