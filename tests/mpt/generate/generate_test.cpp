// Texts continued side by side, in pieces and by ranks that share the model, are those of one rank
// that continues each alone.
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/generate/generate.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/support/files.hpp>
#include <parallel/train/weights.hpp>

namespace generate_test {

using ids = std::vector<std::int32_t>;
using host_decoder = mpt::model_decoder<float, parallel::host::device>;

/// Learned positions, ALiBi, or rotary positions and norms of queries and keys.
mpt::model_config form(int which) {
  mpt::model_config config;
  config.d_model = 24;
  config.n_heads = 6;
  config.n_layers = 2;
  config.vocab_size = 31;
  config.max_seq_len = 40;
  config.learned_pos_emb = which == 0;
  config.attn.alibi = which == 1;
  if (which >= 2) config.attn.rope.emplace();
  config.attn.qk_ln = which == 2;
  return config;
}

/// A model, or this rank's slices of it, whose weights depend on their names alone.
struct drawn_model {
  explicit drawn_model(mpt::model_config config, mpt::model_groups groups = {})
      : net(std::move(config), groups), held(net, device) {
    held.for_each([](auto const& parameter, auto values) {
      bool const norm = parameter.name.find("norm") != std::string::npos ||
                        parameter.name.find("_ln.") != std::string::npos;
      parallel::philox const random(7, parallel::stream_id(parameter.name));
      parameter.for_each_run(0, parameter.size(), [&](auto first, auto count, auto global) {
        for (parallel::index i = 0; i < count; ++i)
          values[static_cast<std::size_t>(first + i)] =
              (norm ? 1.0F : 0.0F) +
              1.6F * (random.uniform(static_cast<std::uint64_t>(global + i)) - 0.5F);
      });
    });
  }
  parallel::host::device device;
  parallel::host::stream stream;
  mpt::model<float> net;
  parallel::train::weights<float> held;
};

std::vector<ids> const prompts{{1, 2, 3, 4, 5, 6, 7}, {30}, {4, 8, 15, 16, 23}};
mpt::generation_options const options{
    .max_new_tokens = 9, .end_of_text = 12, .sampling = {.temperature = 1, .seed = 3}};

std::vector<ids> one_by_one(drawn_model& model) {
  std::vector<ids> out;
  for (auto const& prompt : prompts)
    out.push_back(mpt::generate(model.net, model.device, model.stream, prompt, options));
  return out;
}

TEST_CASE("texts side by side, and read in pieces, are those of each alone") {
  for (int which = 0; which < 3; ++which) {
    CAPTURE(which);
    drawn_model model(form(which));
    auto const expected = one_by_one(model);
    CHECK(expected[0] != expected[1]);
    for (parallel::index const rows : {1, 2, 512}) {
      host_decoder decoder(model.net, model.device, model.stream,
                           {.tokens = 16, .texts = 3, .rows = rows});
      CHECK(mpt::generate(decoder, std::span(prompts), options) == expected);
      auto const again = mpt::generate(decoder, std::span(prompts).last(1), options);
      CHECK(again.front() == expected[2]);
    }
  }
}

TEST_CASE("ranks that hold slices of the model write what one does") {
  for (int which = 0; which < 3; ++which)
    for (int const ranks : {2, 3}) {
      CAPTURE(which);
      CAPTURE(ranks);
      drawn_model whole(form(which));
      auto const expected = one_by_one(whole);
      std::mutex lock;
      parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
        parallel::any_communicator any(std::move(comm));
        parallel::host::stream first, second;
        mpt::model_groups groups;
        groups.tensor.group = {any, first, second};
        drawn_model slice(form(which), groups);
        host_decoder decoder(slice.net, slice.device, slice.stream, {.tokens = 16, .texts = 3},
                             &any);
        auto const made = mpt::generate(decoder, std::span(prompts), options);
        std::scoped_lock const guard(lock);
        CHECK(made == expected);
      });
    }
}

TEST_CASE("the last logits of a long reading are those of its pieces") {
  drawn_model model(form(0));
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
  drawn_model model(form(1));
  auto const run = [&](ids const& prompt, mpt::generation_options const& how) {
    return mpt::generate(model.net, model.device, model.stream, prompt, how);
  };
  CHECK(run({1}, {.max_new_tokens = 3}).size() == 3);
  CHECK(run({1}, {.max_new_tokens = 9, .last = [](std::size_t, std::int32_t) { return true; }})
            .size() == 1);
  CHECK(run(ids(38, 1), {.max_new_tokens = 9}).size() == 2);
  CHECK(test::message_of([&] { static_cast<void>(run({}, {})); }) ==
        "the prompt has no tokens; give at least one word");
  CHECK(test::message_of([&] { static_cast<void>(run(ids(40, 1), {})); }) ==
        "the prompt has 40 tokens, but the model reads at most 39 before a new one");
}

}  // namespace generate_test
