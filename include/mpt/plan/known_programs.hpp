// known_programs: the costs of training programs that others wrote (programs.yaml).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/cluster/program_costs.hpp>

namespace mpt {

class known_programs {
 public:
  /// Reads programs.yaml.
  known_programs();

  /// The costs of a program such as "owner/name" on a device such as "h100" or "h100 fp8" for a row
  /// with these notes, by the first entry that fits; none if none does.
  [[nodiscard]] std::optional<parallel::cluster::program_costs> costs(
      std::string const& program, std::string const& device, std::string const& notes) const;

 private:
  struct entry {
    std::string program;
    std::optional<std::string> device;
    std::string notes;
    parallel::cluster::program_costs costs;
  };
  std::vector<entry> entries_;
};

namespace detail {

/// The text of programs.yaml.
extern std::string_view const known_programs_text;

}  // namespace detail

}  // namespace mpt
