// Products: the reference against a sum in double, the host (every engine, the types of every
// instruction set) against the reference, exactly where arithmetic is exact.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host/cblas.hpp>
#include <parallel/ops/host/matmul.hpp>
#include <parallel/ops/host/onednn.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

namespace matmul_test {

using parallel::accumulate_t;
using parallel::bf16;
using parallel::index;
using parallel::matrix_view;
using parallel::shape;
namespace ops = parallel::ops;

struct extents {
  index m, n, k;
};

/// Small integers: their products and sums are exact in every type, in any order.
template <class T>
std::vector<T> integers(index count, std::uint32_t stream) {
  parallel::philox const random(7, stream);
  std::vector<T> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto const value = static_cast<int>(random.bits(i) % 7U) - 3;
    if constexpr (std::is_same_v<T, bf16>)
      out[i] = bf16(static_cast<float>(value));
    else
      out[i] = static_cast<T>(value);
  }
  return out;
}

template <class T>
std::vector<T> normals(index count, std::uint32_t stream) {
  parallel::philox const random(8, stream);
  std::vector<T> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(random.normal(i));
  return out;
}

template <class Stream, class C, class T>
std::vector<C> multiply(Stream& s, extents e, std::vector<T> const& a, std::vector<T> const& b,
                        std::vector<C> c, ops::matmul_options options,
                        std::vector<C> const* addend = nullptr) {
  ops::matmul(
      s, matrix_view<C>(c.data(), {e.m, e.n}),
      matrix_view<T const>(a.data(), options.transpose_a ? shape<2>{e.k, e.m} : shape<2>{e.m, e.k}),
      matrix_view<T const>(b.data(), options.transpose_b ? shape<2>{e.n, e.k} : shape<2>{e.k, e.n}),
      options,
      addend == nullptr ? matrix_view<C const>{}
                        : matrix_view<C const>(addend->data(), {e.m, e.n}));
  s.synchronize();
  return c;
}

std::vector<ops::matmul_options> all_options() {
  std::vector<ops::matmul_options> combinations;
  for (int bits = 0; bits < 8; ++bits)
    combinations.push_back({.transpose_a = (bits & 1) != 0,
                            .transpose_b = (bits & 2) != 0,
                            .accumulate = (bits & 4) != 0});
  return combinations;
}

std::vector<extents> all_extents() {
  return {{1, 1, 1},   {1, 17, 5},   {3, 1, 9},    {8, 32, 16},   {7, 33, 1},     {2, 40, 33},
          {4, 65, 70}, {65, 70, 31}, {1, 130, 64}, {16, 64, 300}, {193, 257, 259}};
}

struct host_stream {
  std::string name;
  parallel::host::stream_options options;
};

/// Streams without an engine and with each engine.
std::vector<host_stream> host_streams(parallel::host::onednn_engine const& onednn,
                                      parallel::host::cblas_engine const& cblas) {
  return {{"plain, 1 thread", {.threads = 1}},
          {"plain, 2 threads", {.threads = 2}},
          {"oneDNN, 1 thread", {.threads = 1, .engine = &onednn}},
          {"oneDNN, 2 threads", {.threads = 2, .engine = &onednn}},
          {"BLAS", {.threads = 1, .engine = &cblas}}};
}

