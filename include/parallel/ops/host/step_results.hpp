// step_totals and gradient_scale on the host: the reference's few instructions.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/reference/step_results.hpp>

namespace parallel::host {

template <class L>
void step_totals_impl(stream& s, ops::step_sums<L>* out,
                      std::span<statistics<L> const> microbatches, L const* squares) {
  s.enqueue([=] {
    reference::stream here;
    reference::step_totals_impl(here, out, microbatches, squares);
  });
}

template <class A>
void gradient_scale_impl(stream& s, A* out, ops::step_sums<double> const* sums, double threshold) {
  s.enqueue([=] {
    reference::stream here;
    reference::gradient_scale_impl(here, out, sums, threshold);
  });
}

}  // namespace parallel::host
