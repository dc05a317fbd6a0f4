// The keys of a configuration as they were written, as overrides name them. A run's journal and its
// trackers show them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mpt/yaml/node.hpp>

namespace mpt {

/// A key and its value as they were written.
struct written_key {
  std::string name;        ///< dotted, as "model.d_model"
  std::string text;        ///< the value as written; of a list of scalars, its items in brackets
  bool is_string = false;  ///< written in quotes
  /// Of a list of scalars, its items, without names.
  std::optional<std::vector<written_key>> items = std::nullopt;

  friend bool operator==(written_key const&, written_key const&) = default;
};

/// The values of `document` in their order. Members of lists are named by number
/// (`eval_loader.0.label`), except in lists of scalars, which are one value.
[[nodiscard]] std::vector<written_key> written_keys(config_node const& document);

}  // namespace mpt
