#pragma once
// The arithmetic. Each element of a result is computed by one work item, which adds in a fixed
// order: nothing depends on the device's threads, nor on how many heads are here.
#include <Kokkos_Core.hpp>
#include <cmath>

#include "ranks.hpp"

// Matrices in a row, [which][row][column]; Matrices are in memory that somebody else keeps.
using Array = Kokkos::View<float***, Kokkos::LayoutRight>;
using Matrices = Kokkos::View<float***, Kokkos::LayoutRight, Kokkos::MemoryUnmanaged>;
using Tokens = Kokkos::View<int*>;
constexpr int width = 64, head_size = width / heads;

template <class... Counts>
auto items(Counts... counts) {
  using Each = Kokkos::MDRangePolicy<Kokkos::Rank<sizeof...(Counts)>>;
  return Each({(static_cast<long>(counts) * 0)...}, {static_cast<long>(counts)...});
}

enum class Is { plain, transposed };

// c = a b for each matrix in the row. A row of one serves all of the others.
template <Is is_a, Is is_b>
void multiply(const Matrices& a, const Matrices& b, const Matrices& c) {
  constexpr int tile = 8;  // columns of a work item
  const int inner = static_cast<int>(is_a == Is::plain ? a.extent(2) : a.extent(1));
  Kokkos::parallel_for(
      "multiply", items(c.extent(0), c.extent(1), c.extent(2) / tile),
      KOKKOS_LAMBDA(int h, int i, int block) {
        const int ha = a.extent(0) == 1 ? 0 : h, hb = b.extent(0) == 1 ? 0 : h,
                  first = block * tile;
        float sum[tile] = {};
        for (int k = 0; k < inner; ++k) {
          const float x = is_a == Is::plain ? a(ha, i, k) : a(ha, k, i);
          for (int j = 0; j < tile; ++j)
            sum[j] += x * (is_b == Is::plain ? b(hb, k, first + j) : b(hb, first + j, k));
        }
        for (int j = 0; j < tile; ++j) c(h, i, first + j) = sum[j];
      });
}

// y += what the heads give, head by head.
inline void add_heads(const Matrices& parts, const Matrices& y) {
  Kokkos::parallel_for(
      "add heads", items(lane_tokens, width), KOKKOS_LAMBDA(int n, int c) {
        float sum = 0;
        for (int h = 0; h < heads; ++h) sum += parts(h, n, c);
        y(0, n, c) += sum;
      });
}

// y = x / |x|, where |x| is the root of the mean square of a token's numbers.
inline void normalize(const Matrices& x, const Matrices& y) {
  Kokkos::parallel_for(
      "normalize", lane_tokens, KOKKOS_LAMBDA(int n) {
        float squares = 0;
        for (int c = 0; c < width; ++c) squares += x(0, n, c) * x(0, n, c);
        for (int c = 0; c < width; ++c) y(0, n, c) = x(0, n, c) / sqrtf(squares / width + 1e-6f);
      });
}

// dx += the gradient of x, which dy gives rise to.
inline void normalize_back(const Matrices& x, const Matrices& dy, const Matrices& dx) {
  Kokkos::parallel_for(
      "normalize back", lane_tokens, KOKKOS_LAMBDA(int n) {
        float squares = 0, dot = 0;
        for (int c = 0; c < width; ++c) {
          squares += x(0, n, c) * x(0, n, c);
          dot += dy(0, n, c) * x(0, n, c);
        }
        const float square = squares / width + 1e-6f, along = dot / width / square;
        for (int c = 0; c < width; ++c)
          dx(0, n, c) += (dy(0, n, c) - along * x(0, n, c)) / sqrtf(square);
      });
}

// For each head and token n: weights over the tokens up to n of its sequence, which add up to 1,
// and the mean of their values. A row of qkv holds the token's query, key and value.
inline void attend(const Matrices& qkv, const Matrices& weights, const Matrices& mean) {
  const float scale = 1 / std::sqrt(static_cast<float>(head_size));
  Kokkos::parallel_for(
      "attend", items(qkv.extent(0), lane_tokens), KOKKOS_LAMBDA(int h, int n) {
        const int last = n % context, start = n - last;
        float most = -1e30f, sum = 0;
        for (int s = 0; s <= last; ++s) {
          float dot = 0;
          for (int d = 0; d < head_size; ++d)
            dot += qkv(h, n, d) * qkv(h, start + s, head_size + d);
          weights(h, n, s) = dot * scale;
          most = dot * scale > most ? dot * scale : most;
        }
        for (int s = 0; s <= last; ++s) sum += weights(h, n, s) = expf(weights(h, n, s) - most);
        for (int s = 0; s <= last; ++s) weights(h, n, s) /= sum;
        for (int d = 0; d < head_size; ++d) {
          float value = 0;
          for (int s = 0; s <= last; ++s)
            value += weights(h, n, s) * qkv(h, start + s, 2 * head_size + d);
          mean(h, n, d) = value;
        }
      });
}

