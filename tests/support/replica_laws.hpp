// What replicas of a model, each of several ranks, find and write: what one rank with a whole model
// on the host does.
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
  static std::vector<std::vector<std::int32_t>> const all{
      {1, 2, 3, 4, 5, 6, 7}, {30}, {4, 8, 15, 16, 23}};
  return all;
}
inline mpt::generation_options const generated{
    .max_new_tokens = 9, .end_tokens = {12, 40}, .sampling = {.temperature = 1, .seed = 3}};

/// Five batches, no two alike, of which a replica has every `count`-th.
[[nodiscard]] inline std::function<std::optional<mpt::sequences>()> some_batches(int index,
                                                                                 int count) {
  return [at = index, count]() mutable -> std::optional<mpt::sequences> {
    if (at >= 5) return std::nullopt;
    parallel::philox const random(11, static_cast<std::uint32_t>(at));
    std::vector<std::int32_t> ids(static_cast<std::size_t>((1 + at % 3) * 12));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(random.bits(i) % 31U);
    at += count;
    return mpt::sequences(std::move(ids), 12);
  };
}

/// Called on every rank, of which `tensor` have a model together. Collective.
template <class Device, class Comm>
void check_replica(mpt::model_config const& config, parallel::any_communicator& control,
                   Comm& exchanges, Device const& device, int tensor) {
  drawn_model<> whole(config);
  auto const expected = mpt::evaluate(whole.net, whole.device, whole.stream, some_batches(0, 1));
  std::vector<std::vector<std::int32_t>> written;
  auto each = generated;
  for (auto const& prompt : prompts()) {
    written.push_back(mpt::generate(whole.net, whole.device, whole.stream, prompt, each));
    ++each.first;
  }

  mpt::replicas<Device, Comm> ranks(control, exchanges, device, tensor);
  drawn_model<Device, Comm> model(config, ranks.groups(), device);
  auto const got = mpt::evaluate(model.net, model.device, model.stream,
                                 some_batches(ranks.index(), ranks.count()), {}, &control);
  mpt::model_decoder<float, Device, Comm> decoder(model.net, model.device, model.stream,
                                                  {.tokens = 16, .texts = 3}, ranks.of_model());
  auto const made = mpt::generate(decoder, std::span(prompts()), generated);
  auto const said = ranks.gather("replica " + std::to_string(ranks.index()));

  static std::mutex one_at_a_time;
  std::scoped_lock const lock(one_at_a_time);
  CHECK(ranks.count() == control.size() / tensor);
  CHECK(said.size() == static_cast<std::size_t>(ranks.count()));
  for (std::size_t i = 0; i < said.size(); ++i) CHECK(said[i] == "replica " + std::to_string(i));
  CHECK(got.tokens == expected.tokens);
  CHECK(got.token_accuracy == expected.token_accuracy);
  CHECK(got.unigram_cross_entropy == expected.unigram_cross_entropy);
  CHECK(got.cross_entropy == doctest::Approx(expected.cross_entropy).epsilon(1e-6));
  CHECK(made == written);
}

}  // namespace test
