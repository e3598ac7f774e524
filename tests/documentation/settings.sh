# What a reader of the documentation has. `<!-- with: a running service -->` above a block calls `a_running_service`
# before it, in the shell and the folder of its page. Each makes what the blocks name, anew.

# What lasts or starts other programs is a process of its own; everything else runs in $WARM.
attest() {
    case "$*" in
        'simulate machine '* | 'simulate kds '* | 'simulate nvidia '*) command attest "$@" ;;
        'collect '* | doctor* | 'run '* | *' --kms '*)
            command attest simulate machine ${MACHINE[@]+"${MACHINE[@]}"} -- attest "$@" ;;
        'verify '* | 'appraise '*) $WARM attest "$@" ${OPTIONS[@]+"${OPTIONS[@]}"} ;;
        'endorsements fetch '*) $WARM attest "$@" ${VENDORS[@]+"${VENDORS[@]}"} ;;
        *) $WARM attest "$@" ;;
    esac
}
OPTIONS=() # What stands for the vendors' services and for the time of recorded evidence.
VENDORS=()
MACHINE=() # Options of the simulated machine on which evidence is collected and programs run.
kms() {
    if [[ $1 == serve ]]; then command kms "$@"; else $WARM kms "$@"; fi
}

QUESTION=5eed0123456789ab

ready() { # CONDITION...: wait for it, up to a minute
    local left=300
    until "$@" > /dev/null 2>&1; do
        ((left-- > 0)) || { echo "not ready: $*" >&2; return 1; }
        sleep 0.2
    done
}

listening() { # FILE PATTERN COMMAND...: start it, and wait until it says so in a file of its own
    local said=$1 pattern=$2
    rm -f "$said"
    "${@:3}" > "$said" 2>&1 &
    ready grep -q "$pattern" "$said"
}

quietly() { # COMMAND...: show what it prints only if it fails
    "$@" > .quiet 2>&1 || { cat .quiet; exit 1; }
}

member() { # NAME: the first member of a JSON document that is called so
    sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" | head -1
}

made() { # NAME FUNCTION: a folder that FUNCTION fills once for all pages; another shell may be about to
    if mkdir "$MADE/.$1" 2> /dev/null; then
        (cd "$MADE/.$1" && "$2" && cp -r . "$MADE/.$1.whole" && mv "$MADE/.$1.whole" "$MADE/$1") || exit 1
    else
        ready test -d "$MADE/$1" || exit 1
    fi
}

# --- evidence and policies

