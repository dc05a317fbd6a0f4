// step_totals and gradient_scale on the host: the few instructions of the reference.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/update/step_results.hpp>

namespace parallel::host {

template <class L>
void run_operation(stream& s, ops::step_totals_arguments<L> const& a) {
  s.enqueue({a.name}, [=] { a.compute(); });
}

template <class A>
void run_operation(stream& s, ops::gradient_scale_arguments<A> const& a) {
  s.enqueue({a.name}, [=] { a.compute(); });
}

}  // namespace parallel::host
