// known_programs: the costs of training programs that others wrote (programs.yaml).
#pragma once

#include <string>
#include <string_view>

#include <parallel/cluster/program_costs.hpp>

namespace mpt {

/// The costs of a program such as "owner/name" on a GPU for a row with these notes; those of the
/// first entry that fits, and this library's own if none does.
[[nodiscard]] parallel::cluster::program_costs costs_of_program(std::string const& program,
                                                                std::string const& gpu,
                                                                std::string const& notes);

/// The costs of a program, by its name with or without its owner ("llm-foundry"), on a device such
/// as "h100", in bf16. Throws `error` where they are not known.
[[nodiscard]] parallel::cluster::program_costs costs_of_named_program(std::string const& name,
                                                                      std::string const& device);

namespace detail {

/// The text of programs.yaml.
extern std::string_view const known_programs;

}  // namespace detail

}  // namespace mpt
