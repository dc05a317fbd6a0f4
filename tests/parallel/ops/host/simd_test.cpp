// SIMD kernels: every instruction set of this processor, against scalar code and libm in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <parallel/ops/host/math.hpp>
#include <parallel/ops/host/parallel_for.hpp>
#include <parallel/ops/host/simd.hpp>

namespace simd_test {

namespace simd = parallel::host::simd;
using parallel::bf16;
using parallel::index;

std::vector<int> lanes_here() {
  std::vector<int> available;
  for (int const lanes : {4, 8, 16})
    if (lanes <= simd::native_lanes()) available.push_back(lanes);
  return available;
}

enum class function { exp, erf, tanh };

std::vector<float> apply(int lanes, function kind, std::vector<float> const& in) {
  std::vector<float> out(in.size());
  simd::dispatch_to(
      lanes, [&](auto width) __attribute__((always_inline)) {
        constexpr int L = width;
        auto const count = static_cast<index>(in.size());
        for (index i = 0; i < count; i += L) {
          auto const x = simd::load_partial<L>(in.data() + i, count - i);
          auto const y = kind == function::exp   ? simd::exp(x)
                         : kind == function::erf ? simd::erf(x)
                                                 : simd::tanh(x);
          simd::store_partial(out.data() + i, y, count - i);
        }
      });
  return out;
}

/// The greatest error in units in the last place of the exact value, over floats in [low, high].
template <class Exact>
double worst_ulp(int lanes, function kind, float low, float high, Exact exact) {
  std::vector<float> in;
  for (std::uint32_t word = 0; word < 0xff000000U; word += 4099)
    if (float const x = std::bit_cast<float>(word); x >= low && x <= high) in.push_back(x);
  auto const out = apply(lanes, kind, in);
  double worst = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    double const truth = exact(static_cast<double>(in[i]));
    int exponent = 0;
    std::frexp(truth, &exponent);
    double const ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
    worst = std::max(worst, std::abs(static_cast<double>(out[i]) - truth) / ulp);
  }
  return worst;
}

TEST_CASE("simd: exp, erf and tanh are within their stated errors on every instruction set") {
  for (int const lanes : lanes_here()) {
    CAPTURE(lanes);
    double const fused = lanes == 4 ? 1.5 : 1.0;  // SSE2 rounds products and sums separately
    double const e =
        worst_ulp(lanes, function::exp, -87.3F, 88.7F, [](double x) { return std::exp(x); });
    double const f =
        worst_ulp(lanes, function::erf, -1e30F, 1e30F, [](double x) { return std::erf(x); });
    double const t =
        worst_ulp(lanes, function::tanh, -1e30F, 1e30F, [](double x) { return std::tanh(x); });
    MESSAGE(lanes, " lanes: exp ", e, " erf ", f, " tanh ", t, " ulp");
    CHECK(e <= 1.0 * fused);
    CHECK(f <= 2.0 * fused);
    CHECK(t <= 2.0 * fused);
  }
}

TEST_CASE("simd: exp, erf and tanh keep NaN, infinities, zeros and the ends of their range") {
  float const inf = std::numeric_limits<float>::infinity();
  float const nan = std::numeric_limits<float>::quiet_NaN();
  for (int const lanes : lanes_here()) {
    CAPTURE(lanes);
    auto const e =
        apply(lanes, function::exp, {0.0F, -0.0F, inf, -inf, nan, -88.0F, 89.0F, 1e30F, -1e30F});
    CHECK(e[0] == 1.0F);
    CHECK(e[1] == 1.0F);
    CHECK(e[2] == inf);
    CHECK(e[3] == 0.0F);
    CHECK(std::isnan(e[4]));
    CHECK(e[5] == 0.0F);
    CHECK(e[6] == inf);
    CHECK(e[7] == inf);
    CHECK(e[8] == 0.0F);
    for (auto const kind : {function::erf, function::tanh}) {
      auto const f = apply(lanes, kind, {0.0F, -0.0F, inf, -inf, nan, 1e-30F});
      CHECK(f[0] == 0.0F);
      CHECK(std::signbit(f[1]));
      CHECK(f[2] == 1.0F);
      CHECK(f[3] == -1.0F);
      CHECK(std::isnan(f[4]));
      CHECK(f[5] > 0.0F);
    }
  }
}

