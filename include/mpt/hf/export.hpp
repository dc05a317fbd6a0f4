// Writing a Hugging Face folder: config.json, model.safetensors (or shards and their index), the
// tokenizer's files.
//
// Tensors come from a callback, a chunk at a time, so that the model never stands in memory a
// second time: memory is one chunk, whatever the model's size. The folder appears whole or not at
// all.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/checkpoint/atomic_folder.hpp>
#include <parallel/checkpoint/safetensors_writer.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace mpt::hf {

/// A tensor of a model: its name in the folder ("transformer.wte.weight") and its shape.
struct named_shape {
  std::string name;
  std::vector<parallel::index> extents;
};

/// Fills `out` with elements [begin, begin + out.size()) of the tensor `name`, row-major.
using tensor_source =
    std::function<void(std::string const& name, parallel::index begin, std::span<float> out)>;

/// The element type of all tensors in the folder.
enum class precision { fp32, bf16 };

struct export_options {
  precision type = precision::bf16;
  nlohmann::json config = {};  // config.json; "torch_dtype" is set here
  std::optional<nlohmann::json> generation_config = std::nullopt;
  std::filesystem::path tokenizer = {};  // a folder of tokenizer files or a tokenizer.json, or none
  std::map<std::string, std::string> extra_files = {};  // name -> content; override the tokenizer's
  std::uint64_t max_shard_bytes = 5'000'000'000;        // of tensors in one file
  parallel::checkpoint::if_exists existing = parallel::checkpoint::if_exists::refuse;
  parallel::step_hook on_step = {};
};

/// The files of a tokenizer that are copied when they are there.
inline constexpr std::array<std::string_view, 8> tokenizer_files = {"tokenizer.json",
                                                                    "tokenizer_config.json",
                                                                    "special_tokens_map.json",
                                                                    "added_tokens.json",
                                                                    "vocab.json",
                                                                    "merges.txt",
                                                                    "chat_template.jinja",
                                                                    "tokenizer.model"};

namespace detail {

namespace pc = parallel::checkpoint;

/// Tensors [begin, end) of the list go into one file.
struct shard {
  std::size_t begin;
  std::size_t end;
  std::string file;
};

[[nodiscard]] inline std::uint64_t bytes_of(named_shape const& tensor, std::size_t width) {
  auto const where = parallel::concat("export of \"", tensor.name, "\"");
  return static_cast<std::uint64_t>(pc::checked_volume(tensor.extents, width, where)) * width;
}

/// Cuts the list into files of at most `max_bytes`, or of one tensor that is larger by itself.
[[nodiscard]] inline std::vector<shard> plan_shards(std::span<named_shape const> tensors,
                                                    std::size_t width, std::uint64_t max_bytes) {
  std::vector<shard> out;
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto const bytes = bytes_of(tensors[i], width);
    if (out.empty() || (filled != 0 && bytes > max_bytes - std::min(filled, max_bytes))) {
      out.push_back({i, i, {}});
      filled = 0;
    }
    out.back().end = i + 1;
    filled += bytes;
  }
  auto const five = [](std::size_t number) {
    auto digits = std::to_string(number);
    return digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
  };
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].file = out.size() == 1 ? "model.safetensors"
                                  : parallel::concat("model-", five(i + 1), "-of-",
                                                     five(out.size()), ".safetensors");
  return out;
}

inline void write_shard(std::filesystem::path const& path, std::span<named_shape const> tensors,
                        tensor_source const& source, export_options const& options) {
  constexpr parallel::index chunk = parallel::index{1} << 20;
  bool const narrow = options.type == precision::bf16;
  auto const type = narrow ? pc::element_type::bf16 : pc::element_type::f32;
  std::vector<pc::tensor_declaration> declarations;
  for (auto const& [name, extents] : tensors) declarations.push_back({name, type, extents});
  // transformers refuses files that do not say which framework's layout they have
  pc::safetensors_writer writer(path, declarations,
                                {.metadata = {{"format", "pt"}}, .on_step = options.on_step});
  std::vector<float> values;
  std::vector<parallel::bf16> narrowed;
  for (auto const& [name, extents] : tensors) {
    auto const size = pc::checked_volume(extents, sizeof(float), name);
    for (parallel::index begin = 0; begin < size; begin += chunk) {
      values.resize(static_cast<std::size_t>(std::min(chunk, size - begin)));
      source(name, begin, values);
      if (narrow) {
        narrowed.resize(values.size());
        std::transform(values.begin(), values.end(), narrowed.begin(),
                       [](float value) { return parallel::bf16(value); });
        writer.append(name, std::as_bytes(std::span(narrowed)));
      } else {
        writer.append(name, std::as_bytes(std::span(values)));
      }
    }
  }
  writer.finish();
}

