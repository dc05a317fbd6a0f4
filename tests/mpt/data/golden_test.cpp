// End to end against LLM Foundry: a set that its convert_dataset_json.py wrote from the same text.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <mpt/data/mds/mds_reader.hpp>
#include <mpt/data/prepare.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <string>
#include <string_view>
#include <support/data.hpp>
#include <vector>

TEST_CASE("prepare: the golden text gives exactly LLM Foundry's 173 samples and shard") {
  auto const data = test::data_folder();
  if (data.empty()) return;
  auto const golden = data / "mds/golden-arxiv-neox20b-2048";
  auto const tokenizer = std::make_shared<mpt::tokenizer const>(
      mpt::tokenizer::load(data / "tokenizers/gpt-neox-20b"));
  data_test::scratch_folder const folder;
  mpt::data::prepare_options options;
  options.inputs = {golden / "input-arxiv.jsonl"};
  options.out_root = folder / "out";
  options.tokenizer = "gpt-neox-20b";
  options.concat = {.sample_ids = 2048, .eos = {tokenizer->id_of("<|endoftext|>").value()}};
  options.compression = "zstd";
  options.workers = 2;
  auto const result = mpt::data::prepare(options, [&] {
    auto const cache = std::make_shared<mpt::word_cache>();
    return [tokenizer, cache](std::string_view text, std::vector<std::int32_t>& out) {
      tokenizer->encode(text, out, *cache);
    };
  });
  CHECK(result.total.documents == 20);
  CHECK(result.total.samples == 173);
  CHECK(result.total.tokens == 173 * 2048 + 394);

  mpt::data::mds_reader const expected(golden);
  mpt::data::mds_reader const found(folder / "out");
  REQUIRE(found.size() == 173);
  for (std::uint64_t i = 0; i < 173; ++i) {
    auto const a = expected.sample(i);
    auto const b = found.sample(i);
    CHECK(a.bytes("tokens") == b.bytes("tokens"));
  }
  CHECK(found.shards()[0].raw.bytes == expected.shards()[0].raw.bytes);
  // The compressed bytes may depend on the version of libzstd; the rest of the index does not.
  auto index = data_test::get_file(golden / "index.json");
  auto const from = "\"bytes\": " + std::to_string(expected.shards()[0].zip->bytes);
  index.replace(index.find(from), from.size(),
                "\"bytes\": " + std::to_string(found.shards()[0].zip->bytes));
  CHECK(data_test::get_file(folder / "out/index.json") == index);
}
