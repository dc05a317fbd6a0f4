// Compares turns, examples, batches and packed batches with those that LLM Foundry's own code makes
// of the same rows (tests/golden/finetuning.json, written by
// tests/reference/make_finetuning_golden.py).
#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <mpt/data/hash.hpp>
#include <mpt/finetune/batch_order.hpp>
#include <mpt/finetune/bin_packing.hpp>
#include <mpt/finetune/packing_ratio.hpp>
#include <mpt/finetune/read_examples.hpp>
#include <mpt/finetune/rows.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <string>
#include <support/data.hpp>
#include <support/golden/golden.hpp>
#include <vector>

namespace finetuning_golden_test {

using nlohmann::json;
using namespace mpt::finetune;
using ids = std::vector<std::int32_t>;

inline json const& golden() {
  static json const read =
      json::parse(std::ifstream(test::golden_folder() / "finetuning.json", std::ios::binary));
  return read;
}

inline mpt::tokenizer tokenizer_named(std::string const& name) {
  auto description = golden()["tokenizer"];
  auto const& variant = golden()["tokenizers"][name];
  description["added_tokens"] = variant["added_tokens"];
  description["post_processor"] = variant["post_processor"];
  return mpt::tokenizer(
      {.json = description.dump(), .config = variant["config"].dump(), .source = {}});
}

inline std::vector<std::vector<turn>> turns_of_rows(std::string const& tokenizer,
                                                    std::string const& rows) {
  auto const used_tokenizer = tokenizer_named(tokenizer);
  row_tokenizer tokenize(used_tokenizer, {});
  std::vector<std::vector<turn>> out;
  for (auto const& row : golden()[rows])
    out.push_back(tokenize.turns(format_row(row, "row"), "row"));
  return out;
}

inline std::vector<turn> turns_in(json const& list) {
  std::vector<turn> out;
  for (auto const& item : list)
    out.push_back(item.is_array() ? turn{item[0].get<ids>(), item[1].get<ids>()}
                                  : turn{item["input_ids"].get<ids>(), item["labels"].get<ids>()});
  return out;
}

/// Converts the reference's labels, each at the position of its id, to labels at the position that
/// predicts the id, one earlier.
inline ids shifted(ids labels) {
  std::shift_left(labels.begin(), labels.end(), 1);
  labels.back() = no_label;
  return labels;
}

/// Compares a batch with the reference's tensors.
inline void check_batch(rows const& batch, json const& expected) {
  auto const& expected_ids = expected["input_ids"];
  REQUIRE(batch.count == expected_ids.size());
  REQUIRE(batch.length == expected_ids[0].size());
  for (std::size_t row = 0; row < batch.count; ++row) {
    auto const begin = static_cast<std::ptrdiff_t>(row * batch.length);
    auto const end = begin + static_cast<std::ptrdiff_t>(batch.length);
    auto const row_of = [&](ids const& values) {
      return ids(values.begin() + begin, values.begin() + end);
    };
    CHECK(row_of(batch.ids) == expected_ids[row].get<ids>());
    CHECK(row_of(batch.labels) == shifted(expected["labels"][row].get<ids>()));
    // The reference's sequence_id counts examples and is -1 for padding, where attention_mask is 0.
    ids const sequence_ids = expected["sequence_id"][row].get<ids>();
    ids const mask = expected["attention_mask"][row].get<ids>();
    ids begins(batch.length);
    for (std::size_t i = 0; i < batch.length; ++i) {
      CHECK((sequence_ids[i] >= 0) == (mask[i] == 1));
      begins[i] = i > 0 && sequence_ids[i] == sequence_ids[i - 1] ? begins[i - 1]
                                                                  : static_cast<std::int32_t>(i);
    }
    CHECK(row_of(batch.document_begins) == begins);
  }
}

inline std::vector<std::uint32_t> lengths_of(std::vector<example> const& examples) {
  std::vector<std::uint32_t> out;
  for (auto const& example : examples)
    out.push_back(static_cast<std::uint32_t>(example.ids.size()));
  return out;
}

}  // namespace finetuning_golden_test

TEST_CASE("finetuning golden: prompts, completions and chats have LLM Foundry's ids") {
  using namespace finetuning_golden_test;
  for (auto const& golden_case : golden()["tokenized"]) {
    CAPTURE(golden_case["tokenizer"]);
    auto const turns = turns_of_rows(golden_case["tokenizer"], golden_case["rows"]);
    REQUIRE(turns.size() == golden_case["turns"].size());
    for (std::size_t i = 0; i < turns.size(); ++i)
      CHECK(turns[i] == turns_in(golden_case["turns"][i]));
  }
}

