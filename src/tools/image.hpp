#pragma once
/// Dots with colours, and what is drawn with them.
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
  /// Row by row, three bytes a dot.
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  Rgb at(int x, int y) const;

  // What lies outside of the image is left out.
  void dot(int x, int y, Rgb);
  void fill(int x, int y, int width, int height, Rgb);
  void frame(int x, int y, int width, int height, Rgb);  ///< one dot thick, around this area

 private:
  int width_, height_;
  std::vector<std::uint8_t> bytes_;
};

inline constexpr int text_scale = 2;  ///< dots of the image for one of the font

int text_width(std::string_view);
int text_height();
/// From its top left corner.
void draw_text(Image&, int x, int y, std::string_view, Rgb = black);
/// Read from below; x, y is the corner at the bottom left of the whole.
void draw_text_upwards(Image&, int x, int y, std::string_view, Rgb = black);
/// UTF-8 with one '?' for each character that the font lacks, shortened in the middle to a width.
std::string drawable(std::string_view text, int width);

}  // namespace cairn
