// step_totals and gradient_scale on the meta device: a few operations a step, which are not
// counted.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/step_results.hpp>

namespace parallel::meta {

template <class L>
void step_totals_impl(stream&, ops::step_sums<L>*, std::span<statistics<L> const>, L const*) {}

template <class A>
void gradient_scale_impl(stream&, A*, ops::step_sums<double> const*, double) {}

}  // namespace parallel::meta
