// partitioned_unit: a unit's memory on one rank, and the collectives that keep it consistent.
//
// Levels differ only in what a rank holds whole and what in its shard. Master weights and optimizer
// states exist for the owned range, and the update covers that range. Sharded memory is bound to an
// unsharded buffer while a layer uses it: values are gathered into the buffer, gradients are
// reduced out of it. With one shard every level is the same program. All uses of a parameter on the
// rank add to one gradient, except in the canonical order. Bytes sent per step and rank, padding
// included, for Ψ bytes of values and G of gradients (in the canonical order, and with reductions
// after every microbatch, the gradients of every use), N shards (shard x context ranks) and m
// microbatches:
//
//   optimizer    G(N-1)/N (reduce-scatter) + Ψ(N-1)/N (all-gather, of trained values)
//   gradients    mG(N-1)/N                 + Ψ(N-1)/N
//   parameters   mG(N-1)/N                 + mΨ'(N-1)/N, where Ψ' counts a unit once for every pass
//                that reads it: a block twice, the entry and the exit of a model once
//
// With reductions once a step instead of after every microbatch, G(N-1)/N at every level, and G is
// held whole; parameters without resharding, Ψ(N-1)/N, frozen values included, and Ψ is held whole
// too. Over R replicas (without ZeRO replicate x context ranks) 2(G/N)(R-1)/R more (all-reduce of
// owned ranges). In bf16 (reduce_dtype) every G counts half.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/mesh/placement.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/optim/concepts.hpp>
#include <parallel/unit/initialise.hpp>
#include <parallel/unit/unit.hpp>
#include <parallel/zero/gradient_sums.hpp>
#include <parallel/zero/level.hpp>
#include <parallel/zero/shard_groups.hpp>

namespace parallel::zero {

template <class T>
class partitioned_unit {
 public:
  using gradient_type = accumulate_t<T>;
  using summed_gradient = placed_gradient<gradient_type, reduced<axis::data>>;

  /// The memory of one segment. `master` is the owned part of `values` when T accumulates in T. A
  /// frozen segment has only `values`.
  struct memory {
    range owned;
    buffer<T> values;  ///< whole segment, or the owned range
    std::vector<buffer<gradient_type>>
        gradients;                              ///< as values; in the canonical order one per use
    buffer<gradient_type> master;               ///< owned range
    std::vector<buffer<gradient_type>> states;  ///< owned range, one per optimizer state
  };

  /// Allocates on `device` and binds the layer's parameters to the memory that is held whole.
  template <class Device>
  partitioned_unit(unit<T> layout, level kind, unit_position position,
                   state_counts const& num_states, Device& device,
                   reduction_order order = reduction_order::by_rank,
                   optimizer_memory state_memory = optimizer_memory::device,
                   bool reduce_every_microbatch = true)
      : unit_(std::move(layout)),
        position_(position),
        order_(order),
        parameters_sharded_(shards_parameters(kind, position)),
        gradients_sharded_(shards_gradients(kind, position, order, reduce_every_microbatch)) {
    require(order == reduction_order::by_rank || position.replicas == 1 ||
                std::has_single_bit(static_cast<std::size_t>(position.shards)),
            "unit ", unit_.name(), ": the canonical tree over replicas needs a power of two of ",
            "shards, there are ", position.shards);
    require(std::has_single_bit(static_cast<unsigned>(leaf_sums())) ||
                position.shards * position.replicas == 1,
            "unit ", unit_.name(), ": in canonical order a power of two of ranks divides experts, ",
            "there are ", leaf_sums());
    require(kind != level::none || position.shards == 1, "unit ", unit_.name(),
            ": without ZeRO nothing is sharded; use replicas");
    for (std::size_t s = 0; s < unit_.segments().size(); ++s) {
      auto const& segment = unit_.segments()[s];
      memory m;
      m.owned = position.owned(segment.size);
      auto const whole = static_cast<std::size_t>(segment.size);
      auto const owned = static_cast<std::size_t>(m.owned.size());
      auto const allocate_for_optimizer = [&] {
        return state_memory == optimizer_memory::host
                   ? device.template allocate_shared<gradient_type>(owned)
                   : device.template allocate_zeroed<gradient_type>(owned);
      };
      m.values = allocate_exchanged<T>(device, parameters_sharded_ ? owned : whole, whole);
      if (segment.key.trainable) {
        std::size_t const uses = uses_tree() ? unit_.uses() : 1;  // each use has its own tree
        for (std::size_t use = 0; use < uses; ++use)
          m.gradients.push_back(
              allocate_exchanged<gradient_type>(device, gradients_sharded_ ? owned : whole, whole));
        if constexpr (std::is_same_v<T, gradient_type>)
          m.master = {m.values.owner(), owned_part(m.values, m).data(), owned};
        else
          m.master = allocate_for_optimizer();
        for (std::size_t i = 0; i < num_states.for_group(segment.key.group); ++i)
          m.states.push_back(allocate_for_optimizer());
      }
      memory_.push_back(std::move(m));
    }
    mark_gradients();
    if (!parameters_sharded_)
      for (std::size_t s = 0; s < memory_.size(); ++s)
        unit_.bind_values(s, memory_[s].values.data());
    if (!gradients_sharded_)
      for (std::size_t s = 0; s < memory_.size(); ++s)
        for (std::size_t use = 0; is_trainable(s) && use < unit_.uses(); ++use)
          unit_.bind_gradients(s, use, gradients_of(memory_[s], use).data());
  }

