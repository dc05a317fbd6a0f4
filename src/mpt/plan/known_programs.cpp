#include <mpt/plan/known_programs.hpp>

#include <mpt/ascii.hpp>
#include <mpt/yaml/document.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {
namespace {

[[nodiscard]] parallel::cluster::program_costs read_costs(config_reader& reader) {
  return {.products = reader.get<double>("products", 1),
          .attention = reader.get<double>("attention", 1),
          .elements = reader.get<double>("elements", 1),
          .axes = reader.get<double>("axes", 1),
          .gap = reader.get<double>("gap", 0),
          .exposed_exchanges = reader.get<double>("exposed_exchanges", 0)};
}

}  // namespace

known_programs::known_programs() {
  auto const document = parse_yaml(detail::known_programs_text, "programs.yaml");
  config_report report;
  for (auto const& item : document.items) {
    config_reader reader(item, "", report);
    entry out{.program = reader.required<std::string>("program"),
              .device = {},
              .notes = reader.get<std::string>("notes", ""),
              .costs = read_costs(reader)};
    if (reader.has_key("device")) out.device = reader.required<std::string>("device");
    entries_.push_back(std::move(out));
  }
}

std::optional<parallel::cluster::program_costs> known_programs::costs(
    std::string const& program, std::string const& device, std::string const& notes) const {
  for (auto const& known : entries_)
    if (program == known.program && device == known.device.value_or(device) &&
        notes.find(known.notes) != std::string::npos)
      return known.costs;
  return std::nullopt;
}

parallel::cluster::program_costs known_programs::costs_by_name(std::string const& name,
                                                               std::string const& device) const {
  std::string known;
  for (auto const& [program, place, notes, costs] : entries_) {
    if (place != device) continue;
    if (program == name || program.ends_with('/' + name)) return costs;
    if (known.find(program) == std::string::npos) known += (known.empty() ? "" : ", ") + program;
  }
  parallel::fail("program=", printable(name), ": its costs on ", device, " are not known; ",
                 known.empty() ? "those of no program are" : "there are those of ", known);
}

parallel::cluster::program_memory memory_of_program(std::string const& program,
                                                    std::string const& notes) {
  auto const document = parse_yaml(detail::known_program_memory, "program_memory.yaml");
  config_report report;
  parallel::cluster::program_memory const defaults;
  for (auto const& item : document.items) {
    config_reader reader(item, "", report);
    if (program != reader.required<std::string>("program") ||
        notes.find(reader.get<std::string>("notes", "")) == std::string::npos)
      continue;
    return {.gradient_bytes = reader.get<double>("gradient_bytes", defaults.gradient_bytes),
            .state_bytes = reader.get<double>("state_bytes", defaults.state_bytes),
            .activations = reader.get<double>("activations", defaults.activations),
            .gathers_again = reader.get<bool>("gathers_again", defaults.gathers_again),
            .logit_bytes = reader.get<double>("logit_bytes", defaults.logit_bytes),
            .gathers_logits = reader.get<bool>("gathers_logits", defaults.gathers_logits),
            .score_bytes = reader.get<double>("score_bytes", defaults.score_bytes),
            .residual_bytes = reader.get<double>("residual_bytes", defaults.residual_bytes),
            .workspace = reader.get<double>("workspace", defaults.workspace)};
  }
  return defaults;
}

}  // namespace mpt
