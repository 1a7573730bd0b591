#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# What the two containers of the DaemonSet run (ccbpf.yaml; docs/kubernetes.md):
#
#   pods.sh list LIST           without privileges: LIST is what the API server says of the pods of this node, $NODE_NAME.
#                               Only their metadata is asked for
#   pods.sh apply LIST FILE     with the capabilities of `ccbpf apply --pods LIST FILE`, and without a token: runs it again when
#                               LIST, FILE or the cgroups of pods have changed
#
# What cannot be read leaves LIST and the rules as they are, and is tried again. Each may be killed at any instant.
set -u

account=/var/run/secrets/kubernetes.io/serviceaccount
cgroups=/sys/fs/cgroup
metadata='g=meta.k8s.io;v=v1'
watch_s=60 # what a watch may have missed is read again after it
retry_s=10
log_bytes=60000 # of the last log, which fit into one argument

trap 'exit 0' INT TERM

# get SECONDS FORMAT [OPTION…]: the pods of this node. The token is not in the arguments, which other processes see.
get() {
    most=$1 format=$2
    shift 2
    printf 'header = "Authorization: Bearer %s"\n' "$(cat $account/token)" |
        curl --config - --silent --show-error --fail --get --max-time "$most" --max-filesize 64M --cacert $account/ca.crt --user-agent ccbpf \
            --header "Accept: application/json;as=$format;$metadata" \
            --data-urlencode "fieldSelector=spec.nodeName=$NODE_NAME" "$@" "https://$host:$KUBERNETES_SERVICE_PORT/api/v1/pods"
}

list() {
    get 30 PartialObjectMetadataList --data resourceVersion=0 --output "$1.new" && mv "$1.new" "$1"
}

# The version of a list stands before its items, which others have written.
version() {
    head -c 4096 "$1" | tr -d ' \n' | sed -n 's/^{[^[]*"resourceVersion":"\([0-9]*\)".*/\1/p'
}

watch() {
    get $((watch_s + 10)) PartialObjectMetadata --no-buffer --data watch=true --data timeoutSeconds=$watch_s \
        --data "resourceVersion=$(version "$1")"
}

keep_list() {
    case $KUBERNETES_SERVICE_HOST in
    *:*) host="[$KUBERNETES_SERVICE_HOST]" ;;
    *) host=$KUBERNETES_SERVICE_HOST ;;
    esac
    while :; do
        if list "$1"; then
            { watch "$1" || sleep $retry_s; } | while read -r _; do
                list "$1"
                sleep 1 # at most one list a second, however many events
            done
        else
            sleep $retry_s
        fi
        sleep 1 # also where each watch ends at once
    done
}

state() {
    # shellcheck disable=SC2012 # numbers of cgroups are wanted
    { cat "$1" "$2"; ls -di $cgroups/kubepods*/*pod* $cgroups/kubepods*/*/*pod*; } 2>/dev/null | cksum
}

keep_rules() {
    applied='' before='' wait=1
    while :; do
        now=$(state "$1" "$2")
        if [ -e "$1" ] && [ "$now" != "$applied" ]; then
            applied=$now wait=1
            said=$(ccbpf apply --pods "$1" "$2" 2>&1) || applied='' wait=$retry_s
            printf '%s\n' "$said" | grep -vxF -e "$before" -e "$2: nothing to change" # what was said before is not said again
            before=$(printf '%s\n' "$said" | head -c $log_bytes)
        fi
        sleep $wait
    done
}

case ${1-}$# in
list2) keep_list "$2" ;;
apply3) keep_rules "$2" "$3" ;;
*) echo "usage: $0 list LIST | apply LIST FILE" >&2 && exit 2 ;;
esac