template <class T, class C>
void check_exactly() {
  parallel::host::onednn_engine const onednn;
  parallel::host::cblas_engine const cblas;
  std::deque<parallel::host::stream> streams;
  auto const devices = host_streams(onednn, cblas);
  for (auto const& device : devices) streams.emplace_back(device.options);
  parallel::reference::stream r;
  for (auto const& e : all_extents()) {
    auto const a = integers<T>(e.m * e.k, 1);
    auto const b = integers<T>(e.k * e.n, 2);
    auto const c = integers<C>(e.m * e.n, 3);
    auto const poison = integers<C>(e.m * e.n, 4);
    for (auto const& options : all_options()) {
      CAPTURE(e.m);
      CAPTURE(e.n);
      CAPTURE(e.k);
      CAPTURE(options.transpose_a);
      CAPTURE(options.transpose_b);
      CAPTURE(options.accumulate);
      auto const expected = multiply(r, e, a, b, c, options);
      auto apart = options;
      apart.accumulate = false;
      if (options.accumulate) CHECK(multiply(r, e, a, b, poison, apart, &c) == expected);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        CAPTURE(devices[i].name);
        CHECK(multiply(streams[i], e, a, b, c, options) == expected);
        if (options.accumulate) CHECK(multiply(streams[i], e, a, b, poison, apart, &c) == expected);
      }
    }
  }
}

TEST_CASE("matmul: the reference product follows its definition, also modulo 2^64") {
  parallel::reference::stream r;
  extents const e{3, 4, 5};
  auto a = integers<std::uint64_t>(e.m * e.k, 1);
  auto b = integers<std::uint64_t>(e.k * e.n, 2);
  a[3] = 0x9e3779b97f4a7c15U;
  b[6] = 0xd1b54a32d192ed03U;
  auto const c = integers<std::uint64_t>(e.m * e.n, 3);
  for (auto const& options : all_options()) {
    auto const got = multiply(r, e, a, b, c, options);
    for (index i = 0; i < e.m; ++i)
      for (index j = 0; j < e.n; ++j) {
        std::uint64_t sum = options.accumulate ? c[static_cast<std::size_t>(i * e.n + j)] : 0;
        for (index k = 0; k < e.k; ++k)
          sum += a[static_cast<std::size_t>(options.transpose_a ? k * e.m + i : i * e.k + k)] *
                 b[static_cast<std::size_t>(options.transpose_b ? j * e.k + k : k * e.n + j)];
        CHECK(got[static_cast<std::size_t>(i * e.n + j)] == sum);
      }
  }
}

TEST_CASE(
    "matmul: every engine multiplies small integers exactly, in every shape and transposition") {
  check_exactly<float, float>();
  check_exactly<bf16, float>();
  check_exactly<bf16, bf16>();
  check_exactly<double, double>();
  check_exactly<std::uint64_t, std::uint64_t>();
}

TEST_CASE_TEMPLATE("matmul: rows of B at multiples of 4 KiB are multiplied exactly", T, float,
                   bf16) {
  parallel::host::onednn_engine const onednn;
  parallel::reference::stream r;
  extents const e{.m = 259, .n = 4096 / static_cast<index>(sizeof(T)), .k = 19};
  auto const a = integers<T>(e.m * e.k, 1);
  auto const b = integers<T>(e.k * e.n, 2);
  auto const c = integers<float>(e.m * e.n, 3);
  for (int const threads : {1, 2}) {
    parallel::host::stream s({.threads = threads, .engine = &onednn});
    for (auto const& options : all_options())
      CHECK(multiply(s, e, a, b, c, options) == multiply(r, e, a, b, c, options));
  }
}

TEST_CASE("matmul: an empty sum is zero, or the previous value of C") {
  parallel::host::onednn_engine const onednn;
  parallel::host::cblas_engine const cblas;
  for (auto const& device : host_streams(onednn, cblas)) {
    CAPTURE(device.name);
    parallel::host::stream s(device.options);
    extents const e{2, 3, 0};
    std::vector<float> const none;
    std::vector<float> const c(6, 5.0F);
    CHECK(multiply(s, e, none, none, c, {}) == std::vector<float>(6, 0.0F));
    CHECK(multiply(s, e, none, none, c, {.accumulate = true}) == c);
    CHECK(multiply(s, e, none, none, std::vector<float>(6, 1.0F), {}, &c) == c);
    extents const empty{0, 3, 2};
    CHECK(multiply(s, empty, none, std::vector<float>(6, 1.0F), none, {}).empty());
  }
}

