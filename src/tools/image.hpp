#pragma once
/// An image of coloured dots, and functions that draw on it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/colours.hpp"

namespace cairn {

inline constexpr Rgb black{0, 0, 0}, white{255, 255, 255};

class Image {
 public:
  Image(int width, int height, Rgb background = white);

  int width() const { return width_; }
  int height() const { return height_; }
  /// Row by row, three bytes for each dot.
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  Rgb at(int x, int y) const;

  // Dots outside of the image are ignored.
  void dot(int x, int y, Rgb);
  void fill(int x, int y, int width, int height, Rgb);
  /// One dot thick, around this area.
  void frame(int x, int y, int width, int height, Rgb);

 private:
  int width_, height_;
  std::vector<std::uint8_t> bytes_;
};

inline constexpr int text_scale = 2;  ///< dots of the image for one dot of the font

int text_width(std::string_view);
int text_height();
/// x, y is the top left corner.
void draw_text(Image&, int x, int y, std::string_view, Rgb = black);
/// Draws text that is read from below. x, y is the bottom left corner of the whole text.
void draw_text_upwards(Image&, int x, int y, std::string_view, Rgb = black);
/// The text with '?' for each character that the font lacks, shortened in the middle to a width.
std::string drawable(std::string_view text, int width);

}  // namespace cairn
