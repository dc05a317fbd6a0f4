#include <mpt/hub/choose_files.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include <mpt/data/json.hpp>
#include <parallel/core/file.hpp>

namespace mpt::hub {
namespace {

[[nodiscard]] bool is_weight_file(std::string_view name) {
  return name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".index.json");
}

/// Whether `name` is of the weights that are read: safetensors where the repository has them.
[[nodiscard]] bool is_read_weight_file(std::string_view name, bool has_safetensors) {
  if (name.starts_with("adapter_model.")) return true;
  return has_safetensors ? name.starts_with("model") && name.find(".safetensors") != name.npos
                         : name.starts_with("pytorch_model");
}

[[nodiscard]] bool is_text_file(std::string_view name) {
  constexpr std::array<std::string_view, 4> endings = {".json", ".txt", ".model", ".jinja"};
  return std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); });
}

/// Whether the file, or what a link leads to, exists.
[[nodiscard]] bool is_present(std::filesystem::path const& file) {
  std::error_code absent;
  return std::filesystem::exists(file, absent);
}

}  // namespace

listing model_files(listing const& files, weights choice) {
  bool const has_safetensors = std::ranges::any_of(files, [](listed_file const& file) {
    return file.path == "model.safetensors" || file.path == "model.safetensors.index.json";
  });
  listing out;
  for (auto const& file : files) {
    if (file.path.find('/') != std::string::npos) continue;
    bool const is_needed =
        is_weight_file(file.path)
            ? choice == weights::included && is_read_weight_file(file.path, has_safetensors)
            : is_text_file(file.path);
    if (is_needed) out.push_back(file);
  }
  return out;
}

listing tokenizer_files(listing const& files) {
  constexpr std::array<std::string_view, 9> names = {"tokenizer.json",
                                                     "tokenizer_config.json",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "merges.txt",
                                                     "tokenizer.model",
                                                     "chat_template.jinja",
                                                     "config.json"};
  listing out;
  for (auto const& file : files)
    if (std::ranges::find(names, file.path) != names.end()) out.push_back(file);
  return out;
}

std::string missing_model_file(std::filesystem::path const& folder, weights choice) {
  bool const is_adapter = is_present(folder / "adapter_config.json");
  if (!is_adapter && !is_present(folder / "config.json")) return "config.json";
  if (choice == weights::excluded) return {};
  if (is_adapter)
    return is_present(folder / "adapter_model.safetensors") ||
                   is_present(folder / "adapter_model.bin")
               ? std::string()
               : std::string("adapter_model.safetensors");
  for (std::string const name : {"model.safetensors", "pytorch_model.bin"}) {
    if (is_present(folder / name)) return {};
    auto const index = folder / (name + ".index.json");
    if (!is_present(index)) continue;
    auto const text = parallel::read_text_file(index, std::uint64_t{1} << 28);
    auto const shards =
        data::parse_json(text, index.native()).value("weight_map", nlohmann::json());
    for (auto const& [tensor, shard] : shards.items())
      if (shard.is_string() && !is_present(folder / shard.get<std::string>()))
        return shard.get<std::string>();
    return {};
  }
  return "model.safetensors";
}

std::string missing_tokenizer_file(std::filesystem::path const& folder) {
  return is_present(folder / "tokenizer.json") ? std::string() : std::string("tokenizer.json");
}

}  // namespace mpt::hub
