// read_name: a key whose value is a word of a table such as norm_kind_names.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <mpt/yaml/reader.hpp>

namespace mpt::detail {

/// The value of `names` that the key's word names; fails on any other word. `noun` describes the
/// value in the message ("a norm").
template <class Kind, std::size_t Size>
[[nodiscard]] Kind read_name(config_reader& reader, std::string_view key, std::string_view fallback,
                             std::array<std::pair<std::string_view, Kind>, Size> const& names,
                             std::string_view noun) {
  auto const word = reader.get<std::string>(key, std::string(fallback));
  std::string known;
  for (auto const& [name, kind] : names) {
    if (name == word) return kind;
    known.append(known.empty() ? "" : ", ").append(name);
  }
  reader.fail(key, "'", printable(word), "' is not ", noun, "; there are ", known);
}

}  // namespace mpt::detail
