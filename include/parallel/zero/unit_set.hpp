// unit_set: all units of a rank, as the passes of a step use them part by part.
//
// For memory that the ZeRO level shards, values are unsharded into a buffer before a part runs, and
// gradients are reduced out of a buffer after its backward pass; other memory is used in place. The
// plan of a step (train/step/step_plan.hpp) determines the buffers, their times and their
// dependencies.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/device/arena.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/zero/gradient_trees.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::zero {

/// Memory is that of `Device`; exchanges run on streams of type `Exchange`.
template <class T, memory_device Device, parallel::stream Exchange>
class unit_set {
 public:
  using gradient_type = accumulate_t<T>;
  using stream = typename Device::stream_type;
  using exchange_stream = Exchange;

  /// A unit, and the parts of the model on this rank that use it.
  struct entry {
    partitioned_unit<T> memory;
    std::vector<index> parts;  ///< for each use on this rank, the part that computes with it
  };

  void add(partitioned_unit<T> memory, std::vector<index> parts) {
    units_.push_back({std::move(memory), std::move(parts)});
  }

  /// Allocates each buffer of values, and of a microbatch's gradients, with these numbers of
  /// elements.
  void allocate_buffers(Device& device, std::vector<index> const& values,
                        std::vector<index> const& gradients) {
    device_ = &device;
    for (index const size : values)
      values_.push_back(allocate_exchanged<T>(device, static_cast<std::size_t>(size)));
    for (index const size : gradients)
      gradients_.push_back(
          allocate_exchanged<gradient_type>(device, static_cast<std::size_t>(size)));
  }

