#!/usr/bin/env python3
"""spack_test.py SOURCES CMAKE: runs the Spack recipe with stand-ins for Spack's directives.

For every set of variants, our CMake files must know each option that the recipe passes, and each
package that they look for must be among its dependencies. CMake must configure with the options
for CPU ranks.
"""

import itertools
import pathlib
import re
import subprocess
import sys
import tempfile
import types

sources, cmake = pathlib.Path(sys.argv[1]), sys.argv[2]
variants, dependencies = {}, []


def variant(name, default, description):
    variants[name] = default


def depends_on(spec, type=("build", "link"), when=""):
    dependencies.append((re.split(r"[@ +]", spec)[0], when))


class Spec:
    """Stands in for `self.spec`."""

    def __init__(self, chosen):
        self.chosen = chosen
        values = {"cuda_arch": ("80", "90"), "amdgpu_target": ("gfx90a", "gfx942")}
        self.variants = {name: types.SimpleNamespace(value=value) for name, value in values.items()}

    def satisfies(self, condition):
        return all(
            self.chosen[name] == (sign == "+")
            for sign, name in re.findall(r"([+~])(\w+)", condition)
        )

    def __getitem__(self, package):
        prefix = pathlib.PurePosixPath("/opt") / package
        return types.SimpleNamespace(
            prefix=types.SimpleNamespace(bin=prefix / "bin", __str__=lambda: str(prefix))
        )


class Package:
    def __init__(self, chosen):
        self.spec = Spec(chosen)

    @staticmethod
    def define(name, value):
        if isinstance(value, bool):
            return f"-D{name}:BOOL={'ON' if value else 'OFF'}"
        return f"-D{name}:STRING={';'.join(value) if isinstance(value, tuple) else value}"

    def define_from_variant(self, name, of):
        return self.define(name, self.spec.chosen[of])


def nothing(*_, **__):
    pass


directives = {
    "variant": variant,
    "depends_on": depends_on,
    "version": nothing,
    "license": nothing,
    "conflicts": nothing,
    "join_path": lambda *parts: "/".join(map(str, parts)),
}
stand_ins = {
    "spack.package": directives,
    "spack_repo.builtin.build_systems.cmake": {"CMakePackage": Package},
    "spack_repo.builtin.build_systems.cuda": {"CudaPackage": type("CudaPackage", (), {})},
    "spack_repo.builtin.build_systems.rocm": {"ROCmPackage": type("ROCmPackage", (), {})},
}
for name, content in stand_ins.items():
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(parts[end - 1]))
        module.__path__ = []
    vars(module).update(content)

recipe = {"__name__": "recipe"}
exec(
    (sources / "packaging/spack/spack_repo/plait/packages/plait/package.py").read_text(
        encoding="utf-8"
    ),
    recipe,
)

with_gpus = sorted(variants | {"cuda": False, "rocm": False})
sets = [
    dict(zip(with_gpus, values))
    for values in itertools.product((False, True), repeat=len(with_gpus))
]
sets = [chosen for chosen in sets if not (chosen["cuda"] and chosen["rocm"])]

files = [
    sources / "CMakeLists.txt",
    *sources.glob("cmake/*.cmake"),
    *sources.glob("bench/CMakeLists.txt"),
    sources / "tests/CMakeLists.txt",
    *sources.glob("tests/*/CMakeLists.txt"),
]
text = "\n".join(file.read_text(encoding="utf-8") for file in files)
for chosen in sets:
    for argument in recipe["Plait"](chosen).cmake_args():
        option = re.match(r"-D(\w+):", argument).group(1)
        if option.startswith("PLAIT_") and option not in text:
            sys.exit(f"the recipe passes {argument}, which no CMake file knows (variants {chosen})")

# The package that has each thing that CMake looks for, and the variants that make CMake look.
sought = {
    "MPI": ("mpi", {}),
    "fmt": ("fmt", {}),
    "CUDAToolkit": ("cuda", {"cuda": True}),
    "CLI11": ("cli11", {"tools": True}),
    "nlohmann_json": ("nlohmann-json", {"tools": True}),
    "GTest": ("googletest", {"tests": True}),
}
without_package = {"Threads", "Doxygen", "Kokkos", "Python3"}  # the system's, or done without
for name in set(re.findall(r"^\s*find_package\((\w+)", text, re.M)) - without_package:
    if name not in sought:
        sys.exit(f"CMake looks for {name}: name its package here, and in the recipe")
    package, needed = sought[name]
    for chosen in sets:
        if all(chosen[key] == value for key, value in needed.items()) and not any(
            one == package and Spec(chosen).satisfies(when) for one, when in dependencies
        ):
            sys.exit(
                f"the recipe does not depend on {package}, which CMake looks for with {chosen}"
            )

chosen = variants | {"cuda": False, "rocm": False}
with tempfile.TemporaryDirectory() as build:
    command = [cmake, "-S", sources, "-B", build, *recipe["Plait"](chosen).cmake_args()]
    run = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if run.returncode != 0 or "not used by the project" in run.stdout:
        sys.exit(f"CMake, with what the recipe passes:\n{run.stdout}")
print(f"{len(sets)} sets of variants")
