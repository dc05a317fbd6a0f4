// Reading another program's model: a Hugging Face folder, or a Composer checkpoint (.pt) with the
// configuration in it; its tensors by name, in one file or shards.
//
// Nothing is loaded beforehand: a rank reads just the ranges it owns. Cost: the headers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/hf/export.hpp>
#include <mpt/hf/weight_files.hpp>
#include <parallel/checkpoint/json.hpp>

namespace mpt::hf {

/// A model folder, open for reading. Reading is const and may be done by several threads.
class hf_import {
 public:
  /// Opens `folder`, or the file. Throws when configuration or tensors are missing or damaged.
  explicit hf_import(std::filesystem::path folder) : folder_(std::move(folder)) {
    bool const file = is_torch_file(folder_);
    if (!file) config_ = read_config(folder_);  // says best what is wrong with a folder
    tensors_.emplace(folder_);
    if (!file) return;
    auto const found = tensors_->config();
    parallel::require(found.has_value(), folder_.native(),
                      ": does not say which model it holds, as a Composer checkpoint of LLM "
                      "Foundry does; put it into a folder as pytorch_model.bin beside its "
                      "config.json");
    config_ = *found;
  }

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  /// config.json, an object.
  [[nodiscard]] nlohmann::json const& config() const { return config_; }
  /// All tensors by name, whatever files hold them.
  [[nodiscard]] weight_files const& tensors() const { return *tensors_; }
  /// The folder's tokenizer.json, if it has one.
  [[nodiscard]] std::optional<std::filesystem::path> tokenizer() const {
    auto path = folder_ / "tokenizer.json";
    if (!parallel::files::exists(path)) return std::nullopt;
    return path;
  }

  /// Reads `out.size()` elements of a tensor from `begin` on, converted.
  template <parallel::checkpoint::real_element T>
  void read(std::string const& tensor, parallel::index begin, std::span<T> out) const {
    tensors_->read(tensor, begin, out);
  }

  /// Checks that the folder has exactly these tensors in these shapes, and real numbers in them;
  /// one error lists all that differ. `ignored`: names that may be there besides.
  void require_tensors(std::span<named_shape const> expected,
                       std::set<std::string> const& ignored = {}) const {
    std::vector<std::string> problems;
    std::set<std::string> known(ignored);
    for (auto const& [name, extents] : expected) {
      known.insert(name);
      if (!tensors_->contains(name)) {
        problems.push_back(parallel::concat("\"", name, "\" is missing"));
        continue;
      }
      auto const& found = tensors_->shape_of(name);
      if (found != extents)
        problems.push_back(parallel::concat("\"", name, "\" has shape ",
                                            parallel::checkpoint::shape_text(found), ", expected ",
                                            parallel::checkpoint::shape_text(extents)));
      if (!parallel::checkpoint::is_real(tensors_->type_of(name)))
        problems.push_back(parallel::concat("\"", name, "\" has elements of type ",
                                            printable(tensors_->type_name_of(name))));
    }
    for (auto const& name : tensors_->names())
      if (!known.contains(name))
        problems.push_back(
            parallel::concat("\"", printable(name), "\" is not known to this model"));
    if (problems.empty()) return;
    auto message = folder_.native() + ": its tensors do not fit its config.json: ";
    for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 10); ++i)
      message += (i == 0 ? "" : "; ") + problems[i];
    if (problems.size() > 10) message += parallel::concat("; and ", problems.size() - 10, " more");
    parallel::fail(message);
  }

  /// Checks that `copy`, if the folder has it, holds the same values as `original` (a tied head
  /// that was saved twice).
  void require_same(std::string const& original, std::string const& copy) const {
    if (!tensors_->contains(copy)) return;
    auto const& extents = tensors_->shape_of(original);
    bool same = extents == tensors_->shape_of(copy);
    auto const size = parallel::checkpoint::checked_volume(extents, sizeof(float), original);
    constexpr parallel::index chunk = 1 << 18;
    std::vector<float> a;
    std::vector<float> b;
    for (parallel::index begin = 0; same && begin < size; begin += chunk) {
      a.resize(static_cast<std::size_t>(std::min(chunk, size - begin)));
      b.resize(a.size());
      tensors_->read(original, begin, std::span(a));
      tensors_->read(copy, begin, std::span(b));
      same = a == b;
    }
    parallel::require(same, folder_.native(), ": tensors \"", original, "\" and \"", copy,
                      "\" should be the same (tied embeddings), but differ");
  }

 private:
  [[nodiscard]] static nlohmann::json read_config(std::filesystem::path const& folder) {
    namespace pc = parallel::checkpoint;
    auto const path = folder / "config.json";
    auto out =
        pc::parse_json(parallel::read_text_file(path, std::uint64_t{1} << 24), path.native());
    parallel::require(out.is_object(), path.native(), ": must be a JSON object");
    return out;
  }

  std::filesystem::path folder_;
  nlohmann::json config_;
  std::optional<weight_files> tensors_;
};

}  // namespace mpt::hf
