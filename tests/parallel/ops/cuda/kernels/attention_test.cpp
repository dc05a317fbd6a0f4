// The kernels of attention and its gradient on the host, through the passes that launch them:
// against the reference in double, and the same bits in every order of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <parallel/ops/attention.hpp>
#include <parallel/ops/cuda/attention/attention_passes.hpp>
#include <parallel/ops/cuda/scratch.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/attention_by_parts.hpp"
#include "parallel/ops/attention_problem.hpp"
#include "support/devices/host_block.hpp"

namespace parallel::testing {

/// Runs the kernels of attention immediately, thread after thread, as on a device that allows
/// blocks that amount of shared memory.
struct block_stream {
  thread_order order = thread_order::ascending;
  std::size_t shared = 227 * 1024;
  std::vector<std::size_t>* asked = nullptr;  // receives the request of each kernel

  void synchronize() {}

  struct launcher_type {
    block_stream const& s;

    template <class Body>
    void operator()(char const*, std::size_t blocks, Body const& body, std::size_t bytes) const {
      require(bytes <= s.shared, "a kernel asks for ", bytes, " bytes of shared memory");
      if (s.asked != nullptr) s.asked->push_back(bytes);
      host_block::run_grid(static_cast<unsigned>(blocks), cuda::kernels::tile_threads, bytes,
                           s.order, body);
    }
    [[nodiscard]] std::size_t shared_limit() const { return s.shared; }
  };
  [[nodiscard]] launcher_type launcher() const { return {*this}; }
};

using ops::attention_options;
using ops::heads_view;

template <class T>
void run_operation(block_stream& s, ops::attention_arguments<T> const& a) {
  cuda::detail::attention_pass<T>(s.launcher(), a.name, a.out, a.lse.data(), a.q, a.k, a.v,
                                  a.options, false);
}

template <class T>
void run_operation(block_stream& s, ops::extend_attention_arguments<T> const& a) {
  cuda::detail::attention_pass<T>(s.launcher(), a.name, a.out, a.lse.data(), a.q, a.k, a.v,
                                  a.options, true);
}

template <class T, bool Extends>
void run_operation(block_stream& s, ops::basic_attention_backward_arguments<T, Extends> const& a) {
  std::vector<std::byte> scratch(cuda::detail::attention_row_bytes<T>(a.q), std::byte{0xff});
  cuda::detail::attention_backward_pass(s.launcher(), scratch.data(), a);
}

}  // namespace parallel::testing

