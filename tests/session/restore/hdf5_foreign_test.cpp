// States filled from HDF5 files that Cairn did not write. libhdf5 makes them here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <numeric>
#include <random>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/hdf5.hpp"
#include "io/temporary_directory.hpp"
#include "layout/hdf5/foreign.hpp"
#include "layout/hdf5/library.hpp"
#include "support/bundle_files.hpp"
#include "support/sample_state.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr hsize_t rows = 60, columns = 50;

// A file as another program writes it.
class Writer {
 public:
  explicit Writer(const std::string& path, hid_t access = H5P_DEFAULT)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access)),
        links_(H5Pcreate(H5P_LINK_CREATE)) {
    H5Pset_create_intermediate_group(links_, 1);
  }
  ~Writer() {
    H5Pclose(links_);
    H5Fclose(file_);
  }
  void put(const char* name, hid_t stored, hid_t memory, const std::vector<hsize_t>& shape,
           const void* values, hid_t how = H5P_DEFAULT) {
    const auto space =
        shape.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const auto dataset = H5Dcreate2(file_, name, stored, space, links_, how, H5P_DEFAULT);
    ASSERT_GE(dataset, 0) << name;
    ASSERT_GE(H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0) << name;
    H5Dclose(dataset);
    H5Sclose(space);
  }
  hid_t file() const { return file_; }

 private:
  hid_t file_, links_;
};

hid_t chunked(bool compressed, hsize_t chunk_rows = 7, hsize_t chunk_columns = 11) {
  const auto list = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {chunk_rows, chunk_columns};
  H5Pset_chunk(list, 2, chunk);
  if (compressed) H5Pset_shuffle(list), H5Pset_deflate(list, 4);
  return list;
}

class Hdf5Foreign : public testing::Test {
 protected:
  Hdf5Foreign() : path_((directory_.path() / "other.h5").string()), values_(rows * columns) {
    std::iota(values_.begin(), values_.end(), 0.5);
  }
  ~Hdf5Foreign() override { EXPECT_EQ(hdf5::Handle::open_count(), 0); }

  // Writes the field in every layout.
  void write() {
    Writer writer(path_);
    const std::vector<hsize_t> shape{rows, columns};
    writer.put("plain", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, shape, values_.data());
    writer.put("big/endian", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, shape, values_.data());
    for (const bool compressed : {false, true}) {
      const auto how = chunked(compressed);
      writer.put(compressed ? "compressed" : "chunked", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, shape,
                 values_.data(), how);
      H5Pclose(how);
    }
    const int number = -7;
    writer.put("number", H5T_STD_I32BE, H5T_NATIVE_INT, {}, &number);
  }

  // The error of a refused restore, or "".
  std::string refusal(State& state, Code code, const RestoreOptions& options = {}) {
    try {
      restore_hdf5(serial_group(), path_, state, options);
      return "";
    } catch (const Error& error) {
      EXPECT_STREQ(code_name(error.code()), code_name(code)) << error.what();
      return error.what();
    }
  }

  test::TemporaryDirectory directory_;
  std::string path_;
  std::vector<double> values_;
};

TEST_F(Hdf5Foreign, AnyLayoutOnAnyRanks) {
  write();
  for (const char* name :
       {"plain", "/plain", "big/endian", "/big/endian", "chunked", "compressed"}) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      SCOPED_TRACE(cat(name, " on ", ranks, " ranks"));
      std::mt19937 random(static_cast<unsigned>(ranks));
      const auto cut = test::guillotine({rows, columns}, 2 * ranks, random);
      const auto held = test::deal(cut, ranks, true, random);
      run_threads(ranks, [&](std::shared_ptr<Group> group) {
        std::vector<std::vector<double>> memory;
        std::vector<LocalTensor> parts;
        for (const auto& box : held[static_cast<std::size_t>(group->rank())]) {
          memory.emplace_back(static_cast<std::size_t>(box.count()));
          parts.push_back(slice(memory.back().data(), {rows, columns}, box.start, box.extent));
        }
        std::int32_t number = 0;
        State state;
        if (!parts.empty()) state.add("u", patches(parts));
        state.add("number", number);
        RestoreOptions options;
        options.rename["u"] = name;
        const auto report = restore_hdf5(group, path_, state, options);
        EXPECT_TRUE(report.unchecked);
        EXPECT_EQ(number, -7);
        for (std::size_t i = 0; i < memory.size(); ++i) {
          const auto& box = held[static_cast<std::size_t>(group->rank())][i];
          std::vector<double> right(memory[i].size());
          host_memory(DType::float64, values_.data(), nullptr, {rows, columns}, {})
              ->read(box, reinterpret_cast<std::byte*>(right.data()));
          EXPECT_EQ(memory[i], right);
        }
      });
    }
  }
}

