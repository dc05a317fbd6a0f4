// The exact laws of layers over integers: the library's layers obey them, and wrong layers are
// detected.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <parallel/conformance/layer.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>

#include "support/ring/ring_model.hpp"

namespace layer_laws_test {

using namespace parallel;
using conformance::check_ring_layer;
using conformance::message_of;
using parallel::index;
using ring = std::uint64_t;

linear<ring> dense(std::string const& name, index out, index in) {
  return {.weight = {name + ".weight", {out, in}}, .bias = {name + ".bias", {out}}};
}

TEST_CASE("check_ring_layer: linear, square, attention and compositions are exact") {
  CHECK_NOTHROW(check_ring_layer<host::stream>(dense("up", 5, 3), 4, 3));
  CHECK_NOTHROW(check_ring_layer<host::stream>(test::ring_square{}, 4, 3));
  feed_forward<test::ring_square> const gated{
      dense("up", 6, 3), dense("gate", 6, 3), dense("down", 3, 6), {}};
  CHECK_NOTHROW(
      check_ring_layer<host::stream>(residual(sequential(dense("in", 3, 3), gated)), 4, 3));
  auto bare = gated;
  bare.down.bias = {};
  CHECK_NOTHROW(check_ring_layer<host::stream>(residual(sequential(recompute(bare, true))), 4, 3));
  CHECK_NOTHROW(
      check_ring_layer<host::stream>(recompute(sequential(dense("in", 3, 3), bare)), 4, 3));
  CHECK_NOTHROW(check_ring_layer<host::stream>(
      sequential(dense("mix", 3, 3), test::ring_attention{}), 6, 3, {.sequence = 3}));
}

/// The injected fault.
enum class fault { input, weight, replaced, adds, overwritten, result_addend, input_addend };

struct wrong_linear : linear<ring> {
  fault injected;
  explicit wrong_linear(fault f) : linear<ring>(dense("w", 3, 3)), injected(f) {}

  matrix_view<ring> forward(auto& c, matrix_view<ring const> x, saved& state,
                            matrix_view<ring const> addend = {}) const {
    auto const y = linear<ring>::forward(
        c, x, state, injected == fault::result_addend ? decltype(addend){} : addend);
    if (injected == fault::overwritten)
      c.stream.enqueue([x] { *const_cast<ring*>(x.data()) += 1; });
    return y;
  }
  matrix_view<ring> backward_input(auto& c, matrix_view<ring const> dy, saved& state,
                                   matrix_view<ring const> addend = {}) const {
    auto const dx = linear<ring>::backward_input(c, dy, state, addend);
    if (injected == fault::input_addend && addend.size() > 0)
      ops::add(c.stream, dx.span(), addend.span());
    if (injected == fault::input) c.stream.enqueue([dx] { dx.data()[4] += 1; });
    return dx;
  }
  void backward_weight(auto& c, saved const& state) const {
    auto const gradient = weight.gradient();
    if (injected == fault::replaced) c.stream.enqueue([gradient] { gradient.data()[0] = 0; });
    auto changed_context = c;
    if (injected == fault::adds)
      changed_context.overwrite_gradients = false;  // contradicts replaces_gradient
    linear<ring>::backward_weight(changed_context, state);
    if (injected == fault::weight) linear<ring>::backward_weight(c, state);
  }
};

TEST_CASE("check_ring_layer: wrong, doubled, replaced and overwritten gradients are detected") {
  auto const message_for = [](fault f) {
    return message_of([&] { check_ring_layer<host::stream>(wrong_linear(f), 4, 3); });
  };
  CHECK(message_for(fault::input) ==
        "check_ring_layer: backward_input does not give the gradient of the input");
  CHECK(message_for(fault::weight) ==
        "check_ring_layer: backward_weight does not give the gradient of w.weight");
  CHECK(message_for(fault::replaced) ==
        "check_ring_layer: backward_weight does not give the gradient of w.weight");
  CHECK(message_for(fault::adds) ==
        "check_ring_layer: parameter w.weight declares replaces_gradient, but backward_weight does "
        "not overwrite its gradient where context::overwrite_gradients is set");
  CHECK(message_for(fault::result_addend) ==
        "check_ring_layer: forward does not add what it is given to add");
  CHECK(message_for(fault::input_addend) ==
        "check_ring_layer: backward_input does not add what it is given to add");
  CHECK(message_for(fault::overwritten) == "check_ring_layer: a pass has overwritten the input");
}

}  // namespace layer_laws_test