inline void attend_back(const Matrices& qkv, const Matrices& weights, const Matrices& dmean,
                        const Matrices& dscores, const Matrices& dqkv) {
  const float scale = 1 / std::sqrt(static_cast<float>(head_size));
  Kokkos::parallel_for(
      "scores back", items(qkv.extent(0), lane_tokens), KOKKOS_LAMBDA(int h, int n) {
        const int last = n % context, start = n - last;
        float mean = 0;
        for (int s = 0; s <= last; ++s) {
          float dot = 0;
          for (int d = 0; d < head_size; ++d)
            dot += dmean(h, n, d) * qkv(h, start + s, 2 * head_size + d);
          dscores(h, n, s) = dot;
          mean += weights(h, n, s) * dot;
        }
        for (int s = 0; s <= last; ++s)
          dscores(h, n, s) = scale * weights(h, n, s) * (dscores(h, n, s) - mean);
      });
  Kokkos::parallel_for(
      "attend back", items(qkv.extent(0), lane_tokens, head_size),
      KOKKOS_LAMBDA(int h, int n, int d) {
        const int at = n % context, start = n - at;
        float query = 0, key = 0, value = 0;
        for (int s = 0; s <= at; ++s) query += dscores(h, n, s) * qkv(h, start + s, head_size + d);
        for (int later = at; later < context; ++later) {
          key += dscores(h, start + later, at) * qkv(h, start + later, d);
          value += weights(h, start + later, at) * dmean(h, start + later, d);
        }
        dqkv(h, n, d) = query;
        dqkv(h, n, head_size + d) = key;
        dqkv(h, n, 2 * head_size + d) = value;
      });
}

// x = 0 where y is not positive.
inline void rectify(const Matrices& x, const Matrices& y) {
  Kokkos::parallel_for(
      "rectify", items(x.extent(0), x.extent(1), x.extent(2)),
      KOKKOS_LAMBDA(int h, int n, int i) { x(h, n, i) = y(h, n, i) > 0 ? x(h, n, i) : 0; });
}

inline void embed(const Tokens& input, const Matrices& token, const Matrices& place,
                  const Matrices& x) {
  Kokkos::parallel_for(
      "embed", items(lane_tokens, width), KOKKOS_LAMBDA(int n, int c) {
        x(0, n, c) = token(0, input(n), c) + place(0, n % context, c);
      });
}
inline void embed_back(const Tokens& input, const Matrices& dx, const Matrices& dtoken,
                       const Matrices& dplace) {
  Kokkos::parallel_for(
      "embed back", items(vocabulary, width), KOKKOS_LAMBDA(int v, int c) {
        float of_token = 0, of_place = 0;
        for (int n = 0; n < lane_tokens; ++n) of_token += input(n) == v ? dx(0, n, c) : 0;
        dtoken(0, v, c) = of_token;
        if (v >= context) return;
        for (int n = v; n < lane_tokens; n += context) of_place += dx(0, n, c);
        dplace(0, v, c) = of_place;
      });
}

// Each token's loss; the logits become their gradient of the mean over the whole batch.
inline void cross_entropy(const Matrices& logits, const Tokens& target, const Flat& loss) {
  Kokkos::parallel_for(
      "cross entropy", lane_tokens, KOKKOS_LAMBDA(int n) {
        float most = logits(0, n, 0), sum = 0;
        for (int v = 1; v < vocabulary; ++v) most = logits(0, n, v) > most ? logits(0, n, v) : most;
        for (int v = 0; v < vocabulary; ++v) sum += expf(logits(0, n, v) - most);
        loss(n) = logf(sum) + most - logits(0, n, target(n));
        for (int v = 0; v < vocabulary; ++v) {
          const float share = expf(logits(0, n, v) - most) / sum - (v == target(n) ? 1 : 0);
          logits(0, n, v) = share / (lanes * lane_tokens);
        }
      });
}
