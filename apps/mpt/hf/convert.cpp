#include <mpt/hf/convert.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/hf/merge.hpp>
#include <mpt/hf/remote_code.hpp>
#include <mpt/hf/shapes.hpp>
#include <parallel/checkpoint/folder_claim.hpp>
#include <parallel/checkpoint/save.hpp>
#include <mpt/hf/is_model.hpp>

namespace mpt {
namespace {

/// Writes and publishes the checkpoint `target` of all tensors of `source`.
void write_checkpoint(model_source const& source, parallel::checkpoint::save_target const& target,
                      std::span<hf::named_shape const> shapes, convert_options const& options) {
  namespace ckpt = parallel::checkpoint;
  ckpt::rank_writer writer(target, 0);
  constexpr index chunk = index{1} << 22;  // elements moved at once
  std::vector<float> elements;
  for (auto const& [name, extents] : shapes) {
    index const size = ckpt::checked_volume(extents, sizeof(float), name);
    for (index begin = 0; begin < size; begin += chunk) {
      elements.resize(static_cast<std::size_t>(std::min(chunk, size - begin)));
      source.read(name, begin, std::span<float>(elements));
      writer.add(name, std::span<index const>(extents), begin, std::span<float const>(elements));
    }
  }
  auto const dtype = options.dtype.empty() ? source.dtype() : options.dtype;
  auto const where = options.tokenizer.empty() ? source.tokenizer() : options.tokenizer;
  nlohmann::json const state{
      {"batches", 0},
      {"epoch", 0},
      {"batch_in_epoch", 0},
      {"tokens", 0},
      {"model", to_hf_json(source.config(), dtype)},
      {"tokenizer", where.empty() ? std::string() : std::filesystem::absolute(where).string()}};
  ckpt::commit(target, {writer.finish()}, state.dump(), {.existing = options.existing});
}

}  // namespace

hf::precision precision_named(std::string_view dtype) {
  if (dtype == "bfloat16") return hf::precision::bf16;
  if (dtype == "float16") return hf::precision::fp16;
  require(dtype == "float32", "the type of exported weights is '", printable(dtype),
          "'; choose float32, bfloat16 or float16");
  return hf::precision::fp32;
}

void add_remote_code(hf::export_options& how, model_config const& config) {
  if (transformers_gaps(config).empty()) return;
  how.config["auto_map"] = {
      {"AutoConfig", "configuration_parallel_mpt.ParallelMptConfig"},
      {"AutoModelForCausalLM", "modeling_parallel_mpt.ParallelMptForCausalLM"}};
  how.extra_files["configuration_parallel_mpt.py"] = hf::remote_configuration;
  how.extra_files["modeling_parallel_mpt.py"] = hf::remote_modeling;
}

tokenizer load_fitting_tokenizer(std::string const& name, model_config const& model) {
  auto out = tokenizer::load(name);
  require(out.size() <= model.vocab_size, out.files().name(), ": has ids up to ", out.size() - 1,
          ", but those of the model end at ", model.vocab_size - 1,
          "; name the tokenizer that the model was trained with, or train with a vocab_size of at "
          "least ",
          out.size());
  return out;
}

hf::export_options export_options_of(model_config const& config, std::string const& dtype,
                                     std::string const& tokenizer,
                                     std::vector<std::int64_t> end_tokens) {
  hf::export_options how{.type = precision_named(dtype),
                         .config = to_hf_json(config, dtype),
                         .generation_config = nlohmann::json{{"_from_model_config", true}}};
  add_remote_code(how, config);
  auto const say = [&](char const* key, nlohmann::json const& id) {
    how.config[key] = id;
    (*how.generation_config)[key] = id;
  };
  if (!tokenizer.empty()) {
    auto const tokens = load_fitting_tokenizer(tokenizer, config);
    auto const& files = tokens.files();
    if (files.source.filename() == "tokenizer.json")  // with what else of it lies there
      how.tokenizer = std::filesystem::absolute(files.source).parent_path();
    how.extra_files["tokenizer.json"] = files.json;
    if (!files.config.empty()) how.extra_files["tokenizer_config.json"] = files.config;
    if (auto const end = tokens.eos_id(); end && end_tokens.empty()) end_tokens.push_back(*end);
    if (auto const begin = tokens.id_of_role("bos_token")) say("bos_token_id", *begin);
  }
  if (end_tokens.size() == 1) say("eos_token_id", end_tokens.front());
  if (end_tokens.size() > 1) say("eos_token_id", end_tokens);
  return how;
}

std::string tokenizer_of_export(model_source const& source, std::filesystem::path const& out,
                                convert_options const& options) {
  if (!options.tokenizer.empty()) return options.tokenizer;
  if (!source.tokenizer().empty()) return source.tokenizer();
  std::error_code unreadable;  // then it is not there
  bool const keeps = options.existing == parallel::checkpoint::if_exists::replace &&
                     std::filesystem::exists(out / "config.json", unreadable) &&
                     std::filesystem::exists(out / "tokenizer.json", unreadable);
  return keeps ? out.string() : std::string();
}

void export_hugging_face(model_source const& source, std::filesystem::path const& out,
                         convert_options const& options) {
  auto how = export_options_of(
      source.config(), options.dtype.empty() ? source.dtype() : options.dtype,
      tokenizer_of_export(source, out, options),
      options.tokenizer.empty() ? source.end_tokens() : std::vector<std::int64_t>());
  how.max_shard_bytes = options.max_shard_bytes;
  how.existing = options.existing;
  auto const shapes = hf::shapes_of(source.config());
  source.require_tensors(shapes);
  std::optional<merged_weights> merged;
  if (source.config().lora) merged.emplace(source);
  hf::hf_export(
      out, hf::without_adapters(shapes),
      [&](std::string const& name, index begin, std::span<float> elements) {
        merged ? merged->read(name, begin, elements) : source.read(name, begin, elements);
      },
      how);
}

void export_adapter(model_source const& source, std::filesystem::path const& out,
                    convert_options const& options) {
  auto const& config = source.config();
  require(config.lora.has_value(), source.path().string(), ": has no adapters");
  auto const type = precision_named(options.dtype.empty() ? "float32" : options.dtype);
  auto how = hf::adapter_options_of(*config.lora, type,
                                    options.base.empty() ? source.base() : options.base);
  how.existing = options.existing;
  auto const shapes = hf::shapes_of(config);
  source.require_tensors(shapes);
  hf::hf_export(
      out, hf::adapters_of(shapes),
      [&](std::string const& name, index begin, std::span<float> elements) {
        source.read(name, begin, elements);
      },
      how);
}

std::filesystem::path import_hugging_face(model_source const& source,
                                          std::filesystem::path const& root,
                                          convert_options const& options) {
  namespace ckpt = parallel::checkpoint;
  ckpt::save_target target{.root = root, .id = {}};
  require(!source.config().lora, "an adapter beside ", source.path().string(),
          " is no checkpoint's model; begin from the adapter as it is "
          "(model.pretrained_lora_id_or_path), or make one model of both first (--merge)");
  require(!hf::is_model(root), root.string(),
          ": holds a Hugging Face model; choose another folder for the checkpoint");
  require(options.existing == ckpt::if_exists::replace || !std::filesystem::exists(target.folder()),
          target.folder().string(),
          ": is there already; choose another folder or replace it (--replace)");
  if (!options.tokenizer.empty())
    static_cast<void>(load_fitting_tokenizer(options.tokenizer, source.config()));
  auto const shapes = hf::shapes_of(source.config());
  source.require_tensors(shapes);
  ckpt::folder_claim const claim(root);
  target.token = claim.id().token;
  target.generation = claim.id().generation;
  ckpt::prepare_save(target);
  try {
    write_checkpoint(source, target, shapes, options);
  } catch (...) {
    ckpt::abandon_save(target);
    throw;
  }
  return target.folder();
}

}  // namespace mpt
