#pragma once
// The arithmetic. One work item computes each row of a result and adds in a fixed order, so nothing
// depends on the device's threads, nor on how many heads this rank has.
#include <Kokkos_Core.hpp>
#include <cmath>
#include <utility>

#include "ranks.hpp"

// Several matrices in one array, [which][row][column], and parts of such arrays.
using Array = Kokkos::View<float***, Kokkos::LayoutRight>;
using Strided = Kokkos::View<float***, Kokkos::LayoutStride, Kokkos::MemoryUnmanaged>;
using Window = Kokkos::View<int[context + 1], Kokkos::LayoutRight>;
using HostWindow = Kokkos::View<const int[context + 1], Kokkos::LayoutRight, Kokkos::HostSpace,
                                Kokkos::MemoryUnmanaged>;

inline Strided transposed(const Strided& a) {
  return Strided(a.data(), Kokkos::LayoutStride(a.extent(0), a.stride(0), a.extent(2), a.stride(2),
                                                a.extent(1), a.stride(1)));
}

// The values that heads compute for a token are in one row, one kind after the other, head_size of
// each.
enum Inner { query, key, value, hidden };
enum Outer { mean, active };
inline Strided columns(const Array& a, int kind) {
  const int first = kind * head_size;
  return Kokkos::subview(a, Kokkos::ALL, Kokkos::ALL, std::pair(first, first + head_size));
}

// One work item for each row of each matrix.
template <class View>
auto rows(const View& of) {
  using Policy = Kokkos::MDRangePolicy<Kokkos::Rank<2>>;
  return Policy({0L, 0L}, {static_cast<long>(of.extent(0)), static_cast<long>(of.extent(1))});
}

// c = a b for each matrix of the arrays. If one array has a single matrix, it is used with all
// matrices of the other.
template <class A, class B, class C>
void multiply(const A& a, const B& b, const C& c) {
  const int inner = a.extent_int(2), columns = c.extent_int(2);
  Kokkos::parallel_for(
      "multiply", rows(c), KOKKOS_LAMBDA(int i, int row) {
        const int in_a = a.extent(0) == 1 ? 0 : i, in_b = b.extent(0) == 1 ? 0 : i;
        for (int j = 0; j < columns; ++j) c(i, row, j) = 0;
        for (int k = 0; k < inner; ++k) {
          const float x = a(in_a, row, k);
          for (int j = 0; j < columns; ++j) c(i, row, j) += x * b(in_b, k, j);
        }
      });
}

// Adds the results of the heads to y, head by head.
inline void add_heads(const Array& parts, const Array& y) {
  Kokkos::parallel_for(
      "add heads", y.size(), KOKKOS_LAMBDA(int i) {
        float sum = 0;
        for (int h = 0; h < heads; ++h) sum += parts.data()[h * y.size() + i];
        y.data()[i] += sum;
      });
}

// Each token's row gets a one for its character, and a one for its place in the window.
inline void one_hot(const Window& text, const Array& x) {
  Kokkos::deep_copy(x, 0);
  Kokkos::parallel_for(
      "one hot", context, KOKKOS_LAMBDA(int n) { x(0, n, text(n)) = x(0, n, vocabulary + n) = 1; });
}

// Numbers become shares that add up to 1, each in proportion to exp(number). Returns the logarithm
// of the sum of those exponentials.
KOKKOS_INLINE_FUNCTION float softmax(float* x, int count) {
  float most = x[0], sum = 0;
  for (int i = 1; i < count; ++i) most = x[i] > most ? x[i] : most;
  for (int i = 0; i < count; ++i) sum += x[i] = expf(x[i] - most);
  for (int i = 0; i < count; ++i) x[i] /= sum;
  return most + logf(sum);
}

// The scores in each token's row, one for each token (column), become shares; those of later tokens
// are 0.
inline void attend(const Array& scores) {
  Kokkos::parallel_for(
      "attend", rows(scores), KOKKOS_LAMBDA(int head, int row) {
        softmax(&scores(head, row, 0), row + 1);
        for (int later = row + 1; later < context; ++later) scores(head, row, later) = 0;
      });
}

// Turns the gradients of the shares into those of the scores.
inline void attend_back(const Array& shares, const Array& gradients) {
  Kokkos::parallel_for(
      "attend back", rows(shares), KOKKOS_LAMBDA(int head, int row) {
        float mean = 0;
        for (int n = 0; n <= row; ++n) mean += shares(head, row, n) * gradients(head, row, n);
        for (int n = 0; n < context; ++n)
          gradients(head, row, n) = shares(head, row, n) * (gradients(head, row, n) - mean);
      });
}

// y = x where `gate` is positive, else 0.
inline void let_through(const Strided& x, const Strided& gate, const Strided& y) {
  Kokkos::parallel_for(
      "let through", rows(x), KOKKOS_LAMBDA(int head, int n) {
        for (int c = 0; c < head_size; ++c)
          y(head, n, c) = gate(head, n, c) > 0 ? x(head, n, c) : 0;
      });
}

// Computes each token's loss. The logits are replaced by the gradient of the mean loss over the
// whole batch.
inline void cross_entropy(const Array& logits, const Window& text, const Flat& loss) {
  Kokkos::parallel_for(
      "cross entropy", context, KOKKOS_LAMBDA(int n) {
        const int next = text(n + 1);
        const float logit = logits(0, n, next);
        loss(n) = softmax(&logits(0, n, 0), vocabulary) - logit;
        logits(0, n, next) -= 1;
        for (int v = 0; v < vocabulary; ++v) logits(0, n, v) /= lanes * context;
      });
}
