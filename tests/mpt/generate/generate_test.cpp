// Texts continued side by side, and in pieces, are those of one that is continued alone. (Ranks
// that share a model: model/replicas_test.cpp.)
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/generate/generate.hpp>
#include <mpt/generate/model_decoder.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/support/files.hpp>

#include "support/drawn_model.hpp"
#include "support/replica_laws.hpp"

namespace generate_test {

using ids = std::vector<std::int32_t>;
using host_decoder = mpt::model_decoder<float, parallel::host::device>;
using drawn_model = test::drawn_model<>;
using test::small_form;

std::vector<ids> const& prompts = test::prompts();
mpt::generation_options const& options = test::generation;

std::vector<ids> one_by_one(drawn_model& model) {
  std::vector<ids> out;
  auto each = options;
  for (auto const& prompt : prompts) {
    out.push_back(mpt::generate(model.net, model.device, model.stream, prompt, each));
    ++each.first_text;
  }
  return out;
}

TEST_CASE("texts side by side, and read in pieces, are those of each alone") {
  for (int which = 0; which < 3; ++which) {
    CAPTURE(which);
    drawn_model model(small_form(which));
    auto const expected = one_by_one(model);
    CHECK(expected[0] != expected[1]);
    for (parallel::index const rows : {1, 2, 512}) {
      host_decoder decoder(model.net, model.device, model.stream,
                           {.tokens = 16, .texts = 3, .rows = rows});
      CHECK(mpt::generate(decoder, std::span(prompts), options) == expected);
      auto last = options;
      last.first_text = 2;
      auto const again = mpt::generate(decoder, std::span(prompts).last(1), last);
      CHECK(again.front() == expected[2]);
    }
  }
}

TEST_CASE("each of several end tokens ends a text, and is no part of it") {
  drawn_model model(small_form(0));
  host_decoder decoder(model.net, model.device, model.stream, {.tokens = 16, .texts = 3});
  auto endless = options;
  endless.end_tokens.clear();
  auto const whole = mpt::generate(decoder, std::span(prompts), endless);
  for (auto const& text : whole) REQUIRE(text.size() == 9);
  for (std::size_t ends = 1; ends <= 3; ++ends) {
    CAPTURE(ends);
    auto some = endless;
    for (std::size_t i = 0; i < ends; ++i) some.end_tokens.push_back(whole[i][4 - i]);
    auto expected = whole;
    for (auto& text : expected)
      text.erase(std::ranges::find_first_of(text, some.end_tokens), text.end());
    CHECK(mpt::generate(decoder, std::span(prompts), some) == expected);
    CHECK(expected[0].size() <= 4);
  }
}

TEST_CASE("the same prompt thrice is continued in three ways") {
  drawn_model model(small_form(0));
  std::vector<ids> const same(3, prompts[0]);
  host_decoder decoder(model.net, model.device, model.stream, {.tokens = 16, .texts = 3});
  auto const made = mpt::generate(decoder, std::span(same), options);
  CHECK(made[0] == one_by_one(model)[0]);
  CHECK(made[0] != made[1]);
  CHECK(made[0] != made[2]);
  CHECK(made[1] != made[2]);
}

TEST_CASE("the last logits of a long reading are those of its pieces") {
  drawn_model model(small_form(0));
  ids const text{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  auto const read = [&](mpt::decoder_room room, parallel::index wanted) {
    host_decoder decoder(model.net, model.device, model.stream, room);
    return decoder.read(0, text, wanted);
  };
  auto const all = read({.tokens = 20}, 11);
  REQUIRE(all.size() == 11 * 31);
  for (parallel::index const wanted : {11, 4, 1}) {
    auto const some = read({.tokens = 20, .rows = 3, .logit_rows = 2}, wanted);
    REQUIRE(some.size() == static_cast<std::size_t>(wanted) * 31);
    auto const offset = all.size() - some.size();
    for (std::size_t i = 0; i < some.size(); ++i)
      CHECK(some[i] == doctest::Approx(all[offset + i]).epsilon(1e-4));
  }
}

TEST_CASE(
    "a text ends by its length, its callback, the model's longest, and never without a prompt") {
  drawn_model model(small_form(1));
  auto const run = [&](ids const& prompt, mpt::generation_options const& how) {
    return mpt::generate(model.net, model.device, model.stream, prompt, how);
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
