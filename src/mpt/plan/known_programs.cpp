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
          .exposed_exchanges = reader.get<double>("exposed_exchanges", 0),
          .activations = reader.get<double>("activations", 1)};
}

/// Whether a GPU's published name, such as "H100-80GB fp8", is of a device such as "h100" in bf16.
[[nodiscard]] bool is_in_bf16_on(std::string_view gpu, std::string_view device) {
  return !gpu.ends_with(" fp8") && lower_case(gpu.substr(0, gpu.find('-'))) == device;
}

}  // namespace

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
    return read_costs(reader);
  }
  return {};
}

parallel::cluster::program_costs costs_of_named_program(std::string const& name,
                                                        std::string const& device) {
  auto const document = parse_yaml(detail::known_programs, "programs.yaml");
  config_report report;
  std::string known;
  for (auto const& entry : document.items) {
    config_reader reader(entry, "", report);
    auto const program = reader.required<std::string>("program");
    if (!is_in_bf16_on(reader.get<std::string>("gpu", ""), device)) continue;
    if (program == name || program.ends_with('/' + name)) return read_costs(reader);
    if (known.find(program) == std::string::npos) known += (known.empty() ? "" : ", ") + program;
  }
  parallel::fail("program=", printable(name), ": its costs on ", device, " are not known; ",
                 known.empty() ? "those of no program are" : "there are those of ", known);
}

}  // namespace mpt