TEST_CASE("simd: packs convert every bf16 exactly and round floats as bf16 does") {
  for (int const lanes : lanes_here()) {
    CAPTURE(lanes);
    std::vector<bf16> in(65536);
    for (std::size_t i = 0; i < in.size(); ++i) in[i].bits = static_cast<std::uint16_t>(i);
    std::vector<float> wide(in.size());
    std::vector<float> odd(in.size());
    std::vector<bf16> back(in.size());
    for (std::size_t i = 0; i < in.size(); ++i)  // numbers between two bf16, ties included
      odd[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i << 16 | (i * 40503U & 0xffffU)));
    for (std::size_t i = 0; i < in.size(); i += 5)
      odd[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i) << 16 | 0x8000U);
    simd::dispatch_to(
        lanes, [&](auto width) __attribute__((always_inline)) {
          constexpr int L = width;
          for (std::size_t i = 0; i < in.size(); i += L) {
            simd::store(wide.data() + i, simd::load<L>(in.data() + i));
            simd::store(back.data() + i, simd::load<L>(odd.data() + i));
          }
        });
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      wrong += std::bit_cast<std::uint32_t>(wide[i]) != static_cast<std::uint32_t>(i) << 16;
      wrong += back[i].bits != bf16(odd[i]).bits;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("simd: partial loads and stores touch only their elements, reductions cover every lane") {
  for (int const lanes : lanes_here()) {
    CAPTURE(lanes);
    for (index count = 0; count <= 16; ++count) {
      std::vector<float> in(
          static_cast<std::size_t>(count));  // exact sizes, so that sanitizers see overreads
      std::iota(in.begin(), in.end(), 1.0F);
      std::vector<float> out(33, -7.0F);
      float total = 0;
      float greatest = 0;
      simd::dispatch_to(
          lanes, [&](auto width) __attribute__((always_inline)) {
            constexpr int L = width;
            auto const x = simd::load_partial<L>(in.data(), count);
            simd::store_partial(out.data(), x, count);
            total = simd::sum(x);
            greatest = simd::max_of(x);
          });
      auto const seen = std::min<index>(count, lanes);
      CHECK(total == static_cast<float>(seen * (seen + 1) / 2));
      CHECK(greatest == static_cast<float>(seen));
      for (index i = 0; i < 33; ++i)
        CHECK(out[static_cast<std::size_t>(i)] == (i < seen ? static_cast<float>(i + 1) : -7.0F));
    }
  }
}

TEST_CASE(
    "parallel_for: every element is covered once, in blocks that do not depend on the threads") {
  for (int const threads : {1, 2, 5})
    for (index const count : {0, 1, 9, 10, 11, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(count));
      std::vector<index> ends(static_cast<std::size_t>(count / 10 + 1), -1);
      parallel::host::parallel_for(threads, count, 10, [&](index begin, index end) {
        for (index i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        ends[static_cast<std::size_t>(begin / 10)] = end;
        CHECK(begin % 10 == 0);
      });
      CHECK(std::count(seen.begin(), seen.end(), 1) == count);
      for (index k = 0; k * 10 < count; ++k)
        CHECK(ends[static_cast<std::size_t>(k)] == std::min<index>(count, k * 10 + 10));
      std::vector<int> tasks(static_cast<std::size_t>(count));
      parallel::host::parallel_tasks(threads, count,
                                     [&](index task) { ++tasks[static_cast<std::size_t>(task)]; });
      CHECK(std::count(tasks.begin(), tasks.end(), 1) == count);
    }
}

TEST_CASE("parallel_for: an exception in any thread reaches the caller") {
  for (int const threads : {1, 2, 3}) {
    auto const broken = [&] {
      parallel::host::parallel_for(threads, 100, 1, [](index begin, index) {
        if (begin == 77) throw std::runtime_error("seventy-seven");
      });
    };
    CHECK_THROWS_WITH(broken(), "seventy-seven");
  }
}

}  // namespace simd_test
