#include <mpt/hf/convert.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <system_error>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/token_ids.hpp>
#include <mpt/hf/generation_defaults.hpp>
#include <mpt/hf/gguf_model.hpp>
#include <mpt/hf/is_model.hpp>
#include <mpt/hf/merge.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/hf/remote_code.hpp>
#include <parallel/checkpoint/claims/folder_claim.hpp>
#include <parallel/checkpoint/claims/save_lock.hpp>
#include <parallel/checkpoint/save.hpp>

namespace mpt {
namespace {

/// Writes and publishes the checkpoint `target` with all tensors of `source`.
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
  auto const tokenizer_path = options.tokenizer.empty() ? source.tokenizer() : options.tokenizer;
  nlohmann::json const state{
      {"batches", 0},
      {"epoch", 0},
      {"batch_in_epoch", 0},
      {"tokens", 0},
      {"model", to_hf_json(source.config(), dtype)},
      {"tokenizer", tokenizer_path.empty() ? std::string()
                                           : std::filesystem::absolute(tokenizer_path).string()}};
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

nlohmann::json config_json_of(model_config const& config, std::string const& dtype) {
  auto const* const family = find_family(config.family);
  return family != nullptr ? to_family_json(*family, config, dtype) : to_hf_json(config, dtype);
}

hf::stored_tensors stored_tensors_of(model_config const& config,
                                     std::span<hf::named_shape const> parameters) {
  hf::stored_tensors out;
  if (auto const* const family = find_family(config.family)) {
    out.layout.emplace(*family, config, parameters);
    out.shapes.assign(out.layout->tensors().begin(), out.layout->tensors().end());
  } else {
    out.shapes.assign(parameters.begin(), parameters.end());
  }
  return out;
}

void add_remote_code(hf::export_options& options, model_config const& config) {
  if (find_family(config.family) != nullptr || transformers_gaps(config).empty()) return;
  options.config["auto_map"] = {
      {"AutoConfig", "configuration_parallel_mpt.ParallelMptConfig"},
      {"AutoModelForCausalLM", "modeling_parallel_mpt.ParallelMptForCausalLM"}};
  options.extra_files["configuration_parallel_mpt.py"] = hf::remote_configuration;
  options.extra_files["modeling_parallel_mpt.py"] = hf::remote_modeling;
}

tokenizer load_fitting_tokenizer(std::string const& name, model_config const& model) {
  auto loaded = tokenizer::load(name);
  require(loaded.size() <= model.vocab_size, loaded.files().name(), ": has ids up to ",
          loaded.size() - 1, ", but those of the model end at ", model.vocab_size - 1,
          "; name the tokenizer that the model was trained with, or train with a vocab_size of at "
          "least ",
          loaded.size(), " (hf_causal_lm: allow_embedding_resizing)");
  return loaded;
}

std::vector<std::int64_t> trained_end_tokens(std::vector<std::int64_t> named,
                                             std::optional<std::int64_t> tokenizer_end,
                                             std::int64_t vocabulary) {
  std::erase_if(named, [&](std::int64_t id) { return id < 0 || id >= vocabulary; });
  if (tokenizer_end && std::ranges::find(named, *tokenizer_end) == named.end())
    named.insert(named.begin(), *tokenizer_end);
  return named;
}

namespace {

/// The end tokens of the config.json from which a family's model was read.
[[nodiscard]] std::vector<std::int64_t> stored_ends(model_config const& config) {
  if (config.stored.text.empty()) return {};
  return read_token_ids(nlohmann::json::parse(config.stored.text), "eos_token_id", "config.json");
}

}  // namespace

exported_ends exported_ends_of(model_config const& config, std::vector<std::int64_t> named,
                               std::string const& tokenizer,
                               std::optional<std::int64_t> tokenizer_end, bool is_trained) {
  if (named.empty() && !tokenizer.empty())
    named = read_generation_ends(tokenizer).value_or(std::vector<std::int64_t>());
  if (named.empty()) named = stored_ends(config);
  if (!is_trained && !named.empty()) tokenizer_end.reset();
  return {trained_end_tokens(std::move(named), tokenizer_end, config.vocab_size), tokenizer_end};
}

namespace {

/// Tokens as config.json and generation_config.json have them: a number, a list, or null for none.
[[nodiscard]] nlohmann::json json_of(std::vector<std::int64_t> const& tokens) {
  if (tokens.empty()) return nullptr;
  return tokens.size() == 1 ? nlohmann::json(tokens.front()) : nlohmann::json(tokens);
}

/// Names the tokens that begin and end a text in both files. A config.json of the model's authors
/// keeps its own form as long as it names the tokenizer's tokens.
void set_text_ends(hf::export_options& options, model_config const& config,
                   exported_ends const& exported, std::optional<std::int64_t> begin) {
  auto const& [ends, end] = exported;
  auto const in_config = stored_ends(config);
  if (!ends.empty()) (*options.generation_config)["eos_token_id"] = json_of(ends);
  if (config.stored.text.empty()) {
    if (!ends.empty()) options.config["eos_token_id"] = json_of(ends);
  } else if (end && std::ranges::find(in_config, *end) == in_config.end()) {
    options.config["eos_token_id"] =
        in_config.size() > 1 ? json_of(trained_end_tokens(in_config, end, config.vocab_size))
                             : nlohmann::json(*end);
  }
  if (!begin) return;
  options.config["bos_token_id"] = *begin;
  (*options.generation_config)["bos_token_id"] = *begin;
}

}  // namespace

hf::export_options export_options_of(model_config const& config, std::string const& dtype,
                                     std::string const& tokenizer,
                                     std::vector<std::int64_t> end_tokens, bool is_trained) {
  hf::export_options options{.type = precision_named(dtype),
                             .config = config_json_of(config, dtype),
                             .generation_config = nlohmann::json{{"_from_model_config", true}}};
  add_remote_code(options, config);
  if (auto const json = tokenizer.empty() ? std::nullopt : read_generation_json(tokenizer)) {
    options.generation_config = *json;  // the authors' recommendations
    options.generation_config->erase("transformers_version");
  }
  if (find_family(config.family) != nullptr && config.stored.text.empty())
    for (char const* const key : {"bos_token_id", "eos_token_id"})
      options.config[key] = nullptr;  // else transformers takes ids of the class's own
  std::optional<std::int64_t> begin;
  std::optional<std::int64_t> end;
  if (!tokenizer.empty()) {
    auto const loaded_tokenizer = load_fitting_tokenizer(tokenizer, config);
    auto const& files = loaded_tokenizer.files();
    if (files.source.filename() == "tokenizer.json")  // with the tokenizer's other files
      options.tokenizer = std::filesystem::absolute(files.source).parent_path();
    options.extra_files["tokenizer.json"] = files.json;
    if (!files.config.empty()) options.extra_files["tokenizer_config.json"] = files.config;
    begin = loaded_tokenizer.id_of_role("bos_token");
    end = loaded_tokenizer.eos_id();
  }
  set_text_ends(options, config,
                exported_ends_of(config, std::move(end_tokens), tokenizer, end, is_trained), begin);
  return options;
}

std::string tokenizer_of_export(model_source const& source, std::filesystem::path const& out,
                                convert_options const& options) {
  if (!options.tokenizer.empty()) return options.tokenizer;
  if (!source.tokenizer().empty()) return source.tokenizer();
  std::error_code unreadable;  // an unreadable file counts as absent
  bool const replaces_export = options.existing == parallel::checkpoint::if_exists::replace &&
                               std::filesystem::exists(out / "config.json", unreadable) &&
                               std::filesystem::exists(out / "tokenizer.json", unreadable);
  return replaces_export ? out.string() : std::string();
}

void export_hugging_face(model_source const& source, std::filesystem::path const& out,
                         convert_options const& options) {
  auto export_settings = export_options_of(
      source.config(), options.dtype.empty() ? source.dtype() : options.dtype,
      tokenizer_of_export(source, out, options),
      options.tokenizer.empty() ? source.end_tokens() : std::vector<std::int64_t>(),
      !hf::is_model(source.path()));
  export_settings.max_shard_bytes = options.max_shard_bytes;
  export_settings.existing = options.existing;
  auto const shapes = hf::shapes_of(source.config());
  source.require_tensors(shapes);
  std::optional<merged_weights> merged;
  if (source.config().lora) merged.emplace(source);
  auto const parameters = hf::without_adapters(shapes);
  auto const stored = stored_tensors_of(source.config(), parameters);
  auto const read = [&](std::string const& name, index begin, std::span<float> elements) {
    merged ? merged->read(name, begin, elements) : source.read(name, begin, elements);
  };
  hf::hf_export(
      out, stored.shapes,
      [&](std::string const& name, index begin, std::span<float> elements) {
        stored.read(name, begin, elements, read);
      },
      export_settings);
}

void export_adapter(model_source const& source, std::filesystem::path const& out,
                    convert_options const& options) {
  auto const& config = source.config();
  require(config.lora.has_value(), source.path().string(), ": has no adapters");
  auto const type = precision_named(options.dtype.empty() ? "float32" : options.dtype);
  auto base = source.base();
  if (!options.base.empty()) base.base = {.name = options.base};
  require_same_weights(base, options.base.empty() ? base.folder : options.base,
                       source.path().string());
  auto export_settings = hf::adapter_options_of(config, type, base);
  export_settings.existing = options.existing;
  auto const shapes = hf::shapes_of(config);
  source.require_tensors(shapes);
  auto const parameters = hf::adapters_of(shapes);
  auto const stored = stored_tensors_of(config, parameters);
  auto const read = [&](std::string const& name, index begin, std::span<float> elements) {
    source.read(name, begin, elements);
  };
  hf::hf_export(
      out, stored.shapes,
      [&](std::string const& name, index begin, std::span<float> elements) {
        stored.read(name, begin, elements, read);
      },
      export_settings);
}

std::filesystem::path import_hugging_face(model_source const& source,
                                          std::filesystem::path const& root,
                                          convert_options const& options) {
  namespace ckpt = parallel::checkpoint;
  ckpt::save_target target{.root = root, .id = {}};
  require(!source.config().lora, "an adapter of ", source.path().string(),
          " is not the model of a checkpoint; begin from the adapter as it is "
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

namespace {

/// Throws unless a file may be written under this name.
void require_free(std::filesystem::path const& out, convert_options const& options) {
  require(out.has_filename(), out.native(), ": expected the name of a file for --gguf");
  if (!parallel::files::exists(out)) return;
  require(!std::filesystem::is_directory(out), out.native(),
          ": is a folder; name the file that --gguf writes, such as ",
          (out / "model.gguf").native());
  require(options.existing == parallel::checkpoint::if_exists::replace, out.native(),
          ": exists already; choose another file, or replace it (--replace)");
  require(hf::is_gguf_file(out), out.native(), ": is no GGUF file; it is not replaced");
}

/// The tokenizer's fields; without a tokenizer, those that say so.
[[nodiscard]] hf::gguf_tokenizer tokenizer_fields(model_source const& source,
                                                  convert_options const& options) {
  auto const name = options.tokenizer.empty() ? source.tokenizer() : options.tokenizer;
  if (name.empty())
    return {hf::gguf_fields_without_tokenizer(),
            {"no tokenizer was found to go with it, so that the file takes and gives ids alone; "
             "name one with --tokenizer"}};
  auto const loaded = load_fitting_tokenizer(name, source.config());
  auto const ends = exported_ends_of(
      source.config(),
      options.tokenizer.empty() ? source.end_tokens() : std::vector<std::int64_t>(), name,
      loaded.eos_id(), !hf::is_model(source.path()));
  return hf::gguf_tokenizer_of(loaded, source.config().vocab_size, ends.tokens);
}

}  // namespace

std::vector<std::string> export_gguf(model_source const& source, std::filesystem::path const& out,
                                     convert_options const& options) {
  auto const& config = source.config();
  auto const target = std::filesystem::absolute(out).lexically_normal();
  require_free(target, options);
  auto const gaps = hf::gguf_gaps(config);
  require(gaps.empty(), source.path().string(),
          ": llama.cpp cannot hold this model: ", fmt::format("{}", fmt::join(gaps, "; ")));
  auto const type = precision_named(options.dtype.empty() ? source.dtype() : options.dtype);
  auto tokenizer = tokenizer_fields(source, options);
  auto fields = hf::gguf_model_fields(config, type, target.stem().string());
  fields.insert(fields.end(), tokenizer.fields.begin(), tokenizer.fields.end());
  auto const shapes = hf::shapes_of(config);
  source.require_tensors(shapes);
  auto const tensors = hf::gguf_sources(config, hf::without_adapters(shapes), type);
  std::vector<hf::gguf_tensor> declarations;
  for (auto const& tensor : tensors) declarations.push_back(tensor.tensor);

  std::optional<merged_weights> merged;
  if (config.lora) merged.emplace(source);
  auto const read = [&](std::string const& name, index begin, std::span<float> elements) {
    merged ? merged->read(name, begin, elements) : source.read(name, begin, elements);
  };
  parallel::files::make_folders(target.parent_path());
  parallel::checkpoint::save_lock const lock(
      target.parent_path() / ("." + target.filename().native() + ".lock"), target);
  hf::gguf_writer writer(target, fields, declarations);
  hf::detail::value_converter narrow(type);
  hf::detail::value_converter keep(hf::precision::fp32);
  for (auto const& tensor : tensors) {
    auto& convert = tensor.tensor.type == parallel::checkpoint::element_type::f32 ? keep : narrow;
    hf::for_each_gguf_piece(tensor, read, [&](std::span<float const> values) {
      writer.append(tensor.tensor.name, convert(tensor.tensor.name, values));
    });
  }
  writer.finish();
  auto notes = hf::gguf_notes(config);
  notes.insert(notes.end(), tokenizer.notes.begin(), tokenizer.notes.end());
  return notes;
}

}  // namespace mpt
