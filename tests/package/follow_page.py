#!/usr/bin/env python3
"""follow_page.py PAGE BUILD CMAKE GENERATOR CXX: does what a page says, word for word.

A line that is a path in backquotes and a colon names the code block below it: that file is written.
The blocks of `sh` are run, one after the other, in the folder of these files. Before that the
folder BUILD is installed, so `find_package` finds Plait there; the programs are those of BUILD.
Afterwards the plug-in that the page has built goes through BUILD's zoo_test, whose data differ by
rank and element.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
NAMED = re.compile(r"^`([\w./]+)`:\n\n\Z", re.M)


def run(command, folder, environment):
    """Runs a command, shows its output, and returns it."""
    answer = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    print(answer.stdout, flush=True)
    if answer.returncode != 0:
        sys.exit(f"FAILED with {answer.returncode}: {' '.join(map(str, command))}")
    return answer.stdout


def main():
    page, build, cmake, generator, compiler = sys.argv[1:]
    bin_folder = pathlib.Path(build) / "bin"
    text = pathlib.Path(page).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as work:
        folder, prefix = pathlib.Path(work) / "project", pathlib.Path(work) / "plait"
        environment = os.environ | {
            "plait_ROOT": str(prefix), "CXX": compiler, "CMAKE_GENERATOR": generator,
            "PLAIT_BACKEND": "host",
            "PATH": os.pathsep.join([str(bin_folder), str(pathlib.Path(cmake).parent),
                                     os.environ["PATH"]])}
        for component in ("runtime", "development"):
            subprocess.run([cmake, "--install", build, "--prefix", prefix, "--component",
                            component], check=True, stdout=subprocess.DEVNULL)

        files, commands = [], []
        for block in FENCE.finditer(text):
            name = NAMED.search(text, 0, block.start())
            if name:
                files.append(name[1])
                path = folder / name[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block[2], encoding="utf-8")
            elif block[1] == "sh":
                commands.append(block[2])
        print(f"== files: {', '.join(files)}")
        if len(files) < 3 or not commands:
            sys.exit("FAILED: the page has too few files or no commands")

        said = run(["bash", "-euxo", "pipefail", "-c", "\n".join(commands)], folder, environment)
        if not re.search(r"^# checked: .*, 0 wrong$", said, re.M):
            sys.exit("FAILED: the benchmark has not checked any results, or some are wrong")

        plugins = list(folder.glob("build/*.so"))
        environment["PLAIT_PLUGINS"] = os.pathsep.join(map(str, plugins))
        for plugin in plugins:
            said = run([bin_folder / "zoo_test",
                        f"--gtest_filter=*{plugin.stem}*n2:*{plugin.stem}*n3:-*Large*"],
                       folder, environment)
            if not re.search(r"^\[  PASSED  \] [1-9]", said, re.M):
                sys.exit(f"FAILED: zoo_test ran nothing of {plugin.stem}")
        if not plugins:
            sys.exit("FAILED: the page has built no plug-in")


if __name__ == "__main__":
    main()
