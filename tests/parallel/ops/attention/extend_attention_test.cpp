// Attention by parts: a sequence is divided into runs of positions, and its pairs (run of queries,
// run of keys) come in a random order. The reference in double must equal attention over the whole
// sequence, with every option and shape; the host must agree with the reference.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/host/attention.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/attention_by_parts.hpp"

namespace extend_attention_test {

TEST_CASE(
    "extend_attention: the reference by parts in any order equals the reference over all keys") {
  parallel::reference::stream s;
  for (auto const& size : {sizes{2, 13, 13, 4, 2, 5}, sizes{1, 12, 12, 3, 1, 4}})
    for (auto const& variation : variants_by_parts())
      for (auto const& cuts : {std::vector<index>{}, {4}, {3, 6, 9}, {1, 2, 11}}) {
        auto p = problem_of_heads<double>(size, variation);
        auto const expected = attend_at_once(p, s);
        auto const got = attend_by_parts(p, s, cuts, 1 + cuts.size());
        CHECK(worst_relative_difference(got.out, expected.out) < 1e-14);
        CHECK(worst_relative_difference(got.lse, expected.lse) < 1e-14);
        CHECK(worst_relative_difference(got.gradients, expected.gradients) < 1e-14);
      }
}

/// Compares the host by parts with the reference over all keys in double, for the same inputs.
template <class T>
void compare(sizes const& size, variant const& variation, std::vector<index> const& cuts,
             double out, double gradients) {
  auto p = problem_of_heads<T>(size, variation);
  problem<double> truth(p);
  CAPTURE(p.text());
  CAPTURE(cuts.size());
  parallel::reference::stream r;
  parallel::host::stream one({.threads = 1});
  parallel::host::stream two({.threads = 2});
  auto const expected = attend_at_once(truth, r);
  auto const got = attend_by_parts(p, one, cuts, 3);
  CHECK(worst_relative_difference(got.out, expected.out) < out);
  CHECK(worst_relative_difference(got.lse, expected.lse) < 1e-5);
  CHECK(worst_relative_difference(got.gradients, expected.gradients) < gradients);
  auto const rerun = attend_by_parts(p, two, cuts, 3);
  CHECK(got.out == rerun.out);
  CHECK(got.gradients == rerun.gradients);
}

TEST_CASE("extend_attention: the host by parts agrees with the reference over all keys") {
  for (auto const& variation : variants_by_parts()) {
    compare<float>({2, 44, 44, 2, 1, 8}, variation, {11, 22, 33}, 5e-6, 5e-6);
    // products of bf16 pairs round the weights, as in attention at once
    compare<bf16>({1, 200, 200, 4, 2, 24}, variation, {64, 70}, 0x1p-7, 0x1p-7);
    compare<float>({1, 260, 260, 2, 2, 20}, variation, {65, 130, 195}, 5e-6, 5e-6);
  }
}

TEST_CASE(
    "extend_attention: queries that see none of the keys keep their result, or have none yet") {
  parallel::host::stream s;
  problem<float> p({1, 8, 8, 1, 1, 4}, {.window = 1});
  auto const in = [&](int operand, index begin) {
    return constant(p.part(p.inputs.data(), operand).slice(begin, begin + 4));
  };
  std::vector<float> out(16, 99.0F);
  float const none = -std::numeric_limits<float>::infinity();
  std::vector<float> sums(4, none);
  tensor_view<float, 3> const lse(sums.data(), {1, 1, 4});
  auto options = p.options();
  options.positions = {
      .sequence_length = 8, .first_query = 4, .first_key = 0};  // only position 4 sees a key: key 3
  ops::heads_view<float> const to{out.data(), 1, 4, 1, 4, 16, 4};
  ops::extend_attention(s, to, lse, in(0, 4), in(1, 0), in(2, 0), options);
  s.synchronize();
  CHECK(std::isfinite(sums[0]));
  CHECK(std::vector<float>(out.begin(), out.begin() + 4) ==
        std::vector<float>(in(2, 0).row(0, 3, 0), in(2, 0).row(0, 3, 0) + 4));
  for (std::size_t i = 1; i < 4; ++i) CHECK(sums[i] == none);
  for (std::size_t i = 4; i < 16; ++i) CHECK(out[i] == 0.0F);
  auto const initial = std::pair(out, sums);
  options.positions.first_key = 4;
  options.positions.first_query = 0;  // keys of the future
  ops::extend_attention(s, to, lse, in(0, 0), in(1, 4), in(2, 4), options);
  s.synchronize();
  CHECK(std::pair(out, sums) == initial);
}

TEST_CASE("extend_attention: positions outside of the sequence are refused") {
  parallel::reference::stream s;
  std::vector<float> x(64);
  ops::heads_view<float> const v{x.data(), 1, 4, 1, 4, 16, 4};
  std::vector<float> sums(4);
  tensor_view<float, 3> const lse(sums.data(), {1, 1, 4});
  CHECK_THROWS_WITH_AS(
      ops::extend_attention(s, v, lse, v, v, v,
                            {.positions = {.sequence_length = 10, .first_query = 7}}),
      "ops::extend_attention: the queries are at positions 7 to 10, but the sequence has 10",
      parallel::error);
  std::vector<std::int32_t> const begins(4);
  CHECK_THROWS_WITH_AS(
      ops::extend_attention(s, v, lse, v, v, v,
                            {.document_begins = begins, .positions = {.sequence_length = 8}}),
      "ops::extend_attention: there are 4 document_begins for 8 positions; give one per position, "
      "or none",
      parallel::error);
  CHECK_THROWS_AS(ops::extend_attention(s, v, {}, v, v, v, {.positions = {.sequence_length = 8}}),
                  parallel::error);
}

TEST_CASE("extend_attention: the meta device counts the pairs of each part") {
  ops::heads_view<bf16> const q{nullptr, 2, 5, 4, 8, 96, 32};
  ops::heads_view<bf16> const k{nullptr, 2, 7, 2, 8, 80, 16};
  ops::heads_view<float> const out{nullptr, 2, 5, 4, 8, 96, 32};
  ops::heads_view<float> const dk{nullptr, 2, 7, 2, 8, 80, 16};
  tensor_view<float, 3> const lse(nullptr, {2, 4, 5});
  for (index const window : {-1, 0, 1, 3, 9})
    for (index first_query = 0; first_query <= 15; ++first_query)
      for (index first_key = 0; first_key <= 13; ++first_key) {
        ops::attention_options const options{
            .window = window,
            .positions = {
                .sequence_length = 20, .first_query = first_query, .first_key = first_key}};
        std::uint64_t seen = 0;
        for (index i = first_query; i < first_query + 5; ++i)
          for (index j = first_key; j < first_key + 7; ++j)
            seen += j <= i && (window < 0 || i - j <= window) ? 1U : 0U;
        parallel::meta::stream s;
        ops::extend_attention(s, out, lse, q, k, k, options);
        CHECK(s.operations() == 4 * 2 * 4 * seen * 8);
        ops::extend_attention_backward(
            s, ops::extend_attention_backward_arguments<bf16>{.dq = out,
                                                              .dk = dk,
                                                              .dv = dk,
                                                              .dout = q,
                                                              .q = q,
                                                              .k = k,
                                                              .v = k,
                                                              .out = q,
                                                              .lse = lse,
                                                              .options = options});
        CHECK(s.operations() == 14 * 2 * 4 * seen * 8);
      }
}

}  // namespace extend_attention_test
