// start_name: `RUN-START` or `RUN-START.ATTEMPT`: the folder in which the ranks of one start meet.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>

#include "launching/sealed_file.hpp"

namespace apps {

/// Of a name: the run's own, which start of it is meant, and which try of a node to lead that.
struct start_name {
  std::string run;
  int start = 0, attempt = 0;
};

[[nodiscard]] inline start_name parts_of(std::string const& name) {
  auto const hyphen = name.rfind('-');
  auto const dot = name.find('.', hyphen);
  return {name.substr(0, hyphen), std::atoi(name.c_str() + hyphen + 1),
          dot == std::string::npos ? 0 : std::atoi(name.c_str() + dot + 1)};
}

/// Whether what `said` names goes on from `name`: a later start of that run, or a later try to lead
/// the same start.
[[nodiscard]] inline bool is_past(std::optional<sealed_text> const& said, std::string const& name) {
  if (!said || said->text.is_null()) return false;
  auto const now = parts_of(said->text.at("name"));
  auto const then = parts_of(name);
  return now.run == then.run &&
         std::tie(now.start, now.attempt) > std::tie(then.start, then.attempt);
}

}  // namespace apps
