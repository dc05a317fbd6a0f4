// kernel_tuning: all that a stream's libraries have chosen by timing, for plain C++ compilers:
// algorithms of products (cublaslt.hpp) and plans of fused attention (fused_attention.hpp).
//
// To tune: `tune_kernels(s, true)`, run a step whose results do not count, `tune_kernels(s,
// false)`; exchange the texts of `tuned_kernels(s)`, merge the tables in the order of ranks,
// `use_kernels` the result on every rank, and keep its text with the run.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <parallel/ops/cuda/attention_tuning.hpp>
#include <parallel/ops/cuda/matmul_tuning.hpp>

namespace parallel::cuda {

struct kernel_tuning {
  matmul_tuning products;
  attention_tuning attention;

  /// Of both tables.
  [[nodiscard]] std::string made_for() const {
    return concat(products.made_for(), ", ", attention.made_for());
  }
  /// As of tuning_table.
  void merge(kernel_tuning const& other) {
    products.merge(other.products);
    attention.merge(other.attention);
  }
  /// What `to_text` made; as of tuning_table.
  [[nodiscard]] static kernel_tuning parse(std::string_view text, std::string_view source) {
    tuning_reader in(text, source);
    auto products = matmul_tuning::read(in);
    auto attention = attention_tuning::read(in);
    in.expect(in.at_end(), "more than two tables");
    return {std::move(products), std::move(attention)};
  }

  friend bool operator==(kernel_tuning const&, kernel_tuning const&) = default;
};

/// Both tables, one after the other.
[[nodiscard]] inline std::string to_text(kernel_tuning const& both) {
  return to_text(both.products) + to_text(both.attention);
}

/// From now on what has no entry in a table is timed when it first comes (on), or takes the
/// libraries' first proposal (off, as in the beginning). Stream is cuda::stream: templates, so that
/// programs can ask whether a device's streams have a tuning.
template <class Stream>
void tune_kernels(Stream& s, bool on);
/// What was timed there, and what `use_kernels` brought.
template <class Stream>
[[nodiscard]] kernel_tuning tuned_kernels(Stream& s);
/// From now on these tables decide. Throws `error` when they are for other libraries or another
/// device, or cuBLASLt refuses an algorithm.
template <class Stream>
void use_kernels(Stream& s, kernel_tuning tables);

}  // namespace parallel::cuda
