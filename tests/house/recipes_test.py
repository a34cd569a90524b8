#!/usr/bin/env python3
"""The recipes in packaging/ name options, packages, files and versions that this tree has. Builds nothing.

What needs PyYAML, rattler-build, EasyBuild or an MPI compiler is left out where that is not installed, and says so."""
import ast
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
SPACK = PACKAGING / "spack/spack_repo/cairn"
CONTAINERFILE, APPTAINER = PACKAGING / "container/Containerfile", PACKAGING / "container/cairn.def"
E4S = PACKAGING / "e4s"
OPTION_MADE = re.compile(r"^\s*(?:option\((CAIRN_\w+)|set\((CAIRN_\w+)[^()]*\bCACHE\b)", re.MULTILINE)
OPTION_USED = re.compile(r"-D(CAIRN_\w+)")
PACKAGE_ASKED = re.compile(r"^\s*(?:find_package|cairn_need)\((\w+)", re.MULTILINE)
# Packages as CMake asks for them, with their names for Spack, conda-forge and EasyBuild. None: it has it anyway,
# or its recipe goes without.
NAMES = {
    "Threads": (None, None, None),
    "MPI": ("mpi", "openmpi", None),
    "Python3": ("python", "python", None),
    "pybind11": ("py-pybind11", "pybind11", None),
    "Snappy": ("snappy", "snappy", "snappy"),
    "Protobuf": ("protobuf", "libprotobuf", "protobuf"),
    "CairnIsal": ("isa-l", "isa-l", "ISA-L"),
    "nlohmann_json": ("nlohmann-json", "nlohmann_json", "nlohmann_json"),
    "CLI11": ("cli11", "cli11", "CLI11"),
    "GTest": (None, None, None),
    "benchmark": (None, None, None),
    "PNG": ("libpng", "libpng", "libpng"),
    "CairnKokkos": ("kokkos", "kokkos", "Kokkos"),
    "HDF5": ("hdf5", "hdf5", "HDF5"),
    "CairnCodecs": ("zlib-api zstd c-blosc", "zlib zstd blosc", "zlib zstd Blosc"),
    "CURL": ("curl", "libcurl", None),
    "OpenSSL": ("openssl", "openssl", None),
    "pugixml": ("pugixml", "pugixml", None),
}
INHERITED = {"cuda", "rocm"}  # variants of CudaPackage and ROCmPackage


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def found_in(pattern, path):
    found = re.search(pattern, text_of(path))
    assert found, f"{path} has no {pattern}"
    return found[1]


def cmake_lists():
    yield ROOT / "CMakeLists.txt"
    yield from sorted((ROOT / "cmake").glob("*.cmake"))
    yield from sorted(path for path in ROOT.glob("*/CMakeLists.txt") if path.parent.name != "tests")


def options():
    return {name for path in cmake_lists() for pair in OPTION_MADE.findall(text_of(path)) for name in pair if name}


def packages(column, without=()):
    """What the library, the tool and the Python module are built with, under the names of a packager."""
    asked = set()
    for path in ("cmake/CairnDependencies.cmake", "cmake/CairnFeatures.cmake", "python/CMakeLists.txt"):
        asked |= set(PACKAGE_ASKED.findall(text_of(path)))
    unknown = asked - NAMES.keys()
    assert not unknown, f"CMake asks for {unknown}, which the recipes do not know: add them and NAMES"
    return {one for name in asked for one in (NAMES[name][column] or "").split()} - set(without)


def version():
    return found_in(r"project\(Cairn VERSION ([0-9.]+)", "CMakeLists.txt")


