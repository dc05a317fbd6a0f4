// step_totals and gradient_scale at once, on the calling thread.
#pragma once

#include <parallel/ops/reference/stream.hpp>
#include <parallel/ops/step_results.hpp>

namespace parallel::reference {

template <class L>
void step_totals_impl(stream&, ops::step_sums<L>* out, std::span<statistics<L> const> microbatches,
                      L const* squares) {
  ops::detail::add_up_step(out, microbatches.data(), std::ssize(microbatches), squares);
}

template <class A>
void gradient_scale_impl(stream&, A* out, ops::step_sums<double> const* sums, double threshold) {
  *out = static_cast<A>(ops::size_of_gradient(*sums, threshold).scale);
}

}  // namespace parallel::reference
