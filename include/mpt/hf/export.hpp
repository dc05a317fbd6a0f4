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
#include <parallel/checkpoint/save_lock.hpp>
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
enum class precision { fp32, bf16, fp16 };

/// As files and config.json name it.
[[nodiscard]] constexpr parallel::checkpoint::element_type element_type_of(precision type) {
  using enum parallel::checkpoint::element_type;
  return type == precision::fp32 ? f32 : type == precision::bf16 ? bf16 : f16;
}
[[nodiscard]] constexpr std::string_view torch_name(precision type) {
  return type == precision::fp32 ? "float32" : type == precision::bf16 ? "bfloat16" : "float16";
}

/// What files of a folder are called. An adapter's are PEFT's (mpt/hf/adapter.hpp).
struct folder_form {
  std::string config_file = "config.json";
  std::string weights = "model";  // .safetensors
  std::string prefix = {};        // of every tensor's name
};

struct export_options {
  precision type = precision::bf16;
  nlohmann::json config = {};  // config.json; "torch_dtype" of a model is set here
  std::optional<nlohmann::json> generation_config = std::nullopt;
  std::filesystem::path tokenizer = {};  // a folder of tokenizer files or a tokenizer.json, or none
  std::map<std::string, std::string> extra_files = {};  // name -> content; override the tokenizer's
  std::uint64_t max_shard_bytes = 5'000'000'000;        // of tensors in one file
  parallel::checkpoint::if_exists existing = parallel::checkpoint::if_exists::refuse;
  parallel::step_hook on_step = {};
  folder_form form = {};
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
                                                    std::size_t width, std::uint64_t max_bytes,
                                                    std::string const& stem) {
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
    out[i].file = out.size() == 1 ? stem + ".safetensors"
                                  : parallel::concat(stem, "-", five(i + 1), "-of-",
                                                     five(out.size()), ".safetensors");
  return out;
}

/// Values as one of the types in files; `name` is their tensor's.
class narrower {
 public:
  explicit narrower(precision type) : type_(type) {}

  /// Valid until the next call. Throws when float16 has no such finite number.
  [[nodiscard]] std::span<std::byte const> operator()(std::string const& name,
                                                      std::span<float const> values) {
    if (type_ == precision::fp32) return std::as_bytes(values);
    narrow_.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      if (type_ == precision::bf16) {
        narrow_[i] = parallel::bf16(values[i]).bits;
      } else {
        narrow_[i] = pc::float_to_half(values[i]);
        parallel::require(!pc::overflows_half(values[i]), "tensor \"", name, "\" has the value ",
                          values[i],
                          ", which float16 cannot hold (its largest is 65504); export it as "
                          "bfloat16 or float32");
      }
    return std::as_bytes(std::span(narrow_));
  }

 private:
  precision type_;
  std::vector<std::uint16_t> narrow_;
};

