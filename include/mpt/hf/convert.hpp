// Conversion to and from Hugging Face folders, a piece of a tensor at a time: a model larger than
// memory converts. Both directions write under a temporary name and rename at the end.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/model/model.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/checkpoint/save.hpp>

namespace mpt {

struct convert_options {
  std::string dtype;      // "float32" or "bfloat16"; empty: as the source says
  std::string tokenizer;  // folder or tokenizer.json; empty: what the source names, if it is there
  std::uint64_t max_shard_bytes = std::uint64_t{5} << 30;
  parallel::checkpoint::if_exists existing = parallel::checkpoint::if_exists::refuse;
};

namespace detail {

/// Name and extents of every parameter of a model, in the order of the layers.
[[nodiscard]] inline std::vector<hf::named_shape> shapes_of(model_config const& config) {
  std::vector<hf::named_shape> out;
  model<float> net(config);
  net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    layer.visit_parameters([&](parameter_base<float>& p) { out.push_back({p.name, p.extents}); });
  });
  return out;
}

}  // namespace detail

/// Writes a Hugging Face folder: config.json, generation_config.json, the tensors, and the
/// tokenizer's files when it is known.
inline void export_hugging_face(model_source const& source, std::filesystem::path const& out,
                                convert_options const& options) {
  auto const dtype = options.dtype.empty() ? source.dtype() : options.dtype;
  hf::export_options how{.type = dtype == "bfloat16" ? hf::precision::bf16 : hf::precision::fp32,
                         .config = to_hf_json(source.config(), dtype),
                         .generation_config = nlohmann::json{{"_from_model_config", true}},
                         .max_shard_bytes = options.max_shard_bytes,
                         .existing = options.existing};
  auto const where = options.tokenizer.empty() ? source.tokenizer() : options.tokenizer;
  if (!where.empty()) {
    auto const tokens = tokenizer::load(where);
    how.extra_files["tokenizer.json"] = tokens.files().json;
    if (!tokens.files().config.empty())
      how.extra_files["tokenizer_config.json"] = tokens.files().config;
    if (auto const end = tokens.eos_id())
      for (char const* const role : {"eos_token_id", "bos_token_id"}) {
        how.config[role] = *end;
        (*how.generation_config)[role] = *end;
      }
  }
  auto const shapes = detail::shapes_of(source.config());
  for (auto const& [name, extents] : shapes)
    require(source.shape_of(name) == extents, source.path().string(), ": ", name,
            " has another shape than its configuration says");
  hf::hf_export(
      out, shapes,
      [&](std::string const& name, index begin, std::span<float> elements) {
        source.read(name, begin, elements);
      },
      how);
}

/// Writes a checkpoint of a Hugging Face folder's weights, to begin a run from (load_path with
/// load_weights_only). `root` will hold it as ep0-ba0.
inline std::filesystem::path import_hugging_face(model_source const& source,
                                                 std::filesystem::path const& root,
                                                 convert_options const& options) {
  namespace ckpt = parallel::checkpoint;
  ckpt::save_target const target{.root = root, .id = {}, .token = 1};
  require(options.existing == ckpt::if_exists::replace || !std::filesystem::exists(target.folder()),
          target.folder().string(),
          ": is there already; choose another folder or replace it (--replace)");
  ckpt::prepare_save(target);
  ckpt::rank_writer writer(target, 0);
  constexpr index chunk = index{1} << 22;  // elements moved at once
  std::vector<float> elements;
  for (auto const& [name, extents] : detail::shapes_of(source.config())) {
    require(source.shape_of(name) == extents, source.path().string(), ": ", name,
            " has another shape than its configuration says");
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
  return target.folder();
}

}  // namespace mpt
