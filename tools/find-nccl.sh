#!/usr/bin/env bash
# Prints the path of libnccl.so.2 inside a Python installation (PyTorch brings one), or nothing. For PLAIT_NCCL_LIB.
set -u
python=$(command -v python3) || exit 0
folders=$("$python" - 2>/dev/null <<'EOF'
import site, sys
print("\n".join(dict.fromkeys(site.getsitepackages() + [site.getusersitepackages()] + [p for p in sys.path if p.endswith("-packages")])))
EOF
)
while read -r folder; do
  if [ -f "$folder/nvidia/nccl/lib/libnccl.so.2" ]; then
    echo "$folder/nvidia/nccl/lib/libnccl.so.2"
    exit
  fi
done <<<"$folders"
