#!/bin/sh
# Builds etcd and the control plane of Kubernetes for the tests beside it, in .flinkwatch/kubernetes (270 MB).
# Needs Go and a module proxy (GONOSUMDB='*' if that has no checksum database); takes ten minutes on two cores.
set -eu
minor=32.4 etcd=v3.5.17
cd "$(dirname "$0")/../../.."
mkdir -p .flinkwatch/kubernetes
cd .flinkwatch/kubernetes
export GOFLAGS=-mod=mod CGO_ENABLED=0
rm -f go.mod go.sum
go mod init flinkwatch/kubernetes
# The module replaces its parts by folders of its repository, which a proxy does not have: each is published as v0.
go mod download "k8s.io/kubernetes@v1.$minor"
source=$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/v1.$minor.mod
for part in $(sed -n 's|.*\(k8s.io/[a-z-]*\) => ./staging.*|\1|p' "$source"); do
    go mod edit -replace="$part=$part@v0.$minor"
done
go mod edit -require="k8s.io/kubernetes@v1.$minor" -require="go.etcd.io/etcd/server/v3@$etcd"
version=k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=v1.$minor -X $version.gitMajor=1 -X $version.gitMinor=${minor%.*}"
for program in kube-apiserver kube-controller-manager kube-scheduler; do
    go build -trimpath -ldflags="$flags" -o "$program" "k8s.io/kubernetes/cmd/$program"
done
go build -trimpath -ldflags="-s -w" -o etcd go.etcd.io/etcd/server/v3
echo "built in $PWD: the tests find them there"