def oldest_cmake():
    return found_in(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", "CMakeLists.txt")


def yaml_of(path):
    import yaml
    return yaml.safe_load(text_of(path))


def build_packages():
    return {name for kind in ("build", "bucket")
            for name in found_in(rf"(?s)\n{kind}_packages=\(([^)]*)\)", "scripts/lib.sh").split()}


class Recipe(unittest.TestCase):
    def needs_module(self, module):
        """Skips the test where the program that takes a recipe is not installed."""
        try:
            importlib.import_module(module)
        except ImportError:
            print(f"SKIPPED: this Python has no {module}, so nobody looks whether it takes its recipe", file=sys.stderr)
            self.skipTest(f"no {module}")

    def options_exist(self, names):
        self.assertTrue(names)
        self.assertEqual(set(names) - options(), set(), "no CMake file makes these options")


class All(Recipe):
    def test_no_addresses_of_machines_or_people(self):
        for path in sorted(PACKAGING.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                self.assertNotRegex(path.read_text(encoding="utf-8"), r"[a-z]+://|[\w.]+@[\w-]+\.[a-z]{2,}", str(path))

    def test_each_option_is_found(self):
        for name in ("CAIRN_MPI", "CAIRN_KOKKOS_BACKEND", "CAIRN_PYTHON_DESTINATION", "CAIRN_SANITIZE_FLAGS"):
            self.assertIn(name, options())
        self.assertNotIn("CAIRN_WITH_HDF5", options())


class Spack(Recipe):
    def setUp(self):
        self.tree = ast.parse(text_of(SPACK / "packages/cairn/package.py"))
        self.package = next(one for one in self.tree.body if isinstance(one, ast.ClassDef))
        self.variants = {call.args[0].value for call in self.calls("variant")} | INHERITED

    def calls(self, name):
        for node in ast.walk(self.package):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None)) == name:
                yield node

    def words(self, node):
        """The text of a string, with {} for what an f-string fills in."""
        if isinstance(node, ast.JoinedStr):
            return "".join("{}" if isinstance(part, ast.FormattedValue) else part.value for part in node.values)
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""

    def keyword(self, call, name):
        return next((self.words(one.value) for one in call.keywords if one.arg == name), "")

    def needs(self, name):
        """What depends_on says of a package, each with its condition."""
        return {(self.words(call.args[0]), self.keyword(call, "when")) for call in self.calls("depends_on")
                if re.split(r"[@+~ ]", self.words(call.args[0]))[0] == name}

    def test_repository(self):
        lines = text_of(SPACK / "repo.yaml").split()
        self.assertEqual(lines, ["repo:", "namespace:", SPACK.name, "api:", "v2.0"])
        self.assertEqual(SPACK.parent.name, "spack_repo")

    def test_base_classes_are_imported(self):
        imported = {name.name for node in self.tree.body if isinstance(node, ast.ImportFrom) for name in node.names}
        self.assertEqual([base.id for base in self.package.bases], ["CMakePackage", "CudaPackage", "ROCmPackage"])
        self.assertLessEqual({base.id for base in self.package.bases}, imported)

    def test_variants(self):
        self.assertLessEqual({"mpi", "hdf5", "kokkos", "python", "openmp", "cuda", "rocm"}, self.variants)
        named = {call.args[1].value for call in self.calls("define_from_variant")}
        for name in ("depends_on", "conflicts", "extends", "variant", "satisfies"):
            for call in self.calls(name):
                of_cairn = self.keyword(call, "when")
                if name in ("conflicts", "satisfies"):
                    of_cairn += self.words(call.args[0])
                named |= set(re.findall(r"[+~](\w+)", of_cairn.replace("{}", " ")))
        self.assertEqual(named - self.variants, set(), "no variant() declares these")

    def test_options(self):
        named = [call.args[0].value for name in ("define", "define_from_variant") for call in self.calls(name)]
        self.options_exist([name for name in named if name.startswith("CAIRN_")])
        from_variant = {call.args[0].value: call.args[1].value for call in self.calls("define_from_variant")}
        for option, variant in from_variant.items():
            if option.startswith("CAIRN_"):
                self.assertEqual(option, "CAIRN_" + variant.upper())

    def test_backends_are_those_of_the_presets(self):
        function = next(one for one in self.package.body if getattr(one, "name", "") == "kokkos_backend")
        pairs = [tuple(part.value for part in node.elts) for node in ast.walk(function)
                 if isinstance(node, ast.Tuple) and all(isinstance(part, ast.Constant) for part in node.elts)]
        presets = {one.get("cacheVariables", {}).get("CAIRN_KOKKOS_BACKEND")
                   for one in json.loads(text_of("CMakePresets.json"))["configurePresets"]}
        self.assertEqual({backend for _, backend in pairs}, presets - {None})
        self.assertLessEqual({variant for variant, _ in pairs}, self.variants)

    def test_dependencies_are_those_of_cmake(self):
        named = {re.split(r"[@+~ ]", self.words(call.args[0]))[0] for call in self.calls("depends_on")}
        tools = {"c", "cxx", "fortran", "cmake"}
        self.assertEqual(named - tools - {"py-numpy", "py-mpi4py"}, packages(0))
        self.assertLessEqual(tools, named)

    def test_oldest_versions_are_those_of_cmake(self):
        python = found_in(r'requires-python = ">=([0-9.]+)"', "pyproject.toml")
        pybind11 = found_in(r"find_package\(pybind11 ([0-9.]+)", "python/CMakeLists.txt")
        gfortran = int(found_in(r"Fortran_COMPILER_VERSION VERSION_LESS (\d+)\)", "cmake/CairnFeatures.cmake"))
        self.assertIn((f"cmake@{oldest_cmake()}:", ""), self.needs("cmake"))
        self.assertIn((f"python@{python}:", "+python"), self.needs("python"))
        self.assertIn((f"py-pybind11@{pybind11}:", "+python"), self.needs("py-pybind11"))
        self.assertIn((f"%gcc@:{gfortran - 1}", "+fortran"), self.conflicts())

    def conflicts(self):
        return {(self.words(call.args[0]), self.keyword(call, "when")) for call in self.calls("conflicts")}

    def test_devices_are_passed_to_kokkos(self):
        for spec in ("+cuda cuda_arch={}", "+rocm amdgpu_target={}"):
            self.assertIn((f"kokkos {spec}", f"+kokkos {spec}"), self.needs("kokkos"))
        loops = {ast.unparse(node.iter) for node in self.package.body if isinstance(node, ast.For)}
        self.assertEqual(loops, {"CudaPackage.cuda_arch_values", "ROCmPackage.amdgpu_targets"})
        self.assertIn(("kokkos +openmp", "+openmp"), self.needs("kokkos"))

    def test_what_cannot_be(self):
        for pair in (("+hdf5", "~mpi"), ("+cuda", "~kokkos"), ("+rocm", "~kokkos"), ("+cuda", "+rocm")):
            self.assertIn(pair, self.conflicts())

    def test_spack_test_run(self):
        functions = {one.name: one for one in self.package.body if isinstance(one, ast.FunctionDef)}
        tests = {name for name in functions if name.startswith("test_")}
        self.assertEqual(tests, {"test_selftest", "test_outside_project", "test_python"})
        for name in tests:
            self.assertTrue(ast.get_docstring(functions[name]), f"Spack wants a docstring in {name}")
        place = next(one.value for one in self.package.body if ast.unparse(one).startswith("outside_project ="))
        project = ROOT.joinpath(*(part.value for part in place.args))
        self.assertTrue((project / "CMakeLists.txt").is_file(), project)
        sources = "".join(path.read_text(encoding="utf-8") for path in sorted(project.iterdir()))
        expected = [call.args[0].value for call in self.calls("check_outputs")]
        self.assertEqual(len(expected), 2)
        for words in expected:
            self.assertIn(f'"{words}"', sources)
        self.assertIn('set(COMPONENTS ', sources)

    def test_mpirun_has_the_settings_of_the_scripts(self):
        told = next(one.value for one in self.package.body if ast.unparse(one).startswith("for_mpirun ="))
        exported = " ".join(re.findall(r"(?m)^export (.*)", text_of("scripts/mpi-env.sh"))).split()
        self.assertEqual(ast.literal_eval(told), dict(one.split("=", 1) for one in exported))


