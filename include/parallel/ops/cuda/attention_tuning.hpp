// attention_tuning: which of a library's plans was the fastest for which fused attention. Needs no
// CUDA.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <parallel/ops/cuda/tuning_table.hpp>

namespace parallel::cuda {

/// Strides of a tensor [batch, heads, sequence, head_dim] with dense heads: from one sequence, and
/// from one position, to the next.
struct attention_strides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  auto operator<=>(attention_strides const&) const = default;
};

/// One pass of fused attention: everything on which a library's kernel depends.
struct attention_problem {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;  // queries and keys
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = -1;  // keys before its own that a query sees; negative: all
  bool apart = false;        // queries stand behind all keys
  bool alibi = false;
  bool documents = false;
  std::int64_t whole = 0;  // positions of a sequence of documents of which this is a part, or 0
  bool backward = false;
  bool deterministic = false;  // of the backward pass
  attention_strides q = {}, k = {}, v = {}, out = {};
  attention_strides dq = {}, dk = {}, dv = {}, dout = {};  // of the backward pass
  // Where each document is a sequence of its own: so many at most; 0: documents are a mask. The
  // last that is compared: what differs in it alone stands together, the fewest first.
  std::int64_t most_documents = 0;

  /// The strides of every query head's gradients of keys, before those that share a key head are
  /// summed to gradients that have these strides.
  [[nodiscard]] attention_strides each_head_of(attention_strides const& sum) const {
    std::int64_t const sharing = heads / key_heads;
    return {sum.batch * sharing, sum.row * sharing};
  }
  auto operator<=>(attention_problem const&) const = default;
};

namespace detail {

/// An entry is the numbers of a problem in their order, 0 or 1 for what may be or not, and that of
/// its plan in the library's list, from 0. Entries for documents as sequences of their own are
/// written by who asks for that form: tuning never makes one.
struct attention_tuning_format {
  using key = attention_problem;
  using choice = int;
  static constexpr std::string_view name = "attention_tuning";
  static constexpr int version = 4;
  static constexpr std::string_view task = "attention";

  static void write(std::string& out, attention_problem const& of, int plan) {
    visit(of, [&](char const*, auto number) { out += concat(std::int64_t{number}, " "); });
    out += concat(plan);
  }
  [[nodiscard]] static std::pair<attention_problem, int> read(tuning_reader& in) {
    constexpr index most = index{1} << 40;
    attention_problem of;
    visit(of, [&]<class Number>(char const* what, Number& number) {
      if constexpr (std::is_same_v<Number, bool>)
        number = in.number(what, 0, 1) != 0;
      else
        number = in.number(what, -1, most);
    });
    return {of, static_cast<int>(in.number("the plan", 0, 1000))};
  }

 private:
  template <class Problem, class Visit>
  static void visit(Problem& of, Visit const& visit) {
    visit("the batch", of.batch);
    visit("the sequence", of.sequence);
    visit("the heads", of.heads);
    visit("the key heads", of.key_heads);
    visit("head_dim", of.head_dim);
    visit("the window", of.window);
    visit("apart", of.apart);
    visit("alibi", of.alibi);
    visit("documents", of.documents);
    visit("the whole", of.whole);
    visit("backward", of.backward);
    visit("deterministic", of.deterministic);
    for (auto* const view : {&of.q, &of.k, &of.v, &of.out, &of.dq, &of.dk, &of.dv, &of.dout}) {
      visit("a stride of sequences", view->batch);
      visit("a stride of rows", view->row);
    }
    visit("the documents", of.most_documents);
  }
};

}  // namespace detail

using attention_tuning = tuning_table<detail::attention_tuning_format>;

}  // namespace parallel::cuda
