// A field with halos and a step, described to Cairn and read through its own view of them.
#include <cairn/cairn.hpp>

#include <cstdio>
#include <string>
#include <vector>

int main() {
  const std::int64_t rows = 4, columns = 6, halo = 1, pitch = columns + 2 * halo;
  std::vector<double> field((rows + 2 * halo) * pitch, -1);
  double* first_owned = field.data() + halo * pitch + halo;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) first_owned[i * pitch + j] = i * 10.0 + j;
  std::int64_t step = 7;

  cairn::State state;
  state.add("step", step);
  state.add("u", cairn::slice(first_owned, {rows, columns}, {0, 0}, {rows, columns}, {pitch, 1}));

  std::vector<double> seen(rows * columns);
  const cairn::LocalTensor* u = state.find("u");
  u->slices[0].memory->read(cairn::Box::whole({rows, columns}),
                            reinterpret_cast<std::byte*>(seen.data()));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (seen[i * columns + j] != i * 10.0 + j) return std::puts("wrong element"), 1;

  try {
    state.add("u", cairn::nothing(cairn::DType::float64, {rows, columns}));
    return std::puts("a second tensor 'u' was taken"), 1;
  } catch (const cairn::Error& error) {
    if (std::string(error.what()).find("'u'") == std::string::npos)
      return std::printf("the error does not name the tensor: %s\n", error.what()), 1;
  }
  std::puts("core works");
}
