// Tests of LLM Foundry's finetuning recipes, read from their YAMLs with local paths, and of the
// requirements of finetuning on the rest of a configuration.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/core/file.hpp>
#include <parallel/support/files.hpp>
#include <support/data.hpp>
#include <support/golden/golden.hpp>

namespace read_finetuning_run_test {

using overrides = std::vector<std::string>;

/// A folder with a small model in place of mosaicml/mpt-7b.
struct model_folder {
  model_folder() {
    mpt::model_config model;
    model.d_model = 32;
    model.n_heads = 4;
    model.n_layers = 2;
    model = mpt::hub_form(model);
    parallel::replace_text_file(folder / "config.json", mpt::to_hf_json(model, "bfloat16").dump());
  }
  test::temporary_folder folder;
};

constexpr char const* small_yaml = R"(
max_seq_len: 32
model: {name: mpt_causal_lm, d_model: 32, n_heads: 4, n_layers: 2, max_seq_len: 32, vocab_size: 96}
tokenizer: {name: t}
train_loader: {name: finetuning, dataset: {hf_name: d.jsonl}}
optimizer: {name: decoupled_adamw, lr: 1.0e-3}
scheduler: {name: linear_decay_with_warmup, t_warmup: 0ba}
max_duration: 2ep
global_train_batch_size: 8
)";

mpt::train_config read(overrides const& changes = {}) {
  return mpt::read_train_config(mpt::make_document(small_yaml, "f.yaml", changes));
}

TEST_CASE("finetuning run: LLM Foundry's recipes are read with local mirrors of hub names") {
  auto const data = test::data_folder();
  if (data.empty()) return;
  model_folder const hub_copy;
  auto const load = [&](char const* name, overrides const& changes) {
    return mpt::load_train_config(data / "mpt" / "yamls" / "finetune" / name, changes);
  };
  auto const folder = hub_copy.folder.path().string();

  auto const dolly = load("mpt-7b_dolly_sft.yaml", {"mirrors.mosaicml/mpt-7b=" + folder,
                                                    "mirrors.mosaicml/dolly_hhrlhf=/d"});
  CHECK(dolly.checkpoint.pretrained == folder);
  CHECK(dolly.data.tokenizer.name == folder);
  CHECK(dolly.model.n_layers == 2);
  CHECK(dolly.data.train_loader.finetuning->name == "/d");
  CHECK(dolly.data.train_loader.finetuning->split == "train");
  CHECK(dolly.data.train_loader.shuffle);
  REQUIRE(dolly.data.eval_loaders.size() == 1);
  CHECK(dolly.data.eval_loaders[0].finetuning->split == "test");
  CHECK(dolly.evaluation.eval_first);
  CHECK(dolly.run.max_duration == mpt::time_value{2, mpt::time_unit::epoch});
  CHECK(!dolly.model.attn.attn_uses_sequence_id);
  CHECK(dolly.output.report.notes.size() == 1);  // about mixed_precision: PURE

  auto const instruct =
      load("mpt-30b-instruct.yaml",
           {"model.pretrained_model_name_or_path=" + folder, "mirrors.mosaicml/instruct-v3=/d"});
  CHECK(instruct.model.max_seq_len == 8192);
  CHECK(instruct.data.train_loader.finetuning->packing == mpt::packing_config{9, {}});
  CHECK(!instruct.model.attn.attn_uses_sequence_id);  // mpt-30b-instruct.yaml sets it to false
  REQUIRE(!instruct.output.report.notes.empty());
  CHECK(instruct.output.report.notes.back().starts_with(
      "model.attn_config.attn_uses_sequence_id is false: examples packed into one row attend to"));

  auto const dolly_7b =
      load("7b_dolly_sft.yaml", {"load_path=/c", "train_loader.dataset.hf_name=/d"});
  CHECK(dolly_7b.checkpoint.load_path == "/c");
  CHECK(dolly_7b.checkpoint.load_weights_only);
  CHECK(dolly_7b.data.eval_loaders.empty());

  auto const local =
      load("1b_local_data_sft.yaml",
           {"load_path=/c", "train_loader.dataset.hf_kwargs.data_dir=/d",
            "train_loader.dataset.preprocessing_fn=", "eval_loader.dataset.hf_kwargs.data_dir=/d",
            "eval_loader.dataset.preprocessing_fn="});
  CHECK(local.data.train_loader.finetuning->name == "json");
  CHECK(local.data.train_loader.finetuning->data_dir == "/d");
  CHECK(local.data.eval_loaders.at(0).finetuning->split == "validation");

  CHECK(test::message_of(
            [&] { static_cast<void>(load("gpt2-arc-easy-cpu-streaming-dataset.yaml", {})); }) ==
        "gpt2-arc-easy-cpu-streaming-dataset.yaml:18:34: "
        "model.pretrained_model_name_or_path: 'gpt2' is no folder on this machine; names of "
        "the hub are ORG/NAME; else get a copy of it and give its path by "
        "model.pretrained_model_name_or_path=PATH, or for every use of the name by "
        "mirrors.gpt2=PATH");
}