TEST_CASE("matmul: a bf16 product and its addend are rounded once, together") {
  // Numbers between 2 and 4 are 2^-6 apart. The product is 1 + 2^-6 + 2^-14. Rounded by itself it
  // loses its last term, and the sum is half way between 2 and the next number, and is rounded
  // to 2.
  bf16 const factor(1.0F + 0x1p-7F);
  bf16 const addend_value(1.0F - 0x1p-7F);
  bf16 const rounded_once(2.0F + 0x1p-6F);
  REQUIRE(bf16(static_cast<float>(bf16(static_cast<float>(factor) * static_cast<float>(factor))) +
               static_cast<float>(addend_value)) == bf16(2.0F));
  parallel::host::onednn_engine const onednn;
  parallel::host::cblas_engine const cblas;
  auto const check = [&](auto& s) {
    for (extents const e : {extents{1, 40, 1}, {3, 17, 5}, {7, 33, 1}, {70, 300, 290}})
      for (bool const transpose_b : {false, true}) {
        CAPTURE(e.m);
        CAPTURE(transpose_b);
        std::vector<bf16> a(static_cast<std::size_t>(e.m * e.k), bf16(0.0F));
        for (index i = 0; i < e.m; ++i) a[static_cast<std::size_t>(i * e.k + i % e.k)] = factor;
        std::vector<bf16> const b(static_cast<std::size_t>(e.k * e.n), factor);
        std::vector<bf16> const addend(static_cast<std::size_t>(e.m * e.n), addend_value);
        std::vector<bf16> const expected(addend.size(), rounded_once);
        ops::matmul_options const options{.transpose_b = transpose_b};
        CHECK(multiply(s, e, a, b, std::vector<bf16>(addend.size()), options, &addend) == expected);
        auto in_place = options;
        in_place.accumulate = true;
        CHECK(multiply(s, e, a, b, addend, in_place) == expected);
      }
  };
  parallel::reference::stream r;
  check(r);
  for (auto const& device : host_streams(onednn, cblas)) {
    CAPTURE(device.name);
    parallel::host::stream s(device.options);
    check(s);
  }
}

/// Differences of sums of k terms from exact ones, in units of the sum of absolute values.
template <class T, class C>
double worst_error(parallel::host::stream& s, extents e, ops::matmul_options options) {
  auto const a = normals<T>(e.m * e.k, 4);
  auto const b = normals<T>(e.k * e.n, 5);
  auto const c = normals<C>(e.m * e.n, 6);
  auto const got = multiply(s, e, a, b, c, options);
  double worst = 0;
  for (index i = 0; i < e.m; ++i)
    for (index j = 0; j < e.n; ++j) {
      auto const position = static_cast<std::size_t>(i * e.n + j);
      double sum = options.accumulate ? static_cast<double>(c[position]) : 0.0;
      double size = std::abs(sum);
      for (index k = 0; k < e.k; ++k) {
        double const term =
            static_cast<double>(
                a[static_cast<std::size_t>(options.transpose_a ? k * e.m + i : i * e.k + k)]) *
            static_cast<double>(
                b[static_cast<std::size_t>(options.transpose_b ? j * e.k + k : k * e.n + j)]);
        sum += term;
        size += std::abs(term);
      }
      worst = std::max(worst, std::abs(static_cast<double>(got[position]) - sum) / size);
    }
  return worst;
}

TEST_CASE("matmul: real products are within rounding of the exact ones") {
  parallel::host::onednn_engine const onednn;
  parallel::host::cblas_engine const cblas;
  extents const e{65, 130, 300};
  for (auto const& device : host_streams(onednn, cblas)) {
    CAPTURE(device.name);
    parallel::host::stream s(device.options);
    for (auto const& options : all_options()) {
      // k terms of half a unit in the last place of float each, and one rounding of the result
      double const sums = 300 * 0x1p-24;
      CHECK(worst_error<float, float>(s, e, options) < sums);
      CHECK(worst_error<bf16, float>(s, e, options) < sums);
      CHECK(worst_error<bf16, bf16>(s, e, options) < sums + 0x1p-8);
    }
  }
}

