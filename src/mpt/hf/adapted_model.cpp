#include <mpt/hf/adapted_model.hpp>

#include <utility>

#include <mpt/hf/is_model.hpp>
#include <mpt/hf/tensor_checksums.hpp>
#include <mpt/hub/repository.hpp>

namespace mpt::hf {
namespace {

/// Whether values of these types are equal where the rounded ones are: F16 rounds otherwise.
[[nodiscard]] bool are_comparable(std::string_view first, std::string_view second) {
  return first == second || (first != "F16" && second != "F16");
}

/// The checksums of the weights at `path`; none where they cannot be read: a folder may have the
/// configuration alone, and who needs the weights says what is wrong with them.
[[nodiscard]] std::map<std::string, std::string> checksums_at(std::filesystem::path const& path) {
  try {
    return rounded_tensor_checksums(weight_files(path));
  } catch (parallel::error const&) {
    return {};
  }
}

}  // namespace

nlohmann::json adapted_model::to_json() const {
  if (checksums.empty()) return {};
  return {{"folder", folder}, {"checksums", checksums}};
}

adapted_model read_adapted_model(std::filesystem::path const& folder) {
  auto const absolute = std::filesystem::absolute(folder).lexically_normal();
  auto const repository = hub::repository_of_snapshot(absolute);
  return {.base = repository ? named_model{repository->name, hub::revision_of_snapshot(absolute)}
                             : named_model{.name = absolute.string()},
          .folder = absolute.string(),
          .checksums = checksums_at(folder)};
}

adapted_model adapted_model_of(nlohmann::json const& json, named_model base) {
  adapted_model out{.base = std::move(base)};
  if (!json.is_object()) return out;
  if (auto const folder = json.find("folder"); folder != json.end() && folder->is_string())
    out.folder = *folder;
  if (auto const sums = json.find("checksums"); sums != json.end() && sums->is_object())
    for (auto const& [tensor, sum] : sums->items())
      if (sum.is_string()) out.checksums[tensor] = sum;
  return out;
}

void require_same_weights(adapted_model const& model,
                          std::map<std::string, std::string> const& found, std::string_view name,
                          std::string_view adapters) {
  for (auto const& [tensor, sum] : found) {
    auto const known = model.checksums.find(tensor);
    if (known == model.checksums.end()) continue;
    auto const space = sum.find(' ');
    auto const known_space = known->second.find(' ');
    if (!are_comparable(sum.substr(0, space), known->second.substr(0, known_space))) continue;
    parallel::require(sum.substr(space) == known->second.substr(known_space), adapters,
                      ": its adapters were trained for other weights than those in ", name,
                      ", where tensor ", printable(tensor),
                      " has other values; give the model as it was when they were trained");
  }
}

void require_same_weights(adapted_model const& model, std::filesystem::path const& path,
                          std::string_view adapters) {
  if (model.checksums.empty() || path.empty() || !is_model(path)) return;
  require_same_weights(model, checksums_at(path), path.string(), adapters);
}

}  // namespace mpt::hf
