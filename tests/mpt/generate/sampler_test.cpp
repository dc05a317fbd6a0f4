#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/generate/sampler.hpp>
#include "mpt/data/scratch.hpp"

namespace sampler_test {

std::vector<float> const logits = {1.0F, 3.0F, 2.0F, 3.0F, -1.0F};

TEST_CASE("sampler: greedy picks the largest logit, and the lowest id of equal ones") {
  mpt::sampler choose({});
  for (int i = 0; i < 5; ++i) CHECK(choose.pick(logits) == 1);
}

TEST_CASE("sampler: equal seeds give equal tokens, different seeds different ones") {
  mpt::sampler a({.temperature = 1.0, .seed = 5});
  mpt::sampler b({.temperature = 1.0, .seed = 5});
  mpt::sampler c({.temperature = 1.0, .seed = 6});
  int equal = 0;
  for (int i = 0; i < 200; ++i) {
    auto const token = a.pick(logits);
    CHECK(token == b.pick(logits));
    equal += token == c.pick(logits) ? 1 : 0;
  }
  CHECK(equal < 150);
}

TEST_CASE("sampler: frequencies follow the softmax of logits over temperature") {
  mpt::sampler choose({.temperature = 2.0, .seed = 1});
  std::map<int, int> counts;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) ++counts[choose.pick(logits)];
  double total = 0;
  for (float const logit : logits) total += std::exp(logit / 2.0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double const p = std::exp(logits[i] / 2.0) / total;
    double const deviation = std::sqrt(p * (1 - p) / draws);
    CHECK(std::abs(static_cast<double>(counts[static_cast<int>(i)]) / draws - p) < 5 * deviation);
  }
}

TEST_CASE("sampler: top-k and top-p allow only the most likely tokens") {
  mpt::sampler two({.temperature = 5.0, .top_k = 2});
  for (int i = 0; i < 500; ++i) {
    auto const token = two.pick(logits);
    CHECK((token == 1 || token == 3));
  }
  // tokens 1 and 3 have 0.4 each: 0.5 needs both, 0.3 only the first
  mpt::sampler nucleus({.temperature = 1.0, .top_p = 0.5});
  mpt::sampler first({.temperature = 1.0, .top_p = 0.3});
  for (int i = 0; i < 500; ++i) {
    auto const token = nucleus.pick(logits);
    CHECK((token == 1 || token == 3));
    CHECK(first.pick(logits) == 1);
  }
}

TEST_CASE("sampler: bad options are refused with a message") {
  CHECK_THROWS_WITH(mpt::sampler({.temperature = -1}),
                    "temperature must be a number of at least 0, found -1");
  CHECK_THROWS_WITH(mpt::sampler({.temperature = std::nan("")}),
                    "temperature must be a number of at least 0, found nan");
  CHECK_THROWS_WITH(mpt::sampler({.top_p = 0}), "top-p must be above 0 and at most 1, found 0");
}

TEST_CASE("sampler: a NaN among the logits is an error, greedy or not") {
  std::vector<float> const broken{0.5F, std::nanf(""), 2};
  for (double const temperature : {0.0, 1.0})
    CHECK_THROWS_WITH(static_cast<void>(mpt::sampler({.temperature = temperature}).pick(broken)),
                      "the model's results are no numbers (NaN): its weights are damaged, or too "
                      "large for this precision");
}

}  // namespace sampler_test

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
