// Prompts that are continued together, or read in pieces, give the texts that each gives alone.
// (model/replicas_test.cpp tests ranks that share a model.)
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/generate/generate.hpp>
#include <mpt/generate/model_decoder.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/support/files.hpp>

#include "support/drawn_model.hpp"
#include "support/laws/replica_laws.hpp"

namespace generate_test {

using ids = std::vector<std::int32_t>;
using host_decoder = mpt::model_decoder<float, parallel::host::device>;
using drawn_model = test::drawn_model<>;
using test::position_encoding;
using test::small_config;

std::vector<ids> const& prompts = test::prompts();
mpt::generation_options const& options = test::generation;

TEST_CASE("generate: prompts continued together, and read in pieces, give each prompt's own text") {
  for (auto const encoding : test::position_encodings) {
    CAPTURE(encoding);
    drawn_model model(small_config(encoding));
    auto const expected = test::texts_of_single_prompts(model);
    CHECK(expected[0] != expected[1]);
    for (parallel::index const rows : {1, 2, 512}) {
      host_decoder decoder(model.net, model.device, model.stream,
                           {.tokens = 16, .texts = 3, .rows = rows});
      CHECK(mpt::generate(decoder, std::span(prompts), options) == expected);
      auto last_only = options;
      last_only.first_text = 2;
      auto const text = mpt::generate(decoder, std::span(prompts).last(1), last_only);
      CHECK(text.front() == expected[2]);
    }
  }
}

TEST_CASE(
    "generate: a text is at most as long as the model reads, however many tokens are asked for") {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(mpt::longest_text(5, 3, 32) == 8);
  CHECK(mpt::longest_text(5, most, 32) == 32);
  CHECK(mpt::longest_text(40, 3, 32) == 32);
}

TEST_CASE("generate: each of several end tokens ends a text and is not part of it") {
  drawn_model model(small_config(position_encoding::learned));
  host_decoder decoder(model.net, model.device, model.stream, {.tokens = 16, .texts = 3});
  auto endless = options;
  endless.end_tokens.clear();
  auto const unended = mpt::generate(decoder, std::span(prompts), endless);
  for (auto const& text : unended) REQUIRE(text.size() == 9);
  for (std::size_t ends = 1; ends <= 3; ++ends) {
    CAPTURE(ends);
    auto limited = endless;
    for (std::size_t i = 0; i < ends; ++i) limited.end_tokens.push_back(unended[i][4 - i]);
    auto expected = unended;
    for (auto& text : expected)
      text.erase(std::ranges::find_first_of(text, limited.end_tokens), text.end());
    CHECK(mpt::generate(decoder, std::span(prompts), limited) == expected);
    CHECK(expected[0].size() <= 4);
  }
}

TEST_CASE("generate: three equal prompts are continued in three different ways") {
  drawn_model model(small_config(position_encoding::learned));
  std::vector<ids> const equal_prompts(3, prompts[0]);
  host_decoder decoder(model.net, model.device, model.stream, {.tokens = 16, .texts = 3});
  auto const texts = mpt::generate(decoder, std::span(equal_prompts), options);
  CHECK(texts[0] == test::texts_of_single_prompts(model)[0]);
  CHECK(texts[0] != texts[1]);
  CHECK(texts[0] != texts[2]);
  CHECK(texts[1] != texts[2]);
}

TEST_CASE("decoder: the last logits of a text read at once are those of a text read in pieces") {
  drawn_model model(small_config(position_encoding::learned));
  ids const text{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  auto const read = [&](mpt::decoder_room room, parallel::index wanted) {
    host_decoder decoder(model.net, model.device, model.stream, room);
    return decoder.read(0, text, wanted);
  };
  auto const complete = read({.tokens = 20}, 11);
  REQUIRE(complete.size() == 11 * 31);
  for (parallel::index const wanted : {11, 4, 1}) {
    auto const piecewise = read({.tokens = 20, .rows = 3, .logit_rows = 2}, wanted);
    REQUIRE(piecewise.size() == static_cast<std::size_t>(wanted) * 31);
    auto const offset = complete.size() - piecewise.size();
    for (std::size_t i = 0; i < piecewise.size(); ++i)
      CHECK(piecewise[i] == doctest::Approx(complete[offset + i]).epsilon(1e-4));
  }
}

TEST_CASE(
    "generate: a text ends by max_new_tokens, its callback or the model's longest sequence; an "
    "empty or too long prompt is refused") {
  drawn_model model(small_config(position_encoding::alibi));
  auto const run = [&](ids const& prompt, mpt::generation_options const& run_options) {
    return mpt::generate(model.net, model.device, model.stream, prompt, run_options);
  };
  CHECK(run({1}, {.max_new_tokens = 3}).size() == 3);
  CHECK(run({1}, {.max_new_tokens = 9, .ends_text = [](std::size_t, std::int32_t) { return true; }})
            .size() == 1);
  CHECK(run(ids(38, 1), {.max_new_tokens = 9}).size() == 2);
  CHECK(test::message_of([&] { static_cast<void>(run({}, {})); }) ==
        "the prompt has no tokens; give at least one word");
  CHECK(test::message_of([&] { static_cast<void>(run(ids(40, 1), {})); }) ==
        "the prompt has 40 tokens, but the model reads at most 39 before a new one");
}

}  // namespace generate_test
