// cairn cat prints the elements of one tensor.
#include <unistd.h>

#include <functional>
#include <iostream>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/elements.hpp"
#include "cli/print.hpp"
#include "cli/progress_bar.hpp"
#include "cli/target.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/read_tensor.hpp"

namespace cairn::cli {
namespace {

struct CatArguments {
  std::string target, key, key_hex, slice, output, format = "text";
};

std::string from_hex(const std::string& hex) {
  const auto digit = [&](char c) {
    const auto at = std::string_view("0123456789abcdef").find(c >= 'A' && c <= 'F' ? c + 32 : c);
    if (at == std::string_view::npos || hex.size() % 2) {
      throw Error(Code::invalid_argument, cat("--key-hex '", hex, "' is no hexadecimal text"), "",
                  "Write two digits for each byte of the key.");
    }
    return static_cast<int>(at);
  };
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]);
    bytes += static_cast<char>(high << 4 | digit(hex[i + 1]));
  }
  return bytes;
}

// Parses a slice in TensorFlow's notation, with or without the full shape before it.
Box parse_slice(const StoredTensor& tensor, const std::string& text) {
  if (text.empty()) return Box::whole(tensor.shape);
  std::string full = text;
  if (text.find(' ') == text.npos) {
    full.clear();
    for (const auto extent : tensor.shape) full += cat(extent, ' ');
    full += text;
  }
  auto spec = parse_slice_spec(full);
  if (spec.shape != tensor.shape) {
    throw Error(Code::invalid_argument,
                cat("--slice speaks of the shape ", shape_text(spec.shape), ", tensor ",
                    shown_key(tensor.key), " has ", shape_text(tensor.shape)))
        .of_tensor(tensor.key);
  }
  return spec.box;
}

// Prints one row of the last dimension on each line, with an empty line between matrices.
void print_rows(std::ostream& out, const Dims& shape,
                const std::function<std::string(std::int64_t)>& element) {
  const auto count = element_count(shape);
  const auto row = shape.empty() ? 1 : shape.back();
  const auto matrix = shape.size() < 3 ? count : row * shape[shape.size() - 2];
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0 && i % matrix == 0) out << '\n';
    out << element(i) << ((i + 1) % row == 0 ? '\n' : ' ');
  }
}

void write_strings(std::ostream& out, const std::vector<std::string>& values,
                   const CatArguments& options, const Dims& shape) {
  if (options.format == "text") {
    return print_rows(out, shape, [&](std::int64_t i) {
      return string_text(values[static_cast<std::size_t>(i)]);
    });
  }
  for (const auto& value : values) {
    char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(std::uint64_t{value.size()} >> 8 * i);
    out.write(length, sizeof length);
    out.write(value.data(), static_cast<std::streamsize>(value.size()));
  }
}

void write_numbers(std::ostream& out, const std::string& bytes, const CatArguments& options,
                   DType dtype, const Dims& shape) {
  if (options.format == "text") {
    const auto item = dtype_size(dtype);
    return print_rows(out, shape, [&](std::int64_t i) {
      return element_text(dtype, bytes.data() + static_cast<std::size_t>(i) * item);
    });
  }
  if (options.format == "npy") {
    const auto header = npy_header(dtype, shape);
    out.write(header.data(), static_cast<std::streamsize>(header.size()));
  }
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void run(const Tool& tool, const CatArguments& options) {
  if (options.format != "text" && options.output.empty() && ::isatty(1)) {
    throw Error(Code::invalid_argument, cat("--format ", options.format, " is no text"),
                "standard output is a terminal", "Add --output FILE, or redirect.");
  }
  const auto checkpoint = open_named(tool.at(options.target));
  const auto key = options.key_hex.empty() ? options.key : from_hex(options.key_hex);
  const auto& tensor = require_tensor(*checkpoint, key);
  const auto box = parse_slice(tensor, options.slice);
  const auto access = checkpoint.access();
  ProgressBar bar(cat("read ", shown_key(tensor.key)));
  if (tensor.dtype != DType::string) {
    const auto bytes = read_numbers(checkpoint, tensor, box, bar.callback());
    const auto write = [&](std::ostream& out) {
      write_numbers(out, bytes, options, tensor.dtype, box.extent);
    };
    to_output(options.output, write, access);
    return;
  }
  // Throws, and says why the type has no NPY file.
  if (options.format == "npy") npy_header(tensor.dtype, {});
  const auto values = read_string_box(checkpoint, tensor, box, bar.callback());
  const auto write = [&](std::ostream& out) { write_strings(out, values, options, box.extent); };
  to_output(options.output, write, access);
}

}  // namespace

void add_cat(Tool& tool) {
  auto options = std::make_shared<CatArguments>();
  auto* command = tool.app.add_subcommand("cat", "Print the elements of a tensor");
  command->add_option("PREFIX", options->target, "Checkpoint or directory (its newest)")
      ->required();
  auto* key = command->add_option("KEY", options->key, "Tensor: key, or variable's path or name");
  auto* hex =
      command->add_option("--key-hex", options->key_hex, "Key in hexadecimal digits, if not text");
  key->excludes(hex);
  command->add_option("--slice", options->slice,
                      "Part in TensorFlow's syntax: start,length or - for each dimension, "
                      "optionally after the full shape");
  command
      ->add_option("--format", options->format,
                   "text (a row a line), raw (row-major, little-endian; strings: length in 8 "
                   "bytes, then bytes) or npy")
      ->check(CLI::IsMember({"text", "raw", "npy"}))
      ->capture_default_str();
  command->add_option("--output,-o", options->output, "File instead of standard output");
  command->footer(
      "Stored slices are read whole and checked before anything is written. Variants are not\n"
      "decoded. In npy, half is '<f2', quantised integers are integers, bfloat16 is '<u2', and\n"
      "float8 and 4- and 2-bit types are '|u1', their stored bits. Strings cannot be written as\n"
      "npy.\n\n"
      "Examples:\n"
      "  cairn cat run/ckpt step\n"
      "  cairn cat run/ckpt/ckpt-100 u --slice '40 30 0,20:-' --format raw -o u.bin\n"
      "  cairn cat run/ckpt u --format npy -o u.npy");
  command->callback([&tool, options] {
    if (options->key.empty() && options->key_hex.empty()) {
      throw CLI::RequiredError("KEY or --key-hex");
    }
    run(tool, *options);
  });
}

}  // namespace cairn::cli
