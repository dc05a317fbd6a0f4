// The layout of a run, and the layouts that are refused before anything starts.
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <mpt/train/setup/layout.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace layout_test {

namespace axis = parallel::axis;

inline mpt::train_config configuration() {
  mpt::train_config config;
  config.model.d_model = 48;
  config.model.n_heads = 12;
  config.model.n_layers = 4;
  config.model.vocab_size = 512;
  config.data.train_loader.max_seq_len = 32;
  config.data.global_train_batch_size = 24;
  config.data.device_train_microbatch_size = 4;
  return config;
}

inline std::string refusal(mpt::train_config const& config, int ranks) {
  return test::message_of([&] { static_cast<void>(mpt::run_layout(config, ranks)); });
}

TEST_CASE("layout: ranks outside the model's axes are data ranks, either replicas or ZeRO shards") {
  auto config = configuration();
  CHECK(mpt::run_layout(config, 3).text() == "replicate 3");
  config.execution.parallelism.tensor = 2;
  config.execution.parallelism.pipeline = 2;
  CHECK(mpt::run_layout(config, 4).text() == "pipeline 2 x tensor 2");
  CHECK(mpt::run_layout(config, 8).text() == "pipeline 2 x replicate 2 x tensor 2");
  for (int const stage : {1, 2, 3}) {
    config.execution.zero_stage = stage;
    CHECK(mpt::run_layout(config, 8).text() == "pipeline 2 x shard 2 x tensor 2");
  }
  config.execution.parallelism.shard = 2;
  CHECK(mpt::run_layout(config, 24).text() == "pipeline 2 x replicate 3 x shard 2 x tensor 2");
  config.execution.parallelism.shard.reset();
  config.execution.parallelism.replicate = 2;
  auto const layout = mpt::run_layout(config, 24);
  CHECK(layout.text() == "pipeline 2 x replicate 2 x shard 3 x tensor 2");
  CHECK(mpt::data_ranks(layout) == 6);
  config.execution.parallelism.replicate.reset();
  config.execution.parallelism.context = 2;
  CHECK(mpt::data_ranks(mpt::run_layout(config, 24)) == 3);
}

/// The refusal of a layout of which `settings` are such as "ranks=4 tensor=2"; "accepted" if there
/// is none.
std::string refusal_of(std::string const& settings) {
  auto config = configuration();
  auto& axes = config.execution.parallelism;
  int ranks = 0;
  std::map<std::string, std::function<void(int)>> const setters = {
      {"ranks", [&](int n) { ranks = n; }},
      {"tensor", [&](int n) { axes.tensor = n; }},
      {"context", [&](int n) { axes.context = n; }},
      {"pipeline", [&](int n) { axes.pipeline = n; }},
      {"replicate", [&](int n) { axes.replicate = n; }},
      {"shard", [&](int n) { axes.shard = n; }},
      {"zero_stage", [&](int n) { config.execution.zero_stage = n; }},
      {"sequence_parallel", [&](int) { axes.sequence_parallel = true; }},
      {"ulysses", [&](int) { axes.context_method = parallel::context_parallel::method::ulysses; }},
      {"first_stage", [&](int n) { axes.blocks_by_stage = {n}; }},
      {"second_stage", [&](int n) { axes.blocks_by_stage.push_back(n); }},
      {"max_seq_len", [&](int n) { config.data.train_loader.max_seq_len = n; }},
      {"eval_seq_len", [&](int n) { config.data.eval_loaders.emplace_back().max_seq_len = n; }},
      {"ffn_hidden_size", [&](int n) { config.model.ffn_hidden_size = n; }},
      {"vocab_size", [&](int n) { config.model.vocab_size = n; }},
      {"kv_n_heads", [&](int n) { config.model.attn.kv_n_heads = n; }},
      {"generated_texts", [&](int) { config.callbacks.generate.emplace(); }},
      {"tasks", [&](int) { config.evaluation.icl.tasks.emplace_back(); }}};
  std::istringstream words(settings);
  for (std::string word; words >> word;) {
    auto const equals = word.find('=');
    setters.at(word.substr(0, equals))(std::stoi(word.substr(equals + 1)));
  }
  auto const message = refusal(config, ranks);
  return message.empty() ? "accepted" : message;
}

TEST_CASE("layout: each rule has one message with the axis, the rule and the nearest choice") {
  for (auto const& layout : test::text_cases("mpt/train/setup/layouts.txt", "layouts")) {
    CAPTURE(layout.text);
    CHECK(refusal_of(layout.text) == layout.expected);
  }
}

TEST_CASE("layout: settings that the canonical order excludes are refused in one message") {
  auto config = configuration();
  config.execution.reduction_order = parallel::zero::reduction_order::canonical_tree;
  for (int const ranks : {1, 2, 5, 24, 100})  // the ranks need not divide a batch
    CHECK(refusal(config, ranks).empty());
  CHECK(mpt::stepper_options_of(config.optimizer, config.execution, config.run).order ==
        parallel::zero::reduction_order::canonical_tree);
  config.execution.zero_stage = 3;
  config.execution.parallelism.shard = 2;
  CHECK(refusal(config, 6).empty());
  config.execution.parallelism.shard = 6;
  CHECK(refusal(config, 12) ==
        "parallelism: shard 6 x replicate 2: the canonical order of reductions needs a power of "
        "two of shards if there are replicas; set shard to 4, or replicate to 1");
  CHECK(refusal(config, 6).empty());
  config.execution.parallelism.shard.reset();
  config.execution.parallelism.context = 2;
  config.execution.parallelism.tensor = 2;
  config.data.device_train_microbatch_size.reset();
  config.optimizer.clip = {parallel::train::clipping_kind::adaptive, 0.1};
  CHECK(refusal(config, 8) ==
        "parallelism: this layout is not possible:\n"
        "  context 2: the canonical order of reductions sums whole microbatches, of which these "
        "ranks hold parts; set context to 1\n"
        "  tensor 2: adaptive clipping in the canonical order of reductions needs whole rows of "
        "weights; set tensor to 1, or clip by norm or value\n"
        "  device_train_microbatch_size auto: the canonical order of reductions sums microbatches "
        "whose size must not depend on the memory that is there; give it a number");
}

TEST_CASE("layout: a stage boundary between a block and the block with its keys is refused") {
  auto config = configuration();
  config.model.layers.resize(4);
  config.model.layers[1].reuse_kv_layer_idx = config.model.layers[2].reuse_kv_layer_idx = -1;
  config.execution.parallelism.pipeline = 2;
  CHECK(refusal(config, 2) ==
        "parallelism: pipeline 2: block 2 attends to the keys of block 0 (reuse_kv_layer_idx), so "
        "that one stage must hold both, but stages begin at blocks 0 and 2, and may only at 0 and "
        "3; give blocks_by_stage");
  config.execution.parallelism.blocks_by_stage = {3, 1};
  CHECK(refusal(config, 2).empty());
  config.execution.parallelism.blocks_by_stage.clear();
  config.model.layers[3].reuse_kv_layer_idx = -2;
  CHECK(refusal(config, 2).ends_with("and may only at 0; set pipeline to 1"));
  config.execution.parallelism.pipeline = 1;
  CHECK(refusal(config, 2).empty());
}

TEST_CASE("layout: ranks that divide experts need equal shares of a batch") {
  auto config = configuration();
  config.model.experts.emplace().count = 4;
  config.execution.parallelism.expert = 2;
  config.data.global_train_batch_size = 12;
  config.data.device_train_microbatch_size = 2;
  CHECK(refusal(config, 2).empty());
  config.data.global_train_batch_size = 13;
  CHECK(refusal(config, 2) ==
        "parallelism: expert 2: the 2 ranks with different sequences need equal shares, but of "
        "global_train_batch_size 13 the first has 7 and the last 6; set it to 14");
  config.data.global_train_batch_size = 12;  // six microbatches
  config.execution.reduction_order = parallel::zero::reduction_order::canonical_tree;
  CHECK(refusal(config, 2) ==
        "parallelism: expert 2: the 2 ranks with different sequences need equal shares, but of "
        "global_train_batch_size 12 the first has 8 and the last 4; set it to 16");
}

TEST_CASE("layout: a balancing loss of all layers together refuses a pipeline") {
  auto config = configuration();
  auto& experts = config.model.experts.emplace();
  experts.joins_layers = true;
  experts.loss_weight = 0.1;
  config.execution.parallelism.pipeline = 2;
  CHECK(
      refusal(config, 2) ==
      "parallelism: pipeline 2: the balancing loss of all layers together needs them on one rank; "
      "set pipeline to 1, or ffn_config.moe_joined_loss (output_router_logits of a family) to "
      "false");
  config.model.experts->joins_layers = false;
  CHECK(refusal(config, 2).empty());
}

TEST_CASE("layout: one message has all errors of a layout") {
  auto config = configuration();
  config.execution.parallelism.tensor = 13;
  config.execution.parallelism.context = 3;
  config.execution.parallelism.pipeline = 5;
  CHECK(refusal(config, 7) ==
        "parallelism: this layout is not possible:\n"
        "  tensor 13: n_heads 12 must be at least 13 and kv_n_heads 12 must be at least 13, "
        "or divide it; set tensor to 12\n"
        "  context 3: sequences of 32 must divide into 2 x 3 chunks; set context to 2\n"
        "  pipeline 5: 1f1b has 5 stages, which need as many blocks, but n_layers is 4; set "
        "pipeline to 4\n"
        "  ranks 7: pipeline 5 x context 3 x tensor 13 needs a multiple of 195; start 195");
}

TEST_CASE("layout: degrees whose product overflows are refused") {
  auto config = configuration();
  config.model.n_heads = config.model.n_layers = config.model.vocab_size = 4096;
  config.model.d_model = 4096;
  config.data.train_loader.max_seq_len = 8192;
  auto& p = config.execution.parallelism;
  p.tensor = p.context = p.pipeline = 4096;  // 2^36, which is 0 as an int
  std::string const expected =
      "pipeline 4096: pipeline 4096 x context 4096 x tensor 4096 are more ranks than the "
      "2147483647 that can be counted; set pipeline to 127 or less";
  CHECK(refusal(config, 8) == expected);
  CHECK_THROWS_WITH(static_cast<void>(p.least_ranks()), expected.c_str());
  p.pipeline = 127;
  CHECK(p.least_ranks() == 127 * 4096 * 4096);
  CHECK(refusal(config, 127 * 4096 * 4096) == "");
  p.shard = p.replicate = 4096;
  CHECK_THROWS_WITH(static_cast<void>(p.least_ranks()),
                    "replicate 4096: pipeline 127 x replicate 4096 x shard 4096 x context 4096 x "
                    "tensor 4096 are more ranks than the 2147483647 that can be counted; set "
                    "replicate to 1, and the others lower");
  p = {.tensor = 0};
  CHECK(refusal(config, 8) == "layout: the degree of tensor is 0, but must be at least 1");
}

TEST_CASE("layout: hybrid sharding without a degree shards over the data ranks of a machine") {
  auto const shards = [](mpt::parallelism_config p, int ranks, int ranks_per_node) {
    p.shard_within_node = true;
    mpt::shard_within(p, ranks, ranks_per_node);
    return p.shard;
  };
  CHECK(shards({}, 16, 8) == 8);
  CHECK(shards({}, 8, 8) == 8);
  CHECK(shards({}, 2, 8) == 2);
  CHECK(shards({}, 12, 8) == 6);  // the largest degree that divides the ranks
  CHECK(shards({.tensor = 2}, 32, 8) == 4);
  CHECK(shards({.pipeline = 2}, 4, 4) == 2);
  CHECK(shards({.shard = 4}, 16, 8) == 4);
  CHECK_FALSE(shards({.replicate = 2}, 16, 8).has_value());
  mpt::parallelism_config plain;
  mpt::shard_within(plain, 16, 8);
  CHECK_FALSE(plain.shard.has_value());
}

}  // namespace layout_test
