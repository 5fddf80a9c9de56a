#!/usr/bin/env python3
"""nvshmem_example.py PAGE: prints the example of coming-from-nvshmem.md as a program of Plait's."""
import re
import sys

with open(sys.argv[1], encoding="utf-8") as page:
    blocks = re.findall(r"^```cpp\n(.*?)^```$", page.read(), re.S | re.M)
kernel, begin, launch = re.split(r"^(?=plait::(?:Comm|launch))", blocks[1], flags=re.M)
print(f"""#include <plait/kernel.hpp>\n#include <plait/plait.hpp>\n#include <vector>\n{kernel}
int main() {{\nconst std::size_t n = 1000;\nconst plait::StreamRef stream;
{begin}const int ranks = comm.size(), next = (comm.rank() + 1) % ranks;
const int previous = (comm.rank() + ranks - 1) % ranks;
std::vector<double> values(n, comm.rank());
comm.copy(from.data(), values.data(), n * sizeof(double));
{launch}comm.copy(values.data(), to.data(), n * sizeof(double));
{blocks[2]}comm.synchronize();\nreturn values != std::vector<double>(n, previous);\n}}""")
