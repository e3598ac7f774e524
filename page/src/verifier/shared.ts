/**
 * The needs of every format and of every reader of evidence. The build keeps them in one file, fetched first.
 * `later.ts` names what only formats on demand share.
 */

import "./anchors";
import "./bytes";
import "./cbor";
import "./certificate_files";
import "./chain";
import "./checks";
import "./claims";
import "./crl";
import "./crypto";
import "./der";
import "./encoding";
import "./envelope";
import "./errors";
import "./formats";
import "./intel/status";
import "./json";
import "./parts";
import "./pem";
import "./pool";
import "./procedure";
import "./reader";
import "./recognised";
import "./rim_form";
import "./shown";
import "./snp/certificate_table";
import "./snp/evidence";
import "./snp/structure";
import "./time";
import "./unknown_values";
import "./verify_evidence";
import "./warnings";
import "./x509";