class Conda(Recipe):
    path = PACKAGING / "conda/recipe.yaml"

    def test_rattler_build_takes_it(self):
        self.needs_module("rattler_build")
        import rattler_build
        variants = rattler_build.VariantConfig.from_file(str(self.path.with_name("variants.yaml")))
        recipe = rattler_build.Stage0Recipe.from_file(str(self.path))
        made = recipe.render(variants, rattler_build.RenderConfig())
        self.assertEqual(len(made), 1)

    def test_options(self):
        self.options_exist(OPTION_USED.findall(text_of(self.path)))

    def test_contents(self):
        self.needs_module("yaml")
        recipe = yaml_of(self.path)
        self.assertEqual(set(recipe), {"schema_version", "context", "package", "source", "build", "requirements",
                                       "tests", "about"})
        self.assertEqual(recipe["context"]["version"], version())
        self.assertEqual(recipe["package"]["name"], found_in(r'\nname = "([\w-]+)"', "pyproject.toml"))
        self.assertEqual((self.path.parent / recipe["source"][0]["path"]).resolve(), ROOT)
        self.assertTrue((ROOT / recipe["about"]["license_file"]).is_file())
        needs = {stage: {one.split()[0]: one for one in names if not one.startswith("$")}
                 for stage, names in recipe["requirements"].items()}
        self.assertEqual(set(needs["host"]) - {"numpy"}, packages(1))
        self.assertIn(f"cmake >={oldest_cmake()}", recipe["requirements"]["build"])
        self.assertIn("mpi_openmpi", needs["host"]["hdf5"])
        for test in recipe["tests"]:
            for name in test.get("files", {}).get("source", ()):
                self.assertTrue((ROOT / name).exists(), name)
        scripts = "\n".join(line for test in recipe["tests"] for line in test.get("script", ()))
        self.assertIn("cairn selftest", scripts)
        for folder in re.findall(r"-S (\S+)", scripts):
            self.assertTrue((ROOT / folder / "CMakeLists.txt").is_file(), folder)