TEST_CASE("matmul: our own product has the same bits for every number of threads") {
  extents const e{400, 520, 300};
  auto const a = normals<float>(e.m * e.k, 4);
  auto const b = normals<float>(e.k * e.n, 5);
  std::vector<float> const c(static_cast<std::size_t>(e.m * e.n));
  parallel::host::stream one({.threads = 1});
  parallel::host::stream two({.threads = 2});
  parallel::host::stream three({.threads = 3});
  auto const expected = multiply(one, e, a, b, c, {.transpose_b = true});
  CHECK(multiply(two, e, a, b, c, {.transpose_b = true}) == expected);
  CHECK(multiply(three, e, a, b, c, {.transpose_b = true}) == expected);
}

TEST_CASE_TEMPLATE(
    "matmul: a row of our own product has the same bits in products of five rows or more", T, float,
    bf16) {
  extents const full{330, 130, 800};
  auto const a = normals<T>(full.m * full.k, 4);
  auto const b = normals<T>(full.k * full.n, 5);
  for (bool const transpose_b : {false, true}) {
    parallel::host::stream s({.threads = 2});
    std::vector<float> const none(static_cast<std::size_t>(full.m * full.n));
    auto const expected = multiply(s, full, a, b, none, {.transpose_b = transpose_b});
    for (index const rows : {5, 16, 33, 210}) {
      CAPTURE(rows);
      index const first = rows / 2;
      extents const narrow_extents{rows, full.n, full.k};
      std::vector<T> const part(a.begin() + first * full.k, a.begin() + (first + rows) * full.k);
      std::vector<float> const empty(static_cast<std::size_t>(rows * full.n));
      auto const got = multiply(s, narrow_extents, part, b, empty, {.transpose_b = transpose_b});
      CHECK(std::equal(got.begin(), got.end(), expected.begin() + first * full.n));
    }
  }
}

TEST_CASE("matmul: our own product is exact on every instruction set of this processor") {
  extents const e{33, 70, 260};
  auto const a = integers<bf16>(e.m * e.k, 1);
  auto const b = integers<bf16>(e.k * e.n, 2);
  auto const c = integers<float>(e.m * e.n, 3);
  parallel::reference::stream r;
  auto const expected = multiply(r, e, a, b, c, {.accumulate = true});
  for (int const lanes : {4, 8, 16}) {
    if (lanes > parallel::host::simd::native_lanes()) continue;
    auto got = c;
    parallel::host::workspace memory;
    parallel::host::detail::gemm<bf16, float>{.m = e.m,
                                              .n = e.n,
                                              .k = e.k,
                                              .a = {a.data(), e.k, 1},
                                              .b = {b.data(), e.n, 1},
                                              .c = got.data(),
                                              .ldc = e.n,
                                              .addend = c.data()}(memory, 1, lanes);
    CHECK(got == expected);
    for (index const b_row : {e.n, index(1)}) {  // B as stored, and its transpose
      extents const narrow_extents{3, 70, 33};
      auto const options = ops::matmul_options{.transpose_b = b_row == 1};
      std::vector<bf16> const left(a.begin(), a.begin() + narrow_extents.m * narrow_extents.k);
      std::vector<bf16> const right(b.begin(), b.begin() + narrow_extents.k * narrow_extents.n);
      std::vector<float> narrow(static_cast<std::size_t>(narrow_extents.m * narrow_extents.n));
      auto const reference = multiply(r, narrow_extents, left, right, narrow, options);
      parallel::host::detail::gemm_narrow<bf16, float>{
          .n = narrow_extents.n,
          .k = narrow_extents.k,
          .a = {left.data(), narrow_extents.k, 1},
          .b = {right.data(), b_row, b_row == 1 ? narrow_extents.k : 1},
          .c = narrow.data(),
          .ldc = narrow_extents.n}(memory, narrow_extents.m, 1, lanes);
      CHECK(narrow == reference);
      std::vector<float> const addend(c.begin(), c.begin() + narrow_extents.m * narrow_extents.n);
      auto const sum = multiply(r, narrow_extents, left, right, narrow, options, &addend);
      parallel::host::detail::gemm_narrow<bf16, float>{
          .n = narrow_extents.n,
          .k = narrow_extents.k,
          .a = {left.data(), narrow_extents.k, 1},
          .b = {right.data(), b_row, b_row == 1 ? narrow_extents.k : 1},
          .c = narrow.data(),
          .ldc = narrow_extents.n,
          .addend = addend.data()}(memory, narrow_extents.m, 1, lanes);
      CHECK(narrow == sum);
    }
  }
}

