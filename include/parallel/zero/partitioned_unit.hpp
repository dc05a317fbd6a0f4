// partitioned_unit: a unit's memory on one rank, and the collectives that keep it consistent.
//
// Stages differ only in the range a rank *owns*: all of a segment (none) or its shard (optimizer).
// Master weights and optimizer states exist for the owned range; the update runs over it; what is
// owned by others is gathered afterwards. With one rank every stage is the same program.
//
// Communication per step and rank, Ψ gradient bytes: none 2Ψ(N-1)/N (all-reduce); optimizer
// Ψ(N-1)/N (reduce-scatter) + parameters (N-1)/N (all-gather).
#pragma once

#include <algorithm>
#include <vector>

#include <parallel/comm/concepts.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/mesh/placement.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/optim/concepts.hpp>
#include <parallel/unit/unit.hpp>
#include <parallel/zero/stage.hpp>

namespace parallel::zero {

template <class T>
class partitioned_unit {
 public:
  using gradient_type = accumulate_t<T>;
  using summed_gradient = placed_gradient<gradient_type, reduced<axis::data>>;

  /// Memory of one segment. `master` is the owned part of `values` when T accumulates in T. A
  /// frozen segment has `values` alone, and every rank owns all of it.
  struct memory {
    range owned;
    buffer<T> values;                              // whole segment
    std::vector<buffer<gradient_type>> gradients;  // whole segment, one per use; one if one rank
    buffer<gradient_type> master;                  // owned range
    std::vector<buffer<gradient_type>> states;     // owned range, one per optimizer state
  };

  /// Allocates on `device` and binds the layer's parameters. `rank` of `ranks` data ranks.
  template <class Device>
  partitioned_unit(unit<T> layout, stage kind, index rank, index ranks, std::size_t num_states,
                   Device& device)
      : unit_(std::move(layout)), stage_(kind), rank_(rank), ranks_(ranks) {
    for (std::size_t s = 0; s < unit_.segments().size(); ++s) {
      index const size = unit_.segments()[s].size;
      auto const elements = static_cast<std::size_t>(size);
      memory m;
      m.values = device.template allocate_zeroed<T>(elements);
      unit_.bind_values(s, m.values.data());
      m.owned = {0, size};
      if (!unit_.segments()[s].key.trainable) {
        memory_.push_back(std::move(m));
        continue;
      }
      if (kind == stage::optimizer) m.owned = shard_of(size, rank, ranks);
      auto const owned = static_cast<std::size_t>(m.owned.size());
      // uses meet after their reduction; where there is none they can add to the same memory
      for (std::size_t use = 0; use < (ranks == 1 ? 1 : unit_.uses()); ++use)
        m.gradients.push_back(device.template allocate_zeroed<gradient_type>(elements));
      if constexpr (std::is_same_v<T, gradient_type>)
        m.master = {m.values.owner(), offset(m.values.data(), m.owned.begin), owned};
      else
        m.master = device.template allocate_zeroed<gradient_type>(owned);
      for (std::size_t i = 0; i < num_states; ++i)
        m.states.push_back(device.template allocate_zeroed<gradient_type>(owned));
      for (std::size_t use = 0; use < unit_.uses(); ++use)
        unit_.bind_gradients(s, use, gradients_of(m, use).data());
      memory_.push_back(std::move(m));
    }
  }

  [[nodiscard]] unit<T> const& layout() const { return unit_; }
  [[nodiscard]] std::vector<memory> const& segments() const { return memory_; }

  /// Bytes of the gradients of one use, over all segments.
  [[nodiscard]] std::size_t gradient_bytes() const {
    return static_cast<std::size_t>(unit_.trainable_size()) * sizeof(gradient_type);
  }

  [[nodiscard]] bool is_trainable(std::size_t s) const { return unit_.segments()[s].key.trainable; }

  /// Fills master weights and values with the parameters' initial distributions. Host memory only.
  void initialise(std::uint64_t seed) {
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      auto const& m = memory_[s];
      auto const& part = unit_.segments()[s];
      std::vector<gradient_type> scratch;
      part.for_each_piece(
          0, part.size, [&](auto const& parameter, index first, index last, index at) {
            scratch.resize(static_cast<std::size_t>(last - first));
            initial_values(std::span(scratch), parameter.name, parameter.initial, seed, first);
            for (index i = 0; i < last - first; ++i) {
              auto const value = scratch[static_cast<std::size_t>(i)];
              m.values.data()[at + i] = static_cast<T>(value);
              if (part.key.trainable && m.owned.begin <= at + i && at + i < m.owned.end)
                m.master.data()[at + i - m.owned.begin] = value;
            }
          });
    }
  }

  /// Sets all gradients to zero.
  template <class Stream>
  void clear_gradients(Stream& compute) const {
    for (auto const& m : memory_)
      for (auto const& g : m.gradients) ops::fill(compute, g.span(), gradient_type{});
  }

