// convert: converts a checkpoint, also one of Composer, to a Hugging Face folder, or such a folder
// to a checkpoint, or either to a GGUF file for llama.cpp; writes a LoRA run's adapters in PEFT's
// form or merges them.
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/console/format.hpp>
#include <mpt/console/say.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/is_model.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <inputs/hub_names.hpp>
#include <launch/launcher.hpp>

namespace {

struct arguments {
  std::filesystem::path from, to;
  mpt::convert_options options;
  bool replace = false;
  bool merge = false;
  bool gguf = false;
  bool shards_named = false;  // --max_shard_bytes is given
  apps::results_file json;
};

/// The files that a conversion has written, and notes about them for the user.
struct conversion {
  std::filesystem::path to;
  std::string form;         // "checkpoint", "Hugging Face folder", "adapter", "GGUF file"
  std::string description;  // in parentheses after the names
  std::vector<std::string> notes = {};
};

/// Prints a conversion, and writes it as JSON.
void report(arguments const& args, mpt::model_source const& source, conversion const& done,
            std::string const& dtype) {
  nlohmann::ordered_json results{{"from", source.path().native()},
                                 {"to", done.to.native()},
                                 {"form", done.form},
                                 {"parameters", parameter_count(source.config())},
                                 {"dtype", dtype}};
  if (source.config().lora) results["adapter_rank"] = source.config().lora->rank;
  results["notes"] = done.notes;
  args.json.write(results);
  if (args.json.is_printed_alone()) return;
  fmt::print("{} → {} {}\n", source.path().string(), done.to.string(), done.description);
  for (auto const& note : done.notes) fmt::print("note: {}\n", note);
}

/// Writes the adapters alone, in PEFT's form.
[[nodiscard]] conversion convert_adapter(mpt::model_source const& source,
                                         std::filesystem::path const& to,
                                         mpt::convert_options const& options) {
  export_adapter(source, to, options);
  auto const& lora = *source.config().lora;
  conversion out{to, "adapter",
                 fmt::format("(an adapter of rank {}{})", lora.rank,
                             lora.rank_pattern.empty() ? "" : ", and others for some layers")};
  if (options.base.empty() && source.base().base.name.empty())
    out.notes.emplace_back("the model that it adapts is not known; name its folder with --base");
  return out;
}

/// Writes a GGUF file.
[[nodiscard]] conversion convert_to_gguf(mpt::model_source const& source, arguments const& args,
                                         mpt::convert_options const& options,
                                         std::string const& description) {
  parallel::require(!args.shards_named, args.from.string(),
                    ": becomes one GGUF file; leave --max_shard_bytes out");
  parallel::require(
      args.merge || !source.config().lora, args.from.string(),
      ": has adapters in addition to its weights, and a GGUF file of the model has none; add "
      "--merge");
  return {args.to, "GGUF file", description, export_gguf(source, args.to, options)};
}

/// Writes a Hugging Face folder.
[[nodiscard]] conversion convert_to_folder(mpt::model_source const& source, arguments const& args,
                                           mpt::convert_options const& options,
                                           std::string const& description) {
  bool const keeps_tokenizer = options.tokenizer.empty() && source.tokenizer().empty() &&
                               !tokenizer_of_export(source, args.to, options).empty();
  export_hugging_face(source, args.to, options);
  conversion out{args.to, "Hugging Face folder", description};
  bool const has_own_class = mpt::find_family(source.config().family) != nullptr;
  if (auto const gaps = transformers_gaps(source.config()); !gaps.empty() && !has_own_class)
    out.notes.push_back(
        fmt::format("transformers' own MPT does not have this form ({}); the folder's code does: "
                    "load it with trust_remote_code=True",
                    fmt::join(gaps, "; ")));
  if (auto const unserved = mpt::vllm_gaps(source.config()); !unserved.empty())
    out.notes.push_back(
        fmt::format("vLLM does not serve this model as it is: {}", fmt::join(unserved, "; ")));
  if (keeps_tokenizer)
    out.notes.emplace_back(
        "the tokenizer of the folder that was replaced goes with it; name another with "
        "--tokenizer");
  if (!std::filesystem::exists(args.to / "tokenizer.json"))
    out.notes.emplace_back("no tokenizer was found to go with it; name one with --tokenizer");
  return out;
}

void convert(arguments const& args) {
  parallel::require(!args.to.empty(), "to: expected the name of a folder");
  bool const is_adapter_of_base = !args.options.base.empty() && mpt::is_adapter_folder(args.from);
  auto const source = is_adapter_of_base
                          ? mpt::model_source(apps::local_model(args.options.base), args.from)
                          : mpt::model_source(args.from);
  for (auto const& note : source.notes()) mpt::console::say("note: {}\n", note);
  auto options = args.options;
  if (args.replace) options.existing = parallel::checkpoint::if_exists::replace;
  auto const parameters =
      mpt::console::count(static_cast<double>(parameter_count(source.config())));
  bool const is_checkpoint =
      std::filesystem::exists(source.path() / parallel::checkpoint::manifest_name);
  parallel::require(!args.merge || source.config().lora, args.from.string(),
                    ": has no adapters to merge; leave --merge out");
  parallel::require(args.options.base.empty() || source.config().lora, args.from.string(),
                    ": has no adapters; leave --base out");
  auto const dtype = options.dtype.empty() ? source.dtype() : options.dtype;
  auto const description = fmt::format("({} parameters, {})", parameters, dtype);
  parallel::require(args.gguf || args.to.extension() != ".gguf", args.to.string(),
                    ": has the name of a GGUF file; add --gguf, or choose the name of a folder");
  if (args.gguf)
    return report(args, source, convert_to_gguf(source, args, options, description), dtype);
  bool const adapter_alone = is_checkpoint && source.config().lora && !args.merge;
  bool const exports = is_checkpoint || args.merge || mpt::hf::is_torch_file(source.path());
  parallel::require(!args.shards_named || (exports && !adapter_alone), args.from.string(),
                    ": becomes ", adapter_alone ? "an adapter" : "a checkpoint",
                    ", whose files are not divided by size; leave --max_shard_bytes out");
  parallel::require(args.options.tokenizer.empty() || !adapter_alone, args.from.string(),
                    ": becomes an adapter, with which no tokenizer goes; leave --tokenizer out");
  if (adapter_alone) return report(args, source, convert_adapter(source, args.to, options), dtype);
  if (exports)
    return report(args, source, convert_to_folder(source, args, options, description), dtype);
  auto const written = import_hugging_face(source, args.to, options);
  report(args, source,
         {written, "checkpoint",
          fmt::format("({} parameters); begin from it with load_path={} load_weights_only=true",
                      parameters, args.to.string())},
         dtype);
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
  app.add_option("--max_shard_bytes", args.options.max_shard_bytes,
                 "the most bytes of one .safetensors file")
      ->capture_default_str()
      ->check(apps::whole_number(1));
  app.add_flag("--gguf", args.gguf,
               "write a GGUF file, which llama.cpp runs, of a model in any of these forms");
  app.add_flag("--merge", args.merge,
               "of a LoRA run, or PEFT's adapter: the whole model with adapters merged into it; "
               "else a run's adapters alone, in PEFT's form");
  app.add_option("--base", args.options.base,
                 "of an adapter: the folder of the model that it adapts; default: as the "
                 "run says");
  app.add_flag("--replace", args.replace, "replace what is there");
  args.json.add_to(app, "what was written");
  return apps::run(app, argc, argv, apps::is_primary_here(), [&] {
    apps::require_one_process();
    args.json.check({args.from});
    args.from = apps::local_model(args.from);
    if (args.options.base.empty()) apps::fetch_adapted_model(args.from);
    args.options.tokenizer = apps::local_tokenizer(args.options.tokenizer);
    args.shards_named = app.count("--max_shard_bytes") > 0;
    convert(args);
  });
}
