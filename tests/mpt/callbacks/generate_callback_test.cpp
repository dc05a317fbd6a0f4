// Tests of generate_callback with a real tokenizer, GPT-2's, if the sample data is present.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/callbacks/generate_callback.hpp>
#include <mpt/generate/model_decoder.hpp>
#include <mpt/model/build.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/support/files.hpp>
#include <parallel/train/weights.hpp>
#include <support/data.hpp>

namespace generate_callback_test {

/// A model that continues any text by repeating one token: its blocks add nothing, and this token's
/// normalised embedding is the longest.
struct parrot {
  explicit parrot(std::int32_t token) : net(config()), weights(net, device) {
    weights.for_each([&](auto const& parameter, auto values) {
      auto const& name = parameter.name;
      std::ranges::fill(values, name.find("norm") != std::string::npos ? 1.0F : 0.0F);
      if (name != "transformer.wte.weight") return;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 0.01F : -0.01F;
      for (std::size_t i = 0; i < 8; ++i)
        values[static_cast<std::size_t>(token) * 8 + i] = i % 2 == 0 ? 1.0F : -1.0F;
    });
  }
  static mpt::model_config config() {
    mpt::model_config c;
    c.d_model = 8;
    c.n_heads = 2;
    c.n_layers = 1;
    c.vocab_size = 50304;
    c.max_seq_len = 64;
    c.no_bias = true;
    return c;
  }

  parallel::host::device device;
  parallel::host::stream stream;
  mpt::model<float> net;
  parallel::train::weights<float> weights;
};

mpt::train_config config(std::filesystem::path const& tokenizer) {
  mpt::train_config c;
  c.model = parrot::config();
  c.data.tokenizer.name = tokenizer;
  c.callbacks.generate = mpt::generate_config{.prompts = {"Once upon a", "In Köln"},
                                              .interval = {5, mpt::time_unit::batch},
                                              .max_new_tokens = 3};
  return c;
}

mpt::generate_callback callback_of(mpt::train_config const& config,
                                   std::shared_ptr<mpt::sample_prompts const> prompts) {
  return {*config.callbacks.generate, config.model, config.run, std::move(prompts)};
}

std::shared_ptr<mpt::sample_prompts const> prompts(mpt::train_config const& config) {
  return std::make_shared<mpt::sample_prompts const>(
      mpt::read_sample_prompts(config.model, config.data, config.callbacks));
}

mpt::training_clock const clock{.max_duration = {12, mpt::time_unit::batch}};

TEST_CASE("generate_callback: prompts are continued when due, logged and printed") {
  auto const data = test::data_folder();
  if (data.empty()) {
    MESSAGE("no sample data here: skipped");
    return;
  }
  auto const tokenizer_folder = data / "tokenizers" / "gpt2";
  auto const words = mpt::tokenizer::load(tokenizer_folder);
  auto const time = words.encode(" time");
  REQUIRE(time.size() == 1);
  parrot model(time[0]);
  auto const callback = callback_of(config(tokenizer_folder), prompts(config(tokenizer_folder)));
  mpt::model_decoder<float, parallel::host::device> decoder(model.net, model.device, model.stream,
                                                            callback.room());
  std::vector<std::string> lines, logged;
  std::vector<std::int64_t> batches;
  for (std::int64_t batch = 1; batch <= 12; ++batch) {
    mpt::run_control run([&](std::string const& text) { lines.push_back(text); });
    if (callback.is_due(batch, clock)) callback.write(decoder, run, batch);
    for (auto const& [name, text] : run.texts()) logged.push_back(name + ": " + text);
    if (!run.texts().empty()) batches.push_back(batch);
  }
  CHECK(batches == std::vector<std::int64_t>{5, 10, 12});
  REQUIRE(logged.size() == 6);
  CHECK(logged[0] == "generations/0: Once upon a →  time time time");
  CHECK(logged[1] == "generations/1: In Köln →  time time time");
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "generated at 5 ba: Once upon a → time time time");
}

TEST_CASE("generate_callback: end-of-text ends a text, and a rank without prompts logs nothing") {
  auto const data = test::data_folder();
  if (data.empty()) {
    MESSAGE("no sample data here: skipped");
    return;
  }
  auto const tokenizer_folder = data / "tokenizers" / "gpt2";
  parrot model(mpt::tokenizer::load(tokenizer_folder).eos_id().value());
  for (bool const silent : {false, true}) {
    auto const callback =
        callback_of(config(tokenizer_folder), silent ? nullptr : prompts(config(tokenizer_folder)));
    mpt::model_decoder<float, parallel::host::device> decoder(model.net, model.device, model.stream,
                                                              callback.room());
    mpt::run_control run([](std::string const&) {});
    callback.write(decoder, run, 5);
    CHECK(run.texts().size() == (silent ? 0 : 2));
    if (!silent) CHECK(run.texts()[0].second == "Once upon a → ");
  }
}

TEST_CASE("read_sample_prompts: prompts that the model cannot read are refused") {
  auto const data = test::data_folder();
  if (data.empty()) {
    MESSAGE("no sample data here: skipped");
    return;
  }
  auto wrong = config(data / "tokenizers" / "gpt2");
  auto const message = [&](std::string const& prompt) {
    wrong.callbacks.generate->prompts[1] = prompt;
    return test::message_of([&] { prompts(wrong); });
  };
  CHECK(message("") ==
        "callbacks.generate_callback.prompts.1: the prompt has no tokens; give at least one word");
  std::string longer;
  for (int word = 0; word < 200; ++word) longer += " time";
  CHECK(message(longer).starts_with(
      "callbacks.generate_callback.prompts.1: the prompt has 200 tokens, but the model reads"));
}

TEST_CASE("read_sample_prompts: a tokenizer that does not exist is refused") {
  auto const open = [](std::filesystem::path const& tokenizer_folder) {
    return test::message_of([&] { prompts(config(tokenizer_folder)); });
  };
  CHECK(open("nowhere/at/all") ==
        "callbacks.generate_callback needs the tokenizer, but tokenizer.name nowhere/at/all is no "
        "folder or file here");
}

}  // namespace generate_callback_test
