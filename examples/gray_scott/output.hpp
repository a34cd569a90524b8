#pragma once
// Rank 0 makes a checksum and a picture of a gathered field.
#if GRAY_SCOTT_PNG
#include <png.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// FNV-1a over the bytes, continued from an earlier value.
inline std::uint64_t fnv1a(std::span<const double> values, std::uint64_t h = 0xcbf29ce484222325) {
  for (const auto byte : std::as_bytes(values)) h = (h ^ std::uint64_t(byte)) * 0x100000001b3;
  return h;
}

// A square field as PNG, from black over blues to white.
inline void write_png([[maybe_unused]] const std::string& path,
                      [[maybe_unused]] const std::vector<double>& values, [[maybe_unused]] int n) {
#if GRAY_SCOTT_PNG
  const double top = std::max(1e-9, *std::max_element(values.begin(), values.end()));
  std::vector<unsigned char> pixels;
  for (const double value : values) {
    for (const double power : {1.7, 0.9, 0.55})  // red, green, blue
      pixels.push_back(
          static_cast<unsigned char>(255 * std::pow(std::max(value, 0.0) / top, power)));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = static_cast<png_uint_32>(n);
  image.format = PNG_FORMAT_RGB;
  if (!png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr)) {
    throw std::runtime_error("cannot write " + path + ": " + image.message);
  }
#endif
}
