/** What is shown beside a verdict before a person acts: the build keeps it in one file. */

import "./alone/history";
import "./chain";
import "./decide";
import "./document_limits";
import "./document_place";
import "./policy_view";
import "./sizes";
import "./source";
