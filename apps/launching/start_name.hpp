// start_name: `RUN-START` or `RUN-START.ATTEMPT`, the name of the folder in which the ranks of one
// start meet.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>

#include "launching/sealed_file.hpp"

namespace apps {

/// The run's name, the number of the start, and the number of the attempt to lead that start.
struct start_name {
  std::string run;
  int start = 0, attempt = 0;
};

[[nodiscard]] inline start_name parse_start_name(std::string const& name) {
  auto const hyphen = name.rfind('-');
  auto const dot = name.find('.', hyphen);
  return {name.substr(0, hyphen), std::atoi(name.c_str() + hyphen + 1),
          dot == std::string::npos ? 0 : std::atoi(name.c_str() + dot + 1)};
}

/// Whether the answer names a later start of the run of `name`, or a later attempt to lead the same
/// start.
[[nodiscard]] inline bool is_later_start(std::optional<sealed_text> const& answer,
                                         std::string const& name) {
  if (!answer || answer->text.is_null()) return false;
  auto const current = parse_start_name(answer->text.at("name"));
  auto const reference = parse_start_name(name);
  return current.run == reference.run &&
         std::tie(current.start, current.attempt) > std::tie(reference.start, reference.attempt);
}

}  // namespace apps
