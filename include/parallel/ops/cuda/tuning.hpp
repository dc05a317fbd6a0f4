// kernel_tuning: all choices that a stream's libraries have made by timing, for plain C++
// compilers: algorithms of products (cublaslt.hpp) and plans of fused attention
// (fused_attention.hpp).
//
// To tune: call `tune_kernels(s, true)`, run a step whose results do not count, call
// `tune_kernels(s, false)`; exchange the texts of `tuned_kernels(s)` between ranks, merge the
// tables in the order of ranks, pass the result to `use_kernels` on every rank, and store its text
// with the run.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <parallel/ops/cuda/attention/attention_tuning.hpp>
#include <parallel/ops/cuda/matmul/matmul_tuning.hpp>

namespace parallel::cuda {

struct kernel_tuning {
  matmul_tuning products;
  attention_tuning attention;

  /// The libraries and devices of both tables.
  [[nodiscard]] std::string made_for() const {
    return concat(products.made_for(), ", ", attention.made_for());
  }
  /// Merges both tables, as tuning_table::merge does.
  void merge(kernel_tuning const& other) {
    products.merge(other.products);
    attention.merge(other.attention);
  }
  /// Reads the text that `to_text` made; errors are those of tuning_table::parse.
  [[nodiscard]] static kernel_tuning parse(std::string_view text, std::string_view source) {
    tuning_reader in(text, source);
    auto products = matmul_tuning::read(in);
    auto attention = attention_tuning::read(in);
    in.expect(in.at_end(), "more than two tables");
    return {std::move(products), std::move(attention)};
  }

  friend bool operator==(kernel_tuning const&, kernel_tuning const&) = default;
};

/// The texts of both tables, one after the other.
[[nodiscard]] inline std::string to_text(kernel_tuning const& tuning) {
  return to_text(tuning.products) + to_text(tuning.attention);
}

/// From now on a problem that has no entry in a table is timed at its first use (enabled), or takes
/// the libraries' first proposal (disabled, the initial state). Stream is cuda::stream; these are
/// templates, so that programs can test whether the streams of a device have a tuning.
template <class Stream>
void tune_kernels(Stream& s, bool enabled);
/// The results of timing on the stream, and the entries that `use_kernels` added.
template <class Stream>
[[nodiscard]] kernel_tuning tuned_kernels(Stream& s);
/// From now on these tables decide. Throws `error` when they are for other libraries or another
/// device, or cuBLASLt refuses an algorithm.
template <class Stream>
void use_kernels(Stream& s, kernel_tuning tables);

}  // namespace parallel::cuda
