#!/bin/bash
# share_gpu.sh OUT [OPTION...]: what two training jobs have of one GPU, by each way to share it; share.json, frontier.svg
# and a table in the folder OUT. Options are those of share_gpu.py: without one the GPU of this machine is measured, which
# takes about ten minutes and PyTorch with torchvision (TORCH_PYTHON names the Python that has them); --emulated asks the emulated GPU, and
# --rehearse runs all processes as on a GPU but for the GPU. SHAREBENCH is a sharebench that is built already.
set -euo pipefail
out=${1:?usage: share_gpu.sh OUT [--emulated | --rehearse] [--seconds N] [--gaps 0,20,60]}
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/../.."
if [ -z "${SHAREBENCH:-}" ]; then
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	SHAREBENCH=$folder/sharebench
	go build -o "$SHAREBENCH" ./tests/bench/sharebench
fi
"${TORCH_PYTHON:-python3}" tests/bench/share_gpu.py --out "$out" --sharebench "$(realpath "$SHAREBENCH")" "$@"