TEST_CASE("finetuning golden: the same rows become examples, with LLM Foundry's ids and labels") {
  using namespace finetuning_golden_test;
  for (auto const& golden_case : golden()["examples"]) {
    CAPTURE(golden_case["tokenizer"]);
    CAPTURE(golden_case["target_prompts"]);
    auto const rows = turns_of_rows(golden_case["tokenizer"], golden_case["rows"]);
    auto const policy = read_target_policy(golden_case["target_prompts"].get<std::string>(),
                                           golden_case["target_responses"].get<std::string>());
    auto const end = tokenizer_named(golden_case["tokenizer"]).eos_id();
    std::size_t position = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto const example =
          stitch_turns(rows[i], policy, golden_case["max_seq_len"].get<std::size_t>(), end);
      bool const is_expected =
          position < golden_case["examples"].size() && golden_case["examples"][position][0] == i;
      CHECK(example.has_value() == is_expected);
      if (!example || !is_expected) continue;
      CHECK(example->ids == golden_case["examples"][position][1].get<ids>());
      CHECK(example->labels == shifted(golden_case["examples"][position][2].get<ids>()));
      ++position;
    }
    CHECK(position == golden_case["examples"].size());
    CHECK(position > 0);
  }
}

TEST_CASE("finetuning golden: batches padded on either side, trimmed or not, are LLM Foundry's") {
  using namespace finetuning_golden_test;
  auto const rows = turns_of_rows("chat", "chats");
  auto const tokenizer = tokenizer_named("chat");
  std::int32_t const pad = golden()["tokenizers"]["chat"]["pad_id"];
  CHECK(tokenizer.id_of_role("pad_token") == pad);
  for (auto const& golden_case : golden()["batches"]) {
    CAPTURE(golden_case.dump().substr(0, 60));
    std::size_t const max_seq_len = golden_case["max_seq_len"];
    std::vector<example> examples;
    for (auto const& turns : rows)
      if (auto example = stitch_turns(turns, read_target_policy("none", "all"), max_seq_len,
                                      tokenizer.eos_id()))
        examples.push_back(std::move(*example));
    REQUIRE(examples.size() == golden_case["kept"].get<std::size_t>());
    batch_order order(lengths_of(examples), {.rows = 2, .row_tokens = max_seq_len});
    auto trimming = row_trimming::none;
    if (golden_case.contains("allow_pad_trimming")) trimming = row_trimming::to_multiple;
    if (golden_case.contains("pad_to_longest")) trimming = row_trimming::to_longest;
    for (std::size_t batch = 0; batch < 2; ++batch) {
      auto const bins = order.batch_rows(batch);
      check_batch(make_rows(examples, bins,
                            {.length = row_length(bins, max_seq_len, trimming, batch),
                             .pad_id = pad,
                             .side = golden_case["side"] == "left" ? padding_side::left
                                                                   : padding_side::right}),
                  golden_case["batches"][batch]);
    }
  }
}

TEST_CASE("finetuning golden: packed batches and the bins left over are LLM Foundry's") {
  using namespace finetuning_golden_test;
  for (auto const& golden_case : golden()["packed"]) {
    std::size_t const max_seq_len = golden_case["max_seq_len"];
    std::vector<example> examples;
    for (auto const& row : golden_case["turns"])
      examples.push_back(
          stitch_turns(turns_in(row["turns"]), read_target_policy("none", "last"), max_seq_len, 0)
              .value());
    std::size_t const examples_per_batch = golden_case["drawn"];
    std::size_t const count = golden_case["rows"];
    batch_order_options options{
        .rows = count,
        .row_tokens = max_seq_len,
        .packing_ratio = static_cast<double>(examples_per_batch) / static_cast<double>(count),
        .drop_last = false};
    if (!golden_case["leftover"].is_null())
      options.leftover_bins = golden_case["leftover"].get<std::size_t>();
    batch_order order(lengths_of(examples), options);
    REQUIRE(order.examples_per_batch() == examples_per_batch);
    auto const& batches = golden_case["batches"];
    REQUIRE(order.batches_per_epoch() == batches.size());
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
      CAPTURE(batch);
      check_batch(make_rows(examples, order.batch_rows(batch),
                            {.length = max_seq_len,
                             .pad_id = 0,
                             .side = golden_case["side"] == "left" ? padding_side::left
                                                                   : padding_side::right}),
                  batches[batch]);
    }
    CHECK(order.packer().leftover().size() == golden_case["left"].get<std::size_t>());
    CHECK(*order.packer().waste() == doctest::Approx(golden_case["waste"].get<double>()));
    CHECK(*order.packer().efficiency() == doctest::Approx(golden_case["efficiency"].get<double>()));
  }
}

TEST_CASE("finetuning golden: packing_ratio auto is LLM Foundry's") {
  using namespace finetuning_golden_test;
  for (auto const& golden_case : golden()["auto"]) {
    auto const lengths = golden_case["lengths"].get<std::vector<std::uint32_t>>();
    CHECK(auto_packing_ratio(lengths, golden_case["rows"], golden_case["max_seq_len"]) ==
          golden_case["ratio"].get<double>());
  }
}