inline void write_shard(std::filesystem::path const& path, std::span<named_shape const> tensors,
                        tensor_source const& source, export_options const& options) {
  constexpr parallel::index chunk = parallel::index{1} << 20;
  std::vector<pc::tensor_declaration> declarations;
  for (auto const& [name, extents] : tensors)
    declarations.push_back({options.form.prefix + name, element_type_of(options.type), extents});
  // transformers refuses files that do not say which framework's layout they have
  pc::safetensors_writer writer(path, declarations,
                                {.metadata = {{"format", "pt"}}, .on_step = options.on_step});
  std::vector<float> values;
  narrower narrow(options.type);
  for (auto const& [name, extents] : tensors) {
    auto const size = pc::checked_volume(extents, sizeof(float), name);
    for (parallel::index begin = 0; begin < size; begin += chunk) {
      values.resize(static_cast<std::size_t>(std::min(chunk, size - begin)));
      source(name, begin, values);
      writer.append(options.form.prefix + name, narrow(name, values));
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
  folder_form const model;
  if (options.form.config_file == model.config_file)
    config["torch_dtype"] = torch_name(options.type);
  out[options.form.config_file] = config.dump(2) + "\n";
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

/// Whether `folder` holds nothing but what an export of this form writes, so that replacing it
/// loses no more.
[[nodiscard]] inline bool is_export_folder(std::filesystem::path const& folder,
                                           folder_form const& form) {
  std::error_code problem;
  auto const entries = std::filesystem::directory_iterator(folder, problem);
  if (problem) return false;
  bool empty = true;
  bool files_only = true;
  for (auto const& entry : entries) {
    empty = false;
    files_only = files_only && entry.is_regular_file(problem) && !entry.is_symlink(problem);
  }
  return empty || (files_only && parallel::files::exists(folder / form.config_file));
}

}  // namespace detail

/// A folder that is written under a temporary name: begun, filled with the files of `shards`, and
/// finished. Destroyed before that, it leaves nothing behind.
class export_folder {
 public:
  /// Checks everything, and makes the temporary folder. Throws when another program is writing the
  /// folder, and when it exists: unless it is empty, or is an earlier export and `options.existing`
  /// is `replace`.
  export_folder(std::filesystem::path const& folder, std::span<named_shape const> tensors,
                export_options options)
      : target_(target_of(folder)), tensors_(tensors), options_(std::move(options)) {
    namespace pc = parallel::checkpoint;
    using parallel::require;
    require(target_.has_filename(), folder.native(), ": cannot be exported to");
    require(!tensors.empty(), folder.native(), ": no tensors to export");
    require(options_.config.is_object(), folder.native(), ": config must be a JSON object");
    require(options_.max_shard_bytes > 0, folder.native(), ": max_shard_bytes must be positive");
    small_ = detail::small_files(options_);
    shards_ = shards_of(tensors, options_);
    index_ = index_of(folder);

    parallel::files::make_folders(target_.parent_path());
    auto const own_name = target_.filename().native();
    lock_.emplace(target_.parent_path() / ("." + own_name + ".lock"), folder);
    pc::remove_leftovers(target_.parent_path(),
                         [&](std::string_view name) { return name == own_name; });
    std::error_code ignored;
    empty_ = std::filesystem::is_directory(target_, ignored) &&
             std::filesystem::is_empty(target_, ignored);
    if (parallel::files::exists(target_) && !empty_) {
      require(options_.existing == pc::if_exists::replace, folder.native(),
              ": exists already; choose another folder, or replace it (convert: --replace; "
              "hf_checkpointer: overwrite: true)");
      require(detail::is_export_folder(target_, options_.form), folder.native(),
              ": is not a folder that an export wrote; it is not replaced");
    }
    parallel::files::make_folder(temporary());
    made_ = true;
  }
  export_folder(export_folder const&) = delete;
  export_folder& operator=(export_folder const&) = delete;
  ~export_folder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(temporary(), ignored);
  }

  /// Where `folder` is, and under which name it is written: the same on every rank.
  [[nodiscard]] static std::filesystem::path target_of(std::filesystem::path const& folder) {
    parallel::require(!folder.empty(), "export: no folder given");
    auto target = std::filesystem::absolute(folder).lexically_normal();
    return target.has_filename() ? target : target.parent_path();  // "out/"
  }
  [[nodiscard]] static std::filesystem::path temporary_of(std::filesystem::path const& folder) {
    return parallel::checkpoint::temporary_name(target_of(folder), 0);
  }
  [[nodiscard]] static std::vector<detail::shard> shards_of(std::span<named_shape const> tensors,
                                                            export_options const& options) {
    return detail::plan_shards(tensors,
                               parallel::checkpoint::size_of(element_type_of(options.type)),
                               options.max_shard_bytes, options.form.weights);
  }

  [[nodiscard]] std::filesystem::path temporary() const { return temporary_of(target_); }
  [[nodiscard]] std::vector<detail::shard> const& shards() const { return shards_; }

  /// When the files of tensors are on disk: adds the others, and gives the folder its name.
  void finish() {
    namespace pc = parallel::checkpoint;
    if (shards_.size() > 1)
      parallel::write_text_file(temporary() / (options_.form.weights + ".safetensors.index.json"),
                                index_, options_.on_step);
    for (auto const& [name, content] : small_)
      parallel::write_text_file(temporary() / name, content, options_.on_step);
    pc::publish_folder(temporary(), target_, empty_ ? pc::if_exists::replace : options_.existing,
                       options_.on_step);
    made_ = false;
  }

 private:
  [[nodiscard]] std::string index_of(std::filesystem::path const& folder) const {
    nlohmann::ordered_json out;
    auto const width = parallel::checkpoint::size_of(element_type_of(options_.type));
    std::uint64_t total = 0;
    for (auto const& tensor : tensors_) total += detail::bytes_of(tensor, width);
    out["metadata"]["total_size"] = total;
    for (auto const& [begin, end, file] : shards_)
      for (auto const& tensor : tensors_.subspan(begin, end - begin))
        out["weight_map"][options_.form.prefix + tensor.name] = file;
    parallel::require(out["weight_map"].size() == tensors_.size(), folder.native(),
                      ": two tensors have the same name");
    return out.dump(2) + "\n";
  }

  std::filesystem::path target_;
  std::span<named_shape const> tensors_;
  export_options options_;
  std::optional<parallel::checkpoint::save_lock> lock_;
  std::map<std::string, std::string> small_;
  std::vector<detail::shard> shards_;
  std::string index_;
  bool empty_ = false;
  bool made_ = false;
};

/// Writes `tensors` with values from `source` as a Hugging Face model folder that appears under its
/// name when it is complete. Throws as export_folder does.
inline void hf_export(std::filesystem::path const& folder, std::span<named_shape const> tensors,
                      tensor_source const& source, export_options const& options) {
  export_folder out(folder, tensors, options);
  for (auto const& [begin, end, file] : out.shards())
    detail::write_shard(out.temporary() / file, tensors.subspan(begin, end - begin), source,
                        options);
  out.finish();
}

}  // namespace mpt::hf
