// gradient_trees: the gradients of a step's microbatches as leaves of aligned binary trees, one
// tree for each use of a unit (reduction_order::canonical_tree).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include <parallel/comm/tree_accumulator.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::zero {

/// `G`: the elements of gradients. The object does not move once it has been used.
template <class G, class Device>
class gradient_trees {
 public:
  using stream = typename Device::stream_type;

  gradient_trees() = default;
  gradient_trees(gradient_trees&&) = delete;

  /// The number of buffers of a leaf's size that a use holds after a step of `leaves` leaves.
  [[nodiscard]] static constexpr std::size_t buffers_for(std::size_t leaves) {
    return decltype(tree::sum)::buffers_for(leaves);
  }

  /// The memory of the next leaf of a use: `size` uninitialised elements.
  G* begin_leaf(void const* unit, std::size_t use, std::size_t size, Device& device) {
    auto& tree_of_use = trees_.try_emplace({unit, use}, *this).first->second;
    auto spare = tree_of_use.sum.take_spare();
    if (spare)
      tree_of_use.leaf = std::move(*spare);
    else if (tree_of_use.result.size() > 0)  // the result of the step before
      tree_of_use.leaf = std::exchange(tree_of_use.result, {});
    else
      tree_of_use.leaf = device.template allocate<G>(size);
    return tree_of_use.leaf.data();
  }

  /// The leaf is complete: enqueues the additions that its position in the tree requires.
  void end_leaf(void const* unit, std::size_t use, stream& compute) {
    auto& tree_of_use = trees_.at({unit, use});
    compute_ = &compute;
    tree_of_use.sum.push(tree_of_use.leaves++, std::move(tree_of_use.leaf));
  }

  /// The sum of the step's leaves, valid until the next step begins; null when there were none.
  /// Where a leaf has `parts` sums, of as many ranks, these are combined by the same tree.
  G const* finish(void const* unit, std::size_t use, int parts, stream& compute) {
    auto const found = trees_.find({unit, use});
    if (found == trees_.end() || found->second.leaves == 0) return nullptr;
    auto& tree_of_use = found->second;
    compute_ = &compute;
    tree_of_use.result = tree_of_use.sum.finish();
    tree_of_use.leaves = 0;
    auto const sums = tree_of_use.result.span();
    auto const count = static_cast<std::size_t>(parts);
    std::size_t const size = sums.size() / count;
    for (std::size_t step = 1; step < count; step *= 2)
      for (std::size_t k = 0; k + step < count; k += 2 * step)
        ops::add(compute, sums.subspan(k * size, size),
                 std::span<G const>(sums.subspan((k + step) * size, size)));
    return tree_of_use.result.data();
  }

 private:
  struct adder {
    gradient_trees& trees;
    void operator()(buffer<G>& target, buffer<G> const& addend) const {
      ops::add(*trees.compute_, target.span(), std::span<G const>(addend.span()));
    }
  };
  struct tree {
    explicit tree(gradient_trees& trees) : sum(adder{trees}) {}
    tree_accumulator<buffer<G>, adder> sum;
    buffer<G> leaf;
    buffer<G> result;
    std::size_t leaves = 0;
  };

  std::map<std::pair<void const*, std::size_t>, tree> trees_;
  stream* compute_ = nullptr;
};

}  // namespace parallel::zero
