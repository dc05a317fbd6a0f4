#include <mpt/eval/eval_config.hpp>

#include <cstddef>

#include <mpt/config/data/read_icl_tasks.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/config/model/read_model.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/config/run/read_parallelism.hpp>
#include <mpt/config/run/read_system.hpp>
#include <mpt/yaml/document.hpp>

namespace mpt::eval {
namespace {

[[nodiscard]] evaluated_model read_evaluated(config_reader& reader) {
  evaluated_model out;
  auto model = reader.section("model");
  auto const kind = model.one_of("name", "mpt_causal_lm", {"mpt_causal_lm", "hf_causal_lm"});
  out.path = reader.get<std::string>("load_path", "");
  if (kind == "mpt_causal_lm") {
    out.stated = read_model(model);
    model.finish();
    reader.check("load_path", !out.path.empty(),
                 "missing; the weights of an mpt_causal_lm come from a checkpoint or Hugging Face "
                 "folder");
  } else {
    auto const folder = model.required<std::string>("pretrained_model_name_or_path");
    if (out.path.empty()) out.path = folder;
    for (std::string_view const key : {"init_device", "use_auth_token", "trust_remote_code",
                                       "attn_implementation", "use_flash_attention_2"})
      model.accept_without_effect(key, "the folder's own model is computed by one program");
    if (config_node const* const changes = model.raw("config_overrides")) {
      model.check("config_overrides", detail::changes_no_result(*changes),
                  "the folder's own model is scored; leave it out, or change config.json");
      model.report_without_effect("config_overrides",
                                  "the folder's own model is computed by one program");
    }
    model.refuse_unsupported("pretrained", "use true", {"true"});
    out.adapter = model.get<std::string>("pretrained_lora_id_or_path", "");
    model.check("pretrained_lora_id_or_path", out.adapter.empty() || is_adapter_folder(out.adapter),
                "'", printable(out.adapter.string()), "' is no folder with ", adapter_config_name,
                "; give PEFT's adapter on this machine");
    model.refuse_unsupported("load_in_8bit", "leave it out", {"false"});
    model.refuse_unsupported("peft_config",
                             "new adapters change nothing; leave it out, or give those that "
                             "were trained by pretrained_lora_id_or_path");
    model.finish();
  }
  auto const key = reader.has_key("load_path") ? "load_path" : "model";
  reader.check(key, std::filesystem::is_directory(out.path), "there is no folder '",
               printable(out.path.string()),
               "'; give a checkpoint or Hugging Face folder on this machine");
  out.name = reader.get("model_name", model_name(out.path, out.adapter));
  if (reader.has_key("tokenizer"))
    out.tokenizer = mpt::detail::read_tokenizer(reader.section("tokenizer")).name;
  else
    static_cast<void>(reader.raw("tokenizer"));
  return out;
}

}  // namespace

std::string model_name(std::filesystem::path const& model, std::filesystem::path const& adapter) {
  return adapter.empty() ? model.string() : model.string() + " + " + adapter.string();
}

eval_config read_eval_config(config_node const& document, std::filesystem::path const& file) {
  eval_config out;
  config_reader reader(document, "", out.report);
  reader.check("train_loader", !reader.has_key("train_loader"),
               "belongs to a training configuration, which pretrain and finetune run; evaluate the "
               "model it made: evaluate MODEL --data SET, or --icl_tasks TASKS.yaml");
  reader.check(
      "icl_tasks",
      !reader.has_key("icl_tasks") || reader.has_key("model") || reader.has_key("models"),
      "there is no model to run the tasks on; name one on the command line (evaluate MODEL "
      "--icl_tasks ",
      file.filename().string(), ") or add model or models to the file");
  out.max_seq_len = reader.required<std::int64_t>("max_seq_len");
  reader.check("max_seq_len", out.max_seq_len >= 2 && out.max_seq_len <= largest_seq_len,
               "must be from 2 to ", largest_seq_len, ", found ", out.max_seq_len);
  out.batch_size = reader.required<std::int64_t>("device_eval_batch_size");
  reader.check("device_eval_batch_size", out.batch_size > 0, "must be above 0, found ",
               out.batch_size);
  auto const precision = reader.one_of("precision", "amp_bf16", {"fp32", "amp_bf16", "amp_fp16"});
  if (precision != "amp_bf16") out.precision = precision_kind::fp32;
  if (precision == "amp_fp16")
    out.report.notes.emplace_back("precision amp_fp16: computed in fp32, which is more exact");
  if (reader.has_key("model")) {
    reader.check("models", !reader.has_key("models"), "give model or models, not both");
    static_cast<void>(reader.raw("models"));  // may be there, but blank
    out.models.push_back(read_evaluated(reader));
  } else {
    reader.check("models", reader.has_key("models"), "missing; it is required");
    detail::for_each_item(reader, "models", [&](config_reader item) {
      out.models.push_back(read_evaluated(item));
      item.finish();
    });
  }
  out.tasks = read_icl_tasks(
      reader, {.file = file, .batch_size = out.batch_size, .max_seq_len = out.max_seq_len});
  reader.check("icl_tasks", !out.tasks.empty(),
               "missing; give a list of tasks or the name of a file with one");
  out.gauntlet = read_eval_gauntlet(reader, file);
  out.subset_batches = reader.optional<std::int64_t>("icl_subset_num_batches");
  reader.check("icl_subset_num_batches",
               !out.subset_batches || *out.subset_batches == -1 || *out.subset_batches > 0,
               "expected -1 for all or a number above 0, found ", out.subset_batches.value_or(0));
  for (std::string_view const key : {"eval_loader", "eval_loaders"})
    reader.refuse_unsupported(key, "evaluate MODEL --data SET gives cross entropy and perplexity");
  reader.accept_without_effect("eval_subset_num_batches", "belongs to eval_loader");
  reader.accept_without_effect(
      "fsdp_config", "each rank holds the whole model, or with parallelism.tensor a slice");
  for (std::string_view const key : {"seed", "run_name", "metadata", "python_log_level",
                                     "log_config", "console_log_interval", "code_paths"})
    reader.accept_without_effect(key, "nothing here depends on it");
  for (std::string_view const key : {"loggers", "callbacks"})
    reader.refuse_unsupported(key, "--json, --markdown and --rows write results");
  reader.report_unreferenced("variables");
  out.dist_timeout = reader.get("dist_timeout", out.dist_timeout);
  out.ranks = mpt::detail::read_ranks(reader, "ranks");
  out.threads = mpt::detail::read_ranks(reader, "threads");
  out.tensor = mpt::detail::read_tensor_degree(reader.section("tp_config"));
  auto layout = reader.section("parallelism");
  out.tensor =
      mpt::detail::check_degree(layout, "tensor", layout.get<std::int64_t>("tensor", out.tensor));
  layout.finish();
  out.device = reader.one_of("device", out.device, {"auto", "cpu", "cuda"});
  reader.finish();
  return out;
}

eval_config load_eval_config(std::filesystem::path const& file,
                             std::span<std::string const> overrides,
                             document_change const& change) {
  std::vector<std::string> settings(overrides.begin(), overrides.end());
  for (auto& text : settings)
    if (text.starts_with("model_name_or_path=")) text = "variables." + text;
  auto document = load_document(file, settings);
  if (change) change(document);
  return read_eval_config(document, file);
}

void check_stated(model_config const& stated, model_config const& found, std::string_view origin) {
  if (auto const difference = difference_of(stated, found))
    parallel::fail(origin, ": the configuration says ", difference->name, " ", difference->first,
                   ", but the model has ", difference->second);
}

}  // namespace mpt::eval

namespace mpt::eval::detail {

bool changes_no_result(config_node const& changes) {
  auto const all_keys = [](config_node const& map, auto const& harmless) {
    bool is_harmless_map = map.is_map();
    for (std::size_t i = 0; is_harmless_map && i < map.keys.size(); ++i)
      is_harmless_map = harmless(map.keys[i].name, map.items[i]);
    return is_harmless_map;
  };
  return all_keys(changes, [&](std::string const& key, config_node const& value) {
    if (key != "attn_config") return key == "max_seq_len" || key == "init_device";
    return all_keys(value, [](std::string const& name, config_node const&) {
      return name == "attn_impl" || name == "attn_pdrop";
    });
  });
}

}  // namespace mpt::eval::detail
