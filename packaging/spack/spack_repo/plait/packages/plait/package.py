"""Spack's recipe for Plait, for Spack 1.0 and newer.

docs/install.md says how to use it, and which parts of it were tried.
"""

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *


class Plait(CMakePackage, CudaPackage, ROCmPackage):
    """A portable collective library for the GPUs of a node, and for CPU processes."""

    license("Apache-2.0")

    # There is no address: `spack dev-build` or `spack develop` builds it from a checkout.
    version("0.1.0")

    variant("tests", default=False,
            description="Build the tests, and run them with `spack install --test=root`")
    variant("tools", default=True, description="Build plait-bench and plait-info")
    variant("fortran", default=True, description="Install the Fortran module")

    depends_on("cxx", type="build")
    depends_on("c", type="build", when="+tests")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi")
    depends_on("fmt@9:", type="build")  # only its headers, so nothing of it is needed at run time
    depends_on("cli11@2:", type="build", when="+tools")
    depends_on("nlohmann-json@3.10:", type="build", when="+tools")
    depends_on("pkgconfig", type=("build", "test"), when="+tests")
    depends_on("nlohmann-json@3.10:", type=("build", "test"), when="+tests")
    depends_on("googletest@1.12: +gmock", type=("build", "test"), when="+tests")
    depends_on("cuda@12.5:", when="+cuda")
    depends_on("hip@6:", when="+rocm")

    conflicts("+rocm", when="+cuda", msg="A library has one of CUDA and HIP.")
    conflicts("cuda_arch=none", when="+cuda", msg="Say which GPUs: cuda_arch=80, 90, ...")
    conflicts("amdgpu_target=none", when="+rocm",
              msg="Say which GPUs: amdgpu_target=gfx90a, gfx942, ...")
    conflicts("~tools", when="+tests +rocm", msg="A test runs plait-info.")
    # Older compilers lack parts of C++20, such as concepts.
    conflicts("%gcc@:11")
    conflicts("%clang@:15")

    def cmake_args(self):
        args = [
            self.define_from_variant("PLAIT_CUDA", "cuda"),
            self.define_from_variant("PLAIT_HIP", "rocm"),
            self.define_from_variant("PLAIT_TESTS", "tests"),
            self.define_from_variant("PLAIT_BENCH", "tools"),
            self.define_from_variant("PLAIT_FORTRAN", "fortran"),
            self.define("PLAIT_EXAMPLES", False),
        ]
        if self.spec.satisfies("+cuda"):
            architectures = self.spec.variants["cuda_arch"].value
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", architectures))
        if self.spec.satisfies("+rocm"):
            architectures = self.spec.variants["amdgpu_target"].value
            compiler = join_path(self.spec["llvm-amdgpu"].prefix.bin, "clang++")
            args.append(self.define("CMAKE_HIP_ARCHITECTURES", architectures))
            args.append(self.define("PLAIT_ROCM_ROOT", self.spec["hip"].prefix))
            args.append(self.define("CMAKE_HIP_COMPILER", compiler))
        return args
