#include "tools/image.hpp"

#include <algorithm>

#include "cairn/error.hpp"
#include "tools/font.hpp"

namespace cairn {
namespace {

constexpr int letter_pitch = (font_width + 1) * text_scale;

// Calls dot(x, y) for each dot of the text, counted from its top left corner.
template <class Dot>
void each_dot(std::string_view text, const Dot& dot) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int row = 0; row < font_height * text_scale; ++row) {
      for (int column = 0; column < font_width * text_scale; ++column) {
        if (font_dot(text[i], row / text_scale, column / text_scale)) {
          dot(static_cast<int>(i) * letter_pitch + column, row);
        }
      }
    }
  }
}

}  // namespace

Image::Image(int width, int height, Rgb background) : width_(width), height_(height) {
  if (width < 1 || height < 1) throw Error(Code::internal, "an image without dots");
  bytes_.resize(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  fill(0, 0, width, height, background);
}

Rgb Image::at(int x, int y) const {
  const auto i = 3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                      static_cast<std::size_t>(x));
  return {bytes_.at(i), bytes_.at(i + 1), bytes_.at(i + 2)};
}

void Image::dot(int x, int y, Rgb colour) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  const auto i = 3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                      static_cast<std::size_t>(x));
  bytes_[i] = colour.red;
  bytes_[i + 1] = colour.green;
  bytes_[i + 2] = colour.blue;
}

void Image::fill(int x, int y, int width, int height, Rgb colour) {
  for (int row = y; row < y + height; ++row) {
    for (int column = x; column < x + width; ++column) dot(column, row, colour);
  }
}

void Image::frame(int x, int y, int width, int height, Rgb colour) {
  fill(x - 1, y - 1, width + 2, 1, colour);
  fill(x - 1, y + height, width + 2, 1, colour);
  fill(x - 1, y, 1, height, colour);
  fill(x + width, y, 1, height, colour);
}

int text_width(std::string_view text) {
  return text.empty() ? 0 : static_cast<int>(text.size()) * letter_pitch - text_scale;
}

int text_height() { return font_height * text_scale; }

void draw_text(Image& image, int x, int y, std::string_view text, Rgb colour) {
  each_dot(text, [&](int right, int down) { image.dot(x + right, y + down, colour); });
}

void draw_text_upwards(Image& image, int x, int y, std::string_view text, Rgb colour) {
  each_dot(text, [&](int right, int down) { image.dot(x + down, y - right, colour); });
}

std::string drawable(std::string_view text, int width) {
  std::string shown;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80) continue;
    shown += c >= ' ' && c <= '~' ? c : '?';
  }
  const auto most = static_cast<std::size_t>(std::max(8, (width + text_scale) / letter_pitch));
  if (shown.size() <= most) return shown;
  const auto front = (most - 3) / 2, back = most - 3 - front;
  return shown.substr(0, front) + "..." + shown.substr(shown.size() - back);
}

}  // namespace cairn
