// Replicas of a model, each of several ranks, must evaluate and generate what a single rank with a
// whole model on the host does.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/eval/evaluate.hpp>
#include <mpt/generate/generate.hpp>
#include <mpt/generate/model_decoder.hpp>
#include <mpt/model/replicas.hpp>
#include <parallel/ops/host.hpp>

#include "support/drawn_model.hpp"

namespace test {

inline std::vector<std::vector<std::int32_t>> const& prompts() {
  static std::vector<std::vector<std::int32_t>> const texts{
      {1, 2, 3, 4, 5, 6, 7}, {30}, {4, 8, 15, 16, 23}};
  return texts;
}
inline mpt::generation_options const generation{
    .max_new_tokens = 9, .end_tokens = {12, 40}, .sampling = {.temperature = 1, .seed = 3}};

/// The text that each prompt gives alone.
inline std::vector<std::vector<std::int32_t>> texts_of_single_prompts(drawn_model<>& model) {
  std::vector<std::vector<std::int32_t>> texts;
  auto options = generation;
  for (auto const& prompt : prompts()) {
    texts.push_back(mpt::generate(model.net, model.device, model.stream, prompt, options));
    ++options.first_text;
  }
  return texts;
}

/// Five different batches, of which a replica gets every `count`-th from `index` on.
[[nodiscard]] inline std::function<std::optional<mpt::sequences>()> some_batches(int index,
                                                                                 int count) {
  return [number = index, count]() mutable -> std::optional<mpt::sequences> {
    if (number >= 5) return std::nullopt;
    parallel::philox const random(11, static_cast<std::uint32_t>(number));
    std::vector<std::int32_t> ids(static_cast<std::size_t>((1 + number % 3) * 12));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(random.bits(i) % 31U);
    number += count;
    return mpt::sequences(std::move(ids), 12);
  };
}

/// Checks evaluation and generation. Every rank calls it; `tensor` ranks share a model.
template <class Device, class Comm>
void check_replica(mpt::model_config const& config, parallel::any_communicator& control,
                   Comm& exchanges, Device const& device, int tensor) {
  drawn_model<> whole(config);
  auto const expected = mpt::evaluate(whole.net, whole.device, whole.stream, some_batches(0, 1));
  auto const expected_texts = texts_of_single_prompts(whole);

  mpt::replicas<Device, Comm> ranks(control, exchanges, device, tensor);
  drawn_model<Device, Comm> model(config, ranks.groups(), device);
  auto const found = mpt::evaluate(model.net, model.device, model.stream,
                                   some_batches(ranks.index(), ranks.count()), {}, &control);
  mpt::model_decoder<float, Device, Comm> decoder(model.net, model.device, model.stream,
                                                  {.tokens = 16, .texts = 3}, ranks.model_ranks());
  auto const generated = mpt::generate(decoder, std::span(prompts()), generation);
  auto const names = ranks.gather("replica " + std::to_string(ranks.index()));

  static std::mutex mutex;
  std::scoped_lock const lock(mutex);
  CHECK(ranks.count() == control.size() / tensor);
  CHECK(names.size() == static_cast<std::size_t>(ranks.count()));
  for (std::size_t i = 0; i < names.size(); ++i) CHECK(names[i] == "replica " + std::to_string(i));
  CHECK(found.tokens == expected.tokens);
  CHECK(found.token_accuracy == expected.token_accuracy);
  CHECK(found.unigram_cross_entropy == expected.unigram_cross_entropy);
  CHECK(found.cross_entropy == doctest::Approx(expected.cross_entropy).epsilon(1e-6));
  CHECK(generated == expected_texts);
}

}  // namespace test
