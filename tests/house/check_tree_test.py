#!/usr/bin/env python3
"""The tree's checker must be able to fail: small trees, each with one fault."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
import check_tree  # noqa: E402

SOUND = {
    "include/cairn/error.hpp": "#pragma once\n#include <string>\n",
    "include/cairn/box.hpp": "#pragma once\n#include <vector>\n",
    "include/cairn/group.hpp": "#pragma once\n#include <span>\n",
    "include/cairn/mpi.hpp": '#pragma once\n#include <mpi.h>\n#include "cairn/group.hpp"\n',
    "include/cairn/kokkos.hpp": '#pragma once\n#include <Kokkos_Core.hpp>\n#include "cairn/box.hpp"\n',
    "src/base/text.hpp": '#pragma once\n#include "cairn/error.hpp"\n',
    "src/model/box.cpp": '#include "cairn/box.hpp"\n#include "base/text.hpp"\n',
    "src/exchange/chunks.hpp": '#pragma once\n#include "cairn/box.hpp"\n',
    "src/io/file_system.hpp": '#pragma once\n#include "base/text.hpp"\n',
    "src/store/commit/names.cpp": '#include "io/file_system.hpp"\n',
    "src/layout/bundle/entry.proto": "",
    "src/layout/bundle/entry.cpp": '#include "layout/bundle/entry.pb.h"\n#include <google/protobuf/message.h>\n',
    "src/session/save.cpp": '#include "store/commit/names.hpp"\n#include "exchange/chunks.hpp"\n',
    "src/store/commit/names.hpp": "#pragma once\n",
    "src/cli/main.cpp": '#include <CLI/CLI.hpp>\n#include "io/file_system.hpp"\n',
    "mpi/mpi_group.cpp": '#include "cairn/mpi.hpp"\n#include "base/text.hpp"\n',
    "kokkos/staging.hpp": '#pragma once\n#include "cairn/kokkos.hpp"\n',
    "examples/first.cpp": '#include "cairn/box.hpp"\n',
    "tests/model/box_test.cpp": '#include "model/anything.hpp"\n',
}


class CheckTree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve() / "tree"


    def faults(self, **changes):
        for name, text in {**SOUND, **changes.pop("files", {})}.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_tree.check_tree(self.root)

    def expect_only(self, fault, files):
        self.assertEqual(self.faults(files=files), [fault])

    def test_a_sound_tree_has_no_faults(self):
        self.assertEqual(self.faults(), [])

    def test_arrows_that_point_up(self):
        for includer, name, arrow in [
                ("src/base/a.cpp", "cairn/box.hpp", "base -> model (includes include/cairn/box.hpp)"),
                ("src/model/a.cpp", "exchange/chunks.hpp", "model -> exchange (includes src/exchange/chunks.hpp)"),
                ("src/io/a.cpp", "cairn/box.hpp", "io -> model (includes include/cairn/box.hpp)"),
                ("src/exchange/a.cpp", "io/file_system.hpp", "exchange -> io (includes src/io/file_system.hpp)"),
                ("src/layout/a.cpp", "io/file_system.hpp", "layout -> io (includes src/io/file_system.hpp)"),
                ("src/group/a.cpp", "cairn/box.hpp", "group -> model (includes include/cairn/box.hpp)"),
                ("src/cli/a.cpp", "cairn/mpi.hpp", "cli -> mpi (includes include/cairn/mpi.hpp)"),
                ("mpi/a.cpp", "exchange/chunks.hpp", "mpi -> exchange (includes src/exchange/chunks.hpp)"),
                ("mpi/a.cpp", "cairn/kokkos.hpp", "mpi -> kokkos (includes include/cairn/kokkos.hpp)"),
                ("kokkos/a.hpp", "base/text.hpp", "kokkos -> base (includes src/base/text.hpp)"),
                ("include/cairn/error.hpp", "cairn/box.hpp",
                 "base -> model (includes include/cairn/box.hpp)")]:
            with self.subTest(arrow=arrow):
                self.setUp()
                self.expect_only(f"{includer}: forbidden arrow {arrow}",
                                 {includer: f'#pragma once\n  #  include "{name}"\n'})

    def test_public_headers_see_installed_and_standard_ones_only(self):
        self.expect_only("include/cairn/box.hpp: a public header includes src/base/text.hpp, which is"
                         " not installed",
                         {"include/cairn/box.hpp": '#pragma once\n#include "base/text.hpp"\n'})
        self.expect_only("include/cairn/box.hpp: <fmt/core.h> is not of the standard library, in a"
                         " public header",
                         {"include/cairn/box.hpp": "#pragma once\n#include <fmt/core.h>\n"})

    def test_the_table_has_no_cycle(self):
        with mock.patch.dict(check_tree.ALLOWED, {"base": {"model"}}):
            self.assertIn("the table of rooms: base -> model points down it, so that a cycle is possible",
                          self.faults())

    def test_other_rooms_see_a_face(self):
        fault = "{}: src/io/hidden.hpp is no part of the face of room io (FACES in tests/house/rooms.py)"
        files = {"src/io/hidden.hpp": "#pragma once\n", "src/io/a.cpp": '#include "io/hidden.hpp"\n'}
        self.assertEqual(self.faults(files=files), [])
        self.expect_only(fault.format("src/store/b.cpp"),
                         {**files, "src/store/b.cpp": '#include "io/hidden.hpp"\n'})

    def test_a_face_is_small_and_names_what_is_there(self):
        headers = {f"src/io/h{i}.hpp": "#pragma once\n" for i in range(9)}
        with mock.patch.object(check_tree, "LEAST_HEADERS", 1), \
                mock.patch.dict(check_tree.FACES, {
                    "io": {"file_system", "gone", "h1", "h2", "h3"},
                    "store": {"commit/names"}, "exchange": {"chunks"}}, clear=True), \
                mock.patch.dict(check_tree.WIDER_FACES, {"store": 100, "exchange": 100}, clear=True):
            self.assertEqual(self.faults(files=headers), [
                "rooms.py: the face of room io has gone, which is no header",
                "room io shows 5 of 10 headers, 50 %: at most 40 % are to be its face"])

    def test_a_name_stands_in_one_room(self):
        self.expect_only("names.hpp stands in more than one room: src/io/names.hpp, src/store/commit/names.hpp",
                         {"src/io/names.hpp": "#pragma once\n"})

    def test_a_transaction_is_the_stores(self):
        line = "void leave(const commit::Transaction&);\n"
        self.expect_only("src/session/leave.cpp:1: a transaction is the store's own; hold a Draft (store/draft.hpp)",
                         {"src/session/leave.cpp": line, "src/store/leave_it.cpp": line})

    def test_stored_offsets_are_computed_in_one_place(self):
        why = "a stored offset is computed; layout/offsets.hpp does that"
        lines = ("end = slice.offset + slice.stored_bytes;", "at(begin + entry.slices.front().offset);",
                 "tensor.slices[0].offset += begin;", "gap -= part->slice->offset;")
        for line in lines:
            self.expect_only(f"src/tools/a.cpp:2: {why}", {
                "src/tools/a.cpp": f"slice.offset = end + chunk.offset;\n{line}\n",
                "src/layout/lay.cpp": line + "\n", "src/store/read.cpp": line + "\n"})

    def test_names_of_files_have_one_place(self):
        self.expect_only(
            "src/io/a.cpp:2: the names of files are built and parsed in store/commit/names.hpp",
            {"src/io/a.cpp": '\nconst auto path = prefix + ".index";\n',
             "src/store/commit/own.cpp": 'const auto path = prefix + ".index";\n'})

    def test_formats_and_writers_are_not_asked_for(self):
        why = ("a format or writer is asked for; ask CheckpointFormat, SaveFormat or DataWriter what"
               " follows from it")
        asks = ("if (options.store.format == Format::hdf5) {", "  case Writer::posix:",
                "return Writer::posix != writer;", "auto name = hdf5 ? a : b;", "if (save.hdf5) {")
        for line in asks:
            self.expect_only(f"src/store/commit/a.cpp:1: {why}",
                             {"src/store/commit/a.cpp": line + "\n", "src/store/formats/known.cpp": line + "\n",
                              "src/session/save/writers/w.cpp": line + "\n"})
        self.assertEqual(self.faults(files={"src/store/commit/a.cpp": "options.format = Format::hdf5;\n"}), [])

    def test_a_virtual_function_means_something_to_each_class(self):
        base = ("#pragma once\nclass Kind {\n public:\n  virtual ~Kind() = default;\n"
                "  virtual std::string text(int n) const = 0;\n  virtual bool is_odd() const { return false; }\n};\n")
        text, odd = "  std::string text(int) const override;\n", "  bool is_odd() const override { return true; }\n"
        one = "class One final : public Kind {\n public:\n" + text + odd + "};\n"
        fault = ("src/store/kind.hpp: Kind::is_odd is overridden by less than two of 2 classes, so that it asks which"
                 " one it is; give each a function that does what follows")
        for other, faults in [("Kind", [fault]), ("One", [fault])]:
            two = f"class Two : public {other} {{\n{text}}};\n"
            self.assertEqual(self.faults(files={"src/store/kind.hpp": base, "src/store/a.cpp": one + two}), faults)
        two = f"class Two : public Kind {{\n{text}{odd}}};\n"
        self.assertEqual(self.faults(files={"src/store/a.cpp": one + two}), [])
        self.assertEqual(self.faults(files={"src/store/a.cpp": one}), [])

    def test_functions_of_a_class_are_counted(self):
        for body, number in [
                ("int a_ = f(1);\n std::function<void(int)> b_;\n int c_ GUARDED_BY(mutex_);\n int d_{f()};", 0),
                ("friend void f();\n using A = int(*)();\n A(const A&) = delete;\n enum class B { x };", 0),
                (" public:\n  A() = default;\n ~A();\n explicit A(int b) : b_(b), c_{b} { f(); g(); }", 3),
                ("bool operator==(const A&) const;\n void operator()(int) const { f(); }", 2),
                ("std::map<int, std::function<int()>> all(int a = f()) const;\n auto b() -> int;", 2),
                ("template <class T, std::size_t n>\n T last(T (&)[n]);\n struct B { void f(); };", 1)]:
            with self.subTest(body=body):
                self.assertEqual(check_tree.functions_of(body), number)

    def test_a_class_does_not_do_everything(self):
        functions = "".join(f"  void f{n}();\n" for n in range(30))
        engine = {"src/session/engine.hpp": "#pragma once\nclass Engine {\n" + functions + "};\n"}
        self.assertEqual(self.faults(files=engine), [])
        more = functions.replace("  void f0", "  int g() const { return h(); }\n  void f0")
        self.expect_only("src/session/engine.hpp: Engine has 31 functions, at most 30 are allowed: give a part of it a"
                         " class", {"src/session/engine.hpp": "#pragma once\nclass Engine {\n" + more + "};\n"})
        large = "class Other {\n" + functions + functions.replace(" f", " g")[:11 * 15] + "};\n"
        self.setUp()
        [fault] = self.faults(files={"src/session/other.cpp": large})
        self.assertIn("src/session/other.cpp: Other has 4", fault)
        self.setUp()
        self.expect_only("src/session/face.cpp: Face is to have an engine, and not to be one",
                         {**engine, "src/session/face.cpp": "struct Face : Engine {};\n"})

    def test_an_engine_has_a_table_of_contents(self):
        header = {"src/session/engine.hpp": "#pragma once\n"}
        files = {f"src/session/e{n}.cpp": f"void Engine::f{n}() {{}}\n" for n in range(4)}
        self.assertEqual(self.faults(files={**header, **files}), [])
        files["src/session/e4.cpp"] = "Engine::~Engine() = default;\n"
        [fault] = self.faults(files={**header, **files})
        self.assertIn("Engine is defined in 5 files, at most 4 are allowed: src/session/e0.cpp", fault)
        names = [f"session/part{n:02}.hpp" for n in range(46)]
        chain = {f"src/{name}": f'#pragma once\n#include "{after}"\n' for name, after in zip(names, names[1:])}
        chain["src/" + names[-1]] = "#pragma once\n"
        self.setUp()
        self.expect_only("src/session/engine.hpp brings 46 of our headers, at most 45 are allowed",
                         {**chain, "src/session/engine.hpp": f'#pragma once\n#include "{names[0]}"\n'})
        self.setUp()
        self.expect_only("src/session/e.cpp: 'tier::' is no engine's; it knows what is Elsewhere"
                         " (src/session/elsewhere.hpp)",
                         {**header, "src/session/e.cpp": "void Engine::f() { tier::save(); }\n"})

    def test_numbers_are_written_and_read_in_no_locale(self):
        stream = "has the global locale; use base/text.hpp, or give it std::locale::classic() by imbue()"
        function = "follows the locale; use base/text.hpp or base/json.hpp"
        fraction = "a fraction is printed or read as the locale says; use base/text.hpp"
        for line, fault in [
                ("  std::ostringstream out;", f"'ostringstream out;' {stream}"),
                ("  return std::ostringstream() << value;", f"'ostringstream' {stream}"),
                ('  std::ifstream in("runs");', f"'ifstream in(' {stream}"),
                ("  std::cout << value;", f"'std::cout' {stream}"),
                ("  return std::to_string(value);", f"'std::to_string(' {function}"),
                ("  return std::strtod(text, nullptr);", f"'strtod(' {function}"),
                ("  return std::stod(text);", f"'stod(' {function}"),
                ("  if (std::isalnum(c)) return;", f"'std::isalnum(' {function}"),
                ("  return nlohmann::json::parse(text);", f"'json::parse(' {function}"),
                ('  std::snprintf(text, sizeof text, "%d in %.3f s", n, s);', fraction),
                ('constexpr auto form = "%lg";  // for std::sscanf(', None),
                ('  std::snprintf(text, sizeof text, "%05d %s", n, name);', None),
                ("  const auto value = std::stoll(text);", None),
                ("// As std::ostringstream does.", None)]:
            for place in ("src/io/a.cpp", "mpi/a.cpp", "fortran/a.cpp", "python/a.cpp"):
                with self.subTest(line=line, place=place), tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / place
                    path.parent.mkdir(parents=True)
                    path.write_text(line + "\n")
                    free = not fault or (place.startswith("fortran") and "to_string" in line)
                    self.assertEqual(list(check_tree.check_locale(Path(folder))),
                                     [] if free else [f"{place}:1: {fault}"])
        self.expect_only(f"src/io/a.cpp:2: {fraction}",
                         {"src/io/a.cpp": 'std::sscanf(text, form, &x);\nconstexpr auto form = "%lg";\n'})
        self.setUp()
        self.assertEqual(self.faults(files={
            "src/io/a.cpp": "std::ifstream in(path);\nin.imbue(std::locale::classic());\n",
            "src/cli/print.cpp": "std::cout << value;\n",
            "src/cli/run.cpp": "std::locale::global(std::locale::classic());\n"}), [])
        self.expect_only("src/cli/run.cpp: the tool lacks std::locale::global(std::locale::classic());",
                         {"src/cli/run.cpp": "int run_tool();\n"})

    def test_members_are_looked_for(self):
        fault = ("src/base/a.cpp:2: a member is read without a look whether it is there; use"
                 " find_member (base/json.hpp) or at()")
        for line in ['auto a = json["b"];', 'f(json["b"], 1);', 'json["b"].get<int>();', 'json["b"]["c"] == 1;',
                     'if (json["b"] == 1) return;', 'const auto& a = all[i]["b"];', 'get(json)["b"].size();']:
            with self.subTest(line=line):
                self.setUp()
                self.expect_only(fault, {"src/base/a.cpp": f"\n{line}\n"})
        written = ('a["b"] = 1;\na["b"] =\n  1;\na["b"]["c"] = 1;\nauto& b = a["b"] = Json::array();\n'
                   'a["b"][key] = 1;\na["b"].push_back(1);\nauto c = a.at("b");\ns += "[";\n')
        self.setUp()
        self.assertEqual(self.faults(files={"src/base/a.cpp": written}), [])

    def test_the_tool_prints_in_one_place(self):
        self.expect_only("src/cli/a.cpp:1: streams take any text as it is; use print_line, print_table or log",
                         {"src/cli/a.cpp": 'std::cout << key;\n', "src/cli/print.cpp": 'std::cout << text;\n'})

    def test_no_room_holds_more_than_a_quarter(self):
        rooms = ("model", "exchange", "io", "store", "session")
        even = {f"src/{room}/{room}_{i}.cpp": 300 * "\n" for room in rooms for i in range(2)}
        self.assertEqual(self.faults(files=even), [])
        faults = self.faults(files={**even, "src/io/b.cpp": 400 * "\n"})
        self.assertEqual(len(faults), 1)
        self.assertRegex(faults[0], "room io has 100[0-9] of [0-9]+ lines: no room is to hold more")

    def test_few_name_files_above_the_waist(self):
        files = {f"src/{room}/{room}{n:02}.cpp": "void f(io::FileSystem&);\n"
                 for room in ("cli", "store", "io") for n in range(16)}
        files["src/cli/cli15.cpp"] = "void f(io::FileSystemWrapper&);\n"
        self.assertEqual(self.faults(files=files), [])
        files["mpi/file.cpp"] = "io::FileSystem* files;\n"
        [fault] = self.faults(files=files)
        self.assertIn("16 files above the store name io::FileSystem, at most 15 do", fault)

    def test_packages_stay_in_their_rooms(self):
        for includer, name, fault in [
                ("src/io/a.cpp", "mpi.h", "ties room io to MPI"),
                ("src/model/a.cpp", "Kokkos_Core.hpp", "ties room model to Kokkos"),
                ("mpi/a.cpp", "Kokkos_Core.hpp", "ties room mpi to Kokkos"),
                ("src/store/a.cpp", "google/protobuf/message.h", "ties room store to protobuf"),
                ("src/session/a.cpp", "CLI/CLI.hpp", "ties room session to CLI11")]:
            with self.subTest(name=name):
                self.setUp()
                self.expect_only(f"{includer}: <{name}> {fault}", {includer: f"#include <{name}>\n"})

    def test_circles(self):
        self.expect_only(
            "circle of includes: src/io/a.hpp -> src/io/b.hpp -> src/io/a.hpp",
            {"src/io/a.hpp": '#pragma once\n#include "io/b.hpp"\n',
             "src/io/b.hpp": '#pragma once\n#include "io/a.hpp"\n'})

    def test_includes_of_sources_climbing_missing_and_nobodys_files(self):
        self.expect_only("src/io/a.cpp: includes the source file io/b.cpp",
                         {"src/io/a.cpp": '#include "io/b.cpp"\n'})
        self.expect_only('src/io/a.cpp: "../io/file_system.hpp" climbs; write includes from src/ or include/',
                         {"src/io/a.cpp": '#include "../io/file_system.hpp"\n'})
        self.expect_only('src/io/a.cpp: "io/gone.hpp" is no file of this tree',
                         {"src/io/a.cpp": '#include "io/gone.hpp"\n'})
        self.expect_only("src/stray.cpp: belongs to no room",
                         {"src/io/a.cpp": "", "src/stray.cpp": ""})

    def test_a_header_without_pragma_once(self):
        self.expect_only("src/io/a.hpp: #pragma once is missing", {"src/io/a.hpp": "\n"})

    def test_an_example_that_looks_inside(self):
        self.expect_only(
            "examples/first.cpp: an example includes src/base/text.hpp, which is not installed",
            {"examples/first.cpp": '#include "base/text.hpp"\n'})

    def test_long_files(self):
        self.expect_only("src/io/a.hpp: 301 lines, at most 300 are allowed",
                         {"src/io/a.hpp": "#pragma once\n" + 300 * "\n", "src/io/b.cpp": 500 * "\n"})
        self.setUp()
        self.expect_only("tests/io/a.cpp: 501 lines, at most 500 are allowed",
                         {"tests/io/a.cpp": 501 * "\n"})

    def test_paths_of_one_machine(self):
        home = "/home" + "/somebody"
        self.expect_only("docs/a.md:2: '/home" + "/s' is a path of one machine only",
                         {"docs/a.md": f"first\nsee {home}/notes\n"})
        self.setUp()
        here = str(self.root)
        self.expect_only(f"docs/a.md:1: '{here}' is a path of one machine only",
                         {"docs/a.md": f"cd {here}/build\n"})

    def test_words_of_a_message_stand_in_the_table(self):
        self.expect_only('tests/io/a.cpp: HasSubstr("is no tensor") names words; use test::Says (tests/support/says.hpp)',
                         {"tests/io/a.cpp": 'a(HasSubstr("is no tensor"), HasSubstr("\'u\' [7 3]"), HasSubstr("step 4"));\n'})

    def test_untracked_files_may_hold_paths(self):
        files = {"notes.md": f"{self.root}\n"}
        self.faults(files=files)
        git = ["git", "-C", str(self.root)]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "src"], check=True)
        self.assertEqual(check_tree.check_tree(self.root), [])

    def test_the_program_tells_by_its_exit_status(self):
        self.faults(files={"src/io/a.hpp": "\n"})
        program = [sys.executable, check_tree.__file__, str(self.root)]
        failed = subprocess.run(program, capture_output=True, text=True)
        self.assertEqual(failed.returncode, 1)
        self.assertEqual(failed.stdout, "src/io/a.hpp: #pragma once is missing\n")
        (self.root / "src/io/a.hpp").unlink()
        self.assertEqual(subprocess.run(program, capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
