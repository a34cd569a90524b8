#include <complex>
#include <type_traits>

#include "kokkos/views.hpp"

namespace cairn::test {
namespace {

enum class Phase : std::uint16_t { solid, liquid };

template <class T>
DType dtype_of_view() {
  const Kokkos::View<std::remove_const_t<T>*, Kokkos::LayoutRight, Space> view("view", 3);
  return whole(Kokkos::View<T*, Kokkos::LayoutRight, Space>(view)).dtype;
}

TEST(ViewDType, FollowsTheElements) {
  EXPECT_EQ(dtype_of_view<float>(), DType::float32);
  EXPECT_EQ(dtype_of_view<const double>(), DType::float64);
  EXPECT_EQ(dtype_of_view<bool>(), DType::boolean);
  EXPECT_EQ(dtype_of_view<signed char>(), DType::int8);
  EXPECT_EQ(dtype_of_view<unsigned long long>(), DType::uint64);
  EXPECT_EQ(dtype_of_view<Phase>(), DType::uint16);
  EXPECT_EQ(dtype_of_view<Kokkos::complex<float>>(), DType::complex64);
  EXPECT_EQ(dtype_of_view<const Kokkos::complex<double>>(), DType::complex128);
}

// Kokkos' half types have 16 bits on devices that support them; elsewhere they are floats.
template <class Half>
void check_half(DType of_two_bytes) {
  const auto expected = sizeof(Half) == 2 ? of_two_bytes : DType::float32;
  EXPECT_EQ(dtype_of_view<Half>(), expected);
  EXPECT_EQ(dtype_size(dtype_of_view<Half>()), sizeof(Half));
}

TEST(ViewDType, HalfIsWhatItsBytesAre) {
  check_half<Kokkos::Experimental::half_t>(DType::float16);
#ifdef KOKKOS_BHALF_T_IS_FLOAT
  check_half<Kokkos::Experimental::bhalf_t>(DType::bfloat16);
#endif
}

TEST(ViewDType, ComplexKeepsBothHalves) {
  const Kokkos::View<Kokkos::complex<double>**, Kokkos::LayoutLeft, Space> view("view", 2, 3);
  view(1, 2) = Kokkos::complex<double>(3.5, -0.25);
  const auto tensor = whole(view);
  std::complex<double> out;
  tensor.slices[0].memory->read({{1, 2}, {1, 1}}, reinterpret_cast<std::byte*>(&out));
  EXPECT_EQ(out, std::complex<double>(3.5, -0.25));
}

}  // namespace
}  // namespace cairn::test
