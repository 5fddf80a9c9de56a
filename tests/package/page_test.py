#!/usr/bin/env python3
"""page_test.py PAGE FILE: the page must show the file as it is.

Its first comment may lack, and numbers may stand at the ends of lines.
"""

import re
import sys

page_name, file_name = sys.argv[1:]
with open(page_name, encoding="utf-8") as file:
    shown = [
        re.sub(r" +// \d$", "", block, flags=re.M).strip()
        for block in re.findall(r"```cpp\n(.*?)```", file.read(), re.S)
    ]
with open(file_name, encoding="utf-8") as file:
    whole = file.read().strip()
if whole not in shown and re.sub(r"\A(//.*\n)+", "", whole).strip() not in shown:
    sys.exit(f"{page_name} does not show {file_name}, which is\n\n{whole}")