  /// Allocates the workspace of the units' optimizers, which one unit after another uses.
  void allocate_workspace(Device& device, std::size_t bytes) {
    workspace_bytes_ = bytes;
    workspace_ = arena(device.template allocate<std::byte>(bytes));
  }
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }

  /// Makes all units send their gradients in bf16, rounded `elements` at a time.
  void allocate_staging(Device& device, index elements) {
    staging_ = allocate_exchanged<bf16>(device, static_cast<std::size_t>(elements));
    if constexpr (std::is_same_v<gradient_type, float>)
      for (auto& unit : units_) unit.memory.set_sums(gradient_sums<gradient_type>(staging_.span()));
  }
  [[nodiscard]] std::size_t staging_bytes() const { return staging_.size() * sizeof(bf16); }

  /// The workspace of the units' optimizers, which one unit after another uses.
  [[nodiscard]] arena& workspace() { return workspace_; }

  [[nodiscard]] std::deque<entry>& units() { return units_; }
  [[nodiscard]] std::deque<entry> const& units() const { return units_; }

  /// Calls f(unit, use) for all units that `part` computes with, in the same order on all ranks.
  template <class F>
  void for_each_use(index part, F&& f) {
    for (auto& unit : units_)
      for (std::size_t use = 0; use < unit.parts.size(); ++use)
        if (unit.parts[use] == part) f(unit.memory, use);
  }

  /// The buffers into which values are gathered, those out of which gradients are reduced, and the
  /// one in which gradients are rounded.
  [[nodiscard]] std::vector<buffer<T>> const& value_buffers() const { return values_; }
  [[nodiscard]] std::vector<buffer<gradient_type>> const& gradient_buffers() const {
    return gradients_;
  }
  [[nodiscard]] buffer<bf16> const& staging() const { return staging_; }

  [[nodiscard]] std::size_t value_buffer_bytes() const { return bytes_of(values_); }
  [[nodiscard]] std::size_t gradient_buffer_bytes() const { return bytes_of(gradients_); }
  /// Bytes of all trees after a step of `leaves` leaves (microbatches with sequences).
  [[nodiscard]] std::size_t tree_bytes(std::size_t leaves) const {
    index elements = 0;
    for (auto const& unit : units_) elements += unit.memory.leaf_size() * std::ssize(unit.parts);
    return uses_tree() ? decltype(trees_)::buffers_for(leaves) * sizeof(gradient_type) *
                             static_cast<std::size_t>(elements)
                       : 0;
  }

  /// Enqueues the gathering of one unit's values into a buffer that holds all values that the part
  /// of its `use` computes with; without a `use`, into a buffer of the unit alone, where the values
  /// stay and to which they are bound immediately.
  template <class Comm, class Requests>
  void unshard(entry& unit, std::optional<int> use, int buffer, shard_groups<Comm> const& axes,
               exchange_stream& gathers, Requests& requests) {
    T* target = values_[static_cast<std::size_t>(buffer)].data();
    if (!use)
      unit.memory.bind_values_to(target);
    else
      target += offset_of_use(unit, static_cast<std::size_t>(*use), [](auto const& other) {
        return other.parameters_sharded() ? other.layout().size() : 0;
      });
    unit.memory.unshard(target, axes, gathers, requests);
  }
  /// Binds the values that `part` computes with to that buffer.
  void bind_values(index part, int buffer) {
    T* values = values_[static_cast<std::size_t>(buffer)].data();
    for_each_use(part, [&](auto& unit, std::size_t) {
      if (!unit.parameters_sharded()) return;
      unit.bind_values_to(values);
      values += unit.layout().size();
    });
  }

  /// Prepares memory for the gradients of a part of one microbatch, in that buffer if there is one;
  /// `empty`: none will be added.
  void begin_gradients(index part, std::optional<int> buffer, bool empty, stream& compute) {
    if (uses_tree() && !empty)
      for_each_use(part, [&](auto& unit, std::size_t use) {
        auto const size = static_cast<std::size_t>(unit.leaf_size());
        unit.bind_gradients_to(trees_.begin_leaf(&unit, use, size, *device_), use, false, compute);
      });
    if (!buffer) return;
    gradient_type* gradients = gradients_[static_cast<std::size_t>(*buffer)].data();
    for_each_use(part, [&](auto& unit, std::size_t use) {
      if (!unit.gradients_sharded()) return;
      unit.bind_gradients_to(gradients, use, empty, compute);
      gradients += unit.layout().trainable_size();
    });
  }

  /// Completes the leaves of a part, if there are trees.
  void end_gradients(index part, stream& compute) {
    for_each_use(part, [&](auto& unit, std::size_t use) { trees_.end_leaf(&unit, use, compute); });
  }

  /// Adds the gradients of one use in that buffer, summed over shards, to those that this rank
  /// holds; `first`: they are the first of the step.
  template <class Comm>
  void reduce_scatter(entry& unit, std::size_t use, int buffer, bool first,
                      shard_groups<Comm> const& axes, exchange_stream& reductions) {
    index const offset = offset_of_use(unit, use, [](auto const& other) {
      return other.gradients_sharded() ? other.layout().trainable_size() : 0;
    });
    unit.memory.reduce_scatter(gradients_[static_cast<std::size_t>(buffer)].data() + offset, use,
                               first, axes, reductions);
  }

  /// After the last microbatch of a part: sets the gradients of its uses to the sums of their
  /// trees.
  void finish_trees(index part, stream& compute) {
    if (uses_tree())
      for_each_use(part, [&](auto& unit, std::size_t use) {
        unit.set_gradients(trees_.finish(&unit, use, unit.leaf_sums(), compute), use, compute);
      });
  }

  /// Whether the gradients of every microbatch are a leaf of a tree.
  [[nodiscard]] bool uses_tree() const {
    return !units_.empty() && units_.front().memory.uses_tree();
  }

  /// Whether gradients of a unit are reduced after every microbatch rather than at the end of the
  /// step.
  [[nodiscard]] bool gradients_sharded() const {
    return std::ranges::any_of(units_,
                               [](entry const& unit) { return unit.memory.gradients_sharded(); });
  }
  /// Whether values of a unit are gathered before they are used.
  [[nodiscard]] bool parameters_sharded() const {
    return std::ranges::any_of(units_,
                               [](entry const& unit) { return unit.memory.parameters_sharded(); });
  }

 private:
  /// The number of elements that precede those of a unit's use in the buffer of its part.
  template <class Size>
  [[nodiscard]] index offset_of_use(entry const& unit, std::size_t use, Size size) {
    index offset = 0;
    bool is_found = false;
    for_each_use(unit.parts[use], [&](auto& unit_memory, std::size_t number) {
      is_found = is_found || (&unit_memory == &unit.memory && number == use);
      if (!is_found) offset += size(unit_memory);
    });
    return offset;
  }
  template <class Buffers>
  [[nodiscard]] static std::size_t bytes_of(Buffers const& buffers) {
    std::size_t total = 0;
    for (auto const& buffer : buffers) total += buffer.size() * sizeof(*buffer.data());
    return total;
  }

  std::deque<entry> units_;  // a deque, so that addresses stay valid
  std::vector<buffer<T>> values_;
  std::vector<buffer<gradient_type>> gradients_;
  gradient_trees<gradient_type, Device> trees_;
  Device* device_ = nullptr;
  arena workspace_;
  std::size_t workspace_bytes_ = 0;
  buffer<bf16> staging_;
};

}  // namespace parallel::zero
