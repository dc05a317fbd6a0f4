// tree_accumulator: leaves that arrive one after another, combined by an aligned binary tree.
//
// The tree of `reduction::tree_sum`: the node of level l with number k covers the leaves from k 2^l
// up to (k + 1) 2^l, and is its left child combined with its right one, or its left child alone
// when there is no leaf on the right. Works like a binary counter: after n leaves one buffer is
// held for each bit that is set in n. So the memory is bit_width(n) buffers, the one that a leaf is
// made in included, and the work n - 1 additions.
#pragma once

#include <bit>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace parallel {

/// `Add` is called as add(Buffer& into, Buffer const& from), with `into` the earlier leaves: it
/// makes `into` the sum, in this order. A buffer is anything movable (a vector, a span).
template <class Buffer, class Add>
class tree_accumulator {
 public:
  explicit tree_accumulator(Add add) : add_(std::move(add)) {}

  /// The most buffers that `leaves` leaves need at a time.
  [[nodiscard]] static constexpr std::size_t buffers_for(std::size_t leaves) {
    return static_cast<std::size_t>(std::bit_width(leaves));
  }

  /// Takes leaf `number`. Leaves come in order: 0, 1, 2, ...
  void push(std::size_t number, Buffer leaf) {
    require(number == leaves_, "tree_accumulator: leaf ", number, " came, expected leaf ", leaves_,
            "; leaves are combined in the order of their numbers");
    std::size_t level = 0;
    for (; (leaves_ >> level & 1) != 0; ++level) leaf = combined(level, std::move(leaf));
    if (level == levels_.size()) levels_.emplace_back();
    levels_[level] = std::move(leaf);
    ++leaves_;
  }

  /// A buffer whose contents have been used, for a later leaf; none when there is none.
  [[nodiscard]] std::optional<Buffer> take_spare() {
    if (spares_.empty()) return {};
    std::optional<Buffer> out(std::move(spares_.back()));
    spares_.pop_back();
    return out;
  }

  /// The sum of all leaves (at least one); then the next leaf is 0 again.
  [[nodiscard]] Buffer finish() {
    require(leaves_ != 0, "tree_accumulator: there is no leaf to sum");
    auto level = static_cast<std::size_t>(std::countr_zero(leaves_));
    Buffer sum = std::move(*levels_[level]);
    levels_[level].reset();
    for (++level; level < levels_.size(); ++level)
      if (levels_[level]) sum = combined(level, std::move(sum));
    leaves_ = 0;
    return sum;
  }

 private:
  // What stands at `level`, which is left empty, combined with the later leaves of `right`.
  Buffer combined(std::size_t level, Buffer right) {
    Buffer left = std::move(*levels_[level]);
    levels_[level].reset();
    add_(left, std::as_const(right));
    spares_.push_back(std::move(right));
    return left;
  }

  Add add_;
  std::size_t leaves_ = 0;
  std::vector<std::optional<Buffer>> levels_;
  std::vector<Buffer> spares_;
};

}  // namespace parallel