TEST_F(Hdf5Foreign, StringsOfEachKind) {
  {
    Writer writer(path_);
    const auto variable = H5Tcopy(H5T_C_S1), fixed = H5Tcopy(H5T_C_S1);
    H5Tset_size(variable, H5T_VARIABLE);
    H5Tset_size(fixed, 5);
    const char* words[] = {"one", "", "two words"};
    writer.put("variable", variable, variable, {3}, words);
    for (const auto& [name, padding] :
         {std::pair("ended", H5T_STR_NULLTERM), std::pair("zeros", H5T_STR_NULLPAD),
          std::pair("spaces", H5T_STR_SPACEPAD)}) {
      H5Tset_strpad(fixed, padding);
      const std::string text =
          padding == H5T_STR_SPACEPAD ? "ab   c    " : std::string("ab\0\0\0c\0\0\0\0", 10);
      writer.put(name, fixed, fixed, {2}, text.data());
    }
    const auto bytes = H5Tvlen_create(H5T_STD_U8LE);
    char raw[] = {'a', '\0', 'b'};
    const hvl_t sequence{3, raw};
    writer.put("bytes", bytes, bytes, {}, &sequence);
    H5Tclose(bytes);
    H5Tclose(variable);
    H5Tclose(fixed);
  }
  std::vector<std::string> variable(3), ended(2), zeros(2), spaces(2);
  std::string bytes;
  State state;
  state.add("variable", variable).add("ended", ended).add("zeros", zeros).add("spaces", spaces);
  state.add("bytes", bytes);
  restore_hdf5(serial_group(), path_, state);
  EXPECT_THAT(variable, ElementsAre("one", "", "two words"));
  for (const auto& two : {ended, zeros, spaces}) EXPECT_THAT(two, ElementsAre("ab", "c"));
  EXPECT_EQ(bytes, std::string("a\0b", 3));
}

// A filter that the reader lacks.
std::size_t invert(unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                   void** buffer) {
  for (std::size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(*buffer)[i] ^= 0xff;
  return bytes;
}

TEST_F(Hdf5Foreign, AFilterThatIsMissingIsNamedAndIsNoDamage) {
  constexpr H5Z_filter_t number = 400;  // HDF5 keeps 256 to 511 for tests
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, number, 1, 1, "teapot", nullptr, nullptr, invert};
  ASSERT_GE(H5Zregister(&filter), 0);
  const auto text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 2);
  const auto how = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk = 2;
  H5Pset_chunk(how, 1, &chunk);
  H5Pset_filter(how, number, H5Z_FLAG_MANDATORY, 0, nullptr);
  {
    Writer writer(path_);
    writer.put("u", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {4}, values_.data(), how);
    writer.put("words", text, text, {2}, "a\0b", how);
  }
  H5Pclose(how);
  H5Tclose(text);
  std::vector<double> u(4);
  std::vector<std::string> words(2);
  State numbers, texts;
  numbers.add("u", u);
  texts.add("words", words);
  restore_hdf5(serial_group(), path_, numbers);
  restore_hdf5(serial_group(), path_, texts);
  EXPECT_THAT(u, ElementsAre(0.5, 1.5, 2.5, 3.5));
  EXPECT_THAT(words, ElementsAre("a", "b"));
  ASSERT_GE(H5Zunregister(number), 0);
  ASSERT_GE(H5PLappend("/no/such/plugins"), 0);
  for (auto* state : {&numbers, &texts}) {
    const auto said = refusal(*state, Code::unsupported);
    EXPECT_THAT(said, HasSubstr("HDF5's filter 400 (teapot)"));
    EXPECT_THAT(said, HasSubstr("/no/such/plugins"));
    EXPECT_THAT(said, HasSubstr("Set HDF5_PLUGIN_PATH"));
  }
}