  [[nodiscard]] unit<T> const& layout() const { return unit_; }
  [[nodiscard]] std::vector<memory> const& segments() const { return memory_; }
  [[nodiscard]] unit_position const& position() const { return position_; }

  /// Whether layers use the values, or add to the gradients, in an unsharded buffer.
  [[nodiscard]] bool parameters_sharded() const { return parameters_sharded_; }
  [[nodiscard]] bool gradients_sharded() const { return gradients_sharded_; }
  /// Whether the gradients of every microbatch are a leaf of a tree.
  [[nodiscard]] bool uses_tree() const { return order_ == reduction_order::canonical_tree; }

  /// Sums that a leaf of a tree has one after another: one for the rows of each rank of experts.
  [[nodiscard]] int leaf_sums() const { return uses_tree() ? unit_.expert_ranks() : 1; }

  /// Elements of a leaf of a tree.
  [[nodiscard]] index leaf_size() const { return unit_.trainable_size() * leaf_sums(); }

  /// Bytes of the gradients of one use, over all segments.
  [[nodiscard]] std::size_t gradient_bytes() const {
    return static_cast<std::size_t>(unit_.trainable_size()) * sizeof(gradient_type);
  }

  [[nodiscard]] bool is_trainable(std::size_t s) const { return unit_.segments()[s].key.trainable; }

  /// Fills master weights and values, which are on `device`, from the parameters' initial
  /// distributions, with all cores that the caller may use. Blocks.
  template <class Device>
  void initialise(std::uint64_t seed, Device const& device) {
    std::size_t const cores = usable_cores();
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      auto const& m = memory_[s];
      auto const held_range = parameters_sharded_ ? m.owned : range{0, unit_.segments()[s].size};
      std::vector<gradient_type> scratch;
      unit_.segments()[s].for_each_piece(
          held_range.begin, held_range.end,
          [&](auto const& parameter, index first, index last, index offset) {
            parameter.for_each_run(first, last, [&](index run_begin, index count, index global) {
              scratch.resize(static_cast<std::size_t>(count));
              initial_values_by(cores, std::span(scratch), parameter.name, parameter.initial, seed,
                                global);
              fill(s, offset + run_begin - first, std::span<gradient_type const>(scratch), device);
            });
          });
    }
  }

  /// Sets how gradients are summed from now on; staging for all trained segments is large enough.
  void set_sums(gradient_sums<gradient_type> sums) { sums_ = sums; }
  [[nodiscard]] gradient_sums<gradient_type> const& sums() const { return sums_; }

  /// Sets all gradients to zero.
  template <class Stream>
  void clear_gradients(Stream& compute) const {
    for (auto const& m : memory_)
      for (auto const& g : m.gradients) ops::fill(compute, g.span(), gradient_type{});
  }

  /// Sets all optimizer states to zero.
  template <class Stream>
  void clear_states(Stream& compute) const {
    for (auto const& m : memory_)
      for (auto const& state : m.states) ops::fill(compute, state.span(), gradient_type{});
  }

  /// Sets to zero the gradients to which the first microbatch of a step adds; those that it
  /// overwrites (context::overwrites) stay as they are. For gradients that are held whole.
  template <class Stream>
  void prepare_gradients(Stream& compute) const {
    for (std::size_t s = 0; s < memory_.size(); ++s)
      for (std::size_t use = 0; use < memory_[s].gradients.size(); ++use) {
        // a gradient that several uses share is overwritten at most by the last of them, the exit
        std::size_t const first = memory_[s].gradients.size() == 1 ? unit_.uses() - 1 : use;
        unit_.for_each_parameter(s, first, [&](auto const& parameter, index offset) {
          if (!parameter.replaces_gradient || parameter.shares_gradient)
            ops::fill(compute,
                      part(memory_[s].gradients[use].span(), {offset, offset + parameter.size()}),
                      gradient_type{});
        });
      }
  }

