// Compares logits, gradients, generation and evaluation of MPT on a device with golden numbers of
// PyTorch. `make` creates a device.
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

#include "support/golden/golden_model.hpp"

namespace test {

[[nodiscard]] inline double largest(std::vector<double> const& x) {
  double greatest = 0;
  for (double const v : x) greatest = std::max(greatest, std::abs(v));
  return greatest;
}

/// The largest |a - b|; NaN if any difference is.
[[nodiscard]] inline double largest_difference(std::vector<double> const& a,
                                               std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const difference = std::abs(a[i] - b[i]);
    if (!(difference <= greatest)) greatest = difference;
  }
  return greatest;
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

/// In T the error against the fp64 numbers is at most `bound` times the largest logit, the loss,
/// and the largest gradient.
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
    index compared = 0;
    model.for_each_gradient([&](std::string const& name, std::vector<double> const& gradient) {
      auto const truth = model.golden_of("grad64/", name, gradient.size());
      scale = std::max(scale, largest(truth));
      double const difference = largest_difference(gradient, truth);
      if (!(difference <= error)) error = difference;
      compared += std::ssize(gradient);
    });
    CHECK(error <= bound * scale);
    index elements = 0;
    for (auto const& tensor : model.file.tensors())
      if (tensor.name.starts_with("param/")) elements += tensor.size();
    CHECK(compared == elements);
  }
}

/// In T, optimizer steps on the batch have the reference's losses and lead to its parameters, in
/// fp64, to `bound` times the largest.
template <class T, class Make>
void check_steps(double bound, Make const& make, std::span<char const* const> forms) {
  for (std::string const form : forms) {
    CAPTURE(form);
    using device_type = decltype(make());
    golden_model<T, device_type> model(form, make());
    parallel::comm_stream<device_type, parallel::single> exchanges(
        parallel::comm_options<parallel::single>(model.device));
    model.step.mark_initialised();
    std::uint32_t step = 0;
    for (double const expected : model.golden("steps/losses")) {
      index const first = 0;
      auto const result = model.step.step(
          model.compute, exchanges, model.memory,
          {std::span(&std::as_const(model.batch), 1), std::span(&first, 1), {.step = step++}});
      double const loss = result.sums.mean_loss() + model.router_losses(result.record);
      CHECK(std::abs(loss - expected) <= bound * expected);
    }
    model.for_each_parameter([&](std::string const& name, std::vector<double> const& values) {
      auto const truth = model.golden_of("steps/param/", name, values.size());
      CHECK(largest_difference(values, truth) <= bound * largest(truth));
    });
  }
}

/// In bf16 the errors of logits, loss and gradients are at most twice those of the reference's own
/// bf16 run, for all forms.
template <class Make>
void check_against_reference_bf16(Make const& make) {
  for (std::string const form : golden_forms) {
    CAPTURE(form);
    golden_model<parallel::bf16, decltype(make())> model(form, make());
    auto const truth = model.golden("logits64");
    double const reference_error = norm_of_difference(model.golden("logits_bf16"), truth);
    CHECK(norm_of_difference(model.logits(), truth) <= 2 * reference_error);
    double const loss = model.golden("loss64")[0];
    // The error of the loss averages errors of logits, whose relative size bounds it.
    CHECK(std::abs(model.loss() - loss) <= 2 * reference_error / norm(truth) * loss);
    double squared_error = 0;
    double reference_squared_error = 0;
    model.for_each_gradient([&](std::string const& name, std::vector<double> const& gradient) {
      auto const exact = model.golden_of("grad64/", name, gradient.size());
      squared_error += std::pow(norm_of_difference(gradient, exact), 2);
      reference_squared_error += std::pow(
          norm_of_difference(model.golden_of("grad_bf16/", name, gradient.size()), exact), 2);
    });
    CHECK(std::sqrt(squared_error) <= 2 * std::sqrt(reference_squared_error));
  }
}

/// In T a decoder that caches keys and values, given a prompt and then one or two tokens at a time,
/// computes the logits of the whole sequence to `bound` times the largest.
template <class T, class Make>
void check_cached_logits(double bound, Make const& make,
                         std::span<char const* const> forms = golden_forms) {
  for (std::string const form : forms) {
    CAPTURE(form);
    golden_model<T, decltype(make())> model(form, make());
    // with a capacity or a uniform assignment, a token's experts depend on the tokens of its pass
    auto const& experts = model.net.config().experts;
    if (experts && (experts->capacity_factor > 0 || experts->uniform)) continue;
    model.batch.document_begins = {};  // generation continues one document
    auto const all_logits = model.logits();
    auto const vocabulary = static_cast<std::size_t>(model.net.config().vocab_size);
    mpt::model_decoder<T, decltype(make())> decoder(model.net, model.device, model.compute,
                                                    {.tokens = model.batch.length, .rows = 2});
    auto const length = static_cast<std::size_t>(model.batch.length);
    auto const ids = model.integers("input_ids");
    for (std::size_t position = 0; position < length;) {
      std::size_t const piece = position == 0 ? 3 : 1 + position % 2;
      std::size_t const end = std::min(position + piece, length);
      auto const logits = decoder.read(0, std::span(ids).subspan(position, end - position));
      std::vector<double> const last_logits(logits.begin(), logits.end());
      std::vector<double> const expected(
          all_logits.begin() + static_cast<std::ptrdiff_t>((end - 1) * vocabulary),
          all_logits.begin() + static_cast<std::ptrdiff_t>(end * vocabulary));
      CHECK(largest_difference(last_logits, expected) <= bound * largest(all_logits));
      position = end;
    }
  }
}

/// Greedy generation in fp32 gives the tokens of transformers.
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

/// Evaluation in T of two batches agrees with the reference's fp64 logits, for all forms: the mean
/// loss to the relative `bound`, the counts, and the accuracy of the largest logits.
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
      auto const row_logits =
          std::span(logits).subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary);
      auto const label = static_cast<std::size_t>(labels(row));
      double sum = 0;
      for (double const logit : row_logits) sum += std::exp(logit);
      loss += std::log(sum) - row_logits[label];
      correct += std::ranges::max_element(row_logits) - row_logits.begin() == std::ptrdiff_t(label)
                     ? 1
                     : 0;
      ++tokens;
    }
    int batches = 0;
    auto const result = mpt::evaluate(model.net, model.device, model.compute, [&] {
      return batches++ < 2 ? std::optional(text) : std::nullopt;
    });
    auto const count = static_cast<double>(tokens);
    CHECK(result.tokens == 2 * tokens);
    CHECK(std::abs(result.cross_entropy - loss / count) <= bound * loss / count);
    // Rounding may exchange one pair of nearly equal logits.
    CHECK(std::abs(result.token_accuracy * count - correct) < (sizeof(T) < 8 ? 1.5 : 0.5));
  }
}

}  // namespace test