namespace attention_kernels_test {

using namespace attention_test;
using parallel::bf16;
using parallel::index;
using parallel::tensor_view;
using parallel::testing::block_stream;
using parallel::testing::thread_order;

/// The allowed difference of each type's results, relative to the greatest number.
template <class T>
constexpr double bound = std::is_same_v<T, double>  ? 1e-13
                         : std::is_same_v<T, float> ? 5e-6
                                                    : 0x1p-7;

/// Compares the kernels with the reference in double, for the same inputs, and their bits with
/// those in the `other` order of threads.
template <class T>
void check(sizes size, variant variation, thread_order other) {
  problem<T> got(size, variation);
  CAPTURE(got.text());
  problem<double> truth(got);
  auto rerun = got;
  parallel::reference::stream r;
  truth.forward_and_backward(r);
  block_stream ascending;
  got.forward_and_backward(ascending);
  CHECK(worst_difference(got.out, truth.out) <= bound<T> * greatest(truth.out));
  CHECK(worst_difference(got.log_sums, truth.log_sums) <=
        std::min(bound<T>, 1e-5) * std::max(1.0, greatest(truth.log_sums)));
  CHECK(worst_difference(got.gradients, truth.gradients) <= bound<T> * greatest(truth.gradients));
  block_stream mixed{other};
  rerun.forward_and_backward(mixed);
  CHECK(got.out == rerun.out);
  CHECK(got.log_sums == rerun.log_sums);
  CHECK(got.gradients == rerun.gradients);
}

/// Bytes of shared memory that a block may have on the named devices.
constexpr std::size_t of_h100 = 227 * 1024, of_a100 = 163 * 1024, of_rtx_30 = 99 * 1024;

thread_order other_order(std::size_t i) {
  return i % 2 == 0 ? thread_order::shuffled : thread_order::descending;
}

TEST_CASE_TEMPLATE("attention kernels: they agree with the reference at every width", T, float,
                   bf16, double) {
  std::size_t i = 0;
  for (auto const& size :
       {sizes{1, 1, 1, 1, 1, 1}, sizes{2, 7, 7, 4, 2, 24}, sizes{1, 65, 65, 2, 2, 63},
        sizes{1, 70, 70, 2, 1, 64}, sizes{1, 5, 80, 2, 2, 65}, sizes{1, 20, 67, 1, 1, 128},
        sizes{1, 35, 35, 1, 1, 136}, sizes{1, 40, 50, 2, 1, 256}, sizes{1, 16, 33, 1, 1, 255}}) {
    check<T>(size, {}, other_order(i++));
    check<T>(size, {.alibi = true, .dropout = 0.3F, .window = 33, .softcap = 1.5, .document = 40},
             other_order(i));
  }
}

/// Combination i of all options, in one of the element types.
void check_combination(std::size_t i) {
  CAPTURE(i);
  auto const variation = combinations()[i];
  auto size = size_of(i, 90);
  if (i % 4 == 1) {
    size.width += 128;  // tiles of 16 rows
    size.batch = 1;
    check<double>(size, variation, other_order(i));
  } else if (i % 4 == 2) {
    check<bf16>(size, variation, other_order(i));
  } else {
    check<float>(size, variation, other_order(i));
  }
}

TEST_CASE("attention kernels: they agree with the reference in some combinations of options") {
  for (std::size_t i = 0; i < combinations().size(); i += 7) check_combination(i);
}

TEST_CASE(
    "[full] attention kernels: they agree with the reference in every combination of options") {
  for (std::size_t i = 0; i < combinations().size(); ++i) check_combination(i);
}

TEST_CASE("attention kernels: the result may overwrite the queries, and lse may be null") {
  problem<float> apart({2, 40, 40, 4, 2, 16}, {.alibi = true});
  auto in_place = apart;
  block_stream s;
  apart.forward(s);
  float* const data = in_place.inputs.data();
  float const* const in = data;
  ops::attention(s, in_place.part(data, 0), {}, in_place.part(in, 0), in_place.part(in, 1),
                 in_place.part(in, 2), in_place.options());
  auto const result = apart.result(apart.out.data());
  auto const written = in_place.part(in, 0);
  bool equal = true;
  for (index b = 0; b < 2; ++b)
    for (index i = 0; i < 40; ++i)
      for (index h = 0; h < 4; ++h)
        equal = equal &&
                std::equal(written.row(b, i, h), written.row(b, i, h) + 16, result.row(b, i, h));
  CHECK(equal);
  for (int const operand : {1, 2}) {  // the memory next to the queries is unchanged
    auto const original = apart.part(apart.inputs.data(), operand);
    auto const unchanged = in_place.part(in, operand);
    CHECK(std::equal(original.row(1, 7, 0), original.row(1, 7, 0) + 32, unchanged.row(1, 7, 0)));
  }
}

TEST_CASE(
    "attention kernels: rows that are not aligned to 16 bytes are read and written correctly") {
  for (index const width : {8, 64}) {
    problem<bf16> aligned({1, 20, 24, 1, 1, width}, {.alibi = true});
    auto odd = aligned;
    block_stream s;
    aligned.forward(s);
    std::vector<bf16> moved(odd.inputs.size() + 1, bf16(99.0F));
    std::copy(odd.inputs.begin(), odd.inputs.end(), moved.begin() + 1);
    std::vector<bf16> out(odd.out.size() + 2, bf16(99.0F));
    bf16 const* const in = moved.data() + 1;
    ops::attention(s, odd.result(out.data() + 1), odd.lse(), odd.part(in, 0), odd.part(in, 1),
                   odd.part(in, 2), odd.options());
    CHECK(std::equal(aligned.out.begin(), aligned.out.end(), out.begin() + 1));
    CHECK(out.front() == bf16(99.0F));
    CHECK(out.back() == bf16(99.0F));
  }
}

TEST_CASE("attention kernels: keys outside of the window are not read") {
  block_stream s;
  check_keys_outside_window(s, 200, 128);
}

TEST_CASE("attention kernels: a NaN in the inputs is not hidden") {
  problem<float> p({1, 20, 20, 1, 1, 8}, {});
  p.part(p.inputs.data(), 0).row(0, 9, 0)[3] = std::numeric_limits<float>::quiet_NaN();
  block_stream s;
  p.forward(s);
  for (index i = 0; i < 20; ++i)
    CHECK(std::isnan(p.result(p.out.data()).row(0, i, 0)[0]) == (i == 9));
}

TEST_CASE(
    "attention kernels: keys without queries have no gradient, and too wide heads are refused") {
  block_stream s;
  std::vector<float> x(4 * 300, 1.0F);
  std::vector<float> dk(4 * 8, 99.0F);
  std::vector<float> dv(4 * 8, 99.0F);
  auto const view = [&](float* data, index sequence, index width) {
    return ops::heads_view<float>{data, 1, sequence, 1, width, sequence * width, width};
  };
  float* const none = x.data();
  tensor_view<float, 3> const lse(none, {1, 1, 0});
  ops::attention_backward(s, ops::attention_backward_arguments<float>{.dq = view(none, 0, 8),
                                                                      .dk = view(dk.data(), 4, 8),
                                                                      .dv = view(dv.data(), 4, 8),
                                                                      .dout = view(none, 0, 8),
                                                                      .q = view(none, 0, 8),
                                                                      .k = view(none, 4, 8),
                                                                      .v = view(none, 4, 8),
                                                                      .out = view(none, 0, 8),
                                                                      .lse = lse});
  CHECK(dk == std::vector<float>(32, 0.0F));
  CHECK(dv == std::vector<float>(32, 0.0F));
  auto const wide = view(none, 4, 257);
  CHECK_THROWS_WITH_AS(ops::attention(s, wide, {}, wide, wide, wide),
                       "ops::attention on CUDA: head_dim is 257, but must be at most 256",
                       parallel::error);
}

TEST_CASE_TEMPLATE(
    "attention kernels: gradients by smaller tiles, for less shared memory, have the same bits", T,
    float, bf16, double) {
  for (auto const& size : {sizes{1, 70, 70, 2, 1, 64}, sizes{2, 66, 75, 2, 2, 63},
                           sizes{1, 70, 70, 1, 1, 128}, sizes{1, 40, 50, 2, 1, 65}}) {
    CAPTURE(size.width);
    problem<T> large(size, {.alibi = true, .dropout = 0.3F, .window = 33, .document = 40});
    std::vector<std::size_t> requests;
    block_stream h100{.shared = of_h100, .asked = &requests};
    large.forward(h100);
    auto const initial = large;
    large.backward(h100);
    for (auto const shared : {of_a100, of_rtx_30}) {
      auto small = initial;
      std::vector<std::size_t> small_requests;
      block_stream other{thread_order::shuffled, shared, &small_requests};
      small.forward_and_backward(other);
      CHECK(small.gradients == large.gradients);
      // tiles are smaller only where the device requires it
      REQUIRE(small_requests.size() == requests.size());
      for (std::size_t i = 0; i < requests.size(); ++i)
        CHECK((requests[i] <= shared ? small_requests[i] == requests[i]
                                     : small_requests[i] < requests[i]));
    }
  }
}

TEST_CASE("attention kernels: floats fit the shared memory of every device at every width") {
  for (index const width : {1, 64, 65, 128, 129, 256}) {
    problem<float> p({1, 18, 18, 1, 1, width}, {});
    block_stream s{.shared = of_rtx_30};
    p.forward(s);
    CHECK_NOTHROW(p.backward(s));
  }
}

TEST_CASE("attention kernels: in double, heads that fit no tile of the device are refused") {
  problem<double> p({1, 18, 18, 1, 1, 200}, {});
  block_stream s{.shared = of_rtx_30};
  p.forward(s);
  CHECK_THROWS_WITH_AS(
      p.backward(s),
      "ops::attention_backward on CUDA: heads this wide in this type need 134400 bytes of shared "
      "memory a block, but this GPU allows 101376",
      parallel::error);
  s.shared = of_a100;
  CHECK_NOTHROW(p.backward(s));
}

/// Compares attention by parts in `order` with the reference over all keys in double, for the same
/// inputs.
template <class T>
void check_parts(sizes const& size, variant const& variation, std::vector<index> const& cuts,
                 thread_order order) {
  namespace parts = extend_attention_test;
  auto p = parts::problem_of_heads<T>(size, variation);
  CAPTURE(p.text());
  problem<double> truth(p);
  parallel::reference::stream r;
  block_stream s{order};
  auto const expected = parts::attend_at_once(truth, r);
  auto const got = parts::attend_by_parts(p, s, cuts, 3);
  CHECK(parts::worst_relative_difference(got.out, expected.out) < bound<T>);
  CHECK(parts::worst_relative_difference(got.lse, expected.lse) < std::min(bound<T>, 1e-5));
  CHECK(parts::worst_relative_difference(got.gradients, expected.gradients) < bound<T>);
}

TEST_CASE(
    "attention kernels: attention to one part of the keys after another equals attention to all") {
  std::size_t i = 0;
  for (auto const& variation : extend_attention_test::variants_by_parts()) {
    auto const order = other_order(i++);
    if (i % 3 == 0) check_parts<double>({1, 44, 44, 2, 1, 130}, variation, {11, 30}, order);
    if (i % 3 == 1) check_parts<bf16>({1, 80, 80, 1, 1, 24}, variation, {66}, order);
    if (i % 3 == 2) check_parts<float>({1, 70, 70, 2, 1, 20}, variation, {30}, order);
  }
}

}  // namespace attention_kernels_test
