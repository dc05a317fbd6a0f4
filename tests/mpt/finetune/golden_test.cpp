// What LLM Foundry's own code makes of the same rows (tests/golden/finetuning.json, made by
// tests/reference/make_finetuning_golden.py): turns, kept examples, batches, packed batches.
#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <mpt/data/hash.hpp>
#include <mpt/finetune/batch_order.hpp>
#include <mpt/finetune/packing_ratio.hpp>
#include <mpt/finetune/read_examples.hpp>
#include <mpt/finetune/row_trimming.hpp>
#include <mpt/finetune/rows.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <numeric>
#include <string>
#include <support/data.hpp>
#include <support/golden.hpp>
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
  auto made = golden()["tokenizer"];
  auto const& variant = golden()["tokenizers"][name];
  made["added_tokens"] = variant["added_tokens"];
  made["post_processor"] = variant["post_processor"];
  return mpt::tokenizer({.json = made.dump(), .config = variant["config"].dump(), .source = {}});
}

inline std::vector<std::vector<turn>> turns_of_rows(std::string const& tokenizer,
                                                    std::string const& rows) {
  auto const made = tokenizer_named(tokenizer);
  row_tokenizer tokenize(made);
  std::vector<std::vector<turn>> out;
  for (auto const& row : golden()[rows])
    out.push_back(tokenize.turns(format_row(row, "row"), "row"));
  return out;
}

inline std::vector<turn> turns_in(json const& list) {
  std::vector<turn> out;
  for (auto const& one : list)
    out.push_back(one.is_array() ? turn{one[0].get<ids>(), one[1].get<ids>()}
                                 : turn{one["input_ids"].get<ids>(), one["labels"].get<ids>()});
  return out;
}

/// The reference's labels, which stand at the id they are, as ours, which stand one before.
inline ids shifted(ids labels) {
  std::shift_left(labels.begin(), labels.end(), 1);
  labels.back() = no_label;
  return labels;
}

/// Compares a batch with the reference's tensors.
inline void check_batch(rows const& made, json const& expected) {
  auto const& wanted = expected["input_ids"];
  REQUIRE(made.count == wanted.size());
  REQUIRE(made.length == wanted[0].size());
  for (std::size_t row = 0; row < made.count; ++row) {
    auto const begin = static_cast<std::ptrdiff_t>(row * made.length);
    auto const end = begin + static_cast<std::ptrdiff_t>(made.length);
    auto const part = [&](ids const& all) { return ids(all.begin() + begin, all.begin() + end); };
    CHECK(part(made.ids) == wanted[row].get<ids>());
    CHECK(part(made.labels) == shifted(expected["labels"][row].get<ids>()));
    // their sequence_id counts examples and is -1 for padding; attention_mask is 0 there
    ids const theirs = expected["sequence_id"][row].get<ids>();
    ids const mask = expected["attention_mask"][row].get<ids>();
    ids begins(made.length);
    for (std::size_t i = 0; i < made.length; ++i) {
      CHECK((theirs[i] >= 0) == (mask[i] == 1));
      begins[i] =
          i > 0 && theirs[i] == theirs[i - 1] ? begins[i - 1] : static_cast<std::int32_t>(i);
    }
    CHECK(part(made.document_begins) == begins);
  }
}

inline std::vector<std::uint32_t> lengths_of(std::vector<example> const& examples) {
  std::vector<std::uint32_t> out;
  for (auto const& one : examples) out.push_back(static_cast<std::uint32_t>(one.ids.size()));
  return out;
}

}  // namespace finetuning_golden_test

TEST_CASE("prompts, completions and chats have LLM Foundry's ids") {
  using namespace finetuning_golden_test;
  for (auto const& given : golden()["tokenized"]) {
    CAPTURE(given["tokenizer"]);
    auto const made = turns_of_rows(given["tokenizer"], given["rows"]);
    REQUIRE(made.size() == given["turns"].size());
    for (std::size_t i = 0; i < made.size(); ++i) CHECK(made[i] == turns_in(given["turns"][i]));
  }
}

