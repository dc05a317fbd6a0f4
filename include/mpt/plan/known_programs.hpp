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

  /// The costs of a program such as "owner/name" on a GPU for a row with these notes, by the first
  /// entry that fits; none if none does.
  [[nodiscard]] std::optional<parallel::cluster::program_costs> costs(
      std::string const& program, std::string const& gpu, std::string const& notes) const;

  /// The costs of a program, by its name with or without its owner ("llm-foundry"), on a device
  /// such as "h100", in bf16. Throws `error` where they are not known.
  [[nodiscard]] parallel::cluster::program_costs costs_by_name(std::string const& name,
                                                               std::string const& device) const;

 private:
  struct entry {
    std::string program;
    std::optional<std::string> gpu;
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