TEST_CASE("finetuning golden: preprocessors convert rows as LLM Foundry's do, by either name") {
  using namespace finetuning_golden_test;
  for (auto const& golden_case : golden()["preprocessed"])
    for (std::string const key : {"set", "function"}) {
      auto const convert = named_preprocessor(golden_case[key].get<std::string>());
      for (std::size_t i = 0; i < golden_case["rows"].size(); ++i)
        CHECK(convert(golden_case["rows"][i], "row") == golden_case["made"][i]);
    }
}

TEST_CASE(
    "finetuning golden: an epoch's order is that of PyTorch's DistributedSampler on one rank") {
  using namespace finetuning_golden_test;
  for (auto const& golden_case : golden()["orders"]) {
    std::size_t const size = golden_case["size"];
    batch_order order(std::vector<std::uint32_t>(size, 1),
                      {.rows = size, .shuffle = true, .seed = golden_case["seed"]});
    std::vector<std::size_t> order_drawn;
    for (auto const& row : order.batch_rows(golden_case["epoch"]))
      order_drawn.push_back(row.examples.at(0));
    CHECK(order_drawn == golden_case["order"].get<std::vector<std::size_t>>());
  }
}

TEST_CASE("finetuning golden: public sets give LLM Foundry's ids, labels and two packed epochs") {
  using namespace finetuning_golden_test;
  auto const data = test::data_folder();
  if (data.empty()) return;
  auto const tokenizer = mpt::tokenizer::load(data / "tokenizers/gpt-neox-20b");
  auto const append = [](std::string& out, std::span<std::int32_t const> values) {
    out.append(reinterpret_cast<char const*>(values.data()), values.size_bytes());
  };
  auto const digest = [](std::string const& bytes) { return mpt::data::hash_of("sha256", bytes); };
  for (auto const& golden_case : golden()["real"]) {
    CAPTURE(golden_case["file"]);
    std::size_t const max_seq_len = golden_case["max_seq_len"];
    finetuning_source source;
    source.files = {data / "instruct" / golden_case["file"].get<std::string>()};
    source.max_seq_len = max_seq_len;
    if (auto const& mapping = golden_case["mapping"]; !mapping.is_null())
      source.preprocess = column_mapping(mapping["prompt"], mapping["response"]);
    read_report report;
    auto const examples = read_examples(source, tokenizer, &report);
    CHECK(report.rows == golden_case["rows"].get<std::uint64_t>());
    CHECK(report.rows - report.dropped == golden_case["kept"].get<std::uint64_t>());
    REQUIRE(examples.size() == golden_case["kept"].get<std::size_t>());
    std::string all_ids;
    std::string all_labels;
    for (auto const& example : examples) {
      append(all_ids, example.ids);
      append(all_labels, example.labels);
    }
    CHECK(digest(all_ids) == golden_case["ids"]);
    CHECK(digest(all_labels) == golden_case["labels"]);

    auto const lengths = lengths_of(examples);
    std::size_t const count = golden_case["rows_a_batch"];
    std::uint64_t const seed = golden_case["seed"];
    double const ratio = auto_packing_ratio_of_shuffled(lengths, seed, count, max_seq_len);
    CHECK(ratio == golden_case["ratio"].get<double>());
    batch_order order(lengths, {.rows = count,
                                .row_tokens = max_seq_len,
                                .packing_ratio = ratio,
                                .shuffle = true,
                                .seed = seed});
    REQUIRE(2 * order.batches_per_epoch() == golden_case["batches"].get<std::size_t>());
    all_ids.clear();
    all_labels.clear();
    std::string sequence_ids;
    for (std::size_t batch = 0; batch < 2 * order.batches_per_epoch(); ++batch) {
      auto const bins = order.batch_rows(batch);
      auto const batch_rows = make_rows(examples, bins, {.length = max_seq_len, .pad_id = 0});
      append(all_ids, batch_rows.ids);
      append(all_labels, batch_rows.labels);
      ids row_sequence_ids(batch_rows.ids.size(), -1);
      for (std::size_t row = 0; row < bins.size(); ++row) {
        auto position = row * max_seq_len;
        for (std::size_t k = 0; k < bins[row].examples.size(); ++k)
          for (std::size_t i = 0; i < lengths[bins[row].examples[k]]; ++i)
            row_sequence_ids[position++] = static_cast<std::int32_t>(k);
      }
      append(sequence_ids, row_sequence_ids);
    }
    CHECK(digest(all_ids) == golden_case["packed_ids"]);
    CHECK(digest(all_labels) == golden_case["packed_labels"]);
    CHECK(digest(sequence_ids) == golden_case["packed_sequence_id"]);
  }
}
