// The exact laws of layers over integers: ours keep them, wrong ones are told.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <parallel/conformance/layer.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>

#include "support/ring_model.hpp"

namespace layer_laws_test {

using namespace parallel;
using conformance::check_ring_layer;
using conformance::message_of;
using parallel::index;
using ring = std::uint64_t;

linear<ring> dense(std::string const& name, index out, index in) {
  return {.weight = {name + ".weight", {out, in}}, .bias = {name + ".bias", {out}}};
}

TEST_CASE("linear layers, squares, attention and their compositions keep the law to the bit") {
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

/// What is done wrong.
enum class fault { input, weight, replaced, adds, overwritten, result_onto, input_onto };

struct wrong_linear : linear<ring> {
  fault what;
  explicit wrong_linear(fault f) : linear<ring>(dense("w", 3, 3)), what(f) {}

  matrix_view<ring> forward(auto& c, matrix_view<ring const> x, saved& kept,
                            matrix_view<ring const> onto = {}) const {
    auto const y =
        linear<ring>::forward(c, x, kept, what == fault::result_onto ? decltype(onto){} : onto);
    if (what == fault::overwritten) c.stream.enqueue([x] { *const_cast<ring*>(x.data()) += 1; });
    return y;
  }
  matrix_view<ring> backward_input(auto& c, matrix_view<ring const> dy, saved& kept,
                                   matrix_view<ring const> onto = {}) const {
    auto const dx = linear<ring>::backward_input(c, dy, kept, onto);
    if (what == fault::input_onto && onto.size() > 0) ops::add(c.stream, dx.span(), onto.span());
    if (what == fault::input) c.stream.enqueue([dx] { dx.data()[4] += 1; });
    return dx;
  }
  void backward_weight(auto& c, saved const& kept) const {
    auto const gradient = weight.gradient();
    if (what == fault::replaced) c.stream.enqueue([gradient] { gradient.data()[0] = 0; });
    auto here = c;
    if (what == fault::adds) here.overwrite_gradients = false;  // though it says that it replaces
    linear<ring>::backward_weight(here, kept);
    if (what == fault::weight) linear<ring>::backward_weight(c, kept);
  }
};

TEST_CASE("a gradient that is wrong by one, doubled, replaced or made by overwriting is told") {
  auto const told = [](fault f) {
    return message_of([&] { check_ring_layer<host::stream>(wrong_linear(f), 4, 3); });
  };
  CHECK(told(fault::input) ==
        "check_ring_layer: backward_input does not give the gradient of the input");
  CHECK(told(fault::weight) ==
        "check_ring_layer: backward_weight does not give the gradient of w.weight");
  CHECK(told(fault::replaced) ==
        "check_ring_layer: backward_weight does not give the gradient of w.weight");
  CHECK(told(fault::adds) ==
        "check_ring_layer: parameter w.weight declares replaces_gradient, but backward_weight does "
        "not overwrite its gradient where context::overwrite_gradients is set");
  CHECK(told(fault::result_onto) ==
        "check_ring_layer: forward does not add what it is given to add");
  CHECK(told(fault::input_onto) ==
        "check_ring_layer: backward_input does not add what it is given to add");
  CHECK(told(fault::overwritten) == "check_ring_layer: a pass has overwritten the input");
}

}  // namespace layer_laws_test
