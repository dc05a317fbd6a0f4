#include <mpt/plan/known_programs.hpp>

#include <mpt/yaml/document.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

parallel::cluster::program_costs costs_of_program(std::string const& program,
                                                  std::string const& gpu,
                                                  std::string const& notes) {
  auto const document = parse_yaml(detail::known_programs, "programs.yaml");
  config_report report;
  for (auto const& entry : document.items) {
    config_reader reader(entry, "", report);
    if (program != reader.required<std::string>("program") ||
        gpu != reader.get<std::string>("gpu", gpu) ||
        notes.find(reader.get<std::string>("notes", "")) == std::string::npos)
      continue;
    return {.products = reader.get<double>("products", 1),
            .attention = reader.get<double>("attention", 1),
            .elements = reader.get<double>("elements", 1),
            .axes = reader.get<double>("axes", 1),
            .exposed_exchanges = reader.get<double>("exposed_exchanges", 0),
            .activations = reader.get<double>("activations", 1)};
  }
  return {};
}

}  // namespace mpt
