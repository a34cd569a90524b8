#include "cli/png.hpp"

#if CAIRN_PNG
#include <png.h>
#endif

#include <filesystem>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::cli {
namespace {

#if CAIRN_PNG
std::string encode_png(const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width());
  header.height = static_cast<png_uint_32>(image.height());
  header.format = PNG_FORMAT_RGB;
  const auto refuse = [&] {
    throw Error(Code::internal, "libpng does not take an image", header.message);
  };
  png_alloc_size_t size = 0;
  if (!png_image_write_to_memory(&header, nullptr, &size, 0, image.bytes().data(), 0, nullptr)) {
    refuse();
  }
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&header, bytes.data(), &size, 0, image.bytes().data(), 0,
                                 nullptr)) {
    refuse();
  }
  bytes.resize(size);
  return bytes;
}
#else
std::string encode_png(const Image&) {
  throw Error(Code::unsupported, "this tool cannot write PNG files",
              "it was built where libpng was not found",
              "Write a PPM file (-o FILE.ppm), or build it again with libpng (libpng-dev).");
}
#endif

std::string encode_ppm(const Image& image) {
  auto bytes = cat("P6\n", image.width(), ' ', image.height(), "\n255\n");
  bytes.append(reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size());
  return bytes;
}

}  // namespace

std::string encode_image(const Image& image, const std::string& file) {
  const auto ending = std::filesystem::path(file).extension();
  if (ending == ".png") return encode_png(image);
  if (ending == ".ppm") return encode_ppm(image);
  throw Error(Code::invalid_argument, cat("no picture can be written to ", file),
              "its name ends neither in .png nor in .ppm", "Give it one of these endings.");
}

}  // namespace cairn::cli
