/** The code that several formats on demand share, none of it for a SEV-SNP machine. The build keeps it in one file. */

import "./carriers";
import "./intel/document";
import "./intel/json_members";
import "./intel/qe_identity";
import "./intel/tcb_info";
import "./json_text";
import "./ocsp_answers";
import "./provider_files";
import "./rims";