  /// Sets to zero what the first microbatch of a step will add to; what it will replace
  /// (context::fresh_gradients) stays as it is.
  template <class Stream>
  void prepare_gradients(Stream& compute) const {
    for (std::size_t s = 0; s < memory_.size(); ++s)
      for (std::size_t use = 0; use < memory_[s].gradients.size(); ++use) {
        auto const all = memory_[s].gradients[use].span();
        // what several uses share is replaced by the last of them, the first in a backward pass
        std::size_t const first = memory_[s].gradients.size() == 1 ? unit_.uses() - 1 : use;
        unit_.for_each_parameter(s, first, [&](auto const& parameter, index at) {
          if (!parameter.replaces_gradient)
            ops::fill(compute, part(all, {at, at + parameter.size()}), gradient_type{});
        });
      }
  }

  /// Enqueues on `stream` the sum over ranks of one use's gradients; afterwards this rank holds the
  /// sums of what it owns. Appends the requests to wait for.
  template <class Comm, class Stream, class Requests>
  void reduce(Comm& comm, Stream& stream, std::size_t use, Requests& requests,
              call_site where = call_site::current()) const {
    for (auto const& m : memory_) {
      if (m.gradients.empty()) continue;  // frozen
      auto const& gradients = gradients_of(m, use);
      auto const all = gradients.span();
      auto request =
          stage_ == stage::none
              ? comm.all_reduce(stream, all, reduction::sum, where)
              : comm.reduce_scatter(stream, part(all, m.owned), std::span<gradient_type const>(all),
                                    reduction::sum, where);
      request.keep(gradients.owner());
      requests.push_back(std::move(request));
    }
  }

  /// After `reduce` of every use: joins the uses of a tied parameter. What it returns is reduced.
  template <class Stream>
  void join_uses(Stream& compute) const {
    for (auto const& m : memory_)
      for (std::size_t use = 1; use < m.gradients.size(); ++use)
        ops::add(compute, part(m.gradients[0].span(), m.owned),
                 std::span<gradient_type const>(part(m.gradients[use].span(), m.owned)));
  }

  /// The reduced gradients of the part of segment `s` whose norm this rank accounts for: its shard
  /// in every stage, so that each element counts once and every stage sums in the same order.
  [[nodiscard]] std::span<gradient_type const> norm_part(std::size_t s) const {
    if (!is_trainable(s)) return {};
    return part(memory_[s].gradients[0].span(), shard(s));
  }

  /// The range of segment `s` that this rank accounts for when something is summed over ranks.
  [[nodiscard]] range shard(std::size_t s) const {
    return shard_of(unit_.segments()[s].size, rank_, ranks_);
  }

  /// The reduced gradients of the owned range of segment `s`, which is trained.
  [[nodiscard]] std::span<gradient_type> owned_gradients(std::size_t s) const {
    return part(memory_[s].gradients[0].span(), memory_[s].owned);
  }

  /// Updates the owned range of every segment that is trained, by the optimizer of its group.
  template <class Stream, class Optimizer>
  void update(Stream& compute, std::span<Optimizer const> optimizers,
              step_info<gradient_type> const& info) const {
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      if (!is_trainable(s)) continue;
      auto const& m = memory_[s];
      auto const& optimizer = optimizers[static_cast<std::size_t>(unit_.segments()[s].key.group)];
      std::vector<std::span<gradient_type>> states;
      for (auto const& state : m.states) states.push_back(state.span());
      optimizer.update(
          compute,
          update_ranges<T, summed_gradient>{part(m.values.span(), m.owned), m.master.span(), states,
                                            summed_gradient{part(m.gradients[0].span(), m.owned)}},
          info);
    }
  }

  /// Enqueues on `stream` the gathering of what other ranks own; nothing when all is owned.
  template <class Comm, class Stream, class Requests>
  void gather(Comm& comm, Stream& stream, Requests& requests,
              call_site where = call_site::current()) const {
    for (auto const& m : memory_) {
      if (m.owned.size() == static_cast<index>(m.values.size())) continue;
      auto request = comm.all_gather(stream, m.values.span(),
                                     std::span<T const>(part(m.values.span(), m.owned)), where);
      request.keep(m.values.owner());
      requests.push_back(std::move(request));
    }
  }

 private:
  static buffer<gradient_type> const& gradients_of(memory const& m, std::size_t use) {
    return m.gradients[std::min(use, m.gradients.size() - 1)];
  }
  template <class U>
  static U* offset(U* data, index by) {
    return data == nullptr ? nullptr : data + by;
  }
  template <class U>
  static std::span<U> part(std::span<U> all, range r) {
    return {offset(all.data(), r.begin), static_cast<std::size_t>(r.size())};
  }

  unit<T> unit_;
  stage stage_;
  index rank_;
  index ranks_;
  std::vector<memory> memory_;
};

}  // namespace parallel::zero
