// tensor_squares: the size of every tensor's gradient, moment, weights and last update, by which a
// diverging run is diagnosed.
//
// Every rank sums the squares of the elements that it accounts for, and one reduction over the
// world of four numbers a tensor gives the sums of whole tensors. The update is measured, not
// derived from the rule: the weights are copied before it (a unit at a time), so any optimizer,
// group and decay is included.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <parallel/core/reduction.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/train/results/tensor_list.hpp>
#include <parallel/zero/partitioned_unit.hpp>

namespace parallel::train {

/// Sums of squares over one tensor. `gradient` is over the sum of all tokens' gradients as the
/// optimizer receives it, before the common factor. `moment` is over the optimizer's first state, 0
/// if it has none.
template <class Sum>
struct tensor_squares {
  std::string name;
  Sum gradient = {};
  Sum moment = {};
  Sum weights = {};
  Sum update = {};
  friend bool operator==(tensor_squares const&, tensor_squares const&) = default;
};

/// Measures one step: measure_before and measure_after enclose every unit's update; `finish` sums.
template <class T>
class tensor_squares_meter {
 public:
  using gradient_type = accumulate_t<T>;
  using sum = ops::sum_t<gradient_type>;
  using unit_type = zero::partitioned_unit<T>;

  /// Measures the tensors of `tensors`, which must outlive the meter.
  template <class Device>
  tensor_squares_meter(tensor_list const& tensors, Device const& device)
      : tensors_(tensors), sums_(device.template allocate_shared<sum>(4 * tensors.size())) {}

  /// Enqueues the sums of the gradients and a copy of the weights.
  template <class Stream, class Device>
  void measure_before(unit_type const& unit, Stream& compute, Device& device) {
    copies_.clear();
    for_each_segment(unit, [&](std::size_t s, auto const& master) {
      copies_.push_back(device.template allocate<gradient_type>(master.size()));
      ops::copy(compute, copies_.back().span(), std::span<gradient_type const>(master));
      add(unit, compute, s, 0,
          std::span<gradient_type const>(unit.primary_range(s, unit.owned_gradients(s))));
    });
  }

  /// Enqueues the sums over what the update made, and blocks until they are complete.
  template <class Stream>
  void measure_after(unit_type const& unit, Stream& compute) {
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
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      auto const* const squares = sums_.data() + 4 * i;
      out.push_back({tensors_.tensors()[i].name, squares[0], squares[1], squares[2], squares[3]});
    }
    return out;
  }

 private:
  /// Calls f(segment number, master weights that this rank accounts for) for every trained segment.
  template <class F>
  static void for_each_segment(unit_type const& unit, F&& f) {
    for (std::size_t s = 0; s < unit.segments().size(); ++s)
      if (unit.is_trainable(s)) f(s, unit.primary_range(s, unit.segments()[s].master.span()));
  }

  /// Adds the squares of `elements`, which this rank accounts for, to the sums of their tensors.
  /// `quantity`: 0 gradient, 1 moment, 2 weights, 3 update. `s`: the segment.
  template <class Stream>
  void add(unit_type const& unit, Stream& compute, std::size_t s, std::size_t quantity,
           std::span<gradient_type const> elements) {
    auto const own_range = unit.primary_range(s);
    unit.layout().segments()[s].for_each_piece(
        own_range.begin, own_range.end, [&](auto const& p, index first, index last, index begin) {
          ops::squared_norm(compute, sums_.data() + 4 * tensors_.number_of(p.name) + quantity,
                            elements.subspan(static_cast<std::size_t>(begin - own_range.begin),
                                             static_cast<std::size_t>(last - first)));
        });
  }

  tensor_list const& tensors_;
  buffer<sum> sums_;  // gradient, moment, weights and update of each tensor
  std::vector<buffer<gradient_type>> copies_;
};

}  // namespace parallel::train
