// known_programs: the costs and the memory of training programs that others wrote (programs.yaml,
// program_memory.yaml).
#pragma once

#include <string>
#include <string_view>

#include <parallel/cluster/program_costs.hpp>
#include <parallel/cluster/program_memory.hpp>

namespace mpt {

/// The costs of a program such as "owner/name" on a GPU for a row with these notes; those of the
/// first entry that fits, and this library's own if none does.
[[nodiscard]] parallel::cluster::program_costs costs_of_program(std::string const& program,
                                                                std::string const& gpu,
                                                                std::string const& notes);

/// Likewise the memory of a program.
[[nodiscard]] parallel::cluster::program_memory memory_of_program(std::string const& program,
                                                                  std::string const& gpu,
                                                                  std::string const& notes);

namespace detail {

/// The text of programs.yaml.
extern std::string_view const known_programs;
/// The text of program_memory.yaml.
extern std::string_view const known_program_memory;

}  // namespace detail

}  // namespace mpt