/// Reads a run on a Llama of 290 tokens and 16 positions in `folder`, which gets its files.
mpt::train_config read_llama_run(test::temporary_folder const& folder,
                                 mpt::tokenizer const& tokenizer, overrides const& changes) {
  parallel::replace_text_file(
      folder / "config.json",
      R"({"model_type": "llama", "vocab_size": 290, "hidden_size": 32, "num_hidden_layers": 1,
          "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 16})");
  tokenizer.save(folder.path());
  std::string yaml = small_yaml;
  auto const begin = yaml.find("model:"), end = yaml.find("train_loader:");
  yaml.replace(begin, end - begin,
               "model: {name: hf_causal_lm, pretrained_model_name_or_path: FOLDER}\n"
               "tokenizer: {name: FOLDER}\n");
  auto const text = mpt::fill_in(yaml, "FOLDER", folder.path().string());
  return mpt::read_train_config(mpt::make_document(text, "f.yaml", changes));
}

TEST_CASE("finetuning run: a sequence beyond a family's names the family's own field") {
  test::temporary_folder const folder;
  auto const tokenizer = tokenizer_test::small_tokenizer();
  CHECK(test::contains(
      test::message_of([&] { static_cast<void>(read_llama_run(folder, tokenizer, {})); }),
      "is longer than the model's 16, beyond which nothing reads it; raise "
      "model.config_overrides.max_position_embeddings"));
  CHECK(read_llama_run(folder, tokenizer, {"model.config_overrides.max_position_embeddings=32"})
            .model.max_seq_len == 32);
}

TEST_CASE("finetuning run: allow_embedding_resizing grows the vocabulary to the tokenizer's") {
  test::temporary_folder const folder;
  auto const tokenizer = tokenizer_test::changed_tokenizer([](nlohmann::json& file) {
    file["added_tokens"].push_back(tokenizer_test::added(290, "[PAD]", false));
  });
  overrides changes{"max_seq_len=16"};
  CHECK(read_llama_run(folder, tokenizer, changes).model.vocab_size == 290);
  changes.emplace_back("model.allow_embedding_resizing=true");
  auto const config = read_llama_run(folder, tokenizer, changes);
  CHECK(config.model.vocab_size == 291);
  CHECK(config.output.report.notes ==
        std::vector<std::string>{
            "model.allow_embedding_resizing: the vocabulary grows from 290 to 291 tokens, those of "
            "the tokenizer; each new row begins as the mean of the others"});
  changes.emplace_back("model.peft_config={peft_type: LORA, r: 2}");
  CHECK(test::contains(
      test::message_of([&] { static_cast<void>(read_llama_run(folder, tokenizer, changes)); }),
      "model.allow_embedding_resizing: adapters leave embeddings as they are"));
}

TEST_CASE(
    "finetuning run: packed examples attend only to themselves unless the YAML says otherwise") {
  CHECK(!read().model.attn.attn_uses_sequence_id);
  auto const packed = read({"train_loader.dataset.packing_ratio=3"});
  CHECK(packed.model.attn.attn_uses_sequence_id);
  CHECK(packed.output.report.notes.empty());
  auto const without_sequence_id = read(
      {"train_loader.dataset.packing_ratio=auto", "model.attn_config.attn_uses_sequence_id=false"});
  CHECK(!without_sequence_id.model.attn.attn_uses_sequence_id);
  CHECK(without_sequence_id.output.report.notes.size() == 1);
  CHECK(read({"model.attn_config.attn_uses_sequence_id=true"}).model.attn.attn_uses_sequence_id);
}

