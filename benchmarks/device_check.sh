#!/usr/bin/env bash
# One run on a CUDA machine, five minutes at most; --dry-run anywhere. PYTHON names an interpreter that has torch.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-}"
if [ -z "$python" ]; then
  python=python3
  [ -x .venv/bin/python ] && python=.venv/bin/python
fi
exec timeout --signal=INT --kill-after=10 300 "$python" benchmarks/device_check.py "$@"