  /// Binds the values to `buffer`, of layout().size() elements.
  void bind_values_to(T* buffer) {
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      unit_.bind_values(s, buffer);
      buffer = advance(buffer, unit_.segments()[s].size);
    }
  }

  /// Enqueues on `stream` the gathering of all values into `buffer`, of layout().size() elements.
  template <class Comm, class Stream, class Requests>
  void unshard(T* buffer, shard_groups<Comm> const& axes, Stream& stream, Requests& requests,
               call_site caller = call_site::current()) const {
    call_group calls(*axes.gathers);
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      std::span<T> const whole{buffer, static_cast<std::size_t>(unit_.segments()[s].size)};
      calls.all_gather(stream, whole, std::span<T const>(memory_[s].values.span()), caller)
          .detach();
      buffer = advance(buffer, unit_.segments()[s].size);
    }
    requests.push_back(calls.end(stream, caller));
  }

  /// Binds the gradients of one use to `buffer`, of layout().trainable_size() elements, and sets to
  /// zero those to which a microbatch adds (`clears_everything`: all, for a microbatch without
  /// rows).
  template <class Stream>
  void bind_gradients_to(gradient_type* buffer, std::size_t use, bool clears_everything,
                         Stream& compute) {
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      if (!is_trainable(s)) continue;
      index const size = unit_.segments()[s].size;
      std::span<gradient_type> const whole{buffer, static_cast<std::size_t>(size)};
      unit_.bind_gradients(s, use, buffer);
      index end = 0;  // of the elements that are overwritten or cleared
      unit_.for_each_parameter(s, use, [&](auto const& parameter, index offset) {
        if (clears_everything || !parameter.replaces_gradient || parameter.shares_gradient) return;
        ops::fill(compute, part(whole, {end, offset}), gradient_type{});
        end = offset + parameter.size();
      });
      ops::fill(compute, part(whole, {end, size}), gradient_type{});
      buffer = advance(buffer, size);
    }
  }

  /// Enqueues the sum over shards of the gradients in `buffer`; this rank's part is added to the
  /// held gradients, or becomes them where it is the `first` sum of the step.
  template <class Comm, class Stream>
  void reduce_scatter(gradient_type* buffer, std::size_t use, bool first,
                      shard_groups<Comm> const& axes, Stream& stream,
                      call_site caller = call_site::current()) const {
    std::vector<typename gradient_sums<gradient_type>::shard> shards;
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      if (!is_trainable(s)) continue;
      index const size = unit_.segments()[s].size;
      std::span<gradient_type> const whole{buffer, static_cast<std::size_t>(size)};
      shards.push_back({part(whole, memory_[s].owned), whole});
      buffer = advance(buffer, size);
    }
    sums_.reduce_scatter(*axes.shards, stream, shards, reduction::sum, caller).detach();
    for (std::size_t s = 0, i = 0; s < memory_.size(); ++s) {
      if (!is_trainable(s)) continue;
      std::span<gradient_type const> const own_sum = shards[i++].owned;
      auto const held = gradients_of(memory_[s], use).span();
      if (first)
        ops::copy(stream, held, own_sum);
      else
        ops::add(stream, held, own_sum);
    }
  }

  /// Sets the gradients of one use to the sum of a tree's leaves, laid out as an unsharded buffer;
  /// to zero when `sum` is null (no leaves).
  template <class Stream>
  void set_gradients(gradient_type const* sum, std::size_t use, Stream& compute) const {
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      if (!is_trainable(s)) continue;
      auto const held = gradients_of(memory_[s], use).span();
      if (sum == nullptr) {
        ops::fill(compute, held, gradient_type{});
      } else {
        ops::copy(compute, held, std::span<gradient_type const>(sum, held.size()));
        sum += held.size();
      }
    }
  }

  /// Adds up the uses of a tied parameter that have their own gradients, after every use has
  /// been reduced (reduce.hpp).
  template <class Stream>
  void join_uses(Stream& compute) const {
    for (auto const& m : memory_)
      for (std::size_t use = 1; use < m.gradients.size(); ++use)
        ops::add(compute, owned_part(m.gradients[0], m),
                 std::span<gradient_type const>(owned_part(m.gradients[use], m)));
  }

  /// Enqueues on `stream` the sum over `pipeline_stages` of the reduced gradients that this rank
  /// owns: uses of one parameter on different stages of a pipeline.
  template <class Comm, class Stream, class Requests>
  void sum_owned(Comm& pipeline_stages, Stream& stream, Requests& requests,
                 call_site caller = call_site::current()) const {
    for (std::size_t s = 0; s < memory_.size(); ++s)
      if (is_trainable(s))
        requests.push_back(
            pipeline_stages.all_reduce(stream, owned_gradients(s), reduction::sum, caller));
  }

  /// The range of segment `s` for which this rank accounts when elements are summed or saved over
  /// all ranks: every element once, and the same at every level.
  [[nodiscard]] range primary_range(std::size_t s) const {
    auto const& segment = unit_.segments()[s];
    return position_.primary_range(segment.size, segment.key.replication.ranks);
  }

  /// The part of `elements`, which cover the owned range of segment `s`, for which this rank
  /// accounts.
  template <class U>
  [[nodiscard]] std::span<U> primary_range(std::size_t s, std::span<U> elements) const {
    auto const own_range = primary_range(s);
    index const begin = own_range.begin - memory_[s].owned.begin;
    return part(elements, {begin, begin + own_range.size()});
  }

  /// The held gradients of one use of segment `s`, which must be trained.
  [[nodiscard]] buffer<gradient_type> const& gradients(std::size_t s, std::size_t use) const {
    return gradients_of(memory_[s], use);
  }
  /// The owned range of `gradients(s, use)`: once they are reduced and the uses joined, the
  /// gradients of an update.
  [[nodiscard]] std::span<gradient_type> owned_gradients(std::size_t s, std::size_t use = 0) const {
    return owned_part(gradients(s, use), memory_[s]);
  }

  /// The values of the owned range of segment `s`.
  [[nodiscard]] std::span<T> owned_values(std::size_t s) const {
    return owned_part(memory_[s].values, memory_[s]);
  }

  /// Enqueues on `stream` the gathering of values held whole that their owners have changed.
  template <class Comm, class Stream, class Requests>
  void gather(shard_groups<Comm> const& axes, Stream& stream, Requests& requests,
              call_site caller = call_site::current()) const {
    if (position_.shards == 1 || parameters_sharded_) return;
    call_group calls(*axes.gathers);
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      if (!is_trainable(s)) continue;
      std::span<T const> const owned(owned_values(s));
      calls.all_gather(stream, memory_[s].values.span(), owned, caller).detach();
    }
    auto request = calls.end(stream, caller);
    for (auto const& m : memory_) request.keep(m.values.owner());
    requests.push_back(std::move(request));
  }

 private:
  /// Tells the parameters how layers write gradients: which uses must add to those of others (all
  /// but the exit's, which are the first of a step), whether microbatches find old values, and
  /// where the sums of a leaf are.
  void mark_gradients() {
    bool const is_shared = unit_.uses() > 1 && !uses_tree();
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      for (std::size_t use = unit_.uses(); use-- > 0;) {
        bool const is_exit = unit_.ends_at_exit() && use + 1 == unit_.uses();
        unit_.for_each_parameter(s, use, [&](auto& p, index) {
          p.shares_gradient = is_shared && !is_exit;
          p.is_fresh_gradient = gradients_sharded_ || uses_tree();
          p.source_stride = leaf_sums() > 1 ? unit_.trainable_size() : 0;
        });
      }
    }
  }

  static buffer<gradient_type> const& gradients_of(memory const& m, std::size_t use) {
    return m.gradients[std::min(use, m.gradients.size() - 1)];
  }
  template <class U>
  static U* advance(U* data, index count) {
    return data == nullptr ? nullptr : data + count;
  }
  template <class U>
  static std::span<U> part(std::span<U> span, range r) {
    return {advance(span.data(), r.begin), static_cast<std::size_t>(r.size())};
  }
  /// The owned range of memory that is held whole, or all of memory that is sharded.
  template <class U>
  static std::span<U> owned_part(buffer<U> const& held, memory const& m) {
    bool const divided = static_cast<index>(held.size()) == m.owned.size();
    return divided ? held.span() : part(held.span(), m.owned);
  }

  /// Writes initial values from element `first` of segment `s` on.
  template <class Device>
  void fill(std::size_t s, index first, std::span<gradient_type const> source,
            Device const& device) {
    auto const& m = memory_[s];
    auto const end = first + static_cast<index>(source.size());
    std::vector<T> const values(source.begin(), source.end());
    index const held_begin = parameters_sharded_ ? m.owned.begin : 0;
    device.upload(part(m.values.span(), {first - held_begin, end - held_begin}),
                  std::span<T const>(values));
    range const owned_range{std::max(first, m.owned.begin), std::min(end, m.owned.end)};
    if (is_trainable(s) && owned_range.begin < owned_range.end)
      device.upload(part(m.master.span(),
                         {owned_range.begin - m.owned.begin, owned_range.end - m.owned.begin}),
                    part(source, {owned_range.begin - first, owned_range.end - first}));
  }

  unit<T> unit_;
  unit_position position_;
  reduction_order order_;
  bool parameters_sharded_;
  bool gradients_sharded_;
  std::vector<memory> memory_;
  gradient_sums<gradient_type> sums_;
};

}  // namespace parallel::zero
