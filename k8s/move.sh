#!/bin/sh
# Moves an installation from one overlay to another: k8s/move.sh single|cluster [kubectl options, such as --context NAME]
# Stops the running driver, waits until its pod is gone, deletes what only the other overlay has, applies the overlay.
# Claims stay: the old checkpoint is the way back. Stops at the first step that fails, and can be run again.
set -eu
cd "$(dirname "$0")"
# The last word is a label that only pods of the other workload have.
case ${1:-} in
single) target=deployment other=cluster old=statefulset label=statefulset.kubernetes.io/pod-name ;;
cluster) target=statefulset other=single old=deployment label=pod-template-hash ;;
*)
    echo "usage: k8s/move.sh single|cluster [kubectl options]" >&2
    exit 2
    ;;
esac
overlay=overlays/$1
shift
in_namespace() { kubectl --namespace flinkwatch "$@"; }
say() { echo "k8s/move.sh: $*"; }

namespace=$(kubectl "$@" get namespace/flinkwatch --ignore-not-found --output name)
if [ -z "$namespace" ]; then
    say "there is no namespace flinkwatch, so nothing to move; kubectl apply --kustomize k8s/$overlay installs it" >&2
    exit 1
fi
# Nothing is stopped before the API server has accepted all new objects, including changes of immutable fields.
kubectl "$@" apply --kustomize "$overlay" --dry-run=server >/dev/null || {
    say "the API server refuses $overlay, see above; nothing was changed" >&2
    exit 1
}
# For example, the rights of `cluster` must not outlive it.
stays=$(kubectl "$@" create --kustomize "$overlay" --dry-run=client --output name)
theirs=$(kubectl "$@" create --kustomize "overlays/$other" --dry-run=client --output name)
left=
for object in $theirs; do
    case $object in persistentvolumeclaim/*) continue ;; esac
    echo "$stays" | grep -qxF "$object" || left="$left $object"
done
found=$(in_namespace "$@" get "$old/flinkwatch" --ignore-not-found --output name)
if [ -n "$found" ]; then
    say "stopping $old/flinkwatch"
    in_namespace "$@" scale "$old/flinkwatch" --replicas=0
    # The trigger, 30 s for the current batch, 10 s for delivery, 90 s at most.
    in_namespace "$@" wait pod --for=delete --timeout=180s \
        --selector "app.kubernetes.io/name=flinkwatch,app.kubernetes.io/component=driver,$label" || {
        say "a driver is still there after 180 s; $old/flinkwatch stays, scaled to 0, and nothing was applied" >&2
        exit 1
    }
fi
# shellcheck disable=SC2086 - names without spaces
in_namespace "$@" delete --ignore-not-found $left
kubectl "$@" apply --kustomize "$overlay"
in_namespace "$@" rollout status "$target/flinkwatch" --timeout=300s
say "$target/flinkwatch runs; the checkpoint of before is kept in its claim:"
in_namespace "$@" get persistentvolumeclaims
