// known_programs: the costs and the memory of training programs that others wrote (programs.yaml,
// program_memory.yaml).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/cluster/program_costs.hpp>
#include <parallel/cluster/program_memory.hpp>

namespace mpt {

class known_programs {
 public:
  /// Reads programs.yaml.
  known_programs();

  /// The costs of a program such as "owner/name" on a device such as "h100" or "h100 fp8" for a row
  /// with these notes, by the first entry that fits; none if none does.
  [[nodiscard]] std::optional<parallel::cluster::program_costs> costs(
      std::string const& program, std::string const& device, std::string const& notes) const;

  /// The costs of a program, by its name with or without its owner ("llm-foundry"), on a device
  /// such as "h100", in bf16. Throws `error` where they are not known.
  [[nodiscard]] parallel::cluster::program_costs costs_by_name(std::string const& name,
                                                               std::string const& device) const;

 private:
  struct entry {
    std::string program;
    std::optional<std::string> device;
    std::string notes;
    parallel::cluster::program_costs costs;
  };
  std::vector<entry> entries_;
};

/// What a program such as "owner/name" keeps in memory for a row with these notes, by the first
/// entry of program_memory.yaml that fits; what this library keeps if none does.
[[nodiscard]] parallel::cluster::program_memory memory_of_program(std::string const& program,
                                                                  std::string const& notes);

namespace detail {

/// The text of programs.yaml.
extern std::string_view const known_programs_text;
/// The text of program_memory.yaml.
extern std::string_view const known_program_memory;

}  // namespace detail

}  // namespace mpt