// The file has sixteen bytes for each of a thousand strings, all of which refer to the same one.
TEST_F(Hdf5Foreign, StringsTakeNoMoreThanTheirLimit) {
  constexpr std::size_t count = 1000, reference = 16, limit = std::size_t{1} << 20;
  haddr_t at = HADDR_UNDEF;
  {
    Writer writer(path_);
    const auto variable = H5Tcopy(H5T_C_S1);
    H5Tset_size(variable, H5T_VARIABLE);
    const std::string long_one(3000, 'x');
    std::vector<const char*> words(count, "");
    words.front() = long_one.c_str();
    writer.put("words", variable, variable, {count}, words.data());
    const auto dataset = H5Dopen2(writer.file(), "words", H5P_DEFAULT);
    at = H5Dget_offset(dataset);
    H5Dclose(dataset);
    H5Tclose(variable);
  }
  auto bytes = test::read_file(path_);
  ASSERT_LE(at + count * reference, bytes.size());
  for (std::size_t i = 1; i < count; ++i) {
    bytes.replace(at + i * reference, reference, bytes.substr(at, reference));
  }
  const int open = hdf5::Handle::open_count();
  const auto read = [&](std::int64_t most) {
    auto image = std::make_unique<hdf5::SparseImage>();
    image->write(0, std::as_bytes(std::span(bytes)));
    hdf5::ForeignFile file(std::move(image), most);
    return file.read_strings("words", {DType::string, {count}});
  };
  EXPECT_EQ(read(4 * limit), std::vector<std::string>(count, std::string(3000, 'x')));
  try {
    read(limit);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_STREQ(code_name(error.code()), "unsupported");
    EXPECT_THAT(error.what(), test::Says("take more than 1.00 MiB"));
  }
  EXPECT_EQ(hdf5::Handle::open_count(), open);
}

// A later rank may find another file, for which the memory that rank 0 measured is too small.
TEST_F(Hdf5Foreign, ADatasetThatChangesBetweenRanksIsRefused) {
  const auto file = [&](hid_t stored, hsize_t count, bool words) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    {
      Writer writer(path_);
      writer.put("u", stored, H5T_NATIVE_DOUBLE, {4}, std::vector<double>(4).data());
      const auto fixed = H5Tcopy(H5T_C_S1);
      writer.put("s", words ? fixed : H5T_STD_I8LE, words ? fixed : H5T_NATIVE_CHAR, {count},
                 std::string(count, 'a').data());
      H5Tclose(fixed);
    }
    files->create_directory("/in");
    io::write_file(*files, "/in/other.h5", test::read_file(path_));
    return files;
  };
  const auto first = file(H5T_IEEE_F32LE, 3, true);
  for (const auto& later : {file(H5T_IEEE_F64LE, 3, true), file(H5T_IEEE_F32LE, 1, true),
                            file(H5T_IEEE_F32LE, 3, false)}) {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      std::vector<float> u(4);
      std::vector<std::string> s(3, "kept");
      State state;
      state.add("u", u);
      state.add("s", s);
      try {
        restore_hdf5(group, "/in/other.h5", state, {}, group->rank() == 0 ? first : later);
        ADD_FAILURE() << "restored";
      } catch (const Error& error) {
        EXPECT_STREQ(code_name(error.code()), "data_loss");
        EXPECT_THAT(error.what(), test::Says("has changed"));
      }
    });
  }
}

