// The layer concept: what a model is made of.
//
// The backward pass is written, not taped, and split: `backward_input` gives the gradient of the
// input, `backward_weight` adds to the gradients of the parameters. Between the two a schedule may
// do other work (zero-bubble pipelines live from it). `saved` is the layer's own struct of views
// into the arena; `forward` and `backward_input` fill it, `backward_weight` reads it. Inputs are
// never overwritten; results are fresh views.
#pragma once

#include <concepts>

#include <parallel/core/parameter.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/layer/context.hpp>

namespace parallel {

/// A layer from [rows, in] to [rows, out] on the device of `Stream`.
template <class L, class Stream>
concept layer = requires(L const& l, L& mutable_layer, context<Stream>& c, typename L::saved& kept,
                         matrix_view<typename L::element const> x) {
  { l.forward(c, x, kept) } -> std::same_as<matrix_view<typename L::element>>;
  { l.backward_input(c, x, kept) } -> std::same_as<matrix_view<typename L::element>>;
  l.backward_weight(c, kept);
  mutable_layer.visit_parameters([](parameter_base<typename L::element>&) {});
};

}  // namespace parallel
