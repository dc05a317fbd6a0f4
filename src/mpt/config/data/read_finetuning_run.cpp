#include <mpt/config/data/read_finetuning_run.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/read_hf_model.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/config/model/read_model.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {
namespace {

/// Whether the YAML itself, not a folder's config.json, sets attn_uses_sequence_id.
[[nodiscard]] bool sets_sequence_id(config_node const& document) {
  config_node const* node = document.find("model");
  if (node == nullptr) return false;
  if (config_node const* const overrides = node->find("config_overrides")) node = overrides;
  node = node->find("attn_config");
  return node != nullptr && node->find("attn_uses_sequence_id") != nullptr;
}

/// Reads the adapters that are trained: new ones, or those in a PEFT folder.
void read_adapters(config_reader& reader, model_config& model, checkpoint_config& checkpoint,
                   hub_mirrors const& mirrors) {
  constexpr std::string_view key = "pretrained_lora_id_or_path";
  config_node const* const node = reader.raw("peft_config");
  auto const name = reader.get<std::string>(key, "");
  reader.refuse_unsupported(
      "should_save_peft_only",
      "an adapter's folder holds only the adapter; convert --merge writes the whole model",
      {"true"});
  if (!name.empty()) {
    reader.check(
        key, node == nullptr,
        "give peft_config for a new adapter, or the path of an existing adapter, not both");
    checkpoint.adapter = mirrored_path(mirrors, name);
    reader.check(key, is_adapter_folder(checkpoint.adapter), "'", printable(checkpoint.adapter),
                 "' is no folder with ", adapter_config_name, "; ",
                 mirror_advice(reader.full_name(key), name));
    separate_projections(model);
    model.lora = from_peft_json(read_adapter_json(checkpoint.adapter), model, checkpoint.adapter);
  } else if (node != nullptr && !(node->is_map() && node->items.empty())) {
    auto section = reader.section("peft_config");
    separate_projections(model);
    model.lora = read_lora(section, model);
  }
}

}  // namespace

}  // namespace mpt

namespace mpt::detail {

void read_trained_model(config_reader& reader, model_config& model, checkpoint_config& checkpoint,
                        hub_mirrors const& mirrors) {
  if (reader.get<std::string>("name", "mpt_causal_lm") != "hf_causal_lm") {
    model = read_model(reader);
  } else {
    auto source = read_hf_causal_lm(reader, mirrors);
    model = std::move(source.model);
    if (source.pretrained) checkpoint.pretrained = std::move(source.folder);
  }
  read_adapters(reader, model, checkpoint, mirrors);
}

void fit_vocabulary(model_config& model, std::string const& tokenizer_name,
                    std::vector<std::string>& notes) {
  std::error_code unreadable;  // then it is not there, which reading the data says
  if (!std::filesystem::exists(tokenizer_name, unreadable)) return;
  auto const needed = tokenizer::load(tokenizer_name).size();
  if (needed <= model.vocab_size) return;
  notes.push_back(parallel::concat(
      "model.allow_embedding_resizing: the vocabulary grows from ", model.vocab_size, " to ",
      needed, " tokens, those of the tokenizer; each new row begins as the mean of the others"));
  model.vocab_size = needed;
}

void adapt_to_finetuning(config_reader& reader, config_node const& document, model_config& model,
                         data_config& data, std::vector<std::string>& notes,
                         hub_mirrors const& mirrors) {
  auto const apply_mirror = [&](loader_config& loader) {
    if (loader.finetuning)
      loader.finetuning->name = mirrored_path(mirrors, loader.finetuning->name);
    return loader.finetuning && loader.finetuning->packing;
  };
  bool has_packing = apply_mirror(data.train_loader);
  bool const train_examples_are_separate = has_packing || data.train_loader.finetuning;
  for (auto& loader : data.eval_loaders) has_packing = apply_mirror(loader) || has_packing;
  if (has_packing && !sets_sequence_id(document)) {
    reader.check(
        "eval_loader", train_examples_are_separate,
        "packs examples (packing_ratio), which must not attend to each other, but the texts of "
        "train_loader do; leave packing_ratio out of eval_loader, or set "
        "model.attn_config.attn_uses_sequence_id, which then holds for both loaders");
    model.attn.attn_uses_sequence_id = true;
  }
  if (has_packing && !model.attn.attn_uses_sequence_id)
    notes.emplace_back(
        "model.attn_config.attn_uses_sequence_id is false: examples packed into one row attend to "
        "those before them, and the loss depends on the packing; set it to true, or leave it out");
}

void check_times_of_finetuning(config_reader& reader, optimizer_config const& optimizer,
                               run_config const& run, checkpoint_config const& checkpoint,
                               callbacks_config const& callbacks) {
  for (std::string_view const key : {"max_duration", "eval_interval", "save_interval"})
    reader.check(key,
                 !reader.has_key(key) || reader.required<time_value>(key).unit != time_unit::token,
                 "rows of finetuning data have different numbers of tokens; give it in ep, ba or "
                 "sp");
  auto const refuse_tokens = [&](std::string_view key, time_value const& time) {
    reader.check(key, time.unit != time_unit::token,
                 "rows of finetuning data have different numbers of tokens; give its interval in "
                 "ep, ba or sp");
  };
  if (callbacks.generate)
    refuse_tokens("callbacks.generate_callback", callbacks.generate->interval);
  if (callbacks.hf_checkpointer)
    refuse_tokens("callbacks.hf_checkpointer", callbacks.hf_checkpointer->save_interval);
  refuse_tokens("corruption_check", run.corruption_check.interval);
  refuse_tokens("local_save_interval", checkpoint.local_save_interval);
  for (auto const& time : {optimizer.scheduler.t_warmup, optimizer.scheduler.t_max})
    reader.check("scheduler", time.unit != time_unit::token,
                 "rows of finetuning data have different numbers of tokens; give its times in ep, "
                 "ba, sp or dur");
}

}  // namespace mpt::detail
