// check_model compares the gradients of all parts of a model with differences of its loss.
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/train/checks/check_model.hpp>

#include "parallel/support/files.hpp"

namespace check_model_test {
namespace {

using parallel::index;
using parallel::matrix_view;
namespace train = parallel::train;

constexpr index vocabulary = 5, features = 4;

struct batch_view {
  parallel::vector_view<std::int32_t const> ids, labels;
};

/// A model whose table of tokens is tied to its exit, with one mistake that `wrong` names, or none.
struct tied_model {
  using element = double;
  using microbatch = batch_view;
  using linear = parallel::linear<double>;
  using block = parallel::residual<parallel::sequential<linear, parallel::activation<double>>>;

  std::string wrong;
  parallel::embedding<double> tokens;
  block body;
  linear exit;

  explicit tied_model(std::string mistake) : wrong(std::move(mistake)) {
    parallel::initializer const start = parallel::normal_init{0.5F};
    tokens.weight = {"tokens", {vocabulary, features}, start};
    exit.weight = {"tokens", {vocabulary, features}, start};
    std::get<0>(body.inner.layers).weight = {"body", {features, features}, start};
  }

  std::size_t num_blocks() const { return 2; }
  block const& at(std::size_t) const { return body; }
  index rows(batch_view const& b) const { return b.ids.size(); }
  index sequence(batch_view const& b) const { return b.ids.size(); }
  index width() const { return features; }

  void visit_units(auto&& visit) {
    using parts = std::vector<train::part>;
    using uses = std::vector<parallel::parameter_base<double>*>;
    visit(std::string("tokens"), tokens, parts{train::embed, 2}, uses{&exit.weight});
    visit(std::string("body"), body, parts{0, 1}, uses{});
  }
  auto embed(auto& c, batch_view const& b) const { return tokens.forward(c, b.ids); }
  void enter_backward(auto& c, batch_view const& b, matrix_view<double const> dy) const {
    if (wrong != "entry") tokens.backward_weight(c, b.ids, dy);
  }
  void head_loss(auto& c, batch_view const& b, matrix_view<double const> x, matrix_view<double> dx,
                 train::statistics<double>& sums) const {
    linear::saved state;
    auto const logits = exit.forward(c, x, state);
    auto const losses = c.template allocate<double, 1>({x.extent(0)});
    auto const correct = c.template allocate<std::uint8_t, 1>({x.extent(0)});
    bool const training = dx.extent(0) > 0;
    auto const dlogits = c.template allocate<double, 2>(logits.extents());
    parallel::ops::cross_entropy(c.stream, training ? dlogits : matrix_view<double>{}, losses,
                                 correct, matrix_view<double const>(logits), b.labels);
    parallel::ops::sum(c.stream, &sums.loss, std::span<double const>(losses.span()));
    if (wrong == "evaluation" && !training) sums.loss *= 2;
    sums.tokens += b.labels.size();
    if (!training) return;
    if (wrong == "loss") dlogits(0, 0) += 0.125;
    auto const gradient = exit.backward_input(c, dlogits, state);
    exit.backward_weight(c, state);
    parallel::ops::copy(c.stream, dx.span(), std::span<double const>(gradient.span()));
    if (wrong == "exit") dx(0, 0) += 0.125;
  }
};

/// The refusal of a model with a mistake; empty if there is none.
std::string refusal(std::string const& mistake) {
  tied_model model(mistake);
  std::vector<std::int32_t> const ids{0, 1, 2, 3}, labels{1, 2, 3, 4};
  batch_view const batch{{ids.data(), {4}}, {labels.data(), {4}}};
  return test::message_of([&] {
    auto const result = parallel::check_model(model, batch);
    CHECK(result.compared == 4);
    CHECK(result.difference < 1e-9);
    CHECK(model.tokens.weight.data == nullptr);
  });
}

TEST_CASE(
    "check_model: a model with tied and shared parameters passes, a wrong gradient is named") {
  CHECK(refusal("") == "");
  for (auto const* const mistake : {"loss", "entry"})
    CHECK(test::contains(refusal(mistake),
                         "check_model: unit \"tokens\": parameter \"tokens\": the backward pass"));
  CHECK(test::contains(refusal("exit"), "gives the loss the slope "));
  CHECK(test::contains(refusal("evaluation"), "head_loss adds another loss when dx is empty"));
}

}  // namespace
}  // namespace check_model_test
