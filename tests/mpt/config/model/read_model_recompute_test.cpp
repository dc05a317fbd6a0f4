// Tests of reading which modules of which blocks recompute.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/read_model.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace read_recompute_test {

constexpr std::int64_t blocks = 8;

inline mpt::block_recomputation read(std::string const& target) {
  auto const root = mpt::parse_yaml("activation_checkpointing_target: " + target, "f.yaml");
  mpt::config_report report;
  mpt::config_reader reader(root, "model", report);
  auto out = mpt::detail::read_recompute(reader, blocks);
  reader.finish();
  return out;
}

/// The blocks that a selector gives to the attention layers, as digits.
inline std::string selected_blocks(std::string const& selector) {
  std::string out;
  auto const found = read("{grouped_query_attention: " + selector + "}");
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].attention) out += static_cast<char>('0' + i);
    CHECK(found[i] == mpt::recomputation{.attention = found[i].attention});
  }
  return out;
}

inline std::string problem(std::string const& target) {
  return test::message_of([&] { static_cast<void>(read(target)); });
}

TEST_CASE("recomputation target: without one every block is recomputed") {
  for (auto const* const target : {"", "null", "[]", "mptblock", "[mptblock]", "MPTBlock"})
    CHECK(read(target) == mpt::recompute_all(blocks));
}

TEST_CASE("recomputation target: module names apply to all blocks") {
  using mpt::recomputation;
  auto const every_block = [](recomputation const& parts) {
    return mpt::block_recomputation(blocks, parts);
  };
  CHECK(read("norm_attn_norm") == every_block({.attention_branch = true}));
  CHECK(read("multihead_attention") == every_block({.attention = true}));
  CHECK(read("norm_ffn") == every_block({.feed_forward_branch = true}));
  CHECK(read("norms_and_activation") == every_block({.cheap = true}));
  CHECK(read("[mptmlp, grouped_query_attention]") ==
        every_block({.attention = true, .feed_forward = true}));
}

TEST_CASE("recomputation target: selectors choose the same blocks as LLM Foundry") {
  CHECK(selected_blocks("3") == "012");
  CHECK(selected_blocks("0").empty());
  CHECK(selected_blocks("100") == "01234567");
  CHECK(selected_blocks("first-2") == "01");
  CHECK(selected_blocks("first-20") == "01234567");
  CHECK(selected_blocks("last-3") == "567");
  CHECK(selected_blocks("last-99") == "01234567");
  CHECK(selected_blocks("middle-2") == "23");  // 7 / 2 - 2 / 2 = 2
  CHECK(selected_blocks("middle-3") == "234");
  CHECK(selected_blocks("middle-50") == "01234567");
  CHECK(selected_blocks("range-2-5") == "234");
  CHECK(selected_blocks("range-6-50") == "67");
  CHECK(selected_blocks("'first-1, last-2'") == "067");
  CHECK(selected_blocks("[5, 1]") == "15");
  CHECK(selected_blocks("[5, first-1, 'range-2-4, last-1']") == "02357");
}

TEST_CASE("recomputation target: different blocks may have different modules") {
  auto const found = read("{mptblock: last-2, mptglu: 3, norm_attn_norm: first-1}");
  CHECK(found[0] == mpt::recomputation{.attention_branch = true, .feed_forward = true});
  CHECK(found[2] == mpt::recomputation{.feed_forward = true});
  CHECK(found[4] == mpt::recomputation{});
  CHECK(found[7] == mpt::recomputation{.block = true});
}

TEST_CASE("recomputation target: an invalid one is refused with the valid forms") {
  for (auto const& [text, message] :
       test::text_cases("mpt/config/refused.txt", "activation_checkpointing_target"))
    CHECK(problem(text) == message);
  for (auto const* const bad : {"first", "first-", "first--1", "first-1-2", "range-1", "range-1-",
                                "range-1-2-3", "-1", "1.5", "last-x", "'3'", "[first-2, {}]", "{}",
                                "''", "'first-1,'", "next-1", "first-99999999999999999999"})
    CHECK_MESSAGE(!problem(std::string("{mptmlp: ") + bad + "}").empty(), bad);
  CHECK(problem("{norm_attn_norm: 1, grouped_query_attention: 1}").find("block 0 is given twice") !=
        std::string::npos);
}

TEST_CASE("recomputation target: takes effect with fsdp_config.activation_checkpointing") {
  auto const read_run = [](std::string const& model, std::string const& fsdp) {
    return mpt::read_train_config(mpt::make_document(
        "max_seq_len: 8\nmax_duration: 1ba\nglobal_train_batch_size: 1\ntokenizer: {name: t}\n"
        "optimizer: {name: decoupled_adamw}\n"
        "scheduler: {name: linear_decay_with_warmup, t_warmup: 0ba}\n"
        "train_loader: {dataset: {local: d}}\neval_loader: {dataset: {local: d}}\n"
        "model: {n_layers: 2" +
            model + "}\nfsdp_config: {" + fsdp + "}\n",
        "f.yaml"));
  };
  CHECK(!read_run("", "").execution.recompute.has_value());
  CHECK(!read_run("", "activation_checkpointing: auto").execution.recompute.has_value());
  auto const target_alone = read_run(", activation_checkpointing_target: mptmlp", "");
  CHECK(!target_alone.execution.recompute.has_value());
  CHECK(target_alone.output.report.notes ==
        std::vector<std::string>{"model.activation_checkpointing_target: has no effect "
                                 "without fsdp_config.activation_checkpointing: true"});
  CHECK(read_run("", "").output.report.notes.empty());
  CHECK(read_run("", "activation_checkpointing: false").execution.recompute ==
        mpt::block_recomputation());
  CHECK(read_run("", "activation_checkpointing: true").execution.recompute ==
        mpt::recompute_all(2));
  CHECK(read_run(", activation_checkpointing_target: {mptmlp: last-1}",
                 "activation_checkpointing: true")
            .execution.recompute == mpt::block_recomputation{{}, {.feed_forward = true}});
  CHECK(read_run(", activation_checkpointing_target: mptmlp", "activation_checkpointing: true")
            .output.report.notes.empty());
}

}  // namespace read_recompute_test