TEST_F(Hdf5Foreign, OptionsHoldAsInAnyRestore) {
  write();
  std::vector<float> part(6);
  std::int64_t number = 0;
  double kept = 3;
  State state;
  state.add("u", whole(part.data(), {2, 3})).add("number", number).add("none", kept);
  RestoreOptions options;
  options.rename["u"] = "compressed";
  options.offset["u"] = {10, 20};
  options.convert = Conversion::exact;
  options.may_be_missing.insert("none");
  const auto report = restore_hdf5(serial_group(), path_, state, options);
  EXPECT_THAT(part, ElementsAre(520.5f, 521.5f, 522.5f, 570.5f, 571.5f, 572.5f));
  EXPECT_EQ(number, -7);
  EXPECT_THAT(report.kept_keys, ElementsAre("none"));
  EXPECT_EQ(kept, 3);
}

TEST_F(Hdf5Foreign, WhatDoesNotFitIsRefused) {
  write();
  std::vector<double> u(6);
  std::vector<float> f(rows * columns);
  {
    State state;
    state.add("nothing/there", u);
    EXPECT_THAT(refusal(state, Code::not_found), HasSubstr("nothing/there"));
  }
  {
    State state;
    state.add("plain", whole(u.data(), {2, 3}));
    EXPECT_THAT(refusal(state, Code::invalid_argument), HasSubstr("[60 50]"));
  }
  {
    State state;
    state.add("plain", whole(u.data(), {6}));
    refusal(state, Code::invalid_argument);
  }
  {
    State state;
    state.add("plain", whole(f.data(), {rows, columns}));
    EXPECT_THAT(refusal(state, Code::invalid_argument), HasSubstr("float32"));
  }
  {
    State state;
    state.add("big", u);
    EXPECT_THAT(refusal(state, Code::invalid_argument), test::Says("no dataset"));
  }
}

TEST_F(Hdf5Foreign, DataInOtherFilesAndOddTypesAreRefused) {
  {
    Writer writer(path_);
    const double one = 1;
    const auto outside = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(outside, (directory_.path() / "raw").c_str(), 0, 8);
    writer.put("outside", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {1}, &one, outside);
    H5Pclose(outside);
    const auto opaque = H5Tcreate(H5T_OPAQUE, 8);
    writer.put("opaque", opaque, opaque, {}, &one);
    H5Tclose(opaque);
    H5Lcreate_external("elsewhere.h5", "/u", writer.file(), "link", H5P_DEFAULT, H5P_DEFAULT);
  }
  for (const auto& [name, why] : {std::pair("outside", "lies in other files"),
                                  std::pair("opaque", "a type that no tensor has")}) {
    std::vector<double> u(1);
    State state;
    state.add(name, u);
    EXPECT_THAT(refusal(state, Code::unsupported), HasSubstr(why));
  }
  double u = 0;
  State state;
  state.add("link", u);
  EXPECT_THAT(refusal(state, Code::data_loss), HasSubstr("link"));
}

TEST_F(Hdf5Foreign, WhatIsNoHdf5FileIsAnErrorOfAllRanks) {
  double u = 0;
  State state;
  state.add("u", u);
  EXPECT_THAT(refusal(state, Code::not_found), HasSubstr("other.h5"));
  for (const std::string& bytes : {std::string(), std::string("no such thing"),
                                   std::string(5000, '\0'), std::string("\211HDF\r\n\032\n")}) {
    test::write_file(path_, bytes);
    EXPECT_THAT(refusal(state, Code::data_loss), HasSubstr("no HDF5 file"));
    run_threads(3, [&](std::shared_ptr<Group> group) {
      double mine = 0;
      State one;
      one.add("u", mine);
      EXPECT_THROW(restore_hdf5(group, path_, one), Error);
    });
  }
  write();
  const auto good = test::read_file(path_);
  for (const auto size : {good.size() / 2, good.size() - 1, std::size_t{100}}) {
    test::write_file(path_, good.substr(0, size));
    refusal(state, Code::data_loss);
  }
}

