// Attention of random inputs, with any sizes and options, and the comparison of its results. Tests
// run the same problems on streams of every device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/error.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/ops/attention.hpp>

namespace attention_test {

using parallel::accumulate_t;
using parallel::bf16;
using parallel::index;
using parallel::tensor_view;
namespace ops = parallel::ops;

/// `batch` sequences of `keys` positions, of which the last `queries` are queries; `width`: of a
/// head.
struct sizes {
  index batch, queries, keys, heads, key_heads, width;
};

/// The options of a problem; by default none.
struct variant {
  bool alibi = false;
  float dropout = 0.0F;  // probability
  index window = -1;     // earlier positions that a query sees; -1: all
  double softcap = 0.0;  // 0: none
  index document = 0;    // greatest length of a document; 0: each sequence is one document
};

/// Inputs and results of one attention; q, k, v (and their gradients) are in packed rows [q | k |
/// v] if there are as many queries as keys, and in separate memory otherwise. Results are 99 before
/// they are computed.
template <class T>
struct problem {
  using A = accumulate_t<T>;

  problem(sizes size, variant variation) : n(size), form(variation) {
    scale = 1.0F / std::sqrt(static_cast<float>(n.width));
    if (variation.alibi)
      for (index h = 0; h < n.heads; ++h)
        slopes.push_back(std::exp2(-static_cast<float>(h + 1) / 2.0F));
    window = variation.window;
    softcap = variation.softcap;
    if (variation.document > 0) fill_documents(variation.document);
    dropout = {.probability = variation.dropout,
               .random = parallel::philox(11, 22, 33),
               .first_sequence = 5};
    inputs = random(n.batch * (n.queries * n.heads + 2 * n.keys * n.key_heads) * n.width, 1);
    gradients.assign(inputs.size(), T(99.0F));
    dout = random(n.batch * n.queries * n.heads * n.width, 2);
    out.assign(dout.size(), T(99.0F));
    log_sums.assign(static_cast<std::size_t>(n.batch * n.heads * n.queries), A(99));
  }

  /// The same problem with other elements.
  template <class U>
  explicit problem(problem<U> const& other) : problem(other.n, other.form) {
    auto const convert = [](U x) { return static_cast<T>(x); };
    std::ranges::transform(other.inputs, inputs.begin(), convert);
    std::ranges::transform(other.dout, dout.begin(), convert);
    dropout = other.dropout;
  }

  /// Divides each sequence into documents of 1 to `max_length` tokens, each in another way.
  void fill_documents(index max_length) {
    parallel::philox const source(4, 7);
    std::uint64_t drawn = 0;
    for (index b = 0; b < n.batch; ++b)
      for (index j = 0, begin = 0, end = 0; j < n.keys; ++j) {
        if (j == end) {
          begin = j;
          end += 1 + static_cast<index>(source.bits(drawn++)) % max_length;
        }
        if (j >= n.keys - n.queries) documents.push_back(static_cast<std::int32_t>(begin));
      }
  }

  /// Standard normal numbers, the same for every element type up to rounding.
  static std::vector<T> random(index count, std::uint32_t stream) {
    parallel::philox const source(3, stream);
    std::vector<T> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(source.normal(i));
    return numbers;
  }

  /// Operand 0, 1 or 2 (q, k or v, or its gradient) in `data`, memory of the size of `inputs`.
  template <class U>
  [[nodiscard]] ops::heads_view<U> part(U* data, int operand) const {
    index const q_row = n.heads * n.width;
    index const k_row = n.key_heads * n.width;
    index const heads = operand == 0 ? n.heads : n.key_heads;
    index const sequence = operand == 0 ? n.queries : n.keys;
    if (n.queries == n.keys) {
      index const row = q_row + 2 * k_row;
      index const column = operand == 0 ? 0 : q_row + (operand - 1) * k_row;
      return {data + column, n.batch, sequence, heads, n.width, n.keys * row, row};
    }
    index const row = operand == 0 ? q_row : k_row;
    index const first =
        operand == 0 ? 0 : n.batch * (n.queries * q_row + (operand - 1) * n.keys * k_row);
    return {data + first, n.batch, sequence, heads, n.width, sequence * row, row};
  }

  /// The result, or its gradient, in `data`, memory of the size of `out`.
  template <class U>
  [[nodiscard]] ops::heads_view<U> result(U* data) const {
    index const row = n.heads * n.width;
    return {data, n.batch, n.queries, n.heads, n.width, n.queries * row, row};
  }

  [[nodiscard]] ops::attention_options options() const {
    return {.scale = scale,
            .alibi_slopes = slopes,
            .dropout = dropout,
            .softcap = softcap,
            .window = window,
            .document_begins = documents};
  }
  [[nodiscard]] tensor_view<A, 3> lse() { return {log_sums.data(), {n.batch, n.heads, n.queries}}; }

  /// Computes out and log_sums.
  template <class Stream>
  void forward(Stream& s) {
    T const* const in = inputs.data();
    ops::attention(s, result(out.data()), lse(), part(in, 0), part(in, 1), part(in, 2), options());
    s.synchronize();
  }

