// check_model compares the gradients of all parts of a model with differences of its loss.
#include <doctest/doctest.h>

#include <array>
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
  mutable int passes = 0;
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
    if (wrong == "overwrites") parallel::ops::fill(c.stream, tokens.weight.gradient().span(), 0.0);
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
    auto const divide = [&](std::span<double> numbers) {
      parallel::ops::scale(c.stream, numbers, 1.0 / static_cast<double>(x.extent(0)));
    };
    if (wrong == "mean") divide(losses.span());
    if (wrong == "mean" && training) divide(dlogits.span());
    parallel::ops::sum(c.stream, &sums.loss, std::span<double const>(losses.span()));
    if (wrong == "random") sums.loss += 0.125 * ++passes;
    if (wrong == "evaluation" && !training) sums.loss *= 2;
    sums.tokens += wrong == "tokens" ? 1 : b.labels.size();
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
  CHECK(test::contains(refusal("random"), "the same microbatch gives another loss when it is "));
  CHECK(test::contains(refusal("overwrites"),
                       "parameter \"tokens\": its gradient is not added to by a second backward"));
}

TEST_CASE("check_model: microbatches add up to one of the same sequences, else the loss is named") {
  auto const refusal_of_parts = [](std::string const& mistake) {
    tied_model model(mistake);
    std::vector<std::int32_t> const ids{0, 1, 2, 3, 4, 0}, labels{1, 2, 3, 4, 0, 2};
    auto const rows = [&](index begin, index count) {
      return batch_view{{ids.data() + begin, {count}}, {labels.data() + begin, {count}}};
    };
    std::array const parts{rows(0, 2), rows(2, 4)};
    return test::message_of([&] {
      auto const result = parallel::check_model(model, rows(0, 6), parts);
      CHECK(result.compared == 4);
    });
  };
  CHECK(refusal_of_parts("") == "");
  CHECK(test::contains(refusal_of_parts("mean"), "the losses of 2 microbatches add up to "));
  CHECK(test::contains(refusal_of_parts("tokens"),
                       "2 microbatches count 2 tokens, but the same sequences in one 1"));
}

}  // namespace
}  // namespace check_model_test
