// convert: converts a checkpoint, also one of Composer, to a Hugging Face folder, or such a folder
// to a checkpoint, or either to a GGUF file for llama.cpp; writes a LoRA run's adapters in PEFT's
// form or merges them.
#include <filesystem>
#include <string>

#include <mpt/config/hf.hpp>
#include <mpt/console/format.hpp>
#include <mpt/console/say.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/export_gguf.hpp>
#include <mpt/hf/is_model.hpp>

#include "support/app.hpp"
#include "support/hub_names.hpp"
#include "support/launcher.hpp"

namespace {

struct arguments {
  std::filesystem::path from, to;
  mpt::convert_options options;
  bool replace = false;
  bool merge = false;
  bool gguf = false;
  bool shards_named = false;  // --max_shard_bytes is given
};

/// Writes the adapters alone, in PEFT's form.
void convert_adapter(mpt::model_source const& source, std::filesystem::path const& to,
                     mpt::convert_options const& options) {
  export_adapter(source, to, options);
  auto const& lora = *source.config().lora;
  fmt::print("{} → {} (an adapter of rank {}{})\n", source.path().string(), to.string(), lora.rank,
             lora.rank_pattern.empty() ? "" : ", and others for some layers");
  if (options.base.empty() && source.base().empty())
    fmt::print("note: which model it stands beside is not known; name its folder with --base\n");
}

/// Writes a GGUF file.
void convert_to_gguf(mpt::model_source const& source, arguments const& args,
                     mpt::convert_options const& options, std::string const& parameters) {
  parallel::require(!args.shards_named, args.from.string(),
                    ": becomes one GGUF file; leave --max_shard_bytes out");
  parallel::require(args.merge || !source.config().lora, args.from.string(),
                    ": has adapters beside its weights, and a GGUF file of the model has none; add "
                    "--merge");
  auto const notes = export_gguf(source, args.to, options);
  fmt::print("{} → {} ({} parameters, {})\n", source.path().string(), args.to.string(), parameters,
             options.dtype.empty() ? source.dtype() : options.dtype);
  for (auto const& note : notes) fmt::print("note: {}\n", note);
}

void convert(arguments const& args) {
  parallel::require(!args.to.empty(), "to: expected the name of a folder");
  bool const is_adapter_of_base = !args.options.base.empty() && mpt::is_adapter_folder(args.from);
  auto const source = is_adapter_of_base
                          ? mpt::model_source(apps::local_model(args.options.base), args.from)
                          : mpt::model_source(args.from);
  if (!source.note().empty()) mpt::console::say("note: {}\n", source.note());
  auto options = args.options;
  if (args.replace) options.existing = parallel::checkpoint::if_exists::replace;
  auto const parameters =
      mpt::console::count(static_cast<double>(parameter_count(source.config())));
  bool const is_checkpoint =
      std::filesystem::exists(source.path() / parallel::checkpoint::manifest_name);
  parallel::require(!args.merge || source.config().lora, args.from.string(),
                    ": has no adapters to merge; leave --merge out");
  parallel::require(args.options.base.empty() || source.config().lora, args.from.string(),
                    ": has no adapters that stand beside a model; leave --base out");
  if (args.gguf) return convert_to_gguf(source, args, options, parameters);
  bool const adapter_alone = is_checkpoint && source.config().lora && !args.merge;
  bool const exports = is_checkpoint || args.merge || mpt::hf::is_torch_file(source.path());
  parallel::require(!args.shards_named || (exports && !adapter_alone), args.from.string(),
                    ": becomes ", adapter_alone ? "an adapter" : "a checkpoint",
                    ", whose files are not divided by size; leave --max_shard_bytes out");
  parallel::require(args.options.tokenizer.empty() || !adapter_alone, args.from.string(),
                    ": becomes an adapter, with which no tokenizer goes; leave --tokenizer out");
  if (adapter_alone) return convert_adapter(source, args.to, options);
  if (exports) {
    bool const keeps_tokenizer = options.tokenizer.empty() && source.tokenizer().empty() &&
                                 !tokenizer_of_export(source, args.to, options).empty();
    export_hugging_face(source, args.to, options);
    auto const gaps = transformers_gaps(source.config());
    fmt::print("{} → {} ({} parameters, {})\n", source.path().string(), args.to.string(),
               parameters, options.dtype.empty() ? source.dtype() : options.dtype);
    if (!gaps.empty())
      fmt::print(
          "note: transformers' own MPT does not have this form ({}); the folder's code does: load "
          "it with trust_remote_code=True\n",
          fmt::join(gaps, "; "));
    if (auto const unserved = mpt::vllm_gaps(source.config()); !unserved.empty())
      fmt::print("note: vLLM does not serve this model as it is: {}\n", fmt::join(unserved, "; "));
    if (keeps_tokenizer)
      fmt::print(
          "note: the tokenizer of the folder that was replaced goes with it; name another with "
          "--tokenizer\n");
    if (!std::filesystem::exists(args.to / "tokenizer.json"))
      fmt::print("note: no tokenizer was found to go with it; name one with --tokenizer\n");
    return;
  }
  auto const written = import_hugging_face(source, args.to, options);
  fmt::print("{} → {} ({} parameters); begin from it with load_path={} load_weights_only=true\n",
             source.path().string(), written.string(), parameters, args.to.string());
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Convert a checkpoint to a Hugging Face folder, or the other way"};
  apps::add_examples(app, {"convert ckpt my-model --dtype bfloat16",
                           "convert tuned my-adapter              # of a LoRA run, in PEFT's form",
                           "convert tuned my-model --merge", "convert /models/mpt-7b ckpt"});
  app.add_option("from", args.from,
                 "checkpoint, save folder, Composer checkpoint (.pt), Hugging Face folder, or "
                 "PEFT's adapter; or the name of one on the hub, ORG/NAME")
      ->required()
      ->check(apps::existing_path_or_name());
  app.add_option("to", args.to, "Hugging Face folder, folder of checkpoints, or GGUF file")
      ->required();
  app.add_option("--tokenizer", args.options.tokenizer,
                 "tokenizer folder to go with it; default: what the source names");
  app.add_option("--dtype", args.options.dtype, "float32, bfloat16 or float16; default: as trained")
      ->transform(apps::number_type({"float32", "bfloat16", "float16"}));
  app.add_option("--max_shard_bytes", args.options.max_shard_bytes, "of one .safetensors file")
      ->capture_default_str()
      ->check(apps::whole_number(1));
  app.add_flag("--gguf", args.gguf,
               "write a GGUF file, which llama.cpp runs, of a model in any of these forms");
  app.add_flag("--merge", args.merge,
               "of a LoRA run, or PEFT's adapter: the whole model with adapters merged into it; "
               "else a run's adapters alone, in PEFT's form");
  app.add_option("--base", args.options.base,
                 "of an adapter: the folder of the model beside which it stands; default: as the "
                 "run says");
  app.add_flag("--replace", args.replace, "replace what is there");
  return apps::run(
      app, argc, argv,
      [&] {
        apps::require_one_process();
        args.from = apps::local_model(args.from);
        args.options.tokenizer = apps::local_tokenizer(args.options.tokenizer);
        args.shards_named = app.count("--max_shard_bytes") > 0;
        convert(args);
      },
      apps::is_primary_here());
}
