// unit_set: all units of a rank, as the passes of a step use them part by part.
//
// Before a part runs its values are gathered into a window, and after its backward pass gradients
// are reduced out of one, for what the stage divides; the rest is simply there. Parts of equal size
// take turns in the same windows: while one is in use the next is gathered, never more, so memory
// is bounded and the same in every run. Gathers and reductions run on streams of their own.
//
// Or every unit has memory for all its values, in which they stay once gathered: more memory, fewer
// gathers.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/device/buffer.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/zero/gradient_trees.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::zero {

/// Memory of `Device`; exchanges run on streams of type `Traffic`.
template <class T, memory_device Device, parallel::stream Traffic>
class unit_set {
 public:
  using gradient_type = accumulate_t<T>;
  using stream = typename Device::stream_type;
  using traffic = Traffic;

  struct entry {
    partitioned_unit<T> memory;
    std::vector<index> parts;  // for each use that is on this rank, the part that computes with it
    buffer<T> kept = {};       // its whole values, when they stay; else it takes turns
    bool gathered = false;     // into `kept`
  };

  void add(partitioned_unit<T> memory, std::vector<index> parts) {
    units_.push_back({std::move(memory), std::move(parts)});
  }

  /// Allocates the windows, after all units were added: two for parts of equal size, or as many as
  /// there are such parts. `keep_values`: for values one a unit, in which they stay.
  void allocate_windows(Device& device, bool keep_values = false) {
    device_ = &device;
    std::map<index, std::pair<index, index>> sizes;  // of values and gradients, by part
    for (auto& unit : units_) {
      auto const& layout = unit.memory.layout();
      bool const divided = unit.memory.values_divided();
      if (divided && keep_values)
        unit.kept = device.template allocate_zeroed<T>(static_cast<std::size_t>(layout.size()));
      for (index const part : unit.parts) {
        auto& [values, gradients] = sizes[part];
        if (divided && !keep_values) values += layout.size();
        if (unit.memory.gradients_divided()) gradients += layout.trainable_size();
      }
    }
    for (auto const& [part, size] : sizes) {
      values_.add(part, size.first, device);
      gradients_.add(part, size.second, device);
    }
  }

  [[nodiscard]] std::deque<entry>& units() { return units_; }
  [[nodiscard]] std::deque<entry> const& units() const { return units_; }

  /// Calls f(unit, use) for what `part` computes with, in one order everywhere.
  template <class F>
  void for_each_use(index part, F&& f) {
    for (auto& unit : units_)
      for (std::size_t use = 0; use < unit.parts.size(); ++use)
        if (unit.parts[use] == part) f(unit.memory, use);
  }

  /// Bytes of all windows.
  [[nodiscard]] std::size_t value_window_bytes() const {
    std::size_t total = values_.bytes();
    for (auto const& unit : units_) total += unit.kept.size() * sizeof(T);
    return total;
  }
  [[nodiscard]] std::size_t gradient_window_bytes() const { return gradients_.bytes(); }

  /// Values that stay may have changed: each is gathered again when it is used next, after what is
  /// enqueued on `compute` now.
  void forget_values(stream& compute, traffic& gathers) {
    gathers.wait(compute.record());
    for (auto& unit : units_) unit.gathered = false;
  }

  /// Makes the values of a part available to what is enqueued on `compute` from now on.
  template <class Comm>
  void use_values(index part, unit_axes<Comm> const& axes, stream& compute, traffic& gathers) {
    for (auto& unit : units_) {
      if (unit.kept.size() == 0 || unit.gathered || !uses(unit, part)) continue;
      unit.memory.gather_into(unit.kept.data(), axes, gathers, compute);
      unit.gathered = true;
    }
    auto* const window = values_.take(part);
    if (window == nullptr) return;
    if (window->free) gathers.wait(*window->free);
    T* at = window->memory.data();
    for_each_use(part, [&](auto& unit, std::size_t) {
      unit.gather_into(at, axes, gathers, compute);
      at += unit.layout().size();
    });
  }

  /// Ends that: what comes later on `compute` does not use them.
  void release_values(index part, stream& compute) {
    if (auto* const window = values_.of(part)) window->free = compute.record();
  }

