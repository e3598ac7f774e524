/**
 * Code that several formats share. A format that is fetched on its own begins with this import, which keeps all of it
 * in one file of the bundle: otherwise each set of formats would have a file of its own for the modules that it shares.
 */

import "./anchors";
import "./bytes";
import "./carriers";
import "./cbor";
import "./chain";
import "./checks";
import "./claims";
import "./crl";
import "./crypto";
import "./der";
import "./encoding";
import "./envelope";
import "./errors";
import "./intel/document";
import "./intel/json_members";
import "./intel/qe_identity";
import "./intel/status";
import "./intel/tcb_info";
import "./json";
import "./json_text";
import "./ocsp_answers";
import "./parts";
import "./pem";
import "./pool";
import "./procedure";
import "./provider_files";
import "./reader";
import "./recognised";
import "./rims";
import "./sgx/structure";
import "./snp/certificate_table";
import "./snp/evidence";
import "./snp/structure";
import "./tdx/structure";
import "./time";
import "./unknown_values";
import "./x509";
