/** The modules that read a policy and judge by it: the build keeps them in one file. */

import "./appraise";
import "./bodies";
import "./decode";
import "./document";
import "./fact";
import "./judge";
import "./references";
import "./rules";
import "./snp";
import "./tolerances";