TEST_CASE("matmul: one oneDNN engine serves several streams at the same time") {
  parallel::host::onednn_engine const engine;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&engine, &wrong, rank] {
      parallel::host::stream s({.threads = 1, .engine = &engine});
      parallel::reference::stream r;
      for (index round = 0; round < 6; ++round) {
        extents const e{20 + round, 40, 30 + (rank % 2)};
        auto const a = integers<float>(e.m * e.k, 1);
        auto const b = integers<float>(e.k * e.n, 2);
        std::vector<float> const c(static_cast<std::size_t>(e.m * e.n));
        if (multiply(s, e, a, b, c, {}) != multiply(r, e, a, b, c, {})) ++wrong;
      }
    });
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
}

TEST_CASE("matmul: shapes that do not fit are refused before anything runs") {
  parallel::host::stream s;
  std::vector<float> data(64);
  auto const matrix = [&](index rows, index columns) {
    return matrix_view<float>(data.data(), {rows, columns});
  };
  CHECK_THROWS_WITH_AS(ops::matmul(s, matrix(2, 3), matrix(3, 4), matrix(4, 3)),
                       "ops::matmul: the number of rows of C is 2, but that of op(A) is 3; the two "
                       "must be the same",
                       parallel::error);
  CHECK_THROWS_AS(ops::matmul(s, matrix(2, 3), matrix(2, 4), matrix(4, 2)), parallel::error);
  CHECK_THROWS_WITH_AS(
      ops::matmul(s, matrix(2, 3), matrix(2, 4), matrix(3, 5), {.transpose_b = true}),
      "ops::matmul: the number of columns of op(A) is 4, but the number of rows of op(B) is 5; the "
      "two must be the same",
      parallel::error);
  CHECK_THROWS_WITH_AS(ops::matmul(s, matrix(2, 3), matrix(2, 4), matrix(4, 3), {}, matrix(3, 3)),
                       "ops::matmul: the number of rows of the addend is 3, but that of the result "
                       "is 2; the two must be the same",
                       parallel::error);
  CHECK_THROWS_AS(ops::matmul(s, matrix(2, 3), matrix(2, 4), matrix(4, 3), {}, matrix(2, 0)),
                  parallel::error);
  CHECK_THROWS_WITH_AS(
      ops::matmul(s, matrix(2, 3), matrix(2, 4), matrix(4, 3), {.accumulate = true}, matrix(2, 3)),
      "ops::matmul: either C is added to, or an addend", parallel::error);
  CHECK_NOTHROW(s.synchronize());
}

TEST_CASE("matmul: the meta device counts 2 m n k operations") {
  parallel::meta::stream s;
  ops::matmul(s, matrix_view<float>(nullptr, {3, 5}), matrix_view<bf16>(nullptr, {7, 3}),
              matrix_view<bf16>(nullptr, {5, 7}), {.transpose_a = true, .transpose_b = true});
  CHECK(s.operations() == 2 * 3 * 5 * 7);
}

}  // namespace matmul_test