TEST_CASE("ids and labels of every row that is kept are LLM Foundry's, and the same are kept") {
  using namespace finetuning_golden_test;
  for (auto const& given : golden()["examples"]) {
    CAPTURE(given["tokenizer"]);
    CAPTURE(given["target_prompts"]);
    auto const all = turns_of_rows(given["tokenizer"], given["rows"]);
    auto const policy = read_target_policy(given["target_prompts"].get<std::string>(),
                                           given["target_responses"].get<std::string>());
    auto const end = tokenizer_named(given["tokenizer"]).eos_id();
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto const made = stitch_turns(all[i], policy, given["max_seq_len"].get<std::size_t>(), end);
      bool const kept = next < given["examples"].size() && given["examples"][next][0] == i;
      CHECK(made.has_value() == kept);
      if (!made || !kept) continue;
      CHECK(made->ids == given["examples"][next][1].get<ids>());
      CHECK(made->labels == shifted(given["examples"][next][2].get<ids>()));
      ++next;
    }
    CHECK(next == given["examples"].size());
    CHECK(next > 0);
  }
}

TEST_CASE("padded batches are LLM Foundry's, trimmed or not, padded on either side") {
  using namespace finetuning_golden_test;
  auto const all = turns_of_rows("chat", "chats");
  auto const tokenizer = tokenizer_named("chat");
  std::int32_t const pad = golden()["tokenizers"]["chat"]["pad_id"];
  CHECK(tokenizer.id_of_role("pad_token") == pad);
  for (auto const& given : golden()["batches"]) {
    CAPTURE(given.dump().substr(0, 60));
    std::size_t const most = given["max_seq_len"];
    std::vector<example> examples;
    for (auto const& turns : all)
      if (auto one =
              stitch_turns(turns, read_target_policy("none", "all"), most, tokenizer.eos_id()))
        examples.push_back(std::move(*one));
    REQUIRE(examples.size() == given["kept"].get<std::size_t>());
    batch_order order(lengths_of(examples), {.rows = 2, .row_tokens = most});
    auto trimming = row_trimming::none;
    if (given.contains("allow_pad_trimming")) trimming = row_trimming::to_multiple;
    if (given.contains("pad_to_longest")) trimming = row_trimming::to_longest;
    for (std::size_t batch = 0; batch < 2; ++batch) {
      auto const bins = order.at(batch);
      check_batch(
          make_rows(examples, bins,
                    {.length = row_length(bins, most, trimming, batch),
                     .pad_id = pad,
                     .side = given["side"] == "left" ? padding_side::left : padding_side::right}),
          given["batches"][batch]);
    }
  }
}

TEST_CASE("packed batches are LLM Foundry's, with what is left over between them") {
  using namespace finetuning_golden_test;
  for (auto const& given : golden()["packed"]) {
    std::size_t const most = given["max_seq_len"];
    std::vector<example> examples;
    for (auto const& row : given["turns"])
      examples.push_back(
          stitch_turns(turns_in(row["turns"]), read_target_policy("none", "last"), most, 0)
              .value());
    std::size_t const drawn = given["drawn"];
    std::size_t const count = given["rows"];
    batch_order_options options{
        .rows = count,
        .row_tokens = most,
        .packing_ratio = static_cast<double>(drawn) / static_cast<double>(count),
        .drop_last = false};
    if (!given["leftover"].is_null()) options.leftover_bins = given["leftover"].get<std::size_t>();
    batch_order order(lengths_of(examples), options);
    REQUIRE(order.drawn() == drawn);
    auto const& batches = given["batches"];
    REQUIRE(order.batches_per_epoch() == batches.size());
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
      CAPTURE(batch);
      check_batch(
          make_rows(examples, order.at(batch),
                    {.length = most,
                     .pad_id = 0,
                     .side = given["side"] == "left" ? padding_side::left : padding_side::right}),
          batches[batch]);
    }
    CHECK(order.packer().leftover().size() == given["left"].get<std::size_t>());
    CHECK(*order.packer().waste() == doctest::Approx(given["waste"].get<double>()));
    CHECK(*order.packer().efficiency() == doctest::Approx(given["efficiency"].get<double>()));
  }
}

TEST_CASE("packing_ratio auto is LLM Foundry's") {
  using namespace finetuning_golden_test;
  for (auto const& given : golden()["auto"]) {
    auto const lengths = given["lengths"].get<std::vector<std::uint32_t>>();
    CHECK(auto_packing_ratio(lengths, given["rows"], given["max_seq_len"]) ==
          given["ratio"].get<double>());
  }
}