// libhdf5 may find a flipped bit, or return another value: then the rest of the file is unchanged.
// It neither ends the process nor keeps an object open. This does not hold for strings of variable
// length, and for chunks in files of its oldest format: see docs/format-hdf5.md.
TEST_F(Hdf5Foreign, FlippedBitsAreErrorsOrOtherValues) {
  const std::vector<double> values{0.5, 1.5, 2.5, 3.5, 4.5, 5.5};
  const auto files = std::make_shared<io::MemoryFileSystem>();
  for (const bool checksummed : {false, true}) {
    {
      const auto access = H5Pcreate(H5P_FILE_ACCESS);
      if (checksummed) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
      Writer writer(path_, access);
      H5Pclose(access);
      writer.put("a/u", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {2, 3}, values.data());
      writer.put("a/v", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, {6}, values.data());
      const auto fixed = H5Tcopy(H5T_C_S1);
      H5Tset_size(fixed, 4);
      writer.put("a/words", fixed, fixed, {2}, "one\0two");
      H5Tclose(fixed);
      if (checksummed) {
        const auto how = chunked(true, 2, 2);
        writer.put("a/chunks", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {2, 3}, values.data(), how);
        H5Pclose(how);
      }
    }
    const auto good = test::read_file(path_);
    const auto before = hdf5::Handle::open_count();
    std::size_t refused = 0, as_before = 0, others = 0;
    for (std::size_t at = 0; at < good.size(); at += 3) {
      SCOPED_TRACE(cat("byte ", at, " of ", good.size(), checksummed ? ", checksummed" : ""));
      auto bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at / 3 % 8));
      io::remove_if_there(*files, "/other.h5");
      io::write_file(*files, "/other.h5", bad);
      std::vector<double> u(6), v(6), chunks(values);
      std::vector<std::string> words(2);
      State state;
      state.add("a/u", whole(u.data(), {2, 3})).add("a/v", v).add("a/words", words);
      if (checksummed) state.add("a/chunks", whole(chunks.data(), {2, 3}));
      try {
        ASSERT_TRUE(restore_hdf5(serial_group(), "/other.h5", state, {}, files).unchecked);
        const int same = (u == values) + (v == values) + (chunks == values) +
                         (words == std::vector<std::string>{"one", "two"});
        ++(same == 4 ? as_before : others);
        // One bit belongs to one dataset, or to its type, layout or place.
        ASSERT_GE(same, 3);
      } catch (const Error& error) {
        ASSERT_NE(error.code(), Code::internal) << error.what();
        ASSERT_GT(std::string(error.what()).size(), 20u);
        ++refused;
      }
      ASSERT_EQ(hdf5::Handle::open_count(), before);
      const hdf5::Session session;
      ASSERT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
    }
    EXPECT_GT(refused, 20u);
    EXPECT_GT(as_before, 20u);
    EXPECT_GT(others, 20u);
  }
}

// Our files are HDF5 files, too; their seal is not checked here.
TEST_F(Hdf5Foreign, OurOwnCheckpointsAreRead) {
  std::vector<test::Sample> samples;
  for (int number = 1; number <= 33; ++number) {
    const auto dtype = dtype_from_number(number);
    const bool quantised = number >= 11 && number <= 16 && number != 14;
    if (!dtype || dtype_size(*dtype) == 0 || quantised) continue;  // those are integers to HDF5
    samples.push_back({cat("all/", dtype_name(*dtype)), *dtype, {7, 5}});
  }
  const auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = files;
  options.store.format = Format::hdf5;
  const std::vector<std::string> words{"a", std::string("b\0c\0", 4)};
  run_threads(3, [&](std::shared_ptr<Group> group) {
    test::SampleState mine(1);
    for (const auto& sample : samples) {
      mine.add(sample, {Box{{group->rank() * 2, 0}, {group->rank() == 2 ? 3 : 2, 5}}}, 0);
    }
    mine.add_string("words", words);
    mine.fill();
    CheckpointManager(group, "/run", options).save(1, mine.state());
    test::SampleState read(1);
    for (const auto& sample : samples) {
      read.add(sample, {Box{{0, group->rank()}, {7, 2}}}, 0);
    }
    std::vector<std::string> read_words(2);
    read.state().add("words", read_words);
    restore_hdf5(group, "/run/ckpt-1.h5", read.state(), {}, files);
    EXPECT_EQ(read.check(1), "");
    EXPECT_EQ(read_words, words);
  });
}

}  // namespace
}  // namespace cairn
