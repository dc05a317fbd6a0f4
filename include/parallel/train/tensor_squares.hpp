// The size of every tensor's gradient, moment, weights and last update: what a diverging run is
// diagnosed by.
//
// Every rank sums the squares of what it accounts for, and one reduction over the world of four
// numbers a tensor makes them the whole's. The update is measured, not derived from the rule: the
// weights are copied before it (a unit at a time), so any optimizer, group and decay is included.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <parallel/core/reduction.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/train/tensor_list.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::train {

/// Sums of squares over one tensor. `gradient` is of the sum of all tokens' gradients as the
/// optimizer receives it, before its one factor; `moment` of the optimizer's first state, if any.
template <class Sum>
struct tensor_squares {
  std::string name;
  Sum gradient = {};
  Sum moment = {};
  Sum weights = {};
  Sum update = {};
  friend bool operator==(tensor_squares const&, tensor_squares const&) = default;
};

/// Measures one step: `before` and `after` around every unit's update, then `finish`.
template <class T>
class square_meter {
 public:
  using gradient_type = accumulate_t<T>;
  using sum = ops::sum_t<gradient_type>;
  using unit_type = zero::partitioned_unit<T>;

  /// For the tensors of `all`, which must outlive the meter.
  template <class Device>
  square_meter(tensor_list const& all, Device const& device)
      : all_(all), sums_(device.template allocate_shared<sum>(4 * all.size())) {}

  /// Enqueues the sums of the gradients and a copy of the weights.
  template <class Stream, class Device>
  void before(unit_type const& unit, Stream& compute, Device& device) {
    copies_.clear();
    for_each_segment(unit, [&](std::size_t s, auto const& master) {
      copies_.push_back(device.template allocate<gradient_type>(master.size()));
      ops::copy(compute, copies_.back().span(), std::span<gradient_type const>(master));
      add(unit, compute, s, 0,
          std::span<gradient_type const>(unit.primary_range(s, unit.owned_gradients(s))));
    });
  }

  /// Enqueues the sums of what the update made; blocks until they are there.
  template <class Stream>
  void after(unit_type const& unit, Stream& compute) {
    auto copy = copies_.begin();
    for_each_segment(unit, [&](std::size_t s, auto const& master) {
      auto const& m = unit.segments()[s];
      if (!m.states.empty())
        add(unit, compute, s, 1,
            std::span<gradient_type const>(unit.primary_range(s, m.states[0].span())));
      add(unit, compute, s, 2, std::span<gradient_type const>(master));
      auto const change = (copy++)->span();  // old - new: its square is the update's
      ops::scale(compute, change, static_cast<gradient_type>(-1));
      ops::add(compute, change, std::span<gradient_type const>(master));
      add(unit, compute, s, 3, std::span<gradient_type const>(change));
    });
    compute.synchronize();
  }

  /// The sums over all ranks. Collective.
  template <class Comm, class Stream>
  [[nodiscard]] std::vector<tensor_squares<sum>> finish(Comm& comm, Stream& exchanges) {
    comm.all_reduce(exchanges, sums_.span(), reduction::sum).wait();
    std::vector<tensor_squares<sum>> out;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      auto const* const of = sums_.data() + 4 * i;
      out.push_back({all_.tensors()[i].name, of[0], of[1], of[2], of[3]});
    }
    return out;
  }

 private:
  /// f(number of segment, the master weights this rank accounts for) for what is trained.
  template <class F>
  static void for_each_segment(unit_type const& unit, F&& f) {
    for (std::size_t s = 0; s < unit.segments().size(); ++s)
      if (unit.is_trainable(s)) f(s, unit.primary_range(s, unit.segments()[s].master.span()));
  }

  /// Adds the squares of `elements`, which this rank accounts for, to each tensor's sum `which`.
  template <class Stream>
  void add(unit_type const& unit, Stream& compute, std::size_t s, std::size_t which,
           std::span<gradient_type const> elements) {
    auto const mine = unit.primary_range(s);
    unit.layout().segments()[s].for_each_piece(
        mine.begin, mine.end, [&](auto const& p, index first, index last, index at) {
          ops::squared_norm(compute, sums_.data() + 4 * all_.place(p.name) + which,
                            elements.subspan(static_cast<std::size_t>(at - mine.begin),
                                             static_cast<std::size_t>(last - first)));
        });
  }

  tensor_list const& all_;
  buffer<sum> sums_;  // gradient, moment, weights, update of each
  std::vector<buffer<gradient_type>> copies_;
};

}  // namespace parallel::train
