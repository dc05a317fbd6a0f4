// Tests of the `dataset` of a finetuning loader: its settings and its errors.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/data/loader.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>

#include "mpt/config/refused_settings.hpp"

namespace finetuning_test {

mpt::loader_config read(std::string const& dataset) {
  auto const document =
      mpt::make_document("name: finetuning\ndataset: {" + dataset + "}", "f.yaml");
  mpt::config_report report;
  return mpt::read_loader({document, "train_loader", report}, {.max_seq_len = 64});
}

TEST_CASE("finetuning data: a named set has LLM Foundry's defaults") {
  auto const loader = read("hf_name: data.jsonl");
  REQUIRE(loader.finetuning);
  CHECK(loader.streams.empty());
  CHECK(*loader.finetuning == mpt::finetuning_config{.name = "data.jsonl", .set = "data.jsonl"});
  CHECK(loader.finetuning->target_prompts == "none");
  CHECK(loader.finetuning->target_responses == "last");
  CHECK(loader.shuffle_seed == 0);  // of PyTorch's sampler
  CHECK(loader.max_seq_len == 64);
}

TEST_CASE("finetuning data: files, columns, targets and packing are read") {
  auto const loader = read(
      "hf_name: json, split: train, hf_kwargs: {name: c, data_dir: d, data_files: [a, b]}, "
      "preprocessing_fn: {prompt: question, response: answer}, target_prompts: all, "
      "target_responses: all, packing_ratio: 2.5, max_leftover_bins_to_keep: 3, shuffle: true, "
      "decoder_only_format: true, allow_pad_trimming: false, safe_load: true");
  auto const& f = *loader.finetuning;
  CHECK(f.name == "json");
  CHECK(f.subset == "c");
  CHECK(f.data_dir == "d");
  CHECK(f.data_files.at("") == std::vector<std::string>{"a", "b"});
  CHECK(f.split == "train");
  CHECK(f.columns == mpt::prompt_columns{"question", "answer"});
  CHECK(f.target_prompts == "all");
  CHECK(f.target_responses == "all");
  CHECK(f.packing == mpt::packing_config{2.5, 3});
  CHECK(loader.shuffle);
  CHECK(read("hf_name: json, hf_kwargs: {data_files: a}").finetuning->data_files.at("") ==
        std::vector<std::string>{"a"});
  CHECK(read("hf_name: json, hf_kwargs: {data_files: {train: a, test: [b]}}")
            .finetuning->data_files.at("test") == std::vector<std::string>{"b"});
  CHECK(read("hf_name: a, preprocessing_fn: tatsu-lab/alpaca").finetuning->preprocessing ==
        "tatsu-lab/alpaca");
  CHECK(read("hf_name: a, packing_ratio: auto").finetuning->packing == mpt::packing_config{});
  CHECK(!read("hf_name: a, packing_ratio: 1").finetuning->packing);
  CHECK(test::contains(
      test::message_of([] { (void)read("hf_name: a, max_leftover_bins_to_keep: 3"); }),
      "max_leftover_bins_to_keep: has no effect without packing_ratio"));
  using enum mpt::finetune::row_trimming;
  auto const trimming = [](char const* keys) {
    return read(std::string("hf_name: a, ") + keys).finetuning->trimming;
  };
  CHECK(trimming("pad_to_longest: false") == none);
  CHECK(trimming("allow_pad_trimming: true") == to_multiple);
  CHECK(trimming("pad_to_longest: true, allow_pad_trimming: true") == to_longest);
  CHECK(trimming("allow_pad_trimming: true, packing_ratio: 2") == none);
  auto const set = read("local: mds, split: train");
  CHECK(set.streams.size() == 1);
  CHECK(set.finetuning->name.empty());
}

TEST_CASE("finetuning data: each invalid setting gives one message") {
  for (auto const& example : test::refused_settings("train_loader.dataset of finetuning"))
    CHECK(test::message_of([&] { static_cast<void>(read(example.text)); }) == example.expected);
}

}  // namespace finetuning_test