/// The small files: configuration, tokenizer, extras; name -> content.
[[nodiscard]] inline std::map<std::string, std::string> small_files(export_options const& options) {
  constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30;
  namespace fs = std::filesystem;
  auto out = options.extra_files;
  auto config = options.config;
  config["torch_dtype"] = options.type == precision::bf16 ? "bfloat16" : "float32";
  out["config.json"] = config.dump(2) + "\n";
  if (options.generation_config)
    out["generation_config.json"] = options.generation_config->dump(2) + "\n";
  std::error_code ignored;
  if (fs::is_directory(options.tokenizer, ignored)) {
    for (auto const name : tokenizer_files)
      if (fs::exists(options.tokenizer / name, ignored))
        out.try_emplace(std::string(name),
                        parallel::read_text_file(options.tokenizer / name, max_bytes));
    parallel::require(out.contains("tokenizer.json") || out.contains("vocab.json"),
                      options.tokenizer.native(), ": this folder has no tokenizer.json");
  } else if (!options.tokenizer.empty()) {
    out.try_emplace("tokenizer.json", parallel::read_text_file(options.tokenizer, max_bytes));
  }
  for (auto const& [name, content] : out)
    parallel::require(parallel::is_plain_name(name), "export: \"", name,
                      "\" is not a plain file name");
  return out;
}

/// Whether `folder` holds nothing but what an export writes, so that replacing it loses no more.
[[nodiscard]] inline bool is_export_folder(std::filesystem::path const& folder) {
  std::error_code problem;
  auto const entries = std::filesystem::directory_iterator(folder, problem);
  if (problem) return false;
  bool empty = true;
  bool files_only = true;
  for (auto const& entry : entries) {
    empty = false;
    files_only = files_only && entry.is_regular_file(problem) && !entry.is_symlink(problem);
  }
  return empty || (files_only && parallel::files::exists(folder / "config.json"));
}

}  // namespace detail

/// Writes `tensors` with values from `source` as a Hugging Face model folder that appears under its
/// name when it is complete. Throws when the folder exists: unless it is empty, or is an earlier
/// export and `options.existing` is `replace`.
inline void hf_export(std::filesystem::path const& folder, std::span<named_shape const> tensors,
                      tensor_source const& source, export_options const& options) {
  namespace pc = parallel::checkpoint;
  parallel::require(!folder.empty(), "export: no folder given");
  auto target = std::filesystem::absolute(folder).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "out/"
  parallel::require(target.has_filename(), folder.native(), ": cannot be exported to");
  std::error_code ignored;
  bool const empty =
      std::filesystem::is_directory(target, ignored) && std::filesystem::is_empty(target, ignored);
  if (parallel::files::exists(target) && !empty) {
    parallel::require(options.existing == pc::if_exists::replace, folder.native(),
                      ": exists already; choose another folder, or allow it to be replaced");
    parallel::require(detail::is_export_folder(target), folder.native(),
                      ": is not a folder that an export wrote; it is not replaced");
  }
  parallel::require(!tensors.empty(), folder.native(), ": no tensors to export");
  parallel::require(options.config.is_object(), folder.native(), ": config must be a JSON object");
  parallel::require(options.max_shard_bytes > 0, folder.native(),
                    ": max_shard_bytes must be positive");
  auto const small = detail::small_files(options);

  parallel::files::make_folders(target.parent_path());
  auto const own_name = target.filename().native();
  pc::remove_leftovers(target.parent_path(),
                       [&](std::string_view name) { return name == own_name; });
  auto const temporary = pc::temporary_name(target, 0);
  parallel::files::make_folder(temporary);
  try {
    auto const width = options.type == precision::bf16 ? 2U : 4U;
    auto const shards = detail::plan_shards(tensors, width, options.max_shard_bytes);
    nlohmann::ordered_json index;
    std::uint64_t total = 0;
    for (auto const& tensor : tensors) total += detail::bytes_of(tensor, width);
    index["metadata"]["total_size"] = total;
    for (auto const& [begin, end, file] : shards) {
      auto const part = tensors.subspan(begin, end - begin);
      detail::write_shard(temporary / file, part, source, options);
      for (auto const& tensor : part) index["weight_map"][tensor.name] = file;
    }
    parallel::require(index["weight_map"].size() == tensors.size(), folder.native(),
                      ": two tensors have the same name");
    if (shards.size() > 1)
      parallel::write_text_file(temporary / "model.safetensors.index.json", index.dump(2) + "\n",
                                options.on_step);
    for (auto const& [name, content] : small)
      parallel::write_text_file(temporary / name, content, options.on_step);
    pc::publish_folder(temporary, target, empty ? pc::if_exists::replace : options.existing,
                       options.on_step);
  } catch (...) {
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace mpt::hf
