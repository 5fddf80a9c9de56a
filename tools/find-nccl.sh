#!/usr/bin/env bash
# find-nccl.sh: prints the path of a libnccl.so.2 inside a Python installation (PyTorch brings one),
# or nothing. It is meant for PLAIT_NCCL_LIB.
set -u
python=$(command -v python3) || exit 0
folders=$("$python" - 2>/dev/null <<'EOF'
import site, sys
folders = site.getsitepackages() + [site.getusersitepackages()]
folders += [path for path in sys.path if path.endswith("-packages")]
print("\n".join(dict.fromkeys(folders)))
EOF
)
while read -r folder; do
  if [ -f "$folder/nvidia/nccl/lib/libnccl.so.2" ]; then
    echo "$folder/nvidia/nccl/lib/libnccl.so.2"
    exit
  fi
done <<<"$folders"
