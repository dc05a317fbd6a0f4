#include <mpt/plan/known_programs.hpp>

#include <mpt/yaml/document.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

known_programs::known_programs() {
  auto const document = parse_yaml(detail::known_programs_text, "programs.yaml");
  config_report report;
  for (auto const& item : document.items) {
    config_reader reader(item, "", report);
    entry out{.program = reader.required<std::string>("program"),
              .device = {},
              .notes = reader.get<std::string>("notes", ""),
              .costs = {.products = reader.get<double>("products", 1),
                        .attention = reader.get<double>("attention", 1),
                        .elements = reader.get<double>("elements", 1),
                        .axes = reader.get<double>("axes", 1),
                        .gap = reader.get<double>("gap", 0),
                        .exposed_exchanges = reader.get<double>("exposed_exchanges", 0),
                        .activations = reader.get<double>("activations", 1)}};
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

}  // namespace mpt