evidence_and_policies() { # of one simulated machine, made once
    made evidence _evidence
    cp -r "$MADE/evidence/." .
    OPTIONS=(--allow-simulated --offline --endorsements vendors)
}
_evidence() {
    quietly attest simulate evidence --form envelope --nonce $QUESTION -o evidence.json
    quietly attest simulate evidence --nonce $QUESTION -o report.bin
    quietly attest simulate evidence --form snp-report --nonce $QUESTION -o bare.bin
    mkdir vendors
    quietly attest simulate endorsements -o vendors/amd.endorsements
    quietly attest policy init --from evidence.json --nonce $QUESTION --endorsements vendors --offline --allow-simulated \
        --default or-newer --name my-model -o policy.yaml
    for name in policy-2 stricter emergency service; do cp policy.yaml $name.yaml; done
    cp "$REPOSITORY/policies/snp-lab-simulated.yaml" production.yaml
    cp "$REPOSITORY/policies/snp-lab-simulated.yaml" rag-enclave.yaml
    cp "$REPOSITORY/policies/snp-lab-simulated.yaml" site.yaml
}
vendors_services() { # which a simulated one stands for
    evidence_and_policies
    listening kds.txt 'http:.*[0-9]$' command attest simulate kds --port 0
    export KDS=$(grep -o 'http://[^ ]*' kds.txt | head -1)
    VENDORS=(--kds "$KDS")
    OPTIONS=("${VENDORS[@]}" --allow-simulated)
    cp bare.bin report.bin
}
a_folder_of_endorsements() {
    vendors_services
    mkdir endorsements
    cp vendors/* endorsements/
}
recorded() { # FILES... at their time: evidence that is recorded outside of the repository
    local name
    [[ -n $VECTORS ]] || { echo "no recorded evidence: ATTEST_VECTORS" >&2; exit 1; }
    for name in "$@"; do cp -r "$VECTORS/$name" .; done
}
recorded_evidence_of_an_Azure_VM() {
    recorded azure/raw-snp/.
    OPTIONS=(--at 2025-06-01T00:00:00Z --offline --unchecked revocation=recorded)
}
recorded_evidence_of_dstack() {
    recorded providers/near-direct/{getquote.json,quote.hex,eventlog.json,app-compose.json}
    cp "$VECTORS/providers/collateral/tdx-90c06f000000-2026-06-29.json" collateral.json
    python -c 'import json, sys; json.dump(json.load(sys.stdin)["info"], sys.stdout)' \
        < "$VECTORS/providers/near-direct/report.json" > info.json
    OPTIONS=(--at 2026-06-29T02:06:38Z --offline --endorsements collateral.json)
}
a_recorded_document() {
    recorded providers/near-direct/report.json providers/collateral
    OPTIONS=(--at 2026-06-29T02:06:38Z --offline --unchecked rim=recorded --unchecked revocation=recorded
        --unchecked topology=recorded)
}
a_recorded_token() {
    recorded
    cp "$VECTORS/providers/near-direct/nras-token.json" eat.json
    cp "$VECTORS/providers/near-direct/nras-jwks.json" jwks.json
    OPTIONS=(--at 2026-06-29T02:06:38Z --offline)
}
an_event_log_of_an_Azure_VM() {
    quietly attest simulate azure --nonce-text challenge -o azure.json --endorsements-out azure.endorsements \
        --eventlog-out binary_bios_measurements
    OPTIONS=(--allow-simulated --offline --endorsements azure.endorsements)
}
a_table_of_firmware() {
    sed '/"version"/s/2026/2027/' "$REPOSITORY/attest/policy/firmware_table.json" > firmware-table.json
    OPTIONS=(--allow-simulated --offline --endorsements vendors)
}
a_recorded_image_of_OVMF() {
    cp "$VECTORS/sev-snp/measure/ovmf_AmdSev_suffix.bin" OVMF.fd
}
a_simulated_VM() {
    OPTIONS=()
}
a_machine_with_a_GPU() { # and the services of AMD and NVIDIA, which simulated ones stand for
    vendors_services
    listening nvidia.txt 'http:.*[0-9]$' command attest simulate nvidia --port 0
    local nvidia=$(grep -o 'http://[^ ]*' nvidia.txt | head -1)
    VENDORS+=(--rim-url "$nvidia" --ocsp-url "$nvidia")
    OPTIONS=("${VENDORS[@]}" --allow-simulated)
    MACHINE=(--gpus 1)
    quietly attest collect evidence --nonce 541b6523f9446dcd170e67ac8171eb9226bee5e3f192de4900b74f0ef293500b -o envelope.json
}
a_document_that_a_workflow_built() {
    python -m tests.provenance.built_document kata-images \
        https://github.com/acme/images/.github/workflows/build.yml@refs/tags/v3.9 https://token.actions.githubusercontent.com
}
a_simulated_machine() {
    python() { command attest simulate machine -- python "$@"; }
}
the_shell() {
    :
}

# --- the service

_service() {
    cp -r "$MADE/evidence/." .
    quietly kms init svc --origin kms.example/prod --allow-simulated
    grep '^identity: ' .quiet | cut -d' ' -f2 > identity
    sed -i 's/^# endorsements = .*/endorsements = ["..\/vendors"]/' svc/kms.toml
    head -c 32 /dev/urandom > model.key
    head -c 32 /dev/urandom > new.key
    chmod 600 *.key
    quietly kms key import my-model --from model.key --policy policy.yaml --config svc/kms.toml
}
tenants() {
    local name
    for name in acme research; do quietly kms tenant create $name; done
}
a_service() { # with the key my-model
    made evidence _evidence
    made service _service
    stopped
    rm -rf svc
    cp -r "$MADE/service/." .
    IDENTITY=$(< identity)
    export KMS_CONFIG=$PWD/svc/kms.toml
}
this_service() { # which the page has made, with a listener for administrators
    made evidence _evidence
    cp "$MADE"/evidence/{policy.yaml,evidence.json} .
    listening serve.log '^administration: .*[0-9]$' command kms serve --config svc/kms.toml --port 0 --admin-port 0
    ADMIN=$(sed -n 's/^administration: .*:/localhost:/p' serve.log)
}
an_OIDC_issuer() { # whose certificate is of the page's authority
    export SSL_CERT_FILE=$PWD/ca.crt
    listening issuer.txt '^https:' python -m tests.kms.device_issuer server.crt server.key
    ISSUER=$(< issuer.txt)
}
a_frozen_key() { # in a service of one person, who may lift a freeze alone
    a_service
    echo 'allow_thaw_by_one = true' >> svc/kms.toml
    quietly kms freeze key my-model --reason "incident 4711"
}
a_place_without_a_service() {
    a_service
    rm -rf svc
}
a_service_without_a_key() {
    a_service
    rm -rf svc
    quietly kms init svc --origin kms.example/prod --allow-simulated
    IDENTITY=$(sed -n 's/^identity: //p' .quiet)
    sed -i 's/^# endorsements = .*/endorsements = ["..\/vendors"]/' svc/kms.toml
}
_people() {
    cp -r "$MADE/service/." .
    export KMS_CONFIG=$PWD/svc/kms.toml
    tenants
    keys_of_three_people
    local name
    for name in alice bob carol; do quietly kms people add $name --key $name.pub.pem; done
    quietly kms quorum set quorum --of 2 --person alice --person bob --person carol
    local kind number=0
    for kind in thaw break-glass key-policy; do
        quietly kms quorum set $kind --of 2 --person alice --person bob --person carol --reason "a rule" --propose
        executed $((++number))
    done
}
executed() { # PROPOSAL, approved by two
    local name
    quietly kms proposal show "$1" --export p.json
    for name in alice bob; do
        quietly kms proposal sign p.json --key $name.pem --out $name.sig
        quietly kms proposal approve $name.sig
        rm $name.sig
    done
    quietly kms proposal execute "$1"
    rm p.json
}
its_first_proposal_executed() {
    executed 1
}
an_executed_proposal_of_break_glass() { # after those of the rules
    executed 5
}
a_quorum() { # of alice, bob and carol, for freezes, break-glass and policies
    made evidence _evidence
    made service _service
    made people _people
    rm -rf svc
    cp -r "$MADE/people/." .
    export KMS_CONFIG=$PWD/svc/kms.toml
}
keys_of_three_people() {
    local name
    for name in alice bob carol; do
        quietly openssl genpkey -algorithm ed25519 -out $name.pem
        quietly openssl pkey -in $name.pem -pubout -out $name.pub.pem
        chmod 600 $name.pem
    done
}
serve() {
    listening serve.log '^listening: .*[0-9]$' command kms serve --config svc/kms.toml --port 0
    SERVING=$!
    URL=$(sed -n 's/^listening: //p' serve.log)
    export ATTEST_KMS_URL=$URL ATTEST_KMS_KEY=$IDENTITY
}
a_running_service() {
    a_service
    serve
}
stopped() { # the service that runs
    [[ -z ${SERVING-} ]] || { kill "$SERVING" && wait "$SERVING" || true; }
    SERVING=
}
a_service_with_a_holder() { # of the key my-model
    a_running_service
    tenants
    quietly kms key create acme/other --policy policy.yaml
    quietly attest simulate machine -- attest release my-model --kms "$URL" --identity "$IDENTITY" -o released.key
    curl --silent --fail --json '{}' "$URL/v1/challenges" > challenge.json
    quietly attest simulate machine -- attest collect evidence --challenge challenge.json \
        --key "0020$(printf '%064d' 9)" -o evidence.json --force
    CHIP=$(kms releases list --json | member chip)
    MEASUREMENT=$(kms releases list --json | member measurement)
}

