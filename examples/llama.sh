#!/bin/sh
# llama.cpp with a sealed GGUF model, which exists in the clear in this machine's memory alone:
#
#     attest run --key MODEL=my-model -- ./llama.sh my-model.sealed model.gguf owner.pub [options of llama-server]
#
# The one file that is wanted is decrypted, each MiB verified; where one is not, the server does not start.
set -eu
usage='usage: llama.sh SEALED FILE OWNER [OPTIONS]'
sealed=${1:?$usage} file=${2:?$usage} owner=${3:?$usage} plain=${PLAIN:-/dev/shm/llama-model}.gguf
shift 3
: "${ATTEST_KEY_FD_MODEL:?no key: start this with 'attest run --key MODEL=KEY --'}"

case $(df --output=fstype "$(dirname "$plain")" | tail -n 1) in tmpfs | ramfs) ;; *) echo "$plain is on a disk" >&2; exit 2 ;; esac
umask 077
rm -f "$plain"  # of a life before; of a container, /dev/shm ends with it
attest sealed cat "$sealed" "$file" --key-fd "$ATTEST_KEY_FD_MODEL" --trust "$owner" --quiet > "$plain"
eval "exec $ATTEST_KEY_FD_MODEL<&-"  # from here on nobody in this process can read the key
unset ATTEST_KEY_FD_MODEL

exec llama-server --model "$plain" --offline "$@"  # mapped from memory: no second copy
