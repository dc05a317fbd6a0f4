// What MPT computes, generates and evaluates on a device, held against golden numbers of PyTorch.
// `make` makes a device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/eval/evaluate.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/model_decoder.hpp>

#include "support/golden_model.hpp"

namespace test {

[[nodiscard]] inline double largest(std::vector<double> const& x) {
  double most = 0;
  for (double const v : x) most = std::max(most, std::abs(v));
  return most;
}

/// NaN where there is one.
[[nodiscard]] inline double largest_difference(std::vector<double> const& a,
                                               std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const apart = std::abs(a[i] - b[i]);
    if (!(apart <= most)) most = apart;
  }
  return most;
}

[[nodiscard]] inline double norm_of_difference(std::vector<double> const& a,
                                               std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

[[nodiscard]] inline double norm(std::vector<double> const& a) {
  return norm_of_difference(a, std::vector<double>(a.size()));
}

/// In T, on devices that `make` makes, the error against the fp64 truth is at most `bound` of the
/// largest logit, of the loss, and of the largest gradient; all forms, unless others are given.
template <class T, class Make>
void check_against_truth(double bound, Make const& make,
                         std::span<char const* const> forms = golden_forms) {
  for (std::string const form : forms) {
    CAPTURE(form);
    golden_model<T, decltype(make())> model(form, make());
    auto const expected = model.golden("logits64");
    CHECK(largest_difference(model.logits(), expected) <= bound * largest(expected));
    CHECK(std::abs(model.loss() - model.golden("loss64")[0]) <= bound * model.golden("loss64")[0]);
    double scale = 0;
    double error = 0;
    std::size_t compared = 0;
    model.for_each_gradient([&](std::string const& name, std::vector<double> const& ours) {
      auto const truth = model.golden(model.stored("grad64/", name));
      scale = std::max(scale, largest(truth));
      double const apart = largest_difference(ours, truth);
      if (!(apart <= error)) error = apart;
      ++compared;
    });
    CHECK(error <= bound * scale);
    std::size_t parameters = 0;
    for (auto const& tensor : model.file.tensors())
      parameters += tensor.name.starts_with("param/") ? 1U : 0U;
    CHECK(compared == parameters);
  }
}

/// In bf16, on devices that `make` makes: no further from the truth than twice the reference's own
/// bf16 run, logits, loss and gradients; all forms.
template <class Make>
void check_against_their_bf16(Make const& make) {
  for (std::string const form : golden_forms) {
    CAPTURE(form);
    golden_model<parallel::bf16, decltype(make())> model(form, make());
    auto const truth = model.golden("logits64");
    double const theirs = norm_of_difference(model.golden("logits_bf16"), truth);
    CHECK(norm_of_difference(model.logits(), truth) <= 2 * theirs);
    double const loss = model.golden("loss64")[0];
    // the loss is an average of logits' errors: their relative size bounds it
    CHECK(std::abs(model.loss() - loss) <= 2 * theirs / norm(truth) * loss);
    double ours_squared = 0;
    double theirs_squared = 0;
    model.for_each_gradient([&](std::string const& name, std::vector<double> const& ours) {
      auto const gradient = model.golden(model.stored("grad64/", name));
      ours_squared += std::pow(norm_of_difference(ours, gradient), 2);
      theirs_squared +=
          std::pow(norm_of_difference(model.golden(model.stored("grad_bf16/", name)), gradient), 2);
    });
    CHECK(std::sqrt(ours_squared) <= 2 * std::sqrt(theirs_squared));
  }
}

/// In T the next token's logits are those of the whole sequence at once, to `bound` of the largest,
/// when keys and values of a prompt and then of one or two tokens at a time are kept; all forms.
template <class T, class Make>
void check_cached_logits(double bound, Make const& make) {
  for (std::string const form : golden_forms) {
    CAPTURE(form);
    golden_model<T, decltype(make())> model(form, make());
    model.batch.document_begins = {};  // generation continues one document
    auto const whole = model.logits();
    auto const vocabulary = static_cast<std::size_t>(model.net.config().vocab_size);
    mpt::model_decoder<T, decltype(make())> decoder(model.net, model.device, model.compute,
                                                    {.tokens = model.batch.length, .rows = 2});
    auto const length = static_cast<std::size_t>(model.batch.length);
    auto const ids = model.integers("input_ids");
    for (std::size_t at = 0; at < length;) {
      std::size_t const piece = at == 0 ? 3 : 1 + at % 2;
      std::size_t const end = std::min(at + piece, length);
      auto const logits = decoder.read(0, std::span(ids).subspan(at, end - at));
      std::vector<double> const got(logits.begin(), logits.end());
      std::vector<double> const expected(
          whole.begin() + static_cast<std::ptrdiff_t>((end - 1) * vocabulary),
          whole.begin() + static_cast<std::ptrdiff_t>(end * vocabulary));
      CHECK(largest_difference(got, expected) <= bound * largest(whole));
      at = end;
    }
  }
}

/// Greedy generation in fp32 gives transformers' tokens.
template <class Make>
void check_greedy_tokens(Make const& make) {
  for (std::string const form : {"b1", "b2"}) {
    CAPTURE(form);
    golden_model<float, decltype(make())> model(form, make());
    auto const expected = model.integers("generate/ids");
    CHECK(mpt::generate(model.net, model.device, model.compute, model.integers("generate/prompt"),
                        {.max_new_tokens = static_cast<std::int64_t>(expected.size())}) ==
          expected);
  }
}

/// Evaluation in T of two batches equals what the reference's fp64 logits say: the mean loss to
/// `bound` of it, counts, and how many of the greatest logits are right; all forms.
template <class T, class Make>
void check_evaluation(double bound, Make const& make) {
  for (std::string const form : golden_forms) {
    CAPTURE(form);
    golden_model<T, decltype(make())> model(form, make());
    auto const text = model.text();
    auto const labels = text.view({0, text.count()}).labels;
    auto const logits = model.golden("logits64");
    auto const vocabulary = static_cast<std::size_t>(model.net.config().vocab_size);
    double loss = 0, correct = 0;
    std::int64_t tokens = 0;
    for (index row = 0; row < labels.size(); ++row) {
      if (labels(row) < 0) continue;
      auto const of_row =
          std::span(logits).subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary);
      auto const label = static_cast<std::size_t>(labels(row));
      double sum = 0;
      for (double const logit : of_row) sum += std::exp(logit);
      loss += std::log(sum) - of_row[label];
      correct += std::ranges::max_element(of_row) - of_row.begin() == std::ptrdiff_t(label) ? 1 : 0;
      ++tokens;
    }
    int batches = 0;
    auto const got = mpt::evaluate(model.net, model.device, model.compute, [&] {
      return batches++ < 2 ? std::optional(text) : std::nullopt;
    });
    auto const count = static_cast<double>(tokens);
    CHECK(got.tokens == 2 * tokens);
    CHECK(std::abs(got.cross_entropy - loss / count) <= bound * loss / count);
    // rounding may turn one pair that is nearly equal
    CHECK(std::abs(got.token_accuracy * count - correct) < (sizeof(T) < 8 ? 1.5 : 0.5));
  }
}

}  // namespace test
