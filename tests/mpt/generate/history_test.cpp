#include <doctest/doctest.h>

#include <limits>

#include <mpt/generate/history.hpp>

#include "mpt/data/scratch.hpp"

namespace history_test {

constexpr float banned = -std::numeric_limits<float>::infinity();

std::vector<float> logits_after(mpt::history_options options,
                                std::vector<std::int32_t> const& prompt,
                                std::vector<float> logits) {
  mpt::token_history const history(options, prompt);
  history.apply(logits);
  return logits;
}

TEST_CASE("repetition penalty: tokens of the text become less likely, each once") {
  CHECK(logits_after({.repetition_penalty = 2}, {0, 1, 1, 3}, {4, -3, 5, 0}) ==
        std::vector<float>{2, -6, 5, 0});
  CHECK(logits_after({}, {0, 1}, {4, -3}) == std::vector<float>{4, -3});
}

TEST_CASE("no_repeat_ngram_size: tokens that would complete a repeated n-gram are banned") {
  CHECK(logits_after({.no_repeat_ngram_size = 2}, {1, 2, 1, 3, 1}, {0, 0, 0, 0}) ==
        std::vector<float>{0, 0, banned, banned});
  CHECK(logits_after({.no_repeat_ngram_size = 3}, {1, 2, 3, 1, 2}, {0, 0, 0, 0}) ==
        std::vector<float>{0, 0, 0, banned});
  CHECK(logits_after({.no_repeat_ngram_size = 1}, {2}, {0, 0, 0}) ==
        std::vector<float>{0, 0, banned});
  CHECK(logits_after({.no_repeat_ngram_size = 3}, {1, 2}, {0, 0, 0}) ==
        std::vector<float>{0, 0, 0});
  mpt::token_history history({.no_repeat_ngram_size = 2}, std::vector<std::int32_t>{0, 1});
  history.add(0);
  std::vector<float> logits{0, 0};
  history.apply(logits);
  CHECK(logits == std::vector<float>{0, banned});
}

TEST_CASE("token_history: settings without a meaning are refused") {
  CHECK(data_test::message_of([] { mpt::token_history({.repetition_penalty = 0}, {}); }) ==
        "repetition_penalty must be above 0, found 0");
  CHECK(data_test::message_of([] { mpt::token_history({.no_repeat_ngram_size = -1}, {}); }) ==
        "no_repeat_ngram_size must not be negative, found -1");
}

}  // namespace history_test
