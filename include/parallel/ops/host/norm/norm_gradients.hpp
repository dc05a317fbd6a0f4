// norm_gradients on the host: the reference loops, since layers on the host compute the two
// gradients separately.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/norm/norm_gradients.hpp>

namespace parallel::host {

template <class T>
void run_operation(stream& s, ops::norm_gradients_arguments<T> const& a) {
  s.enqueue({a.name}, [=] { ops::compute(a); });
}

}  // namespace parallel::host
