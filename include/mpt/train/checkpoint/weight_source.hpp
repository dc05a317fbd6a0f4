// weight_source: the interface by which ranks read weights that are not a checkpoint of a run. Each
// rank reads the elements that it holds.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

/// A source for checkpoint::load_from. Several threads may read at the same time.
class weight_source {
 public:
  /// A parameter's shape.
  struct entry {
    std::vector<index> const& extents;
  };

  weight_source() = default;
  weight_source(weight_source&&) = delete;
  virtual ~weight_source() = default;

  /// The shape of a parameter; throws where the source lacks it.
  [[nodiscard]] virtual entry at(std::string const& name) const = 0;

  /// Reads `run` elements of a row from `begin` on, and the same columns of the rows that follow,
  /// until `out` is full; run 0: one element after another. Throws for what is no number.
  virtual void read_block(std::string const& name, index begin, index run,
                          std::span<float> out) const = 0;
  virtual void read_block(std::string const& name, index begin, index run,
                          std::span<double> out) const = 0;
  virtual void read_block(std::string const& name, index begin, index run,
                          std::span<bf16> out) const = 0;
};

/// Opens the weights in a folder for a run; see open_pretrained.
using weight_opener = std::function<std::unique_ptr<weight_source>(
    model_config const& model, optimizer_config const& optimizer, run_config const& run,
    checkpoint_config const& checkpoint, std::filesystem::path const& folder)>;

}  // namespace mpt