class EasyBuild(Recipe):
    def setUp(self):
        (self.path,) = (PACKAGING / "easybuild").glob("*.eb")
        names = {"SOURCELOWER_TAR_GZ": "%(namelower)s-%(version)s.tar.gz", "SHLIB_EXT": "so", "__builtins__": {}}
        exec(compile(text_of(self.path), str(self.path), "exec"), names)
        self.config = names

    def test_its_name(self):
        chain = self.config["toolchain"]
        self.assertEqual(self.path.name, f"{self.config['name']}-{version()}-{chain['name']}-{chain['version']}.eb")
        self.assertEqual(self.config["version"], version())

    def test_options(self):
        self.options_exist(OPTION_USED.findall(self.config["configopts"]))

    def test_dependencies_are_those_of_cmake(self):
        named = {one[0] for key in ("dependencies", "builddependencies") for one in self.config[key]}
        self.assertEqual(named - {"CMake", "Ninja"}, packages(2))
        cmake = dict(self.config["builddependencies"])["CMake"]
        self.assertGreaterEqual([int(part) for part in cmake.split(".")], [int(part) for part in oldest_cmake().split(".")])

    def test_what_is_looked_for_is_installed(self):
        made = {name for path in ("src/CMakeLists.txt", "mpi/CMakeLists.txt", "fortran/CMakeLists.txt")
                for name in re.findall(r"(?:add|cairn_fortran)_library\((cairn\w*)", text_of(path))}
        for name in self.config["sanity_check_paths"]["files"]:
            folder, base = name.split("/", 1)
            if folder == "include":
                self.assertTrue((ROOT / name).is_file(), name)
            elif folder == "lib":
                self.assertIn(base.removeprefix("lib").removesuffix(".so"), made)
            else:
                self.assertIn(base, ("cairn", "cairn-job"))

    def test_easybuild_takes_it(self):
        self.needs_module("easybuild.framework")
        from easybuild.framework.easyconfig.parser import EasyConfigParser
        from easybuild.tools.options import set_up_configuration
        # It parses, and installs nothing: so root may.
        set_up_configuration(args=["--allow-use-as-root-and-accept-consequences"], silent=True)
        config = EasyConfigParser(str(self.path)).get_config_dict()
        self.assertEqual((config["name"], config["version"]), ("Cairn", version()))
        self.assertEqual(config["sources"], ["%(namelower)s-%(version)s.tar.gz"])


class E4s(Recipe):
    test = E4S / "validation_tests/cairn"

    def test_environment(self):
        self.needs_module("yaml")
        environment = yaml_of(E4S / "spack.yaml")["spack"]
        self.assertEqual((E4S / environment["repos"]["cairn"]).resolve(), SPACK)
        recipe = text_of(SPACK / "packages/cairn/package.py")
        variants = set(re.findall(r'variant\("(\w+)"', recipe)) | INHERITED
        told = environment["specs"] + re.findall(r"# - (cairn .*)", text_of(E4S / "spack.yaml"))
        self.assertEqual(len(told), 4)
        for spec in told:
            self.assertEqual(spec.split()[0], "cairn")
            self.assertLessEqual(set(re.findall(r"[+~](\w+)", spec.partition("^")[0])), variants, spec)

    def test_scripts(self):
        for name in ("setup.sh", "compile.sh", "run.sh", "clean.sh"):
            script = self.test / name
            lines = text_of(script).splitlines()
            self.assertTrue(os.access(script, os.X_OK), f"{name} is not executable")
            self.assertRegex(lines[0], "^#!/bin/bash( -e)?$")
            checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
            self.assertEqual((checked.returncode, checked.stderr), (0, ""))
            if name in ("compile.sh", "run.sh"):
                self.assertEqual(lines[0], "#!/bin/bash -e", f"{name} is to stop at what fails")
                self.assertIn(". ./setup.sh", lines)
        self.assertEqual(text_of(self.test / "setup.sh").splitlines()[1:], [". ../../setup.sh", "spackLoadUnique cairn"])

    def test_program(self):
        cmake = text_of(self.test / "CMakeLists.txt")
        program, source = re.search(r"add_executable\((\w+) (\S+)\)", cmake).groups()
        self.assertTrue((self.test / source).is_file())
        self.assertIn(f"./build/{program} ", text_of(self.test / "run.sh"))
        self.assertIn(f"cmake_minimum_required(VERSION {oldest_cmake()})", cmake)
        self.assertIn(f"find_package(Cairn {version().rpartition('.')[0]} REQUIRED COMPONENTS mpi)", cmake)
        if not shutil.which("mpicxx"):
            print("SKIPPED: no mpicxx, so nobody compiles the program for E4S", file=sys.stderr)
            self.skipTest("no mpicxx")
        compiled = subprocess.run(["mpicxx", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", f"-I{ROOT}/include",
                                   "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", self.test / source],
                                  capture_output=True, text=True)
        self.assertEqual((compiled.returncode, compiled.stderr), (0, ""))