a_frozen_service() {
    quietly kms freeze all --reason "we do not know yet"
}
a_frozen_tenant() {
    quietly kms freeze tenant research --reason "contract ended"
}
a_list_of_chips() {
    echo "amd:$(printf '%0128d' 0)" > chips.txt
}
a_stopped_service_whose_database_is_gone() {
    STATE=$(kms log verify --json --config svc/kms.toml | member size):$(kms log verify --json --config svc/kms.toml | member root)
    rm svc/kms.db*
}
a_service_with_the_key_model() {
    a_service
    quietly kms key create model --policy policy.yaml
}
a_service_with_a_prompt_key() {
    a_service
    quietly kms key create prompts --purpose prompt-key --policy policy.yaml
    serve
}
a_secret() {
    quietly kms key import-key
    cp .quiet import-key.txt
    URL=postgresql://app:correct-horse@db/app
    printf %s "$URL" > url.txt
    printf %s "$URL?new" > new-url.txt
    chmod 600 url.txt new-url.txt
}
signed_reference_values() { # which the policy takes its measurement from
    local number name signer
    keys_of_three_people
    cp alice.pub.pem builder.pub.pem
    for number in 3 4; do
        name=images$([[ $number == 3 ]] || echo "-$number").yaml
        printf 'schema: attest.references/1\nname: images\nversion: %s\norigin: "the image pipeline"\n' $number > $name
        printf 'issued: "2026-01-01T00:00:00Z"\nexpires: {unchecked: "a test"}\nvalues:\n' >> $name
        printf '  this-machine: {kind: snp-measurement, values: ["%096d"]}\n' $number >> $name
        quietly attest policy sign $name --key alice.pem
    done
    signer=$(openssl pkey -pubin -in builder.pub.pem -outform DER | sha256sum | cut -d' ' -f1)
    sed -i '/^reference_values:/,/^      - "/d' policy.yaml
    printf 'references:\n  - {document: images, signers: ["%s"], at_least: 1, minimum_version: 3}\n' "$signer" >> policy.yaml
}
a_PostgreSQL_server() { # which the test starts; PGHOST and PGUSER name it
    rm -rf svc
    mkdir -m 0700 svc
    createuser() { printf 'correct horse\ncorrect horse\n' | command createuser "$@"; }
}
the_password_in_its_file() {
    (umask 077 && echo 'correct horse' > svc/database-password)
    chmod 600 svc/kms.toml
}
the_shell_fish() {
    mkdir -p ~/.config/fish/completions
}
a_server_that_takes_a_database() {
    URL=postgresql://app:correct-horse@db/app
    printf '#!/bin/sh\ntest "${DATABASE_URL-$(cat "$2")}" = "%s"\n' $URL > server
    chmod +x server
}
a_model() {
    mkdir my-model
    echo '{"labels": ["no", "yes"]}' > my-model/config.json
    SHM=$(mktemp -d /dev/shm/pages-XXXXXX)
    trap 'rm -rf "$SHM"' EXIT
}
a_released_model() { # the key that seals it is my-model's first version
    cp model.key kept.key
    a_service_without_a_key
    mv kept.key model.key
    quietly kms key import my-model --from model.key --policy policy.yaml
    rm -r "$SHM/my-model"
    serve
}
a_model_sealed_before() {
    cp model.key old.key
    head -c 32 /dev/urandom > new.key
    chmod 600 new.key
}
it_under_the_new_key() {
    cp new.key model.key
}
an_agent() { # which serves the key llama-70b and the model embedder
    a_running_service
    quietly kms key create llama-70b --policy policy.yaml
    a_model
    quietly attest sealed keygen --signing-key owner.pem --public-key owner.pub
    quietly attest seal my-model embedder.sealed --key my-model@1 --key-file model.key --signing-key owner.pem
    printf '[peers.me]\nuid = %s\n\n[keys.llama-70b]\npeers = ["me"]\n\n' $UID > agent.toml
    printf '[models.embedder]\nplace = "embedder.sealed"\ntrust = ["owner.pub"]\npeers = ["me"]\n' >> agent.toml
    chmod 700 .
    attest simulate machine -- attest agent --socket "$PWD/agent.sock" --rules agent.toml > agent.log 2>&1 &
    ready curl --fail --silent --unix-socket agent.sock http://agent/healthz || { cat agent.log; exit 1; }
}
an_agent_with_a_resource() { # which serves the key llama-70b to the programs of the loopback
    a_running_service
    quietly kms key create llama-70b --policy policy.yaml
    CDH_PORT=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
    printf '[cdh]\nanyone_here = "a test"\nport = %s\n' "$CDH_PORT" > agent.toml
    printf '[cdh.resources]\n"default/model-key/llama" = "llama-70b"\n' >> agent.toml
    chmod 700 .
    attest simulate machine -- attest agent --socket "$PWD/agent.sock" --rules agent.toml > agent.log 2>&1 &
    ready curl --fail --silent --unix-socket agent.sock http://agent/healthz || { cat agent.log; exit 1; }
}
an_older_envelope() {
    cp evidence.json recorded.cmw
    sed 's/^version: 1$/version: 2/' policy.yaml > policy-2.yaml
}
a_policy_in_Rego() {
    evidence_and_policies
    printf '%s\n' 'package policy' 'import rego.v1' 'default hardware := 97' \
        'hardware := 2 if input.snp.reported_tcb_microcode >= query_reference_value("microcode")' > snp.rego
    echo '{"microcode": 84}' > references.json
}