  /// Makes room for the gradients of a part of one microbatch; `empty`: none will be added.
  void begin_gradients(index part, bool empty, stream& compute) {
    if (by_tree() && !empty)
      for_each_use(part, [&](auto& unit, std::size_t use) {
        auto const size = static_cast<std::size_t>(unit.layout().trainable_size());
        unit.bind_gradients_to(trees_.begin_leaf(&unit, use, size, *device_), use, false, compute);
      });
    auto* const window = gradients_.take(part);
    if (window == nullptr) return;
    if (window->free) compute.wait(*window->free);
    gradient_type* at = window->memory.data();
    for_each_use(part, [&](auto& unit, std::size_t use) {
      unit.bind_gradients_to(at, use, empty, compute);
      at += unit.layout().trainable_size();
    });
  }

  /// Adds them to what this rank holds; `first`: of the step's microbatches.
  template <class Comm>
  void end_gradients(index part, bool first, bool empty, unit_axes<Comm> const& axes,
                     stream& compute, traffic& reductions) {
    if (by_tree() && !empty)
      for_each_use(part,
                   [&](auto& unit, std::size_t use) { trees_.end_leaf(&unit, use, compute); });
    auto* const window = gradients_.of(part);
    if (window == nullptr) return;
    reductions.wait(compute.record());
    gradient_type* at = window->memory.data();
    for_each_use(part, [&](auto& unit, std::size_t use) {
      unit.reduce_out_of(at, use, first, axes, reductions);
      at += unit.layout().trainable_size();
    });
    window->free = reductions.record();
  }

  /// After the last microbatch of a part: what the trees of its uses add up to is what it holds.
  void finish_trees(index part, stream& compute) {
    if (by_tree())
      for_each_use(part, [&](auto& unit, std::size_t use) {
        unit.take_gradients(trees_.finish(&unit, use, compute), use, compute);
      });
  }

  /// Whether every microbatch's gradients are a leaf of a tree.
  [[nodiscard]] bool by_tree() const { return !units_.empty() && units_.front().memory.by_tree(); }

  /// Whether gradients are reduced after every microbatch rather than at the end of the step.
  [[nodiscard]] bool gradients_divided() const {
    return !units_.empty() && units_.front().memory.gradients_divided();
  }

 private:
  static bool uses(entry const& unit, index part) {
    return std::ranges::find(unit.parts, part) != unit.parts.end();
  }

  /// Of elements U; the last to use one records an Event.
  template <class U, class Event>
  class windows {
   public:
    struct window {
      buffer<U> memory;
      std::optional<Event> free;  // reached when nothing reads or writes it any more
    };

    void add(index part, index size, Device& device) {
      if (size == 0) return;
      auto& turn = turns_[size];
      if (turn.windows.size() < 2)
        turn.windows.push_back(
            {device.template allocate_zeroed<U>(static_cast<std::size_t>(size)), {}});
      places_[part] = {&turn, nullptr};
    }

    /// The next window for `part`; null when it needs none.
    window* take(index part) {
      auto const place = places_.find(part);
      if (place == places_.end()) return nullptr;
      auto& [turn, current] = place->second;
      current = &turn->windows[turn->next++ % turn->windows.size()];
      return current;
    }

    /// The one it took last.
    window* of(index part) {
      auto const place = places_.find(part);
      return place == places_.end() ? nullptr : place->second.second;
    }

    [[nodiscard]] std::size_t bytes() const {
      std::size_t total = 0;
      for (auto const& [size, turn] : turns_)
        total += turn.windows.size() * static_cast<std::size_t>(size) * sizeof(U);
      return total;
    }

   private:
    struct shared_turn {
      std::deque<window> windows;  // addresses stay
      std::size_t next = 0;
    };
    std::map<index, shared_turn> turns_;                        // by size; addresses stay
    std::map<index, std::pair<shared_turn*, window*>> places_;  // by part
  };

  std::deque<entry> units_;  // addresses stay
  windows<T, typename stream::event_type> values_;
  windows<gradient_type, typename traffic::event_type> gradients_;
  gradient_trees<gradient_type, Device> trees_;
  Device* device_ = nullptr;
};

}  // namespace parallel::zero