  [[nodiscard]] ops::attention_backward_arguments<T> backward_arguments() {
    T const* const in = inputs.data();
    T const* const gradient = dout.data();
    T const* const forward_result = out.data();
    return {.dq = part(gradients.data(), 0),
            .dk = part(gradients.data(), 1),
            .dv = part(gradients.data(), 2),
            .dout = result(gradient),
            .q = part(in, 0),
            .k = part(in, 1),
            .v = part(in, 2),
            .out = result(forward_result),
            .lse = lse(),
            .options = options()};
  }

  /// Computes the gradients, after forward().
  template <class Stream>
  void backward(Stream& s) {
    ops::attention_backward(s, backward_arguments());
    s.synchronize();
  }

  template <class Stream>
  void forward_and_backward(Stream& s) {
    forward(s);
    backward(s);
  }

  /// Sizes and options, for the message of a check that fails.
  [[nodiscard]] std::string text() const {
    return parallel::concat(n.batch, " sequences, ", n.queries, " queries, ", n.keys, " keys, ",
                            n.heads, " heads, ", n.key_heads, " key heads of ", n.width, ", ALiBi ",
                            form.alibi, ", dropout ", form.dropout, ", window ", form.window,
                            ", softcap ", form.softcap, ", documents to ", form.document);
  }

  sizes n;
  variant form;
  // The options of the calls, which a test may change.
  float scale;
  index window;
  double softcap;
  std::vector<float> slopes;            // ALiBi, one per head; empty: none
  std::vector<std::int32_t> documents;  // by query: the position at which its document begins
  ops::attention_dropout dropout;
  std::vector<T> inputs, gradients;  // of q, k and v
  std::vector<T> dout, out;          // the gradient of the result, and the result
  std::vector<A> log_sums;           // lse: [batch, heads, queries]
};

/// The greatest absolute difference; infinite if a difference is not finite.
template <class X, class Y>
double worst_difference(std::vector<X> const& x, std::vector<Y> const& y) {
  REQUIRE(x.size() == y.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
  }
  return worst;
}

/// The greatest absolute value, to which differences are compared.
template <class X>
double greatest(std::vector<X> const& x) {
  double largest = 0;
  for (auto const& value : x) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

/// Checks that 10 queries with a window of 20 do not read the first `unread` of the keys: these are
/// NaN, and so is the result of any arithmetic on them.
template <class Stream>
void check_keys_outside_window(Stream& s, index keys, index unread) {
  constexpr index width = 16;
  problem<float> p({1, 10, keys, 1, 1, width}, {.window = 20});
  for (int const operand : {1, 2})
    for (index j = 0; j < unread; ++j)
      std::fill_n(p.part(p.inputs.data(), operand).row(0, j, 0), width,
                  std::numeric_limits<float>::quiet_NaN());
  p.forward_and_backward(s);
  CHECK(std::ranges::none_of(p.out, [](float x) { return std::isnan(x); }));
  CHECK(std::ranges::none_of(p.gradients, [](float x) { return std::isnan(x); }));
}

/// No options, ALiBi, and ALiBi with dropout.
inline std::vector<variant> variants() {
  return {{}, {.alibi = true}, {.alibi = true, .dropout = 0.3F}};
}

/// Options that hide keys or change scores, each alone and all together.
inline std::vector<variant> restrictions() {
  return {{.window = 0},
          {.window = 3},
          {.softcap = 0.7},
          {.document = 4},
          {.alibi = true, .dropout = 0.3F, .window = 2, .softcap = 1.5, .document = 5}};
}

/// All of variants() and restrictions(), whose windows and documents suit sequences of few tokens.
inline std::vector<variant> small_variants() {
  auto out = variants();
  for (auto const& variation : restrictions()) out.push_back(variation);
  return out;
}

/// 120 combinations: each of ALiBi, dropout, window, softcap and documents with every other.
inline std::vector<variant> combinations() {
  std::vector<variant> out;
  for (bool const alibi : {false, true})
    for (float const dropout : {0.0F, 0.2F})
      for (index const window : {-1, 1, 40, 63, 100})
        for (double const softcap : {0.0, 2.0})
          for (index const document : {0, 9, 90})
            out.push_back({alibi, dropout, window, softcap, document});
  return out;
}

/// Random sizes for a combination, with at most `max_keys` keys: odd lengths, shared key heads,
/// sometimes fewer queries than keys.
inline sizes size_of(std::size_t combination, index max_keys) {
  parallel::philox const source(8, 9);
  auto draw = [&, position = 8 * combination](index largest) mutable {  // from 1 to `largest`
    return 1 + static_cast<index>(source.bits(position++)) % largest;
  };
  index const keys = draw(max_keys);
  index const key_heads = draw(2);
  return {draw(2), draw(3) == 1 ? draw(keys) : keys, keys, key_heads * draw(3), key_heads,
          draw(40)};
}

}  // namespace attention_test
