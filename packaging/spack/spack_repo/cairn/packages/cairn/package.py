from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *


class Cairn(CMakePackage, CudaPackage, ROCmPackage):
    """Checkpoints of MPI + Kokkos programs: saved on any number of ranks, restored on any other,
    in TensorFlow's file format or in HDF5."""

    # A maintainer adds a maintainers() line with account names, and a git attribute with the address
    # of the public repository. Until then `spack dev-build` takes the sources of a clone.
    version("main", branch="main")

    license("Apache-2.0")

    test_requires_compiler = True

    variant("mpi", default=True, description="Ranks of an MPI communicator")
    variant("hdf5", default=True, description="Parallel HDF5 as a second format")
    variant("kokkos", default=True, description="Kokkos Views as slices")
    variant("openmp", default=False, when="+kokkos", description="Insist on a Kokkos with OpenMP")
    variant("s3", default=False, description="Checkpoints in buckets of object stores")
    variant("fortran", default=True, description="The Fortran modules")
    variant("python", default=False, description="The Python package")
    variant("shared", default=True, description="Shared libraries")
    variant("png", default=True, description="Pictures of the tool as PNG files")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type=("build", "test"))

    depends_on("isa-l")
    depends_on("snappy")
    depends_on("protobuf@3.12:")
    depends_on("cli11@2:", type="build")
    depends_on("nlohmann-json@3:", type="build")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("c-blosc")
    depends_on("libpng", when="+png")
    depends_on("curl@7.85:", when="+s3")
    depends_on("openssl@1.1.1:", when="+s3")
    depends_on("pugixml", when="+s3")
    depends_on("mpi@3.1:", when="+mpi")
    depends_on("hdf5@1.10: +mpi", when="+hdf5")
    depends_on("kokkos@3.4:", when="+kokkos")
    depends_on("kokkos +openmp", when="+openmp")

    # Kokkos compiles for a device; Cairn's headers are compiled with the program that uses them.
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"kokkos +cuda cuda_arch={arch}", when=f"+kokkos +cuda cuda_arch={arch}")
    for target in ROCmPackage.amdgpu_targets:
        depends_on(f"kokkos +rocm amdgpu_target={target}", when=f"+kokkos +rocm amdgpu_target={target}")

    conflicts("+hdf5", when="~mpi", msg="HDF5 files are written with parallel HDF5")
    conflicts("+cuda", when="~kokkos", msg="CUDA is used through Kokkos")
    conflicts("+rocm", when="~kokkos", msg="ROCm is used through Kokkos")
    conflicts("+cuda", when="+rocm", msg="Kokkos compiles for one kind of device")
    conflicts("+cuda", when="cuda_arch=none", msg="Kokkos needs one cuda_arch")
    conflicts("%gcc@:11", when="+fortran", msg="The Fortran modules need gfortran 12")

    extends("python", when="+python")
    depends_on("python@3.10:", type=("build", "run"), when="+python")
    depends_on("py-pybind11@2.10:", type="build", when="+python")
    depends_on("py-numpy", type=("build", "run"), when="+python")
    depends_on("py-mpi4py", type="run", when="+python+mpi")

    def kokkos_backend(self):
        """The backend that CMake insists on; empty: any."""
        for variant_name, backend in (("cuda", "CUDA"), ("rocm", "HIP"), ("openmp", "OPENMP")):
            if self.spec.satisfies(f"+{variant_name}"):
                return backend
        return ""

    def cmake_args(self):
        args = [
            self.define_from_variant("CAIRN_MPI", "mpi"),
            self.define_from_variant("CAIRN_HDF5", "hdf5"),
            self.define_from_variant("CAIRN_KOKKOS", "kokkos"),
            self.define_from_variant("CAIRN_S3", "s3"),
            self.define_from_variant("CAIRN_FORTRAN", "fortran"),
            self.define_from_variant("CAIRN_PYTHON", "python"),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define("CAIRN_KOKKOS_BACKEND", self.kokkos_backend()),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_PNG", self.spec.satisfies("~png")),
            self.define("CAIRN_EXAMPLES", False),
            self.define("CAIRN_TESTS", False),
        ]
        if self.spec.satisfies("+python"):
            args.append(self.define("CAIRN_PYTHON_DESTINATION", join_path(python_platlib, "cairn")))
        return args

    # What `spack test run cairn` does.

    outside_project = join_path("tests", "install", "project")
    # Containers run tests as root, on fewer cores than ranks: scripts/mpi-env.sh has the same.
    for_mpirun = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_mapby": ":oversubscribe",
    }

    @run_after("install")
    def keep_outside_project(self):
        """keeps the sources of test_outside_project beside the installation"""
        cache_extra_test_sources(self, self.outside_project)

    def test_selftest(self):
        """saves, damages, falls back and restores"""
        which(self.prefix.bin.cairn, required=True)("selftest")

    def test_outside_project(self):
        """builds programs with find_package(Cairn), and runs them"""
        source = join_path(self.test_suite.current_test_cache_dir, self.outside_project)
        linked = [one.prefix for one in self.spec.traverse(deptype="link")]
        with_mpi = self.spec.satisfies("+mpi")
        cmake = which(self.spec["cmake"].prefix.bin.cmake, required=True)
        with working_dir("outside", create=True):
            cmake(
                source,
                self.define("CMAKE_PREFIX_PATH", linked),
                self.define("COMPONENTS", "mpi" if with_mpi else ""),
            )
            cmake("--build", ".")
            told = which("./core", required=True)("checkpoints", output=str.split, error=str.split)
            check_outputs("core works", told)
            if with_mpi:
                mpirun = which(self.spec["mpi"].prefix.bin.mpirun, required=True)
                told = mpirun(
                    "-n", "2", "./mpi", output=str.split, error=str.split, extra_env=self.for_mpirun
                )
                check_outputs("mpi works", told)

    def test_python(self):
        """imports the Python package"""
        if not self.spec.satisfies("+python"):
            raise SkipTest("it was built with ~python")
        python = which(self.spec["python"].command.path, required=True)
        python("-c", "import cairn; print(cairn.__version__)")
