// attention_tuning: the fastest of a library's plans for each fused attention. Needs no CUDA.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <parallel/ops/cuda/tuning/tuning_table.hpp>

namespace parallel::cuda {

/// Strides of a tensor [batch, heads, sequence, head_dim] with dense heads: from one sequence to
/// the next, and from one position to the next.
struct attention_strides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  auto operator<=>(attention_strides const&) const = default;
};

/// One pass of fused attention: everything that the choice of a library's kernel depends on.
struct attention_problem {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;  ///< queries and keys
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = -1;         ///< keys before its own that a query sees; negative: all
  bool queries_after_keys = false;  ///< all queries come after all keys
  bool alibi = false;
  bool documents = false;
  std::int64_t full_sequence =
      0;  ///< if this is a part of a sequence with documents: its length; else 0
  bool backward = false;
  bool deterministic = false;  ///< backward pass only
  attention_strides q = {}, k = {}, v = {}, out = {};
  attention_strides dq = {}, dk = {}, dv = {}, dout = {};  ///< backward pass only
  /// The largest number of documents if each is its own sequence; 0: documents are a mask. This
  /// member is compared last: problems that differ in it alone are adjacent, in ascending order.
  std::int64_t max_documents = 0;

  /// The strides of the gradients of keys of every query head, before those that share a key head
  /// are summed to gradients that have the strides `sum`.
  [[nodiscard]] attention_strides per_head_strides(attention_strides const& sum) const {
    std::int64_t const sharing = heads / key_heads;
    return {sum.batch * sharing, sum.row * sharing};
  }
  auto operator<=>(attention_problem const&) const = default;
};

namespace detail {

/// An entry is the numbers of a problem in their order, with 0 or 1 for booleans, and the number of
/// its plan in the library's list, from 0. A user writes the entries for documents as separate
/// sequences; tuning never makes one.
struct attention_tuning_format {
  using key = attention_problem;
  using choice = int;
  static constexpr std::string_view name = "attention_tuning";
  static constexpr int version = 4;
  static constexpr std::string_view task = "attention";

  static void write(std::string& out, attention_problem const& problem, int plan) {
    visit(problem, [&](char const*, auto number) { out += concat(std::int64_t{number}, " "); });
    out += concat(plan);
  }
  [[nodiscard]] static std::pair<attention_problem, int> read(tuning_reader& in) {
    constexpr index max_number = index{1} << 40;
    attention_problem problem;
    visit(problem, [&]<class Number>(char const* name, Number& number) {
      if constexpr (std::is_same_v<Number, bool>)
        number = in.number(name, 0, 1) != 0;
      else
        number = in.number(name, -1, max_number);
    });
    return {problem, static_cast<int>(in.number("the plan", 0, 1000))};
  }

 private:
  template <class Problem, class Visit>
  static void visit(Problem& problem, Visit const& visit) {
    visit("the batch", problem.batch);
    visit("the sequence", problem.sequence);
    visit("the heads", problem.heads);
    visit("the key heads", problem.key_heads);
    visit("head_dim", problem.head_dim);
    visit("the window", problem.window);
    visit("apart", problem.queries_after_keys);
    visit("alibi", problem.alibi);
    visit("documents", problem.documents);
    visit("the whole", problem.full_sequence);
    visit("backward", problem.backward);
    visit("deterministic", problem.deterministic);
    for (auto* const view : {&problem.q, &problem.k, &problem.v, &problem.out, &problem.dq,
                             &problem.dk, &problem.dv, &problem.dout}) {
      visit("a stride of sequences", view->batch);
      visit("a stride of rows", view->row);
    }
    visit("the documents", problem.max_documents);
  }
};

}  // namespace detail

using attention_tuning = tuning_table<detail::attention_tuning_format>;

}  // namespace parallel::cuda
