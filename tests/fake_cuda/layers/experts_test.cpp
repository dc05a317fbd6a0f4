// Experts on a fake GPU: all three passes of the layer against the host's, exactly over integers
// modulo 2^64, and every operation against the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/experts.hpp>
#include <parallel/ops/host.hpp>

#include "fake_cuda/ranks.hpp"
#include "parallel/ops/support.hpp"
#include "support/laws/expert_laws.hpp"

namespace fake_experts_test {

using parallel::index;
using parallel::matrix_view;

constexpr index rows = 300, width = 12, hidden = 20, experts = 6, top_k = 2, sequence = 50;

/// The activation of types for which GPUs have none: x.
template <class T>
struct identity {
  using element = T;
  struct saved {};
  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(parallel::context<Stream>& c, matrix_view<T const> x,
                                       saved&) const {
    auto const y = c.template allocate<T, 2>(x.extents());
    parallel::ops::copy(c.stream, y.span(), x.span());
    return y;
  }
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(parallel::context<Stream>& c, matrix_view<T const> dy,
                                              saved& state) const {
    return forward(c, dy, state);
  }
};

template <class T>
using activation = std::conditional_t<sizeof(T) == 8, identity<T>, parallel::activation<T>>;

/// What the passes write.
template <class T>
struct results {
  std::vector<T> output, input_gradient;
  std::vector<std::int32_t> experts, places, ends, lost;
  std::vector<std::vector<parallel::accumulate_t<T>>> gradients;
};

/// The passes on a stream, with memory from allocate(type, size), which the host can use too.
template <class T>
results<T> run(auto& stream, double capacity_factor, auto const& allocate) {
  using A = parallel::accumulate_t<T>;
  parallel::experts<activation<T>> layer;
  layer.choose.weight = {"router", {experts, width}};
  layer.choose.top_k = top_k;
  layer.choose.losses = {.balance = 1.0, .set = parallel::balance_set::sequence};
  if constexpr (std::is_integral_v<T>)
    layer.choose.route.score = parallel::ops::router_score::identity;
  layer.up = {"up", {experts * hidden, width}};
  layer.gate = {"gate", {experts * hidden, width}};
  layer.down = {"down", {experts * hidden, width}};
  layer.capacity_factor = capacity_factor;

  auto const filled = [&](index size, std::uint64_t seed) {
    auto memory = allocate(T{}, static_cast<std::size_t>(size));
    std::ranges::copy(ops_support::random<T>(size, seed, 0.5), memory.data());
    return memory;
  };
  auto const x = filled(rows * width, 1), dy = filled(rows * width, 2);
  std::vector<decltype(allocate(T{}, 1))> values;
  std::vector<decltype(allocate(A{}, 1))> gradients;
  layer.visit_parameters([&](parallel::parameter_base<T>& p) {
    values.push_back(filled(p.size(), 3 + values.size()));
    gradients.push_back(allocate(A{}, static_cast<std::size_t>(p.size())));
    std::fill_n(gradients.back().data(), p.size(), A(1));
    p.data = values.back().data();
    p.gradient_data = gradients.back().data();
  });
  auto memory = allocate(std::byte{}, std::size_t{4} << 20);
  parallel::arena space(parallel::buffer<std::byte>(nullptr, memory.data(), memory.size()));
  parallel::context<std::remove_cvref_t<decltype(stream)>> c{
      stream, space, parallel::pass::training, {}, sequence};
  typename parallel::experts<activation<T>>::saved saved;
  auto const y = layer.forward(c, {x.data(), {rows, width}}, saved);
  auto const dx = layer.backward_input(c, {dy.data(), {rows, width}}, saved);
  layer.backward_weight(c, saved);
  stream.synchronize();

  auto const copied = [](auto const& view) {
    using element = std::remove_cvref_t<decltype(*view.data())>;
    return std::vector<element>(view.data(), view.data() + view.size());
  };
  results<T> out{copied(y),
                 copied(dx),
                 copied(saved.choices.experts),
                 copied(saved.places),
                 copied(saved.ends),
                 copied(saved.lost),
                 {}};
  for (auto const& gradient : gradients) out.gradients.push_back(copied(gradient));
  return out;
}

TEST_CASE_TEMPLATE("experts on a fake GPU: the host routes alike, and all passes agree with it", T,
                   float, parallel::bf16, double, std::uint64_t) {
  for (double const capacity_factor : {0.0, 1.0}) {
    CAPTURE(capacity_factor);
    parallel::host::stream host({.threads = 2});
    auto const expected = run<T>(host, capacity_factor,
                                 []<class E>(E, std::size_t size) { return std::vector<E>(size); });
    fake_cuda::restart();
    parallel::cuda::device const gpu;
    parallel::cuda::stream stream;
    auto const got = run<T>(stream, capacity_factor, [&]<class E>(E, std::size_t size) {
      return gpu.allocate_shared<E>(size);
    });
    CHECK(got.experts == expected.experts);
    CHECK(got.places == expected.places);
    CHECK(got.ends == expected.ends);
    CHECK(got.lost == expected.lost);
    CHECK((got.lost[0] > 0) == (capacity_factor > 0));
    ops_support::tolerance bound;
    if constexpr (!std::is_integral_v<T>)
      bound = {.relative = 16 * ops_support::unit<T>, .absolute = 1e3 * ops_support::unit<T>};
    ops_support::check_within(bound, std::tuple(got.output, got.input_gradient),
                              std::tuple(expected.output, expected.input_gradient));
    REQUIRE(got.gradients.size() == expected.gradients.size());
    for (std::size_t i = 0; i < got.gradients.size(); ++i)
      ops_support::check_within(bound, std::tuple(got.gradients[i]),
                                std::tuple(expected.gradients[i]));
    CHECK(fake_cuda::history().failures.empty());
  }
}

TEST_CASE_TEMPLATE("experts on a fake GPU: every operation equals the reference, aligned or not", T,
                   float, parallel::bf16, std::uint64_t) {
  fake_cuda::restart();
  parallel::cuda::device gpu;
  for (std::size_t const offset : {0, 1}) {
    test::both_sides<parallel::cuda::device> sides(gpu, 7, offset);
    test::check_routing<T>(sides);
    test::check_experts<T>(sides);
  }
  CHECK(fake_cuda::history().failures.empty());
}

}  // namespace fake_experts_test
