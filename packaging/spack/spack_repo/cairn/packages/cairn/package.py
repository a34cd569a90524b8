from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Cairn(CMakePackage):
    """Checkpoints of MPI + Kokkos programs: saved on any number of ranks, restored on any other,
    in TensorFlow's file format or in HDF5."""

    version("main", branch="main")

    license("Apache-2.0")

    variant("mpi", default=True, description="Ranks of an MPI communicator")
    variant("hdf5", default=True, description="Parallel HDF5 as a second format")
    variant("kokkos", default=True, description="Kokkos Views as slices")
    variant("fortran", default=True, description="The Fortran modules")
    variant("python", default=False, description="The Python package")
    variant("shared", default=True, description="Shared libraries")
    variant("png", default=True, description="Pictures of the tool as PNG files")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")

    depends_on("isa-l")
    depends_on("snappy")
    depends_on("protobuf@3.12:")
    depends_on("cli11@2:", type="build")
    depends_on("nlohmann-json@3:", type="build")
    depends_on("libpng", when="+png")
    depends_on("mpi@3.1:", when="+mpi")
    depends_on("hdf5@1.10: +mpi", when="+hdf5")
    depends_on("kokkos@3.4:", when="+kokkos")

    conflicts("~mpi", when="+hdf5", msg="HDF5 files are written with parallel HDF5")

    extends("python", when="+python")
    depends_on("python@3.10:", type=("build", "run"), when="+python")
    depends_on("py-pybind11@2.10:", type="build", when="+python")
    depends_on("py-numpy", type=("build", "run"), when="+python")
    depends_on("py-mpi4py", type="run", when="+python+mpi")

    def cmake_args(self):
        args = [
            self.define_from_variant("CAIRN_MPI", "mpi"),
            self.define_from_variant("CAIRN_HDF5", "hdf5"),
            self.define_from_variant("CAIRN_KOKKOS", "kokkos"),
            self.define_from_variant("CAIRN_FORTRAN", "fortran"),
            self.define_from_variant("CAIRN_PYTHON", "python"),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_PNG", self.spec.satisfies("~png")),
            self.define("CAIRN_EXAMPLES", False),
            self.define("CAIRN_TESTS", False),
        ]
        if self.spec.satisfies("+python"):
            args.append(self.define("CAIRN_PYTHON_DESTINATION", join_path(python_platlib, "cairn")))
        return args

    def test_selftest(self):
        """saves, damages, falls back and restores"""
        which(self.prefix.bin.cairn)("selftest")
