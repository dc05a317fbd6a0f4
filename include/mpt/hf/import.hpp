// Reads another program's model: a Hugging Face folder, or a Composer checkpoint (.pt) that
// includes its configuration; the tensors are in one file or in shards and are read by name.
//
// Nothing is loaded beforehand: a rank reads only the ranges that it owns. Cost of opening: the
// headers.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include <mpt/hf/export.hpp>
#include <mpt/hf/weight_files.hpp>
#include <parallel/checkpoint/format/json.hpp>

namespace mpt::hf {

/// A model folder, open for reading. Reading is const and may be done by several threads.
class hf_import {
 public:
  /// Opens `folder`, or the file. Throws when configuration or tensors are missing or damaged.
  explicit hf_import(std::filesystem::path folder);

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  /// config.json, an object.
  [[nodiscard]] nlohmann::json const& config() const { return config_; }
  /// All tensors by name, in any of the files.
  [[nodiscard]] weight_files const& tensors() const { return *tensors_; }
  /// The folder's tokenizer.json, if it has one.
  [[nodiscard]] std::optional<std::filesystem::path> tokenizer() const;

  /// Reads `out.size()` elements of a tensor from `begin` on, converted.
  template <parallel::checkpoint::real_element T>
  void read(std::string const& tensor, parallel::index begin, std::span<T> out) const {
    tensors_->read(tensor, begin, out);
  }

  /// Checks that the folder has exactly these tensors in these shapes, and real numbers in them;
  /// one error lists all that differ. `ignored` are names of further tensors that are accepted.
  void require_tensors(std::span<named_shape const> expected,
                       std::set<std::string> const& ignored = {}) const;

  /// Checks that `copy`, if the folder has it, holds the same values as `original` (a tied head
  /// that was saved twice).
  void require_same(std::string const& original, std::string const& copy) const;

 private:
  [[nodiscard]] static nlohmann::json read_config(std::filesystem::path const& folder);

  std::filesystem::path folder_;
  nlohmann::json config_;
  std::optional<weight_files> tensors_;
};

}  // namespace mpt::hf
