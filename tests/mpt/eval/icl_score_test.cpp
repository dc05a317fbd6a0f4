#include <doctest/doctest.h>

#include <mpt/eval/evaluate.hpp>
#include <mpt/eval/icl_score.hpp>
#include <mpt/generate/model_decoder.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/weights.hpp>
#include "mpt/eval/icl_support.hpp"

namespace icl_score_test {

using namespace mpt::eval;

TEST_CASE("option scores: the common beginning ends before the last unscored id") {
  std::vector<scored_ids> options{{{1, 2, 3, 4, 5}, 3}, {{1, 2, 3, 6}, 3}};
  CHECK(common_beginning(options) == 2);
  options.push_back({{1, 9, 3, 6}, 3});
  CHECK(common_beginning(options) == 1);
  options.resize(1);
  CHECK(common_beginning(options) == 0);
  options = {{{1, 2}, 1}, {{1, 3}, 1}};
  CHECK(common_beginning(options) == 0);
}

TEST_CASE("option scores: losses are in nats, and the lowest of equally likely ids wins") {
  option_score score{.loss = 0, .is_likeliest = true};
  std::vector<float> const logits{1, 3, 3, 0};
  double const sum = std::exp(1.0) + 2 * std::exp(3.0) + 1;
  add_prediction(score, logits, 1);
  CHECK(score.loss == doctest::Approx(std::log(sum) - 3));
  CHECK(score.is_likeliest);
  add_prediction(score, logits, 2);
  CHECK_FALSE(score.is_likeliest);
}

/// A small model with random weights.
struct small_model {
  explicit small_model(mpt::model_config config) : net(std::move(config)), weights(net, device) {
    parallel::philox const random(7, 3);
    std::uint64_t i = 0;
    weights.for_each([&](auto const& parameter, auto values) {
      bool const is_norm = parameter.name.find("norm") != std::string::npos;
      for (auto& value : values)
        value = (is_norm ? 1.0F : 0.0F) + 0.8F * (random.uniform(i++) - 0.5F);
    });
  }
  parallel::host::device device;
  parallel::host::stream stream;
  mpt::model<float> net;
  parallel::train::weights<float> weights;
};

mpt::model_config config_of(bool alibi) {
  mpt::model_config config;
  config.d_model = 24;
  config.n_heads = 3;
  config.n_layers = 2;
  config.vocab_size = 31;
  config.max_seq_len = 40;
  config.attn.alibi = alibi;
  config.learned_pos_emb = !alibi;
  return config;
}

TEST_CASE("option scores: options with a common beginning score as each does separately") {
  for (bool const alibi : {false, true}) {
    small_model small(config_of(alibi));
    mpt::model_decoder<float, parallel::host::device> decoder(small.net, small.device, small.stream,
                                                              {.tokens = 40});
    task_model model(decoder);
    std::vector<scored_ids> options{{{1, 2, 3, 4, 5, 6}, 4},
                                    {{1, 2, 3, 4, 7, 8, 9, 10}, 4},
                                    {{1, 2, 3, 4, 11}, 4},
                                    {{1, 2, 12, 4, 5, 6, 13}, 3}};
    auto const together = model.score(options);
    REQUIRE(together.size() == 4);
    for (std::size_t i = 0; i < options.size(); ++i) {
      auto const separate = model.score(std::span(options).subspan(i, 1));
      CHECK(together[i].loss == doctest::Approx(separate[0].loss).epsilon(1e-5));
      CHECK(together[i].is_likeliest == separate[0].is_likeliest);
    }
    CHECK(together[0].loss != doctest::Approx(together[1].loss).epsilon(1e-3));

    // the mean loss of all ids but the first equals the result of evaluate
    std::vector<std::int32_t> const ids{4, 8, 15, 16, 23, 30, 2};
    std::vector<scored_ids> const whole{{ids, 1}};
    bool is_read = false;
    auto const text = mpt::evaluate(
        small.net, small.device, small.stream, [&]() -> std::optional<mpt::sequences> {
          if (std::exchange(is_read, true)) return std::nullopt;
          return mpt::sequences(ids, static_cast<parallel::index>(ids.size()));
        });
    CHECK(model.score(whole)[0].loss == doctest::Approx(text.cross_entropy).epsilon(1e-5));
  }
}

TEST_CASE("option scores: greedily generated ids are scored as the likeliest") {
  small_model small(config_of(true));
  mpt::model_decoder<float, parallel::host::device> decoder(small.net, small.device, small.stream,
                                                            {.tokens = 40});
  task_model model(decoder);
  std::vector<std::int32_t> ids{3, 1, 4, 1, 5};
  auto const generated = model.generate(ids, {.max_new_tokens = 6});
  REQUIRE(generated.size() == 6);
  auto const begin = ids.size();
  ids.insert(ids.end(), generated.begin(), generated.end());
  std::vector<scored_ids> row{{ids, begin}};
  CHECK(model.score(row)[0].is_likeliest);
  row[0].ids.back() = (row[0].ids.back() + 1) % 31;
  CHECK_FALSE(model.score(row)[0].is_likeliest);
}

}  // namespace icl_score_test

namespace icl_answer_test {

TEST_CASE("generated answers: cut, cleaned and compared as by LLM Foundry's metric") {
  auto const golden = icl_test::load();
  for (auto const& one : golden.at("exact")) {
    mpt::eval::task_config task;
    task.kind = mpt::eval::task_kind::generation;
    task.cot_delimiter = one.at("cot_delimiter");
    task.do_normalization = one.at("do_normalization");
    task.stops = one.at("stops").get<std::vector<std::string>>();
    auto const output = one.at("output").get<std::string>();
    CAPTURE(output);
    CHECK(mpt::eval::cleaned_answer(task, output) == one.at("cleaned").get<std::string>());
    CHECK(mpt::eval::is_answer_right(task, output,
                                     one.at("labels").get<std::vector<std::string>>()) ==
          (one.at("correct").get<int>() == 1));
  }
  mpt::eval::task_config const task;
  for (auto const& one : golden.at("answers"))
    CHECK(mpt::eval::is_answer_right(task, one.at("output").get<std::string>(),
                                     one.at("labels").get<std::vector<std::string>>()) ==
          (one.at("correct").get<int>() == 1));
}

}  // namespace icl_answer_test
