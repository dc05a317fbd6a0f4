// tree_accumulator: leaves that arrive one after another, combined by an aligned binary tree.
//
// The tree of `reduction::tree_sum`: the node of level l with number k covers the leaves from k 2^l
// up to (k + 1) 2^l, and is its left child combined with its right one, or its left child alone
// when there is no leaf on the right. It works like a binary counter: after n leaves it holds one
// buffer for each bit that is set in n. The memory is therefore bit_width(n) buffers, including the
// buffer in which a leaf is made, and the work is n - 1 additions.
#pragma once

#include <bit>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace parallel {

/// `Add` is called as add(Buffer& into, Buffer const& from), where `into` holds the earlier leaves:
/// it adds `from` to `into`, in this order. A buffer is anything movable (a vector, a span).
template <class Buffer, class Add>
class tree_accumulator {
 public:
  explicit tree_accumulator(Add add) : add_(std::move(add)) {}

  /// The largest number of buffers that are held at a time for `leaves` leaves.
  [[nodiscard]] static constexpr std::size_t buffers_for(std::size_t leaves) {
    return static_cast<std::size_t>(std::bit_width(leaves));
  }

  /// Adds leaf `number`. Leaves come in order: 0, 1, 2, ...
  void push(std::size_t number, Buffer leaf) {
    require(number == leaves_, "tree_accumulator: leaf ", number, " came, expected leaf ", leaves_,
            "; leaves are combined in the order of their numbers");
    std::size_t level = 0;
    for (; (leaves_ >> level & 1) != 0; ++level) leaf = combined(level, std::move(leaf));
    if (level == levels_.size()) levels_.emplace_back();
    levels_[level] = std::move(leaf);
    ++leaves_;
  }

  /// A buffer whose contents are no longer needed, to be reused for a later leaf; nothing if there
  /// is none.
  [[nodiscard]] std::optional<Buffer> take_spare() {
    if (spares_.empty()) return {};
    std::optional<Buffer> out(std::move(spares_.back()));
    spares_.pop_back();
    return out;
  }

  /// The sum of all leaves (at least one). The next leaf is number 0 again.
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
  // Combines the buffer at `level`, which becomes empty, with the later leaves in `right`.
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
