// shared_results: a step's sums and its one factor, where the host and the device both reach them.
#pragma once

#include <parallel/device/buffer.hpp>
#include <parallel/train/gradient_norm.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// Of steps with elements T.
template <class T>
struct shared_results {
  using sums_type = statistics<loss_type<T>>;

  /// `exact`: of the squared norm.
  template <class Device>
  shared_results(Device const& device, bool exact)
      : sums(device.template allocate_shared<sums_type>(1)),
        scale(device.template allocate_shared<accumulate_t<T>>(1)),
        norm(exact, device) {}

  sums_type& cleared_sums() { return *sums.data() = {}; }

  buffer<sums_type> sums;         // written by passes
  buffer<accumulate_t<T>> scale;  // read by optimizers
  gradient_norm<T> norm;
};

}  // namespace parallel::train