class Container(Recipe):
    def setUp(self):
        joined = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text_of(CONTAINERFILE)))
        self.stages, self.runs = [], []
        for line in joined.splitlines():
            word, _, rest = line.partition(" ")
            if word == "FROM":
                self.stages.append([])
                self.assertRegex(rest, r"^debian:12( AS \w+)?$")
            if line:
                self.assertIn(word, ("FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "CMD"))
                self.stages[-1].append((word, rest))
        self.definition = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text_of(APPTAINER)))

    def of(self, stage, word):
        return [rest for found, rest in self.stages[stage] if found == word]

    def copied(self):
        return {name for rest in self.of(0, "COPY") for name in rest.split()[:-1]}

    def installed(self, text):
        return [set(found.split()) for found in re.findall(r"--no-install-recommends ((?:[\w.+-]+ ?)+)", text)]

    def test_packages(self):
        first, last = self.installed("\n".join(rest for stage in (0, 1) for rest in self.of(stage, "RUN")))
        self.assertEqual(first, build_packages())
        self.assertEqual(self.installed(self.definition), [first, last])
        self.assertFalse({name for name in last if name.endswith("-dev")})

    def test_what_is_copied_is_there(self):
        files = re.search(r"(?s)%files\n(.*?)\n\n", self.definition)[1].split("\n")
        pairs = [line.split() for line in files]
        self.assertEqual({one for one, _ in pairs}, self.copied())
        for name, place in pairs:
            self.assertTrue((ROOT / name).exists(), name)
            self.assertEqual(place, f"/usr/src/cairn/{name}")
        for rest in self.of(0, "COPY"):
            *names, place = rest.split()
            self.assertIn(place, ("./", names[0]))

    def test_all_that_is_built_is_copied(self):
        added = {name.split("/")[0] for name in re.findall(r"add_subdirectory\(([\w/]+)\)", text_of("CMakeLists.txt"))}
        self.assertLessEqual(added - {"python", "lab", "tests"}, self.copied())
        self.assertLessEqual({"cmake", "include", "slurm", "docs", "LICENSE"}, self.copied())

    def test_demo_has_its_parts(self):
        needed = {"demo"} | set(re.findall(r'\. "\$\(dirname "\$0"\)/([\w.]+)"', text_of("scripts/demo")))
        needed |= set(re.findall(r'\. "\$root/scripts/([\w.-]+)"', text_of("scripts/lib.sh")))
        for text in (" ".join(self.of(0, "RUN")), self.definition):
            taken = re.search(r"--target-directory=/opt/cairn/scripts ((?:scripts/[\w.-]+ ?)+)", text)
            self.assertEqual({name.removeprefix("scripts/") for name in taken[1].split()}, needed)

    def test_both_build_alike(self):
        configure = re.findall(r"cmake -G Ninja .*?(?=&&|\n|$)", "\n".join(self.of(0, "RUN")))
        self.assertEqual(len(configure), 1)
        self.assertIn(shlex.split(configure[0]), [shlex.split(line) for line in self.definition.splitlines()
                                                  if "cmake" in line])
        self.options_exist(OPTION_USED.findall(configure[0]))

    def test_it_runs_the_tool_and_the_demo(self):
        self.assertIn("cairn --version && cairn selftest", self.of(1, "RUN"))
        self.assertEqual(self.of(1, "COPY"), ["--from=build /opt/cairn /opt/cairn"])
        (command,) = self.of(1, "CMD")
        program, *arguments = json.loads(command)
        self.assertEqual(program, "/opt/cairn/scripts/demo")
        self.assertIn(f"exec {program} {' '.join(arguments[:3])} ", self.definition)
        for argument in arguments:
            if argument.startswith("--"):
                self.assertIn(f"{argument})", text_of("scripts/demo"))
        sections = re.findall(r"(?m)^%(\w+)", self.definition)
        self.assertEqual(sections, ["files", "post", "files", "post", "environment", "runscript", "test"])
        self.assertEqual(re.findall(r"(?m)^From: (\S+)\nStage: (\w+)$", self.definition),
                         [("debian:12", "build"), ("debian:12", "final")])


if __name__ == "__main__":
    unittest.main()
