// gradient_trees: the gradients of a step's microbatches as leaves of aligned binary trees, one
// tree for each use of a unit (reduction_order::canonical_tree).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include <parallel/comm/tree_accumulator.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel::zero {

/// `G`: elements of gradients. Does not move once it was used.
template <class G, class Device>
class gradient_trees {
 public:
  using stream = typename Device::stream_type;

  gradient_trees() = default;
  gradient_trees(gradient_trees const&) = delete;
  gradient_trees& operator=(gradient_trees const&) = delete;

  /// Buffers of a leaf's size that a use holds after a step of so many leaves.
  [[nodiscard]] static constexpr std::size_t buffers_for(std::size_t leaves) {
    return decltype(tree::sum)::buffers_for(leaves);
  }

  /// Memory of the next leaf of a use: `size` elements, undefined.
  G* begin_leaf(void const* unit, std::size_t use, std::size_t size, Device& device) {
    auto& of = trees_.try_emplace({unit, use}, *this).first->second;
    auto spare = of.sum.take_spare();
    if (spare)
      of.leaf = std::move(*spare);
    else if (of.result.size() > 0)  // of the step before
      of.leaf = std::exchange(of.result, {});
    else
      of.leaf = device.template allocate<G>(size);
    return of.leaf.data();
  }

  /// The leaf is complete: enqueues what its place in the tree asks for.
  void end_leaf(void const* unit, std::size_t use, stream& compute) {
    auto& of = trees_.at({unit, use});
    compute_ = &compute;
    of.sum.push(of.leaves++, std::move(of.leaf));
  }

  /// The sum of the step's leaves, valid until the next one begins; null when there were none.
  G const* finish(void const* unit, std::size_t use, stream& compute) {
    auto const found = trees_.find({unit, use});
    if (found == trees_.end() || found->second.leaves == 0) return nullptr;
    auto& of = found->second;
    compute_ = &compute;
    of.result = of.sum.finish();
    of.leaves = 0;
    return of.result.data();
  }

 private:
  struct adder {
    gradient_trees& own;
    void operator()(buffer<G>& into, buffer<G> const& from) const {
      ops::add(*own.compute_, into.span(), std::span<G const>(from.span()));
    }
  };
  struct tree {
    explicit tree(gradient_trees& own) : sum(adder{own}) {}
    tree_accumulator<buffer<G>, adder> sum;
    buffer<G> leaf;
    buffer<G> result;
    std::size_t leaves = 0;
  };

  std::map<std::pair<void const*, std::size_t>, tree> trees_;
  stream* compute_ = nullptr;
};

}  // namespace parallel::zero
