#include <mpt/hub/choose_files.hpp>

#include <algorithm>
#include <array>
#include <string_view>

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

}  // namespace mpt::hub