TEST_CASE("finetuning run: a packed evaluation set does not change training on texts") {
  overrides const packed{"eval_loader.name=finetuning", "eval_loader.dataset.hf_name=e.jsonl",
                         "eval_loader.dataset.packing_ratio=2"};
  CHECK(read(packed).model.attn.attn_uses_sequence_id);  // the training rows hold one example each
  auto text_overrides = packed;
  text_overrides.insert(text_overrides.end(),
                        {"train_loader.name=text", "train_loader.dataset.local=d",
                         "train_loader.dataset.eos_token_id=0"});
  auto const text = [&](overrides const& changes = {}) {
    auto all_overrides = text_overrides;
    all_overrides.insert(all_overrides.end(), changes.begin(), changes.end());
    std::string yaml = small_yaml;
    yaml.replace(yaml.find("hf_name: d.jsonl"), 16, "split: train");
    return mpt::read_train_config(mpt::make_document(yaml, "f.yaml", all_overrides));
  };
  CHECK(test::contains(test::message_of([&] { (void)text(); }),
                       "eval_loader: packs examples (packing_ratio), which must not attend to each "
                       "other, but the texts of "));
  CHECK(text({"model.attn_config.attn_uses_sequence_id=true"}).model.attn.attn_uses_sequence_id);
  CHECK(!text({"model.attn_config.attn_uses_sequence_id=false"}).model.attn.attn_uses_sequence_id);
}

TEST_CASE("finetuning run: adaptive clipping is refused for new adapters, which begin at zero") {
  std::string const adaptive =
      "algorithms.gradient_clipping={clipping_type: adaptive, clipping_threshold: 0.01}";
  CHECK(test::contains(
      test::message_of([&] {
        (void)read({"model.peft_config={r: 4}", adaptive});
      }),
      "algorithms.gradient_clipping.clipping_type: 'adaptive' compares a gradient with its "
      "parameter, and new adapters (model.peft_config) begin at zero, so nothing would be trained; "
      "choose norm"));
  CHECK(read({adaptive}).optimizer.clip.threshold == 0.01);
  auto const folder = (test::golden_folder() / "lora" / "stable").string();
  CHECK(read({"model.pretrained_lora_id_or_path=" + folder, "load_path=base", adaptive})
            .optimizer.clip.threshold == 0.01);
}

TEST_CASE("finetuning run: adapters come from peft_config or from a PEFT folder") {
  auto const created = read({"model.peft_config={r: 4, target_modules: [up_proj]}"});
  CHECK(created.model.lora == mpt::lora_config{.rank = 4, .targets = {"up_proj"}});
  CHECK(created.checkpoint.adapter.empty());
  CHECK(!read().model.lora);
  CHECK(!read({"model.peft_config={}"}).model.lora);
  auto const folder = (test::golden_folder() / "lora" / "stable").string();
  auto const loaded = read({"model.pretrained_lora_id_or_path=" + folder, "load_path=base"});
  CHECK(loaded.checkpoint.adapter == folder);
  CHECK(loaded.model.lora.value().rank == 3);
  CHECK(read({"model.pretrained_lora_id_or_path=a/b", "mirrors.a/b=" + folder, "load_path=base"})
            .checkpoint.adapter == folder);
  auto const refused = [](overrides const& changes) {
    return test::message_of([&] { static_cast<void>(read(changes)); });
  };
  CHECK(refused({"model.peft_config={r: 4}", "model.pretrained_lora_id_or_path=" + folder}) ==
        "command line: model.pretrained_lora_id_or_path: give peft_config for a new "
        "adapter, or the path of an existing adapter, not both");
  CHECK(test::contains(
      refused({"model.pretrained_lora_id_or_path=nowhere"}),
      "'nowhere' is no folder with adapter_config.json; names of the hub are ORG/NAME"));
  CHECK(test::contains(refused({"model.should_save_peft_only=false"}), "not yet supported"));
}

TEST_CASE("finetuning run: times in tokens are refused") {
  CHECK(test::message_of([] { static_cast<void>(read({"max_duration=1000tok"})); }) ==
        "command line: max_duration: rows of finetuning data have different numbers of tokens; "
        "give it in ep, ba or sp");
  CHECK(test::message_of([] { static_cast<void>(read({"scheduler.t_warmup=10tok"})); }) ==
        "f.yaml:7:12: scheduler: rows of finetuning data have different numbers of tokens; give "
        "its times in ep, ba, sp or dur");
  auto const refused = [](std::string const& override) {
    return test::message_of([&] { static_cast<void>(read({override})); });
  };
  CHECK(test::contains(refused("callbacks.generate_callback={prompts: [a], interval: 9tok}"),
                       "callbacks.generate_callback: rows of finetuning data"));
  CHECK(test::contains(refused("callbacks.hf_checkpointer={save_folder: x, save_interval: 9tok}"),
                       "callbacks.hf_checkpointer: rows of finetuning data"));
}

}  // namespace read_finetuning_run_test
