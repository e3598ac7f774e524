#!/bin/sh
# vLLM with a sealed model, which exists in the clear in this machine's memory alone:
#
#     attest run --key MODEL=my-model -- ./vllm.sh my-model.sealed owner.pub [options of vLLM]
#
# vLLM starts when all of the model is verified, never sees its key, and is ended by 'attest run' when the lease is lost.
set -eu
usage='usage: vllm.sh SEALED OWNER [OPTIONS]'
sealed=${1:?$usage} owner=${2:?$usage} plain=${PLAIN:-/dev/shm/vllm-model}
shift 2
: "${ATTEST_KEY_FD_MODEL:?no key: start this with 'attest run --key MODEL=KEY --'}"

rm -rf "$plain"  # of a life before; of a container, /dev/shm ends with it
attest unseal "$sealed" "$plain" --key-fd "$ATTEST_KEY_FD_MODEL" --trust "$owner" --quiet
eval "exec $ATTEST_KEY_FD_MODEL<&-"  # from here on nobody in this process can read the key
unset ATTEST_KEY_FD_MODEL

export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1
exec vllm serve "$plain" --served-model-name my-model "$@"