TEST_CASE("preprocessors of public sets make what LLM Foundry's do, by the set's name or theirs") {
  using namespace finetuning_golden_test;
  for (auto const& given : golden()["preprocessed"])
    for (std::string const key : {"set", "function"}) {
      auto const make = named_preprocessor(given[key].get<std::string>());
      for (std::size_t i = 0; i < given["rows"].size(); ++i)
        CHECK(make(given["rows"][i], "row") == given["made"][i]);
    }
}

TEST_CASE("an epoch's order is that of PyTorch's DistributedSampler on one rank") {
  using namespace finetuning_golden_test;
  for (auto const& given : golden()["orders"]) {
    std::size_t const size = given["size"];
    batch_order order(std::vector<std::uint32_t>(size, 1),
                      {.rows = size, .shuffle = true, .seed = given["seed"]});
    std::vector<std::size_t> made;
    for (auto const& row : order.at(given["epoch"])) made.push_back(row.examples.at(0));
    CHECK(made == given["order"].get<std::vector<std::size_t>>());
  }
}

TEST_CASE("whole public sets give LLM Foundry's ids, labels and packed batches of two epochs") {
  using namespace finetuning_golden_test;
  auto const data = test::data_folder();
  if (data.empty()) {
    MESSAGE("skipped: no ../shared/data");
    return;
  }
  auto const tokenizer = mpt::tokenizer::load(data / "tokenizers/gpt-neox-20b");
  auto const append = [](std::string& out, std::span<std::int32_t const> values) {
    out.append(reinterpret_cast<char const*>(values.data()), values.size_bytes());
  };
  auto const digest = [](std::string const& bytes) { return mpt::data::hash_of("sha256", bytes); };
  for (auto const& given : golden()["real"]) {
    CAPTURE(given["file"]);
    std::size_t const most = given["max_seq_len"];
    finetuning_source source;
    source.files = {data / "instruct" / given["file"].get<std::string>()};
    source.max_seq_len = most;
    if (auto const& mapping = given["mapping"]; !mapping.is_null())
      source.preprocess = column_mapping(mapping["prompt"], mapping["response"]);
    read_report report;
    auto const examples = read_examples(source, tokenizer, &report);
    CHECK(report.rows == given["rows"].get<std::uint64_t>());
    CHECK(report.rows - report.dropped == given["kept"].get<std::uint64_t>());
    REQUIRE(examples.size() == given["kept"].get<std::size_t>());
    std::string all_ids;
    std::string all_labels;
    for (auto const& one : examples) {
      append(all_ids, one.ids);
      append(all_labels, one.labels);
    }
    CHECK(digest(all_ids) == given["ids"]);
    CHECK(digest(all_labels) == given["labels"]);

    auto const lengths = lengths_of(examples);
    std::size_t const count = given["rows_a_batch"];
    std::uint64_t const seed = given["seed"];
    double const ratio = auto_packing_ratio_of_shuffled(lengths, seed, count, most);
    CHECK(ratio == given["ratio"].get<double>());
    batch_order order(
        lengths,
        {.rows = count, .row_tokens = most, .packing_ratio = ratio, .shuffle = true, .seed = seed});
    REQUIRE(2 * order.batches_per_epoch() == given["batches"].get<std::size_t>());
    all_ids.clear();
    all_labels.clear();
    std::string sequence_ids;
    for (std::size_t batch = 0; batch < 2 * order.batches_per_epoch(); ++batch) {
      auto const bins = order.at(batch);
      auto const made = make_rows(examples, bins, {.length = most, .pad_id = 0});
      append(all_ids, made.ids);
      append(all_labels, made.labels);
      ids numbers(made.ids.size(), -1);
      for (std::size_t row = 0; row < bins.size(); ++row) {
        auto at = row * most;
        for (std::size_t k = 0; k < bins[row].examples.size(); ++k)
          for (std::size_t i = 0; i < lengths[bins[row].examples[k]]; ++i)
            numbers[at++] = static_cast<std::int32_t>(k);
      }
      append(sequence_ids, numbers);
    }
    CHECK(digest(all_ids) == given["packed_ids"]);
    CHECK(digest(all_labels) == given["packed_labels"]);
    CHECK(digest(sequence_ids) == given["packed_sequence_id"]);
  }
}
